"""NVIDIA's cards: found by NVML, ordered by the owner's mask, named for CUDA."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
from helpers.host import GIB, Card, FakeNvml, RecordedHost, nvidia_host
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.base import Detection, Device
from actorlib.accelerators.host import Host
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

A, B, C = (Card(uuid=f"GPU-{letter}") for letter in ("aaa", "bbb", "ccc"))
MASK = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def detect(*cards: Card, environ: Mapping[str, str] | None = None) -> Detection:
    return Nvidia().detect(nvidia_host(*cards, environ=environ))


def ids(detection: Detection) -> list[tuple[str, str | None]]:
    return [(device.id, device.uuid) for device in detection.devices]


def logical(*names: str) -> tuple[Device, ...]:
    return tuple(
        Device(family="nvidia", kind="GPU", index=index, id=name, logical=True)
        for index, name in enumerate(names)
    )


@pytest.fixture(params=["fake", "real"])
def nvml(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "fake":
        return FakeNvml()
    return importlib.import_module("pynvml")


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        ("NVML_ERROR_NOT_SUPPORTED", "NVMLError_NotSupported", "Not Supported"),
        ("NVML_ERROR_GPU_IS_LOST", "NVMLError_GpuIsLost", "GPU is lost"),
    ],
)
def test_nvml_when_it_raises_then_by_the_class_of_the_code(
    nvml: ModuleType, code: str, name: str, text: str
) -> None:
    error = nvml.NVMLError(getattr(nvml, code))
    assert isinstance(error, getattr(nvml, name))
    assert str(error) == text


def test_nvml_when_it_was_not_started_then_refuses(nvml: ModuleType) -> None:
    with pytest.raises(nvml.NVMLError, match="Uninitialized"):
        nvml.nvmlDeviceGetCount()


def test_detect_when_there_is_no_mask_then_finds_every_card_by_pci_address() -> None:
    small = Card(uuid="GPU-ddd", name="NVIDIA L4", memory=24 * GIB)

    found = detect(A, small)

    assert found == Detection(
        family="nvidia",
        devices=(
            Device(
                family="nvidia",
                kind="GPU",
                index=0,
                id="0",
                uuid="GPU-aaa",
                model="NVIDIA H100 80GB HBM3",
                memory=80 * GIB,
            ),
            Device(
                family="nvidia",
                kind="GPU",
                index=1,
                id="1",
                uuid="GPU-ddd",
                model="NVIDIA L4",
                memory=24 * GIB,
            ),
        ),
    )


def test_detect_when_memory_is_the_machines_then_it_is_unknown() -> None:
    (device,) = detect(Card(uuid="GPU-aaa", memory=None)).devices
    assert device.memory is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2,0", [("2", "GPU-ccc"), ("0", "GPU-aaa")]),
        ("GPU-c,GPU-aaa", [("GPU-c", "GPU-ccc"), ("GPU-aaa", "GPU-aaa")]),
        (" 1gpu", [("1", "GPU-bbb")]),
    ],
)
def test_detect_when_there_is_a_mask_then_filters_and_orders_by_it(
    value: str, expected: list[tuple[str, str]]
) -> None:
    found = detect(A, B, C, environ={MASK: value})

    assert ids(found) == expected
    assert [device.index for device in found.devices] == list(range(len(expected)))
    assert found.outer == tuple(name for name, _ in expected)
    assert found.reason == ""


@pytest.mark.parametrize("value", ["", "NoDevFiles", "-1", "0,0"])
def test_detect_when_the_mask_hides_all_then_nvml_is_not_asked(value: str) -> None:
    found = Nvidia().detect(RecordedHost(environ={MASK: value}))

    assert (found.devices, found.outer) == ((), ())
    assert found.reason.startswith(f"{MASK}={value!r}")


def test_detect_when_the_mask_names_a_missing_card_then_it_ends_there() -> None:
    found = detect(A, B, environ={MASK: "1,8,0"})

    assert ids(found) == [("1", "GPU-bbb")]
    assert found.outer == ("1",)
    assert found.reason == (f"{MASK}='1,8,0' ends before '8': there is no such device")


def test_detect_when_the_mask_names_mig_instances_then_takes_them_at_their_word() -> (
    None
):
    found = detect(A, environ={MASK: "MIG-x,MIG-y"})

    assert ids(found) == [("MIG-x", "MIG-x"), ("MIG-y", "MIG-y")]
    assert [device.memory for device in found.devices] == [None, None]


@pytest.mark.parametrize("order", [{}, {ORDER: "PCI_BUS_ID"}])
def test_detect_when_indices_count_by_pci_then_they_lead_to_cards(
    order: Mapping[str, str],
) -> None:
    found = detect(A, B, environ={MASK: "1", **order})
    assert ids(found) == [("1", "GPU-bbb")]


def test_detect_when_indices_are_in_cudas_own_order_then_cards_stay_unknown() -> None:
    environ = {MASK: "1,5", ORDER: "FASTEST_FIRST"}

    found = detect(A, B, environ=environ)

    (device,) = found.devices
    assert device == Device(family="nvidia", kind="GPU", index=0, id="1")
    assert found.outer == ("1",)


def test_detect_when_uuids_come_with_an_order_then_they_lead_to_cards() -> None:
    found = detect(A, B, environ={MASK: "GPU-b", ORDER: "FASTEST_FIRST"})
    assert ids(found) == [("GPU-b", "GPU-bbb")]


def test_detect_when_a_card_is_lost_then_the_others_keep_their_ids() -> None:
    found = detect(A, Card(uuid="GPU-bbb", lost=True), C)

    assert ids(found) == [("0", "GPU-aaa"), ("2", "GPU-ccc")]
    assert [device.index for device in found.devices] == [0, 1]
    assert found.reason == "GPU 1 is left out: GPU is lost"


def test_detect_when_a_masked_card_is_lost_then_the_rest_of_the_mask_stays() -> None:
    lost = Card(uuid="GPU-bbb", lost=True)

    found = detect(A, lost, C, environ={MASK: "2,1,0"})

    assert ids(found) == [("2", "GPU-ccc"), ("0", "GPU-aaa")]
    assert found.outer == ("2", "1", "0")
    assert found.reason == "GPU 1 is left out: GPU is lost"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"),
        ("DRIVER_NOT_LOADED", "Driver Not Loaded"),
        ("LIB_RM_VERSION_MISMATCH", "RM has detected an NVML/RM version mismatch."),
    ],
)
def test_detect_when_nvml_does_not_start_then_there_is_nothing_and_a_reason(
    broken: str, text: str
) -> None:
    host = nvidia_host(A, environ={MASK: "1,3"}, broken=broken)

    found = Nvidia().detect(host)

    assert found == Detection(
        family="nvidia", outer=("1", "3"), reason=f"NVML does not start: {text}"
    )


def test_detect_when_pynvml_is_missing_then_there_is_nothing_and_a_reason() -> None:
    found = Nvidia().detect(RecordedHost())

    assert found == Detection(
        family="nvidia", reason="NVML cannot be asked: No module named 'pynvml'"
    )


def test_detect_when_nvml_knows_no_card_then_says_so() -> None:
    assert detect() == Detection(family="nvidia", reason="NVML finds no GPU")


@pytest.mark.parametrize(
    ("nvml", "environ"),
    [
        (FakeNvml(A, B), {}),
        (FakeNvml(), {}),
        (FakeNvml(Card(uuid="GPU-bbb", lost=True)), {MASK: "0"}),
        (FakeNvml(A, broken="DRIVER_NOT_LOADED"), {}),
    ],
)
def test_detect_when_it_is_done_then_nvml_is_shut_down(
    nvml: FakeNvml, environ: Mapping[str, str]
) -> None:
    Nvidia().detect(RecordedHost(environ=environ, sdks={"pynvml": nvml}))
    assert nvml.open == 0


def test_declare_when_nothing_was_found_then_all_are_logical() -> None:
    assert Nvidia().declare(2, detect()) == logical("0", "1")


def test_declare_when_some_were_found_then_they_come_first() -> None:
    found = detect(A)
    assert Nvidia().declare(3, found) == (*found.devices, *logical("0", "1", "2")[1:])


def test_declare_when_fewer_are_wanted_then_the_first_are_taken() -> None:
    found = detect(A, B, C)
    assert Nvidia().declare(2, found) == found.devices[:2]
    assert Nvidia().declare(0, found) == ()


def test_declare_when_a_lower_index_is_free_then_it_is_used_first() -> None:
    found = detect(Card(uuid="GPU-aaa", lost=True), B)
    names = [device.id for device in Nvidia().declare(3, found)]
    assert names == ["1", "0", "2"]


def test_declare_when_only_a_mask_is_there_then_its_entries_name_them() -> None:
    found = detect(environ={MASK: "1,3"})
    assert Nvidia().declare(2, found) == logical("1", "3")
    assert Nvidia().declare(1, found) == logical("1")


def test_declare_when_only_a_cut_mask_is_there_then_says_where_it_ends() -> None:
    found = detect(environ={MASK: "1,x,3"})
    with pytest.raises(ValueError, match=r"use 1: 1 .*ends before 'x'"):
        Nvidia().declare(2, found)


def test_declare_when_the_mask_names_fewer_then_refuses_and_names_both() -> None:
    found = detect(environ={MASK: "1,3"})
    with pytest.raises(ValueError, match=rf"3 GPU declared, but {MASK} .* use 2: 1,3"):
        Nvidia().declare(3, found)


@pytest.mark.parametrize("value", ["", "NoDevFiles"])
def test_declare_when_the_mask_is_empty_then_refuses_and_says_why(value: str) -> None:
    found = detect(A, environ={MASK: value})
    with pytest.raises(ValueError, match=f"use 0: none .*{MASK}='{value}' hides every"):
        Nvidia().declare(2, found)
    assert Nvidia().declare(0, found) == ()


def test_declare_when_the_mask_was_cut_then_only_what_is_left_counts() -> None:
    found = detect(A, B, environ={MASK: "0,8,1"})
    with pytest.raises(ValueError, match=r"use 1: 0 .*ends before '8'"):
        Nvidia().declare(2, found)


@given(
    cards=st.lists(st.booleans(), max_size=4),
    count=st.integers(0, 6),
    order=st.none() | st.permutations(["0", "1", "2", "3", "4", "5"]),
)
def test_declare_when_it_returns_then_ids_are_unique_and_indices_in_a_row(
    cards: list[bool], count: int, order: list[str] | None
) -> None:
    machine = [Card(uuid=f"GPU-{i}", lost=lost) for i, lost in enumerate(cards)]
    found = detect(*machine, environ={} if order is None else {MASK: ",".join(order)})
    if found.outer is not None and count > len(found.outer):
        with pytest.raises(ValueError, match=str(count)):
            Nvidia().declare(count, found)
        return

    devices = Nvidia().declare(count, found)

    assert [device.index for device in devices] == list(range(count))
    assert len({device.id for device in devices}) == count
    assert found.outer is None or {d.id for d in devices} <= set(found.outer)


def test_environment_when_ids_are_indices_then_their_order_goes_with_them() -> None:
    devices = detect(A, B).devices
    assert Nvidia().environment(devices, {}) == {MASK: "0,1", ORDER: "PCI_BUS_ID"}


def test_environment_when_ids_are_uuids_then_the_mask_is_enough() -> None:
    environ = {MASK: "GPU-b,GPU-a"}
    devices = detect(A, B, environ=environ).devices
    assert Nvidia().environment(devices, environ) == environ


def test_environment_when_there_are_no_devices_then_all_are_hidden() -> None:
    assert Nvidia().environment((), {}) == {MASK: ""}


def test_environment_when_the_owner_ordered_its_mask_then_its_words_are_kept() -> None:
    environ = {MASK: "1,0", ORDER: "FASTEST_FIRST"}
    devices = detect(A, B, environ=environ).devices
    assert Nvidia().environment(devices[:1], environ) == {MASK: "1"}


def test_environment_when_the_owner_has_an_order_and_no_mask_then_ours_holds() -> None:
    environ = {ORDER: "FASTEST_FIRST"}
    devices = detect(A, environ=environ).devices
    changes = Nvidia().environment(devices, environ)
    assert changes == {MASK: "0", ORDER: "PCI_BUS_ID"}


@pytest.mark.accelerator
def test_detect_when_there_is_a_real_card_then_it_is_whole() -> None:
    found = Nvidia().detect(Host())
    if not found.devices:
        pytest.skip(found.reason)
    for index, device in enumerate(found.devices):
        assert device.index == index
        assert device.uuid is not None
        assert device.uuid.startswith(("GPU-", "MIG-"))
        assert not device.logical
