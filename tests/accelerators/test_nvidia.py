"""NVIDIA's cards: found by NVML, ordered by the owner's mask, named for CUDA."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, FakeNvml, Part, nvidia_host, nvidia_machine
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.base import Detection, Device
from actorlib.accelerators.host import Host
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

A, B, C = (Card(uuid=f"GPU-{letter}") for letter in ("aaa", "bbb", "ccc"))
MASK = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def detect(*cards: Card, environ: Mapping[str, str] | None = None) -> Detection:
    return Nvidia().detect(nvidia_host(*cards, environ=environ))


def ids(detection: Detection) -> list[tuple[str, str | None]]:
    return [(device.id, device.uuid) for device in detection.devices]


def written(detection: Detection, form: str | None = None) -> list[str]:
    """What the mask of a process says that holds every device."""
    devices = Nvidia().formed(detection.devices, form)
    mask = Nvidia().environment(devices, {}, devices)[MASK]
    return (mask or "").split(",")


def why_not(detection: Detection) -> dict[str, str]:
    return {rejected.name: rejected.why for rejected in detection.rejected}


def logical(*names: str) -> tuple[Device, ...]:
    return tuple(
        Device(
            family="nvidia",
            kind="GPU",
            index=index,
            id=name,
            logical=True,
            source="declared",
        )
        for index, name in enumerate(names)
    )


def change(
    devices: Sequence[Device], environ: Mapping[str, str], form: str | None = None
) -> dict[str, str | None]:
    """What is changed for a process that holds all of some devices."""
    formed = Nvidia().formed(devices, form)
    return Nvidia().environment(formed, environ, formed)


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
                type="H100",
                memory=80 * GIB,
                source="NVML",
            ),
            Device(
                family="nvidia",
                kind="GPU",
                index=1,
                id="1",
                uuid="GPU-ddd",
                model="NVIDIA L4",
                type="L4",
                memory=24 * GIB,
                source="NVML",
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


@pytest.mark.parametrize(
    "value", ["", "NoDevFiles", "-1", "abc", "none", "all", "0,0", "GPU-aaa,GPU-aaa"]
)
def test_detect_when_the_mask_hides_all_then_every_card_is_rejected_for_it(
    value: str,
) -> None:
    found = detect(A, B, environ={MASK: value})

    assert (found.devices, found.outer) == ((), ())
    assert found.reason.startswith(f"{MASK}={value!r}")
    hidden = f"hidden by {MASK}={value!r}"
    assert why_not(found) == {"GPU 0": hidden, "GPU 1": hidden}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("0,1", "0 1"),
        ("0,2,-1,1", "0 2"),
        ("0, 1", "0 1"),
        (" 1", "1"),
        ("+1", "1"),
        ("1gpu2,2ampere", "1 2"),
        ("GPU-aaa,GPU-bbb", "GPU-aaa GPU-bbb"),
        ("GPU-aaa,1", "GPU-aaa"),
        ("1,GPU-aaa", "1"),
        ("0,,1", "0"),
        ("0,1,", "0 1"),
        ("0,1,8,2", "0 1"),
    ],
)
def test_detect_when_there_is_a_mask_then_it_is_read_as_cuda_does(
    value: str, names: str
) -> None:
    found = detect(A, B, C, environ={MASK: value})
    assert [device.id for device in found.devices] == names.split()


def test_detect_when_cards_are_hidden_then_each_says_by_what() -> None:
    found = detect(A, B, C, environ={MASK: "1"})
    hidden = f"hidden by {MASK}='1'"
    assert why_not(found) == {"GPU 0": hidden, "GPU 2": hidden}


def test_detect_when_the_mask_names_a_missing_card_then_it_ends_there() -> None:
    found = detect(A, B, environ={MASK: "1,8,0"})

    assert ids(found) == [("1", "GPU-bbb")]
    assert found.outer == ("1",)
    assert found.reason == (f"{MASK}='1,8,0' ends before '8': there is no such device")


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
    assert why_not(found) == {"GPU 1": "GPU is lost"}
    assert written(found) == ["GPU-ccc", "GPU-aaa"]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("DRIVER_NOT_LOADED", "Driver Not Loaded"),
        ("LIB_RM_VERSION_MISMATCH", "RM has detected an NVML/RM version mismatch."),
        ("UNKNOWN", "Unknown Error"),
    ],
)
def test_detect_when_nvml_does_not_start_then_there_is_nothing_and_a_reason(
    broken: str, text: str
) -> None:
    host = nvidia_host(A, environ={MASK: "1,3"}, broken=broken)

    found = Nvidia().detect(host)

    assert found == Detection(
        family="nvidia",
        outer=("1", "3"),
        said="CUDA_VISIBLE_DEVICES='1,3'",
        reason=f"NVML does not start: {text}",
    )


@pytest.mark.parametrize("pci", [None, "0008\t1af410de\t0\n00f8\t80860d57\t10de\n"])
def test_detect_when_there_is_no_trace_of_a_card_then_nvml_is_not_asked(
    pci: str | None,
) -> None:
    files = {} if pci is None else {"/proc/bus/pci/devices": pci}
    host = RecordedHost(files=files, sdks={"pynvml": FakeNvml(A)})
    assert Nvidia().detect(host) == Detection(family="nvidia")


@pytest.mark.parametrize(
    "trace",
    [
        RecordedHost(devices={"/dev/nvidiactl": True}),
        RecordedHost(devices={"/dev/nvidia3": True}),
        RecordedHost(devices={"/dev/dxg": True}),
        RecordedHost(devices={"/dev/nvhost-gpu": True}),
        RecordedHost(files={"/proc/driver/nvidia/version": "NVRM version: 550.54"}),
        RecordedHost(
            files={"/proc/bus/pci/devices": "0008\t80860d57\n3b00\t10de2330\n"}
        ),
    ],
)
def test_detect_when_there_is_any_trace_of_a_card_then_nvml_is_asked(
    trace: RecordedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "sdk", lambda _: FakeNvml(A))
    assert ids(Nvidia().detect(trace)) == [("0", "GPU-aaa")]


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
    devices = {"/dev/nvidiactl": True}
    host = RecordedHost(environ=environ, devices=devices, sdks={"pynvml": nvml})
    Nvidia().detect(host)
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
    with pytest.raises(ValueError, match=rf"3 GPU declared, but {MASK}.* use 2: 1,3"):
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
    assert change(devices, {}) == {MASK: "0,1", ORDER: "PCI_BUS_ID"}


def test_environment_when_ids_are_uuids_then_the_mask_is_enough() -> None:
    environ = {MASK: "GPU-b,GPU-a"}
    devices = detect(A, B, environ=environ).devices
    assert change(devices, environ) == environ


def test_environment_when_there_are_no_devices_then_all_are_hidden() -> None:
    assert change((), {}) == {MASK: ""}


def test_environment_when_the_owner_ordered_its_mask_then_its_words_are_kept() -> None:
    environ = {MASK: "1,0", ORDER: "FASTEST_FIRST"}
    devices = detect(A, B, environ=environ).devices
    assert change(devices[:1], environ) == {MASK: "1"}


def test_environment_when_the_owner_has_an_order_and_no_mask_then_ours_holds() -> None:
    environ = {ORDER: "FASTEST_FIRST"}
    devices = detect(A, environ=environ).devices
    assert change(devices, environ) == {MASK: "0", ORDER: "PCI_BUS_ID"}


def test_environment_when_the_owners_order_is_for_uuids_then_ours_holds() -> None:
    environ = {MASK: "GPU-b", ORDER: "FASTEST_FIRST"}
    devices = detect(A, B, environ=environ).devices
    assert change(devices, environ, "index") == {MASK: "1", ORDER: "PCI_BUS_ID"}


def test_environment_when_devices_are_logical_then_they_are_numbers_of_pci() -> None:
    devices = Nvidia().declare(2, detect())
    assert change(devices, {}) == {MASK: "0,1", ORDER: "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("environ", "form", "expected"),
    [
        ({}, None, ["0", "1", "2"]),
        ({MASK: "2,0"}, None, ["2", "0"]),
        ({MASK: "GPU-c,GPU-aaa"}, None, ["GPU-c", "GPU-aaa"]),
        ({}, "uuid", ["GPU-aaa", "GPU-bbb", "GPU-ccc"]),
        ({MASK: "2,0"}, "uuid", ["GPU-ccc", "GPU-aaa"]),
        ({MASK: "GPU-c,GPU-aaa"}, "uuid", ["GPU-c", "GPU-aaa"]),
        ({MASK: "GPU-c,GPU-aaa"}, "index", ["2", "0"]),
    ],
)
def test_formed_when_all_are_of_one_model_then_by_index_unless_told_otherwise(
    environ: Mapping[str, str], form: str | None, expected: list[str]
) -> None:
    found = detect(A, B, C, environ=environ)
    told = [device.id for device in found.devices]

    assert written(found, form) == expected
    assert [device.id for device in Nvidia().formed(found.devices, form)] == told


def test_formed_when_models_are_mixed_then_by_uuid_and_ids_stay() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_mixed"))

    devices = Nvidia().formed(found.devices, None)

    assert [device.id for device in devices] == ["0", "1", "2"]
    assert [device.written for device in devices] == [d.uuid for d in devices]
    assert change(devices[1:2], {}) == {MASK: devices[1].uuid}
    assert written(found, "index") == ["0", "1", "2"]


def test_formed_when_an_order_hides_the_card_then_it_has_no_uuid() -> None:
    environ = {MASK: "1", ORDER: "FASTEST_FIRST"}
    devices = detect(A, B, environ=environ).devices

    assert Nvidia().formed(devices, "index") == devices
    with pytest.raises(ValueError, match=r"mask_form='uuid': GPU 1 has no uuid"):
        Nvidia().formed(devices, "uuid")


@pytest.mark.parametrize("form", [None, "index", "uuid"])
def test_formed_when_devices_are_logical_then_they_keep_their_ids(
    form: str | None,
) -> None:
    devices = Nvidia().declare(3, detect(A, B))
    assert Nvidia().formed(devices, form)[2] == devices[2]


def test_detect_when_cards_are_joined_by_nvlink_then_each_knows_its_peers() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_h100x8"))

    uuids = {device.key for device in found.devices}
    assert len(uuids) == 8
    for device in found.devices:
        assert device.peers == uuids - {device.key}
        assert (device.type, device.memory) == ("H100", 81559 * 2**20)
    assert found.devices[0].pci == "0000:18:00.0"
    assert (found.reason, found.rejected) == ("", ())


def test_detect_when_only_some_are_joined_then_the_others_have_no_peers() -> None:
    one, other = (
        Card(uuid=f"GPU-{i}", linked=[f"GPU-{1 - i}"], minor=i) for i in (0, 1)
    )
    peers = [sorted(device.peers) for device in detect(one, other, C).devices]
    assert peers == [["GPU-1"], ["GPU-0"], []]


def test_detect_when_the_module_is_from_before_mig_then_cards_are_found() -> None:
    nvml = FakeNvml(A, B, old=True)
    host = RecordedHost(devices={"/dev/nvidiactl": True}, sdks={"pynvml": nvml})
    assert ids(Nvidia().detect(host)) == [("0", "GPU-aaa"), ("1", "GPU-bbb")]


EMPTY = "it is in MIG mode and has no instance"


def test_detect_when_cards_are_in_mig_mode_then_their_instances_are_devices() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_mig"))

    *parts, whole = found.devices
    assert [part.model for part in parts] == [
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    ]
    assert {part.parent for part in parts} == {
        "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"
    }
    assert [part.memory for part in parts] == [
        mib * 2**20 for mib in (40192, 9728, 9728)
    ]
    assert all(part.id == part.uuid == part.written for part in parts)
    assert {device.type for device in found.devices} == {"A100"}
    assert (whole.id, whole.parent) == ("2", None)
    assert why_not(found) == {"GPU 1": EMPTY}
    assert found.reason == f"GPU 1 is left out: {EMPTY}"
    assert written(found) == [device.uuid for device in found.devices]


BIG = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
SMALL = "MIG-5cf89db4-7b5d-5d5c-8c0d-6a5a6a4f0ea1"
CARD = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"


@pytest.mark.parametrize(
    ("value", "uuids", "as_written"),
    [
        (BIG, [BIG], [BIG]),
        ("MIG-5cf,MIG-c6", [SMALL, BIG], ["MIG-5cf", "MIG-c6"]),
        (f"MIG-{CARD}/11/0", [SMALL], [f"MIG-{CARD}/11/0"]),
        ("0", [BIG], [BIG]),
        ("2,0", ["GPU-7e9b7a8f-6ed8-8ad8-9b43-2fb0ea5b0e30", BIG], None),
    ],
)
def test_detect_when_a_mask_leads_to_instances_then_they_have_its_words(
    value: str, uuids: list[str], as_written: list[str] | None
) -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_mig", environ={MASK: value}))

    assert [device.uuid for device in found.devices] == uuids
    assert [device.id for device in found.devices] == value.split(",")
    assert written(found) == (as_written or uuids)


@pytest.mark.parametrize("value", [CARD, "MIG-0000", f"MIG-{CARD}/1/0", "MIG-c", "1"])
def test_detect_when_a_mask_leads_to_no_instance_then_there_is_no_device(
    value: str,
) -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_mig", environ={MASK: value}))

    assert found.devices == ()
    assert why_not(found)["GPU 1"] == EMPTY
    assert why_not(found)["GPU 2"] == f"hidden by {MASK}={value!r}"


def test_formed_when_there_are_instances_then_none_is_written_by_index() -> None:
    part = Part(uuid="MIG-a")
    found = detect(Card(uuid="GPU-aaa", mig=True, parts=[part]), environ={MASK: "0"})

    assert written(found, "uuid") == ["MIG-a"]
    with pytest.raises(ValueError, match=r"mask_form='index': GPU 0 has no index"):
        Nvidia().formed(found.devices, "index")


def test_detect_when_a_card_in_mig_mode_is_lost_then_the_others_stay() -> None:
    lost = Card(uuid="GPU-aaa", mig=True, parts=[Part(uuid="MIG-a")], lost=True)
    whole = Card(uuid="GPU-bbb", mig=True, parts=[Part(uuid="MIG-b", slot=6)])
    assert ids(detect(lost, whole)) == [("MIG-b", "MIG-b")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "nvidia_upgraded",
            "NVML does not start: RM has detected an NVML/RM version mismatch.",
        ),
        ("nvidia_no_driver", "NVML does not start: NVML Shared Library Not Found"),
    ],
)
def test_detect_when_no_driver_is_behind_device_files_then_each_is_rejected(
    name: str, reason: str
) -> None:
    found = Nvidia().detect(nvidia_machine(name))

    assert (found.devices, found.reason) == ((), reason)
    assert why_not(found) == {"/dev/nvidia0": reason, "/dev/nvidia1": reason}


def test_detect_when_a_device_file_may_not_be_opened_then_its_card_is_rejected() -> (
    None
):
    found = Nvidia().detect(nvidia_machine("nvidia_closed"))

    assert [device.id for device in found.devices] == ["0"]
    assert why_not(found) == {
        "GPU 1": (
            "no permission to read and write /dev/nvidia1; join the group of that file"
        )
    }
    assert written(found) == ["GPU-10aa0000-1111-2222-3333-444455556666"]


def test_detect_when_it_is_wsl2_then_nvml_alone_is_enough() -> None:
    (device,) = Nvidia().detect(nvidia_machine("nvidia_wsl2")).devices
    assert (device.id, device.type) == ("0", "GeForce-RTX-3070")


def test_detect_when_it_is_wsl2_without_nvml_then_says_so() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_wsl2_no_library"))

    assert (found.devices, found.rejected) == ((), ())
    assert "WSL2" in found.reason
    assert "NVML Shared Library Not Found" in found.reason


def test_detect_when_slurm_gave_no_device_then_there_is_none() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_slurm_nodevfiles"))

    assert (found.devices, found.outer) == ((), ())
    assert found.reason == f"{MASK}='NoDevFiles' hides every device"


def test_detect_when_memory_is_shared_then_the_card_is_found_all_the_same() -> None:
    (device,) = Nvidia().detect(nvidia_machine("nvidia_gb10")).devices
    assert (device.type, device.memory, device.pci) == ("GB10", None, "000f:01:00.0")


@pytest.mark.parametrize("without", ["library", "module"])
def test_detect_when_nvml_is_missing_then_the_driver_is_asked(without: str) -> None:
    host = (
        nvidia_machine("nvidia_proc_only")
        if without == "library"
        else RecordedHost.load("nvidia_proc_only")
    )

    found = Nvidia().detect(host)

    first, never_used = found.devices
    assert (first.id, first.uuid, first.pci, first.model, first.type) == (
        "0",
        "GPU-0a111111-2b3c-4d5e-6f70-8192a3b4c5d6",
        "0000:07:00.0",
        "NVIDIA A100-SXM4-40GB",
        "A100",
    )
    assert (never_used.id, never_used.uuid) == ("1", None)
    assert (never_used.pci, never_used.memory) == ("0000:47:00.0", None)
    assert why_not(found) == {
        "GPU at 0000:0f:00.0": (
            "there is no /dev/nvidia1 here; give it to the container"
        ),
        "GPU at 0000:4e:00.0": (
            "no permission to read and write /dev/nvidia3; join the group of that file"
        ),
        "GPU at 0000:87:00.0": "it is in MIG mode, and only NVML knows its instances",
        "GPU at 0000:90:00.0": "its information may not be read",
    }
    assert found.reason.startswith("NVML ")
    assert found.reason.endswith("memory and MIG instances are unknown")
    assert written(found) == ["0", "1"]


def test_detect_when_nvml_is_missing_then_instances_are_taken_at_the_masks_word() -> (
    None
):
    environ = {MASK: "MIG-x,MIG-y"}

    found = Nvidia().detect(nvidia_machine("nvidia_proc_only", environ=environ))

    assert ids(found) == [("MIG-x", "MIG-x"), ("MIG-y", "MIG-y")]
    assert written(found) == ["MIG-x", "MIG-y"]


def test_detect_when_it_is_a_jetson_then_its_own_gpu_is_offered() -> None:
    (device,) = Nvidia().detect(nvidia_machine("nvidia_jetson")).devices

    assert (device.id, device.integrated) == ("0", True)
    assert device.model == "NVIDIA Jetson AGX Orin Developer Kit"


def test_detect_when_nvml_has_no_uuid_then_the_card_is_named_by_its_index() -> None:
    found = Nvidia().detect(nvidia_machine("nvidia_jetson_nvml"))

    (device,) = found.devices
    assert (device.id, device.uuid, device.pci) == ("0", None, None)
    assert (device.model, device.source) == ("Orin (nvgpu)", "NVML")
    assert found.rejected == ()
    assert written(found) == ["0"]
    with pytest.raises(ValueError, match="GPU 0 has no uuid that is known here"):
        written(found, "uuid")


def test_detect_when_nvml_has_no_name_then_the_card_is_there_without() -> None:
    (device,) = detect(Card(uuid="GPU-aaa", name=None)).devices
    assert (device.uuid, device.model, device.type) == ("GPU-aaa", None, None)


def test_detect_when_one_of_several_has_no_uuid_then_all_are_written_by_index() -> None:
    bare = Card(uuid=None, name="NVIDIA L4", pci=(0, 0x41, 0))

    found = detect(A, bare)

    assert [device.key for device in found.devices] == ["GPU-aaa", "1"]
    assert found.devices[1].pci == "0000:41:00.0"
    # A mask of CUDA's is all of one kind: it would end before the other one.
    assert written(found) == ["0", "1"]
    assert change(found.devices, {}) == {MASK: "0,1", ORDER: "PCI_BUS_ID"}
    assert written(detect(A, bare, Card(uuid="GPU-x", lost=True))) == ["0", "1"]


def test_detect_when_nvml_fails_over_a_uuid_then_the_card_is_rejected() -> None:
    host = nvidia_host(A, B)
    nvml = host.sdk("pynvml")
    answer = nvml.nvmlDeviceGetUUID

    def fail(handle: Card) -> str:
        if handle is A:
            raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)
        return str(answer(handle))

    nvml.nvmlDeviceGetUUID = fail  # type: ignore[method-assign]  # it falls off now

    found = Nvidia().detect(host)

    assert ids(found) == [("1", "GPU-bbb")]
    assert why_not(found) == {"GPU 0": "GPU is lost"}


def test_detect_when_a_jetsons_gpu_may_not_be_opened_then_it_is_rejected() -> None:
    found = Nvidia().detect(RecordedHost(devices={"/dev/nvhost-gpu": False}))

    assert found.devices == ()
    assert found.reason.startswith("NVML cannot be asked: ")
    assert why_not(found)["/dev/nvhost-gpu"].startswith("no permission to read")


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
