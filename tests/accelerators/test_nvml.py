"""What NVML promises: by its fake, and by the real one where it is present."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from helpers.fake_nvml import LISTS, Processes
from helpers.nvml import Card, FakeNvml, Part

if TYPE_CHECKING:
    from collections.abc import Iterator

CARDS = (
    Card(uuid="GPU-aaa", pci=(0, 0x17, 0), minor=0, busy=5),
    Card(uuid="GPU-bbb", mig=True, parts=[Part(uuid="MIG-c", slot=3)]),
)
FACTS = {
    "UUID": str,
    "Name": str,
    "MinorNumber": int,
    "ComputeMode": int,
    "MigMode": list,
}


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.accelerator)])
def nvml(request: pytest.FixtureRequest) -> Iterator[Any]:
    """NVML, which has not been started, on a machine with a card."""
    if request.param == "fake":
        processes = Processes()
        processes.put("GPU-aaa", 812, 5)
        yield FakeNvml(*CARDS, processes=processes)
        return
    nvml: Any = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        pytest.skip(f"no NVML here: {error}")
    yield nvml


@pytest.fixture
def started(nvml: Any) -> Iterator[Any]:
    """NVML that has been started."""
    nvml.nvmlInit()
    yield nvml
    nvml.nvmlShutdown()


@pytest.mark.parametrize("module", [FakeNvml(), importlib.import_module("pynvml")])
@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        ("NVML_ERROR_NOT_SUPPORTED", "NVMLError_NotSupported", "Not Supported"),
        ("NVML_ERROR_GPU_IS_LOST", "NVMLError_GpuIsLost", "GPU is lost"),
    ],
)
def test_error_when_it_is_raised_then_by_the_class_of_the_code(
    module: Any, code: str, name: str, text: str
) -> None:
    error = module.NVMLError(getattr(module, code))
    assert isinstance(error, getattr(module, name))
    assert str(error) == text


@pytest.mark.parametrize("module", [FakeNvml(), importlib.import_module("pynvml")])
def test_nvml_when_it_was_not_started_then_refuses(module: Any) -> None:
    with pytest.raises(module.NVMLError, match="Uninitialized"):
        module.nvmlDeviceGetCount()


def test_nvml_when_it_was_started_twice_then_the_last_end_counts(nvml: Any) -> None:
    nvml.nvmlInit()
    nvml.nvmlInit()
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() > 0

    nvml.nvmlShutdown()
    with pytest.raises(nvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()


def test_card_when_it_is_asked_for_then_by_number_or_uuid(started: Any) -> None:
    count = started.nvmlDeviceGetCount()
    for number in range(count):
        handle = started.nvmlDeviceGetHandleByIndex(number)
        uuid = started.nvmlDeviceGetUUID(handle)
        again = started.nvmlDeviceGetHandleByUUID(uuid)
        assert uuid.startswith("GPU-")
        assert started.nvmlDeviceGetUUID(again) == uuid
    with pytest.raises(started.NVMLError_InvalidArgument):
        started.nvmlDeviceGetHandleByIndex(count)
    with pytest.raises(started.NVMLError_NotFound):
        started.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000")


def test_card_when_facts_are_asked_then_known_or_not_supported(started: Any) -> None:
    assert isinstance(started.nvmlSystemGetDriverVersion(), str)
    for number in range(started.nvmlDeviceGetCount()):
        handle = started.nvmlDeviceGetHandleByIndex(number)
        for fact, kind in FACTS.items():
            try:
                answer = getattr(started, f"nvmlDeviceGet{fact}")(handle)
            except started.NVMLError_NotSupported:
                continue
            assert isinstance(answer, kind), fact
        memory = started.nvmlDeviceGetMemoryInfo(handle)
        second = started.nvmlDeviceGetMemoryInfo(handle, version=started.nvmlMemory_v2)
        assert 0 < memory.free + memory.used <= memory.total == second.total
        joined = started.nvmlDeviceGetP2PStatus(
            handle, handle, started.NVML_P2P_CAPS_INDEX_NVLINK
        )
        assert isinstance(joined, int)


def test_card_when_its_address_is_asked_then_in_numbers(started: Any) -> None:
    at = started.nvmlDeviceGetPciInfo(started.nvmlDeviceGetHandleByIndex(0))

    address = f"{at.domain:08x}:{at.bus:02x}:{at.device:02x}.0"
    text = at.busId if isinstance(at.busId, str) else at.busId.decode()
    assert text.lower() == address


def test_card_when_it_has_instances_then_their_numbers_may_have_holes(
    started: Any,
) -> None:
    for number in range(started.nvmlDeviceGetCount()):
        handle = started.nvmlDeviceGetHandleByIndex(number)
        for place in range(started.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = started.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except started.NVMLError_NotFound:
                continue
            assert started.nvmlDeviceGetUUID(part).startswith("MIG-")
            assert started.nvmlDeviceGetGpuInstanceId(part) >= 0
            assert started.nvmlDeviceGetComputeInstanceId(part) >= 0


@pytest.mark.parametrize("name", LISTS)
def test_card_when_processes_are_listed_then_each_has_a_number_and_perhaps_bytes(
    started: Any, name: str
) -> None:
    handle = started.nvmlDeviceGetHandleByIndex(0)
    try:
        listed = getattr(started, f"nvmlDeviceGet{name}RunningProcesses")(handle)
    except started.NVMLError_NotSupported:
        return
    for process in listed:
        assert process.pid > 0
        assert process.usedGpuMemory is None or process.usedGpuMemory >= 0
