"""What was found and what was declared become devices, and a lease an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import pytest
from helpers.nvml import Card, nvidia_host
from helpers.tables import values_of

from actorlib._options.kinds import GPU, KINDS, UNITS, Kind
from actorlib.accelerators import (
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
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators import Host

A, B = Card(uuid="GPU-aaa"), Card(uuid="GPU-bbb")
MASK = "CUDA_VISIBLE_DEVICES"
GIB = 2**30
ORDER = "CUDA_DEVICE_ORDER"
NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"


class _Told(Accelerator):
    """A family that has what it was told, by its own variable."""

    def __init__(self, *ids: str, integrated: bool = False) -> None:
        self._ids = ids
        self._integrated = integrated

    def detect(self, host: Host) -> Detection:
        found = [
            Device(
                family=self.family,
                kind=self.kind.name,
                index=0,
                id=name,
                integrated=self._integrated,
            )
            for name in self._ids
        ]
        return self.select(found, host.environ)


@final
class Red(_Told):
    """GPUs that do as they are told."""

    family = "red"
    kind = GPU
    visible_env = "RED_VISIBLE"


@final
class Blue(_Told):
    """GPUs of another vendor."""

    family = "blue"
    kind = GPU
    visible_env = "BLUE_VISIBLE"


@final
class Borrower(_Told):
    """GPUs whose runtime also looks at NVIDIA's variable, which it removes."""

    family = "borrower"
    kind = GPU
    visible_env = "BORROWER_VISIBLE"

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        return {**super().environment(devices, environ, every), MASK: None}


@final
class Acme(_Told):
    """A third party's own kind."""

    family = "acme"
    kind = Kind("ACME", divisible=False)
    visible_env = "ACME_VISIBLE"


def draw_up(
    *asked: Accelerator,
    cards: tuple[Card, ...] = (),
    environ: Mapping[str, str] | None = None,
    **declared: int | None,
) -> Inventory:
    found = discover(nvidia_host(*cards, environ=environ), asked)
    return inventory(found, declared, asked)


def nvidia(
    *cards: Card, environ: Mapping[str, str] | None = None, gpus: int | None = None
) -> Inventory:
    return draw_up(Nvidia(), cards=cards, environ=environ, GPU=gpus)


def lease_of(*devices: Device) -> Lease:
    amounts = {device.kind: UNITS * len(devices) for device in devices}
    return Lease(amounts=amounts, shares=tuple(Share(d, UNITS) for d in devices))


def show(
    lease: Lease,
    known: Inventory,
    *,
    hide: bool = True,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str | None]:
    return environment(lease, known, hide=hide, environ=environ or {})


NOTHING = lease_of()


def test_inventory_when_nothing_is_declared_then_is_what_was_found() -> None:
    found = discover(nvidia_host(A, B), [Nvidia()])
    for declared in ({}, {"GPU": None}):
        known = inventory(found, declared, [Nvidia()])
        assert [gpu.uuid for gpu in known.devices["GPU"]] == ["GPU-aaa", "GPU-bbb"]
        assert known.by_family == {"nvidia": known.devices["GPU"]}


def test_inventory_when_nothing_is_there_then_the_kind_is_empty_and_says_why() -> None:
    known = nvidia()

    assert known.devices == {"GPU": ()}
    assert (known.families, known.by_family) == ((), {})
    assert [detection.reason for detection in known.detections] == ["NVML finds no GPU"]


def test_inventory_when_a_stranger_redefines_a_kind_then_ours_stays() -> None:
    @final
    class Tpuish(_Told):
        family = "tpuish"
        kind = Kind("TPU", divisible=True)
        visible_env = ""

    assert draw_up(Tpuish("0")).kinds["TPU"] == KINDS["TPU"]


def test_inventory_when_memory_is_declared_then_of_what_does_not_tell() -> None:
    asked = [Nvidia()]
    cards = (Card(uuid="GPU-aaa", memory=40 * GIB), Card(uuid="GPU-bbb", memory=None))
    found = discover(nvidia_host(*cards), asked)

    known = inventory(found, {"GPU": 3}, asked, device_memory={"GPU": 24 * GIB})

    each = [(gpu.logical, gpu.memory) for gpu in known.devices["GPU"]]
    assert each == [(False, 40 * GIB), (False, 24 * GIB), (True, 24 * GIB)]
    assert known.by_family["nvidia"] == known.devices["GPU"]


def test_inventory_when_memory_is_declared_of_no_kind_then_refused() -> None:
    with pytest.raises(ValueError, match=r"device_memory\['CPUS'\].*GPU, TPU"):
        inventory((), {}, [], device_memory={"CPUS": GIB})
    assert inventory((), {}, [], device_memory={"TPU": GIB}).devices == {}


NVIDIA = Nvidia()


@pytest.mark.parametrize(
    ("asked", "cards", "environ", "declared", "expected"),
    values_of(__file__, "declared_gpus", globals()),
)
def test_inventory_when_devices_are_found_and_declared_then_these_are_granted(
    asked: list[Accelerator],
    cards: int,
    environ: dict[str, str],
    declared: int | None,
    expected: str,
) -> None:
    known = draw_up(*asked, cards=(A,) * cards, environ=environ, GPU=declared)

    devices = known.devices["GPU"]
    names = [f"{gpu.family} {gpu.id}{' logical' * gpu.logical}" for gpu in devices]
    assert ", ".join(names) == expected
    assert [gpu.index for gpu in devices] == list(range(len(devices)))
    by_family = [gpu for listed in known.by_family.values() for gpu in listed]
    assert [gpu for gpu in by_family if gpu.kind == "GPU"] == list(devices)
    present = {family.family for family in known.families}
    assert present >= {gpu.family for gpu in devices}
    assert ("nvidia" in present) == (bool(cards) or "nvidia" in expected)


@pytest.mark.parametrize(
    ("asked", "environ", "declared", "why"),
    values_of(__file__, "refused_gpus", globals()),
)
def test_inventory_when_masks_name_fewer_than_declared_then_refuses_and_names_each(
    asked: list[Accelerator], environ: dict[str, str], declared: int, why: str
) -> None:
    with pytest.raises(ValueError, match="GPU declared") as refused:
        draw_up(*asked, environ=environ, GPU=declared)
    assert why in str(refused.value)


def test_inventory_when_a_gpu_is_part_of_the_cpu_then_others_go_first() -> None:
    known = draw_up(Red("0", integrated=True), Nvidia(), cards=(A,))

    assert [gpu.family for gpu in known.devices["GPU"]] == ["nvidia"]
    (rejected,) = known.detections[0].rejected
    assert rejected.name == "GPU 0"
    assert rejected.why == "part of the CPU; this machine has other devices"
    lease = lease_of(*known.devices["GPU"])
    assert show(lease, known) == {MASK: "0", ORDER: "PCI_BUS_ID", "RED_VISIBLE": ""}


@pytest.mark.parametrize(("cards", "gpus"), [((A,), None), ((), 1), ((A,), 0)])
def test_environment_when_nothing_is_held_then_what_is_here_is_hidden(
    cards: tuple[Card, ...], gpus: int | None
) -> None:
    known = nvidia(*cards, gpus=gpus)

    assert show(NOTHING, known) == {MASK: ""}
    assert show(NOTHING, known, hide=False) == {}
    assert accelerator_ids(NOTHING, known) == {"GPU": []}


@pytest.mark.parametrize("gpus", [None, 0])
def test_environment_when_a_family_is_not_here_then_it_is_left_alone(
    gpus: int | None,
) -> None:
    assert show(NOTHING, nvidia(gpus=gpus)) == {}


def test_environment_when_two_families_are_here_then_the_other_one_is_closed() -> None:
    known = draw_up(Red("0"), Acme("0"), Nvidia(), cards=(A,))
    red, card = known.devices["GPU"]

    assert show(lease_of(red), known) == {
        "RED_VISIBLE": "0",
        "ACME_VISIBLE": "",
        MASK: "",
    }
    assert show(lease_of(card), known, hide=False) == {MASK: "0", ORDER: "PCI_BUS_ID"}
    assert show(lease_of(red, card, *known.devices["ACME"]), known) == {
        "RED_VISIBLE": "0",
        "ACME_VISIBLE": "0",
        MASK: "0",
        ORDER: "PCI_BUS_ID",
    }


def test_environment_when_a_variable_is_shared_then_who_opens_by_it_has_the_word() -> (
    None
):
    known = draw_up(Borrower("0"), Nvidia(), cards=(A,))
    borrowed, card = known.devices["GPU"]

    assert show(lease_of(card), known)[MASK] == "0"
    assert show(lease_of(borrowed, card), known)[MASK] == "0"
    assert show(lease_of(borrowed), known)[MASK] == ""
    assert show(lease_of(borrowed), known, hide=False)[MASK] is None
    assert show(NOTHING, known)[MASK] == ""


def test_environment_when_a_variable_must_not_be_written_then_nobody_writes_it() -> (
    None
):
    known = draw_up(Borrower("0"), Nvidia(), cards=(A,))
    borrowed, card = known.devices["GPU"]

    for lease, own in ((lease_of(borrowed), "0"), (lease_of(card), "")):
        shown = show(lease, known, environ={NOSET: "1", MASK: "0"})
        assert shown == {"BORROWER_VISIBLE": own}


def test_accelerator_ids_when_families_differ_then_each_has_its_owners_words() -> None:
    known = draw_up(Red("0", "1"), Acme("0"), Nvidia(), cards=(A,), environ={MASK: "0"})
    _, red, card = known.devices["GPU"]

    told = accelerator_ids(lease_of(red, card), known)

    assert told == {"GPU": [1, "0"], "ACME": []}
