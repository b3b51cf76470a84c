"""MetaX's cards are told from NVIDIA's, and both of their masks are kept."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, final

import pytest
from helpers.host import GIB, RecordedHost
from helpers.nvml import nvidia_machine

from actorlib.accelerators.base import Detection
from actorlib.accelerators.metax import Metax
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

CUDA = "CUDA_VISIBLE_DEVICES"
MACA = "MACA_VISIBLE_DEVICES"
ORDER = "MACA_DEVICE_ORDER"
C500 = ("0000:38:00.0", "0000:55:00.0")


class MxSmlError(Exception):
    """As the library's own class of errors."""


@final
class FakeMxSml(ModuleType):
    """The module ``pymxsml.mxsml_extension`` on a machine with C500s at addresses."""

    MXSMLEXError = MxSmlError

    def __init__(self, *addresses: str, broken: str = "", mute: bool = False) -> None:
        """Makes the module; a mute one supports neither UUIDs nor sizes."""
        super().__init__("pymxsml.mxsml_extension")
        self._mute = mute
        self._addresses = addresses
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        answers = {
            "mxSmlExInit": self._init,
            "mxSmlExShutdown": lambda: None,
            "mxSmlExDeviceGetCount": lambda: len(self._addresses),
            "mxSmlExDeviceGetHandleByIndex": self._addresses.__getitem__,
            "mxSmlExDeviceGetName": lambda _: "MXC500",
            "mxSmlExDeviceGetUUID": self._uuid,
            "mxSmlExDeviceGetMemoryInfo": self._memory_info,
            "mxSmlExDeviceGetPciInfo": self._pci_info,
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def _init(self) -> None:
        if self._broken:
            raise MxSmlError(self._broken)

    def _uuid(self, pci: str) -> str:
        self._support()
        return f"GPU-mx{pci[5:7]}"

    def _memory_info(self, _: str) -> SimpleNamespace:
        self._support()
        return SimpleNamespace(total=64 * GIB)

    def _support(self) -> None:
        if self._mute:
            raise MxSmlError("not supported")

    def _pci_info(self, pci: str) -> SimpleNamespace:
        domain, bus, rest = pci.split(":")
        return SimpleNamespace(
            domain=int(domain, 16), bus=int(bus, 16), device=int(rest[:2], 16)
        )


def detect(
    name: str,
    *,
    environ: Mapping[str, str] | None = None,
    library: FakeMxSml | None = None,
) -> Detection:
    sdks = {} if library is None else {"pymxsml.mxsml_extension": library}
    return Metax().detect(RecordedHost.load(name, environ=environ, sdks=sdks))


def ids(detection: Detection) -> list[tuple[str, str | None]]:
    return [(device.id, device.pci) for device in detection.devices]


def why_not(detection: Detection) -> dict[str, str]:
    return {rejected.name: rejected.why for rejected in detection.rejected}


def test_detect_when_sysfs_lists_cards_then_they_count_by_pci_address() -> None:
    found = detect("metax_c500")

    assert ids(found) == [("0", C500[0]), ("1", C500[1])]
    assert [(d.type, d.memory, d.uuid) for d in found.devices] == [
        ("MXC500", None, None)
    ] * 2
    assert (found.reason, found.rejected) == ("", ())


def test_detect_when_the_library_is_there_then_it_adds_what_sysfs_lacks() -> None:
    found = detect("metax_c500", library=FakeMxSml(*C500))

    assert ids(found) == [("0", C500[0]), ("1", C500[1])]
    assert [device.uuid for device in found.devices] == ["GPU-mx38", "GPU-mx55"]
    assert {device.memory for device in found.devices} == {64 * GIB}


def test_detect_when_the_library_knows_one_card_then_sysfs_tells_the_other() -> None:
    found = detect("metax_c500", library=FakeMxSml(C500[1]))
    assert [d.memory for d in found.devices] == [None, 64 * GIB]


def test_detect_when_the_library_has_no_uuid_then_the_cards_are_there_without() -> None:
    found = detect("metax_c500", library=FakeMxSml(*C500, mute=True))

    assert ids(found) == [("0", C500[0]), ("1", C500[1])]
    assert [(d.uuid, d.memory, d.source) for d in found.devices] == [
        (None, None, "MXSML")
    ] * 2


def test_detect_when_the_library_fails_then_sysfs_is_enough() -> None:
    library = FakeMxSml(*C500, broken="Driver Not Loaded")
    assert len(detect("metax_c500", library=library).devices) == 2


@pytest.mark.parametrize("name", ["bare", "nvidia_h100x8", "nvidia_mixed"])
def test_detect_when_there_is_no_metax_then_nothing_is_said_and_nothing_loaded(
    name: str,
) -> None:
    library = FakeMxSml(*C500)
    assert detect(name, library=library) == Detection(family="metax")


def test_detect_when_nvidia_is_there_too_then_each_finds_its_own() -> None:
    host = nvidia_machine("metax_nvidia")

    (metax,), (nvidia,) = (
        family.detect(host).devices for family in (Metax(), Nvidia())
    )

    assert (metax.pci, metax.type) == ("0000:38:00.0", "MXC500")
    assert (nvidia.pci, nvidia.type) == ("0000:17:00.0", "A100")


def test_detect_when_cards_were_not_passed_in_then_they_are_rejected() -> None:
    found = detect("metax_container")

    assert ids(found) == [("0", "0000:34:00.0")]
    lost = {name: why.partition(";")[0] for name, why in why_not(found).items()}
    assert lost == {
        "/dev/dri/renderD128": "there is no /dev/dri/renderD128 here",
        "/dev/dri/renderD130": "no permission to read and write /dev/dri/renderD130",
    }


def test_detect_when_the_control_file_may_not_be_opened_then_says_so() -> None:
    found = detect("metax_no_permission")

    assert found.devices == ()
    why = "no permission to read and write /dev/mxcd; join the group of that file"
    assert why_not(found) == {"/dev/dri/renderD128": why}
    assert found.reason == f"/dev/dri/renderD128: {why}"


def test_detect_when_sysfs_is_hidden_then_the_library_lists_the_cards() -> None:
    host = RecordedHost(
        devices={"/dev/mxcd": True},
        sdks={"pymxsml.mxsml_extension": FakeMxSml(*C500)},
    )
    assert ids(Metax().detect(host)) == [("0", C500[0]), ("1", C500[1])]


def test_detect_when_only_the_control_file_is_there_then_says_what_is_missing() -> None:
    found = Metax().detect(RecordedHost(devices={"/dev/mxcd": True}))
    assert found.devices == ()
    assert found.reason.startswith("/dev/mxcd leads to no card: No module named")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({CUDA: "1"}, ["1"]),
        ({MACA: "1,0"}, ["1", "0"]),
        ({CUDA: "1", MACA: "1"}, ["1"]),
        ({CUDA: ""}, []),
        ({CUDA: "NoDevFiles"}, []),
        ({CUDA: "-1"}, []),
        ({CUDA: "0,0"}, []),
        ({CUDA: "0", MACA: "1"}, []),
    ],
)
def test_detect_when_the_owner_has_masks_then_both_are_kept(
    environ: Mapping[str, str], expected: list[str]
) -> None:
    found = detect("metax_c500", environ=environ)

    assert [device.id for device in found.devices] == expected
    assert found.outer == tuple(expected)
    assert bool(found.reason) is not bool(expected)


def test_detect_when_masks_disagree_then_the_reason_names_both() -> None:
    found = detect("metax_c500", environ={CUDA: "0", MACA: "1"})
    assert found.reason == f"{CUDA}='0' and {MACA}='1' disagree: set one"


def test_environment_when_devices_are_held_then_one_mask_with_its_order() -> None:
    devices = detect("metax_c500").devices
    assert Metax().environment(devices[1:], {MACA: "0,1"}, devices) == {
        CUDA: "1",
        MACA: None,
        ORDER: "PCI_BUS_ID",
    }


def test_environment_when_the_owner_ordered_its_mask_then_its_words_are_kept() -> None:
    environ = {CUDA: "0,1", ORDER: "FASTEST_FIRST"}
    devices = detect("metax_c500", environ=environ).devices
    assert Metax().environment(devices[:1], environ, devices) == {CUDA: "0", MACA: None}


def test_environment_when_nothing_is_held_then_both_masks_are_empty() -> None:
    devices = detect("metax_c500").devices
    assert Metax().environment((), {}, devices) == {CUDA: "", MACA: ""}
