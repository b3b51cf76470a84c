"""Google's TPUs: told from all else by PCI ids, and kept apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators.tpu import Tpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.base import Detection, Device

MASK = "TPU_VISIBLE_CHIPS"
ALIAS = "TPU_VISIBLE_DEVICES"
PORT = "TPU_PROCESS_PORT"


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Tpu().detect(RecordedHost.load(name, environ=environ))


def chips(name: str = "tpu_v5e") -> tuple[Device, ...]:
    return detect(name).devices


def shown(
    held: Sequence[Device],
    every: Sequence[Device],
    environ: Mapping[str, str] | None = None,
) -> dict[str, str | None]:
    return Tpu().environment(held, environ or {}, every)


def test_detect_when_there_is_no_trace_then_there_is_nothing_to_say() -> None:
    found = Tpu().detect(RecordedHost())
    assert (found.devices, found.rejected, found.reason) == ((), (), "")


@pytest.mark.parametrize(
    ("name", "count", "model", "kind"),
    [
        ("tpu_v3", 4, "TPU v3", "TPU-V3"),
        ("tpu_v4", 4, "TPU v4", "TPU-V4"),
        ("tpu_v5e", 8, "TPU v5litepod", "TPU-V5LITEPOD"),
        ("tpu_gke", 4, "TPU v7x", "TPU-V7X"),
    ],
)
def test_detect_when_ids_say_tpu_then_each_chip_has_its_generation(
    name: str, count: int, model: str, kind: str
) -> None:
    found = detect(name)

    assert [chip.id for chip in found.devices] == [str(n) for n in range(count)]
    assert {(chip.model, chip.type) for chip in found.devices} == {(model, kind)}
    assert (found.rejected, found.reason) == ((), "")


def test_detect_when_a_generation_is_unknown_then_the_chip_counts_without_type() -> (
    None
):
    found = detect("tpu_gke", {"TPU_ACCELERATOR_TYPE": ""})
    assert [(chip.model, chip.type) for chip in found.devices] == [(None, None)] * 4


@pytest.mark.parametrize(
    "told", ["banana", "banana-8", "tpu", "v-8", "v8", "-8", "v6e,x-8", "v6e-", "8-8"]
)
def test_detect_when_the_environment_tells_nonsense_then_the_type_stays_unknown(
    told: str,
) -> None:
    found = detect("tpu_gke", {"TPU_ACCELERATOR_TYPE": told})
    assert [(chip.model, chip.type) for chip in found.devices] == [(None, None)] * 4


@pytest.mark.parametrize(
    ("told", "kind"),
    [("tpu7x-8", "TPU-V7X"), ("v8p-16", "TPU-V8P"), ("V5LitePod-4", "TPU-V5LITEPOD")],
)
def test_detect_when_the_environment_tells_a_newer_generation_then_it_is_the_type(
    told: str, kind: str
) -> None:
    found = detect("tpu_gke", {"TPU_ACCELERATOR_TYPE": told})
    assert {chip.type for chip in found.devices} == {kind}


@pytest.mark.parametrize(
    ("name", "file", "pci"),
    [
        ("tpu_v4", "/dev/accel1", "0000:00:05.0"),
        ("tpu_v5e", "/dev/vfio/1", "0000:00:05.0"),
    ],
)
def test_detect_when_there_are_chips_then_each_says_where_it_is(
    name: str, file: str, pci: str
) -> None:
    chip = chips(name)[1]
    assert (chip.source, chip.pci) == (file, pci)


def test_detect_when_there_are_chips_then_each_reaches_the_others() -> None:
    first = chips("tpu_v4")[0]
    assert first.peers == {"1", "2", "3"}


def test_detect_when_an_npu_has_such_a_file_then_its_maker_is_named() -> None:
    found = detect("laptop_npu")

    assert found.devices == ()
    assert [(other.name, other.why) for other in found.rejected] == [
        ("/dev/accel1", "no TPU: it is of AMD"),
        ("/dev/accel/accel0", "no TPU: it is of Intel"),
    ]


def test_detect_when_gaudis_have_such_files_then_none_is_a_chip() -> None:
    found = detect("gaudi2")
    assert found.devices == ()
    assert [other.why for other in found.rejected] == [
        "no TPU: it is of Intel (Habana)"
    ] * 8


def test_detect_when_other_cards_are_passed_through_then_none_is_a_chip() -> None:
    found = detect("bluefield")

    assert found.devices == ()
    assert [(other.name, other.why) for other in found.rejected] == [
        ("/dev/vfio/12", "no TPU: it is of Google"),
        ("/dev/vfio/13", "its PCI vendor cannot be read"),
        ("/dev/vfio/96", "no TPU: it is of NVIDIA (Mellanox)"),
    ]


def test_detect_when_a_chip_may_not_be_opened_then_the_others_keep_their_numbers() -> (
    None
):
    found = detect("tpu_no_permission")

    assert [chip.id for chip in found.devices] == ["1", "2"]
    assert [(lost.name, lost.model) for lost in found.rejected] == [
        ("/dev/vfio/0", "TPU v6e"),
        ("/dev/vfio/3", "TPU v6e"),
    ]


def test_detect_when_no_chip_may_be_opened_then_says_so() -> None:
    ids = {"vendor": "0x1ae0\n", "device": "0x005e\n"}
    host = RecordedHost(
        devices={"/dev/accel0": False},
        files={f"/sys/class/accel/accel0/device/{n}": v for n, v in ids.items()},
    )
    found = Tpu().detect(host)
    assert found.devices == ()
    assert found.reason.startswith("no permission to read and write /dev/accel0")


@pytest.mark.parametrize(
    "environ", [{MASK: "1,3"}, {ALIAS: "1,3"}, {MASK: "1,3", ALIAS: "0"}]
)
def test_detect_when_the_owner_has_a_mask_then_the_newer_name_counts(
    environ: Mapping[str, str],
) -> None:
    found = detect("tpu_v4", environ)
    assert [chip.id for chip in found.devices] == ["1", "3"]
    assert found.outer == ("1", "3")


@pytest.mark.parametrize(
    ("places", "bounds"), [([2], "1,1,1"), ([2, 3], "1,2,1"), ([4, 5, 6, 7], "2,2,1")]
)
def test_environment_when_part_of_the_host_is_held_then_both_generations_bound_it(
    places: list[int], bounds: str
) -> None:
    every = chips()
    listed = ",".join(map(str, places))
    port = str(8476 + places[0])

    assert shown([every[place] for place in places], every) == {
        MASK: listed,
        ALIAS: listed,
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds,
        "TPU_PROCESS_BOUNDS": "1,1,1",
        PORT: port,
        "TPU_PROCESS_ADDRESSES": f"localhost:{port}",
        "CLOUD_TPU_TASK_ID": "0",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }


@pytest.mark.parametrize("size", [1, 2, 4])
def test_environment_when_actors_share_a_host_then_no_two_have_one_port(
    size: int,
) -> None:
    every = chips()
    parts = [every[start : start + size] for start in range(0, 8, size)]
    ports = [shown(part, every)[PORT] for part in parts]
    assert len(set(ports)) == len(parts)


def test_environment_when_the_host_is_held_whole_then_only_chips_are_listed() -> None:
    every = chips()
    assert shown(every, every) == {MASK: "0,1,2,3,4,5,6,7", ALIAS: None}


def test_environment_when_bounds_fit_the_whole_host_then_they_stay() -> None:
    every = chips("tpu_gke")
    environ = RecordedHost.load("tpu_gke").environ
    assert shown(every, every, environ) == {MASK: "0,1,2,3", ALIAS: None}


def test_environment_when_bounds_are_of_a_part_then_the_whole_host_loses_them() -> None:
    every = chips("tpu_v4")

    changes = shown(every, every, {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"})

    assert changes.pop(MASK) == "0,1,2,3"
    assert set(changes) == set(shown(every[:1], every)) - {MASK}
    assert set(changes.values()) == {None}


def test_environment_when_the_mask_hides_chips_then_what_is_left_is_a_part() -> None:
    environ = {MASK: "2"}
    (chip,) = detect("tpu_v4", environ).devices
    changes = shown([chip], [chip], environ)
    assert (changes[MASK], changes[PORT]) == ("2", "8478")


def test_environment_when_chips_are_declared_then_one_of_them_is_a_part() -> None:
    every = Tpu().declare(4, Tpu().detect(RecordedHost()))
    assert shown(every[:1], every)["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,1,1"


@pytest.mark.parametrize(
    ("environ", "platforms", "torch"),
    [
        ({}, "cpu", "CPU"),
        ({"JAX_PLATFORMS": ""}, "cpu", "CPU"),
        ({"JAX_PLATFORMS": "tpu"}, "cpu", "CPU"),
        ({"JAX_PLATFORMS": "cuda,tpu,cpu", "PJRT_DEVICE": "TPU"}, "cuda,cpu", "CPU"),
        ({"JAX_PLATFORMS": "cuda", "PJRT_DEVICE": "CUDA"}, "cuda", "CUDA"),
    ],
)
def test_environment_when_there_are_no_chips_then_frameworks_do_not_take_one(
    environ: Mapping[str, str], platforms: str, torch: str
) -> None:
    assert shown((), chips(), environ) == {
        MASK: "",
        ALIAS: "",
        "JAX_PLATFORMS": platforms,
        "PJRT_DEVICE": torch,
    }
