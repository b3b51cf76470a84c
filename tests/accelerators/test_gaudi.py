"""Intel's Gaudi: named by their modules, in whatever order the cards came up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators.gaudi import Gaudi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib.accelerators.base import Detection

MASK = "HABANA_VISIBLE_MODULES"


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Gaudi().detect(RecordedHost.load(name, environ=environ))


@pytest.mark.parametrize("name", [None, "laptop_npu", "tpu_v4"])
def test_detect_when_there_is_no_gaudi_then_there_is_nothing_to_say(
    name: str | None,
) -> None:
    host = RecordedHost() if name is None else RecordedHost.load(name)
    found = Gaudi().detect(host)
    assert (found.devices, found.rejected, found.reason) == ((), (), "")


def test_detect_when_the_driver_tells_modules_then_cards_stand_in_their_order() -> None:
    found = detect("gaudi2")

    assert [card.id for card in found.devices] == [str(n) for n in range(8)]
    assert [card.index for card in found.devices] == list(range(8))
    assert found.reason == ""
    first, *_, last = found.devices
    assert (first.source, first.pci) == ("/dev/accel/accel4", "0000:44:00.0")
    assert (last.source, last.pci) == ("/dev/accel/accel1", "0000:b3:00.0")
    assert {(card.model, card.type) for card in found.devices} == {
        ("Intel GAUDI2", "Intel-GAUDI2")
    }


def test_detect_when_the_driver_tells_no_modules_then_numbers_do_and_it_is_said() -> (
    None
):
    found = detect("gaudi_older_driver")

    assert [(card.id, card.source, card.pci) for card in found.devices] == [
        ("0", "/dev/hl0", "0000:33:00.0"),
        ("1", "/dev/hl1", "0000:34:00.0"),
    ]
    assert {card.type for card in found.devices} == {"Intel-GAUDI"}
    assert "no module ids" in found.reason


def test_detect_when_other_cards_are_there_then_only_gaudis_that_open_are_left() -> (
    None
):
    found = detect("gaudi3_mixed")

    assert [(card.id, card.source) for card in found.devices] == [
        ("0", "/dev/accel/accel2"),
        ("1", "/dev/accel/accel1"),
    ]
    assert {card.type for card in found.devices} == {"Intel-GAUDI3"}
    assert [(lost.name, lost.model) for lost in found.rejected] == [
        ("/dev/accel/accel3", "Intel GAUDI3"),
        ("/dev/accel/accel4", None),
    ]
    assert found.reason == ""


def test_detect_when_no_card_may_be_opened_then_says_so() -> None:
    sysfs = "/sys/class/accel/accel0/device"
    host = RecordedHost(
        devices={"/dev/accel/accel0": False},
        links={f"{sysfs}/driver": "/sys/bus/pci/drivers/habanalabs"},
    )
    found = Gaudi().detect(host)
    assert found.devices == ()
    assert found.reason.startswith("no permission to read and write /dev/accel/accel0")


def test_detect_when_one_card_lacks_a_module_then_all_go_by_number() -> None:
    sysfs = "/sys/class/accel/accel{}/device"
    host = RecordedHost(
        devices={f"/dev/accel/accel{n}": True for n in range(2)},
        files={
            f"{sysfs.format(0)}/vendor": "0x1da3\n",
            f"{sysfs.format(0)}/module_id": "1\n",
            f"{sysfs.format(1)}/vendor": "0x1da3\n",
        },
    )
    assert [card.id for card in Gaudi().detect(host).devices] == ["0", "1"]


def test_detect_when_two_cards_tell_one_module_then_all_go_by_number() -> None:
    sysfs = "/sys/class/accel/accel{}/device"
    host = RecordedHost(
        devices={f"/dev/accel/accel{n}": True for n in range(2)},
        files={
            f"{sysfs.format(n)}/{name}": text
            for n in range(2)
            for name, text in (("vendor", "0x1da3\n"), ("module_id", "7\n"))
        },
    )
    assert [card.id for card in Gaudi().detect(host).devices] == ["0", "1"]


def test_detect_when_files_of_older_drivers_are_left_then_no_card_is_there_twice() -> (
    None
):
    host = RecordedHost(
        devices={"/dev/accel/accel0": True, "/dev/hl0": True},
        files={"/sys/class/accel/accel0/device/vendor": "0x1da3\n"},
    )
    (card,) = Gaudi().detect(host).devices
    assert card.source == "/dev/accel/accel0"


def test_detect_when_the_owner_has_a_mask_then_it_names_modules() -> None:
    found = detect("gaudi2", {MASK: "5,3"})

    assert [(card.id, card.source) for card in found.devices] == [
        ("5", "/dev/accel/accel0"),
        ("3", "/dev/accel/accel2"),
    ]
    assert found.outer == ("5", "3")


@pytest.mark.parametrize("value", ["", "NoDevFiles", "-1"])
def test_detect_when_the_mask_hides_all_then_says_so(value: str) -> None:
    found = detect("gaudi2", {MASK: value})
    assert found.devices == ()
    assert found.reason == f"{MASK}={value!r} hides every device"


def test_environment_when_cards_are_held_then_their_modules_are_listed() -> None:
    every = detect("gaudi2").devices
    environ = {"HLS_MODULE_ID": "7", "HABANA_VISIBLE_DEVICES": "all"}
    changes = Gaudi().environment(every[2:4], environ, every)
    assert changes == {MASK: "2,3", "HLS_MODULE_ID": None}


def test_environment_when_there_are_no_cards_then_all_are_hidden() -> None:
    changes = Gaudi().environment((), {}, detect("gaudi2").devices)
    assert changes == {MASK: "", "HLS_MODULE_ID": None}
