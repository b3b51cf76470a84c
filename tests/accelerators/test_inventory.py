"""What was found and what was declared become devices, and a lease an environment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, final

import pytest
from helpers.host import RecordedHost
from helpers.nvml import Card, nvidia_host

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


def gpus(known: Inventory) -> list[tuple[str, str, bool]]:
    return [(gpu.family, gpu.id, gpu.logical) for gpu in known.devices["GPU"]]


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


def test_inventory_when_it_is_drawn_up_then_every_kind_is_known() -> None:
    known = draw_up(Acme())
    assert known.kinds == {**KINDS, "ACME": Acme.kind}
    assert list(known.devices) == ["ACME"]


def test_inventory_when_a_stranger_redefines_a_kind_then_ours_stays() -> None:
    @final
    class Tpuish(_Told):
        family = "tpuish"
        kind = Kind("TPU", divisible=True)
        visible_env = ""

    assert draw_up(Tpuish("0")).kinds["TPU"] == KINDS["TPU"]


def test_inventory_when_families_share_a_kind_then_they_are_numbered_in_order() -> None:
    known = draw_up(Red("0", "1"), Blue("0"), Nvidia(), cards=(A,))

    devices = known.devices["GPU"]
    assert [gpu.family for gpu in devices] == ["red", "red", "blue", "nvidia"]
    assert [gpu.index for gpu in devices] == [0, 1, 2, 3]
    assert [gpu.index for gpu in known.by_family["nvidia"]] == [3]


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


def test_inventory_when_fewer_are_declared_then_the_first_are_granted() -> None:
    known = draw_up(Red("0", "1"), Nvidia(), cards=(A,), GPU=1)

    assert gpus(known) == [("red", "0", False)]
    assert [family.family for family in known.families] == ["red", "nvidia"]


@pytest.mark.parametrize("cards", [(A,), ()])
def test_inventory_when_none_are_declared_then_none_are_granted(
    cards: tuple[Card, ...],
) -> None:
    known = draw_up(Red(), Nvidia(), cards=cards, GPU=0)

    assert known.devices == {"GPU": ()}
    assert len(known.families) == len(cards)


def test_inventory_when_more_are_declared_then_the_rest_is_of_a_family_here() -> None:
    assert gpus(draw_up(Red("0"), Nvidia(), GPU=2)) == [
        ("red", "0", False),
        ("red", "1", True),
    ]


def test_inventory_when_the_machine_is_bare_then_logical_gpus_are_nvidias() -> None:
    assert gpus(draw_up(Red(), Nvidia(), Blue(), GPU=2)) == [
        ("nvidia", "0", True),
        ("nvidia", "1", True),
    ]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RED_VISIBLE": "3,5"}, [("red", "3", True)]),
        ({"RED_VISIBLE": "3", MASK: "2"}, [("nvidia", "2", True)]),
        ({"RED_VISIBLE": "3", MASK: ""}, [("red", "3", True)]),
    ],
)
def test_inventory_when_only_masks_are_there_then_they_name_the_logical_gpus(
    environ: dict[str, str], expected: list[tuple[str, str, bool]]
) -> None:
    known = draw_up(Red(), Nvidia(), environ=environ, GPU=1)
    assert gpus(known) == expected


def test_inventory_when_masks_leave_nothing_then_refuses_and_names_each() -> None:
    environ = {"RED_VISIBLE": "", "BLUE_VISIBLE": "-1"}

    with pytest.raises(ValueError, match="RED_VISIBLE='' lets this process use 0"):
        draw_up(Red(), Nvidia(), Blue(), environ={"RED_VISIBLE": ""}, GPU=1)
    with pytest.raises(ValueError, match=r"0: RED.*'' names none; BLUE.*'-1' names"):
        draw_up(Red(), Nvidia(), Blue(), environ=environ, GPU=1)


def test_inventory_when_a_mask_hides_what_is_here_then_no_other_family_stands_in() -> (
    None
):
    environ = {"RED_VISIBLE": "", MASK: "0"}

    with pytest.raises(ValueError, match="RED_VISIBLE='' lets this process use 0"):
        draw_up(Red("0"), Nvidia(), environ=environ, GPU=1)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RED_VISIBLE": "0"}, ["red 0", "blue 0", "blue 1"]),
        ({"BLUE_VISIBLE": "0"}, ["red 0", "red 1", "blue 0"]),
        ({"BLUE_VISIBLE": ""}, ["red 0", "red 1", "red 2"]),
    ],
)
def test_inventory_when_one_mask_is_full_then_another_family_has_the_rest(
    environ: dict[str, str], expected: list[str]
) -> None:
    known = draw_up(Red("0"), Blue("0"), environ=environ, GPU=3)

    assert [f"{family} {name}" for family, name, _ in gpus(known)] == expected


def test_inventory_when_the_mask_names_fewer_then_refuses_and_says_what_is_here() -> (
    None
):
    with pytest.raises(ValueError, match=rf"2 GPU declared, but {MASK}.* use 1: 0"):
        nvidia(A, B, environ={MASK: "0"}, gpus=2)


@pytest.mark.parametrize("value", ["", "NoDevFiles"])
def test_inventory_when_the_mask_hides_all_then_refuses_and_says_so(value: str) -> None:
    with pytest.raises(ValueError, match=f"use 0: none .*{MASK}='{value}' hides every"):
        nvidia(A, environ={MASK: value}, gpus=1)


def test_inventory_when_all_masks_are_full_then_refuses_and_names_each() -> None:
    environ = {"RED_VISIBLE": "0", "BLUE_VISIBLE": "2,0"}
    red, blue = Red("0", "1"), Blue("0", "1", "2")

    assert len(gpus(draw_up(red, blue, environ=environ, GPU=3))) == 3
    with pytest.raises(ValueError, match="4 GPU declared") as refused:
        draw_up(red, blue, environ=environ, GPU=4)
    assert str(refused.value) == (
        "4 GPU declared, but the visibility variables let this process use 3: "
        "RED_VISIBLE='0' names 0; BLUE_VISIBLE='2,0' names 2,0. "
        "Declare at most 3, or set the variables to more"
    )


def test_inventory_when_a_gpu_is_part_of_the_cpu_then_others_go_first() -> None:
    known = draw_up(Red("0", integrated=True), Nvidia(), cards=(A,))

    assert gpus(known) == [("nvidia", "0", False)]
    (rejected,) = known.detections[0].rejected
    assert rejected.name == "GPU 0"
    assert rejected.why == "part of the CPU; this machine has other devices"
    lease = lease_of(*known.devices["GPU"])
    assert show(lease, known) == {MASK: "0", ORDER: "PCI_BUS_ID", "RED_VISIBLE": ""}


def test_inventory_when_only_the_cpus_gpu_is_there_then_it_counts() -> None:
    known = draw_up(Red("0", integrated=True), Acme("0"), Nvidia())

    assert gpus(known) == [("red", "0", False)]
    assert known.detections[0].rejected == ()


def test_inventory_when_a_form_cannot_be_written_then_refuses() -> None:
    asked = (Red("0"),)
    with pytest.raises(ValueError, match="RED_VISIBLE takes no UUIDs"):
        inventory(discover(RecordedHost(), asked), {}, asked, "uuid")


@pytest.mark.parametrize("family", [Nvidia(), Acme()])
def test_inventory_when_very_many_are_declared_then_it_is_drawn_up_at_once(
    family: Accelerator,
) -> None:
    found = discover(nvidia_host(), [family])
    count = 20_000

    before = time.process_time()
    known = inventory(found, {family.kind.name: count}, [family])
    taken = time.process_time() - before

    assert len(known.devices[family.kind.name]) == count
    # Were each device looked up among the others, it would take minutes.
    assert taken < 2.0


def test_environment_when_devices_are_held_then_only_they_are_shown() -> None:
    known = nvidia(A, B)
    lease = lease_of(known.devices["GPU"][1])
    assert show(lease, known) == {MASK: "1", ORDER: "PCI_BUS_ID"}
    assert show(lease, known, hide=False) == {MASK: "1", ORDER: "PCI_BUS_ID"}


@pytest.mark.parametrize(("cards", "gpus"), [((A,), None), ((), 1), ((A,), 0)])
def test_environment_when_nothing_is_held_then_what_is_here_is_hidden(
    cards: tuple[Card, ...], gpus: int | None
) -> None:
    assert show(NOTHING, nvidia(*cards, gpus=gpus)) == {MASK: ""}


def test_environment_when_not_hiding_then_the_owners_view_stays() -> None:
    assert show(NOTHING, nvidia(A), hide=False) == {}


@pytest.mark.parametrize("gpus", [None, 0])
def test_environment_when_a_family_is_not_here_then_it_is_left_alone(
    gpus: int | None,
) -> None:
    assert show(NOTHING, nvidia(gpus=gpus)) == {}


@pytest.mark.parametrize(
    ("switch", "left_alone"),
    [
        ("1", True),
        ("true", True),
        ("True", True),
        ("0", False),
        ("false", False),
        ("", False),
    ],
)
def test_environment_when_the_noset_switch_is_there_then_it_is_read_as_a_boolean(
    switch: str, *, left_alone: bool
) -> None:
    known = nvidia(A)
    for lease in (lease_of(*known.devices["GPU"]), NOTHING):
        shown = show(lease, known, environ={NOSET: switch})
        assert (MASK not in shown) is left_alone


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


def test_accelerator_ids_when_there_is_no_mask_then_they_are_ints() -> None:
    known = nvidia(A, gpus=3)
    lease = lease_of(*known.devices["GPU"][1:])
    assert accelerator_ids(lease, known) == {"GPU": [1, 2]}


@pytest.mark.parametrize("value", ["1,0", "GPU-b,GPU-aaa"])
def test_accelerator_ids_when_there_is_a_mask_then_they_are_its_words(
    value: str,
) -> None:
    known = nvidia(A, B, environ={MASK: value})
    lease = lease_of(*known.devices["GPU"])
    assert accelerator_ids(lease, known) == {"GPU": value.split(",")}


def test_accelerator_ids_when_families_differ_then_each_has_its_owners_words() -> None:
    known = draw_up(Red("0", "1"), Acme("0"), Nvidia(), cards=(A,), environ={MASK: "0"})
    _, red, card = known.devices["GPU"]

    told = accelerator_ids(lease_of(red, card), known)

    assert told == {"GPU": [1, "0"], "ACME": []}


def test_accelerator_ids_when_nothing_is_held_then_every_kind_is_empty() -> None:
    assert accelerator_ids(NOTHING, nvidia()) == {"GPU": []}
