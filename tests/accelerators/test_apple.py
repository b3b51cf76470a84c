"""A Mac of Apple silicon has one GPU, and nothing masks it."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators import (
    Detection,
    Device,
    Lease,
    Share,
    accelerator_ids,
    discover,
    environment,
    inventory,
)
from actorlib.accelerators.apple import Apple

BRAND = "sysctl -n machdep.cpu.brand_string"


def mac(brand: str | None) -> RecordedHost:
    commands = {} if brand is None else {BRAND: brand}
    return RecordedHost(commands=commands, system="darwin", architecture="arm64")


def test_detect_when_it_is_an_m2_pro_then_there_is_one_gpu_of_that_type() -> None:
    found = Apple().detect(RecordedHost.load("apple_m2_pro"))

    gpu = Device(
        family="apple",
        kind="GPU",
        index=0,
        id="0",
        model="Apple M2 Pro",
        type="M2-Pro",
        integrated=True,
        source="sysctl machdep.cpu.brand_string",
    )
    assert found == Detection(family="apple", devices=(gpu,))


@pytest.mark.parametrize(
    ("brand", "type_"),
    [
        ("Apple M1\n", "M1"),
        ("Apple M1 (Virtual)\n", "M1"),
        ("Apple M2 Ultra\n", "M2-Ultra"),
        ("Apple M4 Max\n", "M4-Max"),
        ("Apple M10 Pro\n", "M10-Pro"),
        ("Apple M3 Promise\n", "M3"),
        ("Apple processor\n", None),
        ("", None),
        (None, None),
    ],
)
def test_detect_when_the_chip_is_named_then_the_type_is_as_ray_says(
    brand: str | None, type_: str | None
) -> None:
    (gpu,) = Apple().detect(mac(brand)).devices

    assert gpu.type == type_
    assert gpu.model == ((brand or "").strip() or None)


@pytest.mark.parametrize("name", ["apple_intel_mac", "bare"])
def test_detect_when_it_is_another_machine_then_there_is_no_trace(name: str) -> None:
    assert Apple().detect(RecordedHost.load(name)) == Detection(family="apple")


def test_detect_when_linux_runs_on_the_chip_then_there_is_no_trace() -> None:
    host = RecordedHost(architecture="arm64")
    assert Apple().detect(host) == Detection(family="apple")


@pytest.mark.parametrize("hide", [True, False])
def test_lease_when_it_holds_the_gpu_then_the_id_is_told_and_nothing_is_masked(
    *, hide: bool
) -> None:
    apple = Apple()
    known = inventory(discover(mac("Apple M1\n"), [apple]), {}, [apple])
    held = Lease(amounts={}, shares=(Share(known.devices["GPU"][0], 5_000),))

    for lease in (held, Lease(amounts={})):
        assert environment(lease, known, hide=hide, environ={"HOME": "/"}) == {}
    assert accelerator_ids(held, known) == {"GPU": [0]}


def test_inventory_when_more_gpus_are_declared_then_they_are_logical() -> None:
    apple = Apple()

    known = inventory(discover(mac("Apple M1\n"), [apple]), {"GPU": 3}, [apple])

    assert [gpu.logical for gpu in known.devices["GPU"]] == [False, True, True]
    assert [gpu.id for gpu in known.devices["GPU"]] == ["0", "1", "2"]
