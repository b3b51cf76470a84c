"""What sysfs says of a PCI device, or does not say."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators.pci import Pci, read_pci


def test_read_pci_when_the_folder_is_a_link_then_the_address_is_its_target() -> None:
    folder = "/sys/class/accel/accel0/device"
    host = RecordedHost(
        links={folder: "/sys/devices/pci0000:00/0000:3b:00.0"},
        files={f"{folder}/vendor": "0x1AE0\n", f"{folder}/device": "0x005e\n"},
    )

    assert read_pci(host, folder) == Pci(
        vendor="0x1ae0", device="0x005e", subsystem="", address="0000:3b:00.0"
    )


def test_read_pci_when_nothing_can_be_read_then_all_is_unknown() -> None:
    pci = read_pci(RecordedHost(), "/sys/class/accel/accel0/device")
    assert pci == Pci(vendor="", device="", subsystem="", address=None)
    assert pci.maker == ""


@pytest.mark.parametrize(
    ("vendor", "maker"), [("0x10de", "NVIDIA"), ("0xbeef", "PCI vendor 0xbeef")]
)
def test_maker_when_the_vendor_is_read_then_it_can_be_told(
    vendor: str, maker: str
) -> None:
    assert Pci(vendor=vendor, device="", subsystem="", address=None).maker == maker
