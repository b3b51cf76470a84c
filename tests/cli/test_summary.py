"""What is known of a machine's accelerators, as a program that reads it finds it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, final

import pytest
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, nvidia_host

from actorlib._cli.devices import DOCUMENT, summarize
from actorlib._options.kinds import GPU, TPU
from actorlib.accelerators import Accelerator, Detection, Device, Rejected, discover
from actorlib.accelerators.claims import Claimant
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._cli.devices import Summary
    from actorlib.accelerators import Host

FIRST = "GPU-0f2a1c3b-aaaa-bbbb-cccc-000000000000"
SECOND = "GPU-1f2a1c3b-aaaa-bbbb-cccc-000000000001"
CARDS = (
    Card(uuid=FIRST, pci=(0, 0x3B, 0), linked=[SECOND]),
    Card(uuid=SECOND, pci=(0, 0x5E, 0), linked=[FIRST]),
)


@final
class Chips(Accelerator):
    """Two chips of a TPU, and a file that is none."""

    family = "chips"
    kind = TPU
    visible_env = "CHIPS"

    def detect(self, host: Host) -> Detection:
        chips = [
            Device(family=self.family, kind=self.kind.name, index=0, id=number)
            for number in ("0", "1")
        ]
        left_out = Rejected(name="/dev/chip2", why="no chip: it is a fish")
        return self.select(chips, host.environ, rejected=[left_out], reason="so, so")


@final
class Silent(Accelerator):
    family = "silent"
    kind = GPU
    visible_env = ""

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        return Detection(family=self.family)


def summary_of(host: Host, *asked: Accelerator, taken_by: int = 0) -> Summary:
    every: Sequence[Accelerator] = asked or (Silent(), Nvidia(), Chips())
    found = discover(host, every)
    claims = {
        device: [Claimant(taken_by, "python train.py")]
        for detection in found
        for device in detection.devices
        if taken_by
    }
    return summarize(found, every, host, 0.25, claims)


def family_of(summary: Summary, name: str) -> Any:
    """A family in the document."""
    families = written(summary)["families"]
    return next(found for found in families if found["family"] == name)


def written(summary: Summary) -> Any:
    """The document as a program reads it."""
    return json.loads(json.dumps(DOCUMENT.encode(summary)))


def test_device_when_found_then_all_that_is_known_of_it_is_told() -> None:
    summary = summary_of(nvidia_host(*CARDS), Nvidia(), taken_by=812)

    assert family_of(summary, "nvidia")["devices"][1] == {
        "id": "1",
        "index": 1,
        "uuid": SECOND,
        "pci": "0000:5e:00.0",
        "model": "NVIDIA H100 80GB HBM3",
        "type": "H100",
        "memory": 80 * GIB,
        "parent": None,
        "peers": [FIRST],
        "integrated": False,
        "source": "NVML",
        "written": "1",
        "claims": [{"pid": 812, "program": "python train.py"}],
        "shares": {
            "tiers": ["frameworks", "watchdog"],
            "why_not": {
                "mps": (
                    "there is no nvidia-cuda-mps-control on PATH: it comes with "
                    "NVIDIA's driver"
                ),
                "cgroup": "the driver lets only root limit the memory of devices, and "
                "the user is unknown",
            },
        },
    }


def test_family_when_it_left_something_out_then_that_is_told() -> None:
    found = family_of(summary_of(RecordedHost(environ={"CHIPS": "1,7"})), "chips")

    assert found["kind"] == "TPU"
    assert (found["variable"], found["value"]) == ("CHIPS", "1,7")
    assert found["said"] == "CHIPS='1,7'"
    assert found["outer"] == ["1"]
    assert found["reason"] == (
        "so, so; CHIPS='1,7' ends before '7': there is no such device"
    )
    assert [device["id"] for device in found["devices"]] == ["1"]
    assert found["rejected"] == [
        {"name": "/dev/chip2", "model": None, "why": "no chip: it is a fish"},
        {"name": "TPU 0", "model": None, "why": "hidden by CHIPS='1,7'"},
    ]


def test_family_when_its_variable_is_unset_then_value_and_outer_are_null() -> None:
    found = family_of(summary_of(RecordedHost()), "chips")

    assert (found["value"], found["outer"]) == (None, None)


def test_family_when_it_has_no_variable_then_that_is_null() -> None:
    found = family_of(summary_of(RecordedHost()), "silent")

    assert (found["variable"], found["value"]) == (None, None)


def test_probe_when_it_raises_then_its_reason_is_told_and_others_are_there() -> None:
    class Broken(Accelerator):
        family = "broken"
        kind = GPU
        visible_env = "BROKEN"

        def detect(self, host: Host) -> Detection:  # noqa: ARG002
            raise OSError("the driver is on strike")

    summary = summary_of(RecordedHost(), Broken(), Chips())

    assert family_of(summary, "broken")["reason"] == "OSError: the driver is on strike"
    assert summary.kinds["TPU"].count == 2


def test_kinds_when_told_then_with_how_they_are_asked_for() -> None:
    kinds = written(summary_of(nvidia_host(*CARDS)))["kinds"]

    assert kinds == {
        "GPU": {
            "count": 2,
            "divisible": True,
            "counts": None,
            "types": ["H100"],
            "declarable": None,
        },
        "TPU": {
            "count": 2,
            "divisible": False,
            "counts": [1, 2, 4, 8],
            "types": [],
            "declarable": None,
        },
    }


@pytest.mark.parametrize(
    ("mask", "declarable"),
    [(None, None), ("", 0), ("NoDevFiles", 0), ("5", 1), ("0,1,2", 3), ("0,0", 0)],
)
def test_mask_when_nothing_is_found_then_it_says_how_many_may_be_declared(
    mask: str | None, declarable: int | None
) -> None:
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}

    summary = summary_of(RecordedHost(environ=environ), Silent(), Nvidia())

    assert summary.kinds["GPU"].count == 0
    assert summary.kinds["GPU"].declarable == declarable


def test_environment_when_told_then_only_what_matters_and_is_set() -> None:
    environ = {
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
        "HOME": "here",
        "HIP_VISIBLE_DEVICES": "",
        "CUDA_VISIBLE_DEVICES": "0",
        "ACTORLIB_HIDE_DEVICES": "0",
    }

    told = summary_of(RecordedHost(environ=environ)).environment

    assert list(told.items()) == [
        ("ACTORLIB_HIDE_DEVICES", "0"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("HIP_VISIBLE_DEVICES", ""),
        ("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", "1"),
    ]


def test_summary_when_families_are_asked_in_another_order_then_it_is_the_same() -> None:
    host = nvidia_host(*CARDS, environ={"CHIPS": "0"})

    one = summary_of(host, Nvidia(), Chips(), Silent())
    other = summary_of(host, Silent(), Chips(), Nvidia())

    assert json.dumps(written(one)) == json.dumps(written(other))
    assert [found.family for found in one.families] == [
        "chips",
        "nvidia",
        "silent",
    ]
