"""All families are asked side by side, and a lease shows its own devices only."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, final

import pytest
from helpers.host import Card, RecordedHost, nvidia_host

from actorlib._resources import UNITS
from actorlib.accelerators import (
    FAMILIES,
    Accelerator,
    Detection,
    Device,
    Inventory,
    Lease,
    Share,
    accelerator_ids,
    discover,
    environment,
    inventory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actorlib.accelerators import Host

A, B = Card(uuid="GPU-aaa"), Card(uuid="GPU-bbb")
MASK = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"


@final
class Other(Accelerator):
    """A family that does as it is told."""

    visible_env = "OTHER_VISIBLE"
    noset_env = "NOSET_OTHER_VISIBLE"
    divisible = True

    def __init__(
        self,
        *,
        devices: int = 0,
        kind: str = "OTHER",
        probe: Callable[[], object] = lambda: None,
    ) -> None:
        self.family = "other"
        self.kind = kind
        self._devices = devices
        self._probe = probe

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        self._probe()
        return Detection(
            family=self.family,
            devices=tuple(
                Device(family=self.family, kind=self.kind, index=i, id=str(i))
                for i in range(self._devices)
            ),
        )


def inventory_of(
    *cards: Card, environ: Mapping[str, str] | None = None, gpus: int | None = None
) -> Inventory:
    found = discover(nvidia_host(*cards, environ=environ))
    return inventory(found, {"GPU": gpus})


def lease_of(*devices: Device) -> Lease:
    shares = tuple(Share(device, UNITS) for device in devices)
    amounts = {device.kind: UNITS * len(devices) for device in devices}
    return Lease(amounts=amounts, shares=shares)


def show(
    lease: Lease,
    known: Inventory,
    *,
    hide: bool = True,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str | None]:
    return environment(lease, known, hide=hide, environ=environ or {})


NOTHING = lease_of()


def test_import_when_the_room_is_loaded_then_no_sdk_is() -> None:
    code = "import sys, actorlib.accelerators; sys.exit('pynvml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_discover_when_all_answer_then_one_detection_each_in_order() -> None:
    families = (Other(devices=1), *FAMILIES)

    found = discover(nvidia_host(A), families)

    assert [detection.family for detection in found] == ["other", "nvidia"]
    assert [len(detection.devices) for detection in found] == [1, 1]


def test_discover_when_a_probe_raises_then_only_its_family_is_lost() -> None:
    def fail() -> None:
        raise RuntimeError("card on fire")

    other, nvidia = discover(nvidia_host(A), (Other(probe=fail), *FAMILIES))

    assert other == Detection(family="other", reason="RuntimeError: card on fire")
    assert len(nvidia.devices) == 1


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """An event to hang on, which lets go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_discover_when_a_probe_hangs_then_only_its_family_is_lost(
    held: threading.Event,
) -> None:
    families = (Other(devices=1), Other(probe=held.wait))

    quick, hung = discover(RecordedHost(), families, limit=0.2)

    assert len(quick.devices) == 1
    assert hung == Detection(family="other", reason="no answer within 0.2 s")


def test_discover_when_a_probe_fails_then_the_owners_mask_still_holds() -> None:
    def fail() -> None:
        raise OSError("no")

    host = RecordedHost(environ={"OTHER_VISIBLE": "1,3"})

    (found,) = discover(host, (Other(probe=fail),))

    assert found.outer == ("1", "3")


def test_inventory_when_nothing_is_declared_then_is_what_was_found() -> None:
    found = discover(nvidia_host(A, B))
    assert inventory(found, {}).devices == {"GPU": found[0].devices}
    assert inventory(found, {"GPU": None}).devices == {"GPU": found[0].devices}


def test_inventory_when_nothing_is_there_then_the_kind_is_empty() -> None:
    known = inventory_of()
    assert known.devices == {"GPU": ()}
    assert [detection.reason for detection in known.detections] == ["NVML finds no GPU"]


def test_inventory_when_more_is_declared_then_the_rest_is_logical() -> None:
    devices = inventory_of(A, gpus=2).devices["GPU"]
    assert [device.logical for device in devices] == [False, True]


def test_inventory_when_the_mask_names_fewer_then_refuses() -> None:
    with pytest.raises(ValueError, match="2 GPU declared"):
        inventory_of(A, B, environ={MASK: "0"}, gpus=2)


@pytest.mark.parametrize(
    ("cards", "others", "family"),
    [
        ((A,), 1, "nvidia"),
        ((), 1, "other"),
        ((), 0, "nvidia"),
    ],
)
def test_inventory_when_families_share_a_kind_then_the_first_that_found_answers(
    cards: tuple[Card, ...], others: int, family: str
) -> None:
    families = (*FAMILIES, Other(kind="GPU", devices=others))
    found = discover(nvidia_host(*cards), families)

    devices = inventory(found, {"GPU": 1}, families).devices

    assert [device.family for device in devices["GPU"]] == [family]


def test_environment_when_devices_are_held_then_only_they_are_shown() -> None:
    known = inventory_of(A, B)
    lease = lease_of(known.devices["GPU"][1])
    assert show(lease, known) == {MASK: "1", ORDER: "PCI_BUS_ID"}
    assert show(lease, known, hide=False) == {MASK: "1", ORDER: "PCI_BUS_ID"}


@pytest.mark.parametrize(("cards", "gpus"), [((A,), None), ((), 1), ((A,), 0)])
def test_environment_when_nothing_is_held_then_what_is_here_is_hidden(
    cards: tuple[Card, ...], gpus: int | None
) -> None:
    assert show(NOTHING, inventory_of(*cards, gpus=gpus)) == {MASK: ""}


def test_environment_when_not_hiding_then_the_owners_view_stays() -> None:
    assert show(NOTHING, inventory_of(A), hide=False) == {}


@pytest.mark.parametrize("gpus", [None, 0])
def test_environment_when_a_family_is_not_here_then_it_is_left_alone(
    gpus: int | None,
) -> None:
    assert show(NOTHING, inventory_of(gpus=gpus)) == {}


@pytest.mark.parametrize(
    ("switch", "left_alone"),
    [("1", True), ("true", True), ("True", True), ("0", False), ("false", False)],
)
def test_environment_when_the_noset_switch_is_there_then_it_is_read_as_a_boolean(
    switch: str, *, left_alone: bool
) -> None:
    known = inventory_of(A)
    lease = lease_of(*known.devices["GPU"])
    for held in (lease, NOTHING):
        assert (show(held, known, environ={NOSET: switch}) == {}) is left_alone


def test_environment_when_the_noset_switch_is_empty_then_the_mask_is_written() -> None:
    assert show(NOTHING, inventory_of(A), environ={NOSET: ""}) == {MASK: ""}


def test_environment_when_two_families_are_here_then_the_other_one_is_closed() -> None:
    families = (*FAMILIES, Other(kind="GPU", devices=1))
    known = inventory(discover(nvidia_host(A), families), {}, families)
    lease = lease_of(*known.devices["GPU"])

    changes = environment(lease, known, hide=True, environ={}, families=families)

    assert changes == {MASK: "0", ORDER: "PCI_BUS_ID", "OTHER_VISIBLE": ""}


def test_accelerator_ids_when_there_is_no_mask_then_they_are_ints() -> None:
    known = inventory_of(A, gpus=3)
    lease = lease_of(*known.devices["GPU"][1:])
    assert accelerator_ids(lease, known) == {"GPU": [1, 2]}


@pytest.mark.parametrize("value", ["1,0", "GPU-b,GPU-aaa"])
def test_accelerator_ids_when_there_is_a_mask_then_they_are_its_words(
    value: str,
) -> None:
    known = inventory_of(A, B, environ={MASK: value})
    lease = lease_of(*known.devices["GPU"])
    assert accelerator_ids(lease, known) == {"GPU": value.split(",")}


def test_accelerator_ids_when_nothing_is_held_then_the_kind_is_empty() -> None:
    assert accelerator_ids(NOTHING, inventory_of()) == {"GPU": []}
