"""Frameworks are told to take their share, in variables that each of them reads."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost
from helpers.tiers import all_tiers
from hypothesis import given
from hypothesis import strategies as st

from actorlib._enforcement.tiers import CONTEXT_MARGIN, Site, Tier
from actorlib._features.frameworks.tier import (
    NO_LIMITS,
    Limits,
    find_limits,
    reads_torch_option,
)
from actorlib._options.kinds import UNITS
from actorlib.accelerators import Device, Share

GIB = 2**30
JAX = "XLA_PYTHON_CLIENT_MEM_FRACTION"
CONF = "PYTORCH_CUDA_ALLOC_CONF"
OFF = Tier(Site(RecordedHost()))
FRAMEWORKS, WATCHDOG, MPS, CGROUP = all_tiers()


def share_of(
    units: int = UNITS // 2, memory: int | None = 80 * GIB, family: str = "nvidia"
) -> Share:
    device = Device(family=family, kind="GPU", index=0, id="0", memory=memory)
    return Share(device, units)


def told(
    share: Share | None = None,
    environ: dict[str, str] | None = None,
    tier: Tier = FRAMEWORKS,
    *,
    knows: bool = False,
) -> Limits:
    shares = [(share or share_of(), tier)]
    return find_limits(shares, environ or {}, torch_reads_option=knows)


def test_half_a_card_when_held_then_each_framework_has_it_less_the_context() -> None:
    nbytes = 40 * GIB - CONTEXT_MARGIN

    assert told() == Limits(
        {
            JAX: "0.49375",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "CUPY_GPU_MEMORY_LIMIT": str(nbytes),
        },
        {"torch.cuda": 0.49375, "tensorflow": nbytes // 2**20},
    )


def test_memory_when_unknown_then_fractions_hold_and_bytes_do_not() -> None:
    found = told(share_of(memory=None))

    assert found.environment[JAX] == "0.5"
    assert found.environment["CUPY_GPU_MEMORY_LIMIT"] == "50%"
    assert found.hooks == {"torch.cuda": 0.5}
    assert found.remarks == (
        "TensorFlow has no limit, as the memory of the device is unknown",
    )


def test_share_when_smaller_than_a_context_then_half_is_left_and_it_says_so() -> None:
    found = told(share_of(units=UNITS // 200, memory=80 * GIB))

    assert found.hooks["torch.cuda"] == pytest.approx(0.0025)
    assert found.remarks == (
        "the share is 409 MiB, and the context of a process alone is thought to take "
        "about 512 MiB",
    )


@pytest.mark.parametrize(
    ("share", "tier"),
    [
        (share_of(units=UNITS), OFF),
        (share_of(units=UNITS), FRAMEWORKS),
        (share_of(), OFF),
        (share_of(family="foo"), FRAMEWORKS),
    ],
)
def test_nothing_when_whole_or_off_or_unknown_then_nobody_is_told(
    share: Share, tier: Tier
) -> None:
    assert told(share, tier=tier) is NO_LIMITS


@pytest.mark.parametrize("tier", [WATCHDOG, MPS])
def test_stronger_tier_when_chosen_then_frameworks_are_told_the_same(
    tier: Tier,
) -> None:
    assert told(tier=tier) == told()


def test_cgroup_when_it_limits_then_frameworks_see_the_share_as_the_whole() -> None:
    found = told(tier=CGROUP)

    assert found.environment[JAX] == "0.9875"
    assert found.environment["CUPY_GPU_MEMORY_LIMIT"] == str(40 * GIB - CONTEXT_MARGIN)


def test_intel_when_held_then_pytorch_alone_is_told() -> None:
    assert told(share_of(family="intel")) == Limits({}, {"torch.xpu": 0.49375})


def test_amd_when_held_then_the_hook_speaks_for_pytorch() -> None:
    found = told(share_of(family="amd"), knows=True)

    assert found.hooks["torch.cuda"] == 0.49375
    assert CONF not in found.environment


FRACTION = "per_process_memory_fraction:0.49375"
NAMES = {JAX, "XLA_CLIENT_MEM_FRACTION", "PYTORCH_ALLOC_CONF", CONF}


@pytest.mark.parametrize(
    ("environ", "written"),
    [
        ({}, {JAX: "0.49375", CONF: FRACTION}),
        # Ours stands behind the user's options of PyTorch.
        *(
            (
                {name: "expandable:True,"},
                {JAX: "0.49375", name: f"expandable:True,{FRACTION}"},
            )
            for name in ("PYTORCH_ALLOC_CONF", CONF, "PYTORCH_HIP_ALLOC_CONF")
        ),
        # Another backend does not read it: the hook speaks.
        ({CONF: "backend:cudaMallocAsync"}, {JAX: "0.49375"}),
        # JAX raises if it finds both of its names.
        ({"XLA_CLIENT_MEM_FRACTION": "0.1"}, {CONF: FRACTION}),
        ({JAX: "0.1"}, {CONF: FRACTION}),
        ({CONF: "per_process_memory_fraction:0.9"}, {JAX: "0.49375"}),
    ],
)
def test_fraction_when_the_user_has_said_something_then_it_stays(
    environ: dict[str, str], written: dict[str, str]
) -> None:
    found = told(environ=environ, knows=True)

    names = NAMES | {*environ}
    assert {n: v for n, v in found.environment.items() if n in names} == written
    is_said = "memory_fraction" in environ.get(CONF, "")
    assert ("torch.cuda" in found.hooks) is not is_said
    as_set = [
        name
        for name in environ
        if name not in written and "backend" not in environ[name]
    ]
    assert found.remarks == tuple(f"{name} is as it was set" for name in as_set)


def test_pytorch_when_it_may_not_know_the_option_then_it_is_not_written() -> None:
    assert not [name for name in told().environment if name.startswith("PYTORCH")]


@pytest.mark.parametrize(
    "name",
    [
        "XLA_PYTHON_CLIENT_PREALLOCATE",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "CUPY_GPU_MEMORY_LIMIT",
    ],
)
def test_variable_when_the_user_set_it_then_it_is_left_alone(name: str) -> None:
    found = told(environ={name: "theirs"})

    assert name not in found.environment
    assert len(found.environment) == 3


@pytest.mark.parametrize(
    ("environ", "remark"),
    [
        (
            {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
            "JAX has no limit with XLA_PYTHON_CLIENT_ALLOCATOR=platform",
        ),
        (
            {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            "PyTorch has no limit with PYTORCH_NO_CUDA_MEMORY_CACHING",
        ),
    ],
)
def test_limit_when_a_variable_takes_it_away_then_it_says_so(
    environ: dict[str, str], remark: str
) -> None:
    assert told(environ=environ).remarks == (remark,)


@given(units=st.integers(1, UNITS - 1), memory=st.integers(2**20, 2**41))
def test_limits_when_of_any_share_then_above_nothing_and_within_it(
    units: int, memory: int
) -> None:
    share = share_of(units, memory)
    found = told(share)

    granted = share.nbytes
    assert granted is not None
    assert 0 < found.hooks["torch.cuda"] <= units / UNITS
    assert 0 <= float(found.environment[JAX]) <= units / UNITS + 1e-6
    assert int(found.environment["CUPY_GPU_MEMORY_LIMIT"]) <= granted
    assert found.hooks["tensorflow"] >= 1


# What is installed.


@pytest.mark.parametrize(
    ("folder", "reads"),
    [
        ("torch-2.13.0.dist-info", True),
        ("torch-2.13.1+cu130.dist-info", True),
        ("torch-3.0.0a1.dist-info", True),
        ("torch-2.9.1.dist-info", False),
        ("torch-1.13.0.dist-info", False),
        ("torch-geometric.dist-info", False),
    ],
)
def test_packages_when_pytorch_is_found_then_its_release_says_what_it_reads(
    folder: str, *, reads: bool
) -> None:
    files = {f"/site/{folder}/METADATA": "", "/site/torch/lib/libtorch_cuda.so": ""}
    found = reads_torch_option(RecordedHost(files=files), ["", "/other", "/site"])

    assert found == reads


def test_packages_when_pytorch_has_no_cuda_then_it_reads_nothing() -> None:
    host = RecordedHost(files={"/site/torch-2.13.0.dist-info/METADATA": ""})

    assert not reads_torch_option(host, ["/site"])


def test_packages_when_two_are_found_then_the_first_is_imported() -> None:
    files = {
        "/first/torch-2.4.0.dist-info/METADATA": "",
        "/first/torch/lib/libtorch_cuda.so": "",
        "/site/torch-2.13.0.dist-info/METADATA": "",
        "/site/torch/lib/libtorch_cuda.so": "",
    }

    host = RecordedHost(files=files)
    assert not reads_torch_option(host, ["/first", "/site"])
    assert reads_torch_option(host, ["/site", "/first"])
