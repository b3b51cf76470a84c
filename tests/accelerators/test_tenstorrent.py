"""Tenstorrent's chips are numbered files, and a mask may give their PCI addresses."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators import (
    Detection,
    Device,
    Lease,
    Share,
    accelerator_ids,
    discover,
    environment,
    inventory,
)
from actorlib.accelerators.tenstorrent import Tenstorrent

MASK, SECOND = "TT_VISIBLE_DEVICES", "TT_METAL_VISIBLE_DEVICES"


def detect(name: str, **environ: str) -> Detection:
    return Tenstorrent().detect(RecordedHost.load(name, environ=environ))


def ids(found: Detection) -> list[str]:
    return [chip.id for chip in found.devices]


def test_detect_when_there_are_chips_then_the_folder_beside_them_is_none() -> None:
    found = detect("tenstorrent")

    assert ids(found) == ["0", "1", "2", "3"]
    assert found.devices[2] == Device(
        family="tenstorrent",
        kind="TTNPU",
        index=2,
        id="2",
        pci="0000:81:00.0",
        model="Tenstorrent n300s",
        source="/dev/tenstorrent/2",
    )
    assert (found.outer, found.reason, found.rejected) == (None, "", ())


def test_detect_when_sysfs_tells_nothing_then_the_chips_are_there_by_number() -> None:
    host = RecordedHost(devices={f"/dev/tenstorrent/{i}": True for i in (10, 9)})

    found = Tenstorrent().detect(host)

    assert ids(found) == ["9", "10"]
    assert [(chip.pci, chip.model) for chip in found.devices] == [(None, None)] * 2


def test_detect_when_a_container_may_open_none_then_each_is_explained() -> None:
    found = detect("tenstorrent_container")

    assert found.devices == ()
    why = found.reason
    assert why.startswith("no permission to read and write /dev/tenstorrent/1;")
    assert [(item.name, item.why) for item in found.rejected] == [
        ("/dev/tenstorrent/1", why),
        (
            "/sys/class/tenstorrent/tenstorrent!0",
            "there is no /dev/tenstorrent/0 here; give it to the container",
        ),
    ]


def test_detect_when_there_is_no_trace_then_there_is_no_reason() -> None:
    assert detect("bare") == Detection(family="tenstorrent")


@pytest.mark.parametrize(
    ("value", "expected", "pci"),
    [
        ("2", ["2"], ["0000:81:00.0"]),
        ("0000:81:00.0", ["0000:81:00.0"], ["0000:81:00.0"]),
        ("81:00.0", ["81:00.0"], ["0000:81:00.0"]),
        (
            "3, 0000:01:00.0",
            ["3", "0000:01:00.0"],
            ["0000:c1:00.0", "0000:01:00.0"],
        ),
    ],
)
def test_detect_when_the_mask_names_chips_then_they_are_called_by_its_words(
    value: str, expected: list[str], pci: list[str]
) -> None:
    found = detect("tenstorrent", **{MASK: value})

    assert ids(found) == expected
    assert [chip.pci for chip in found.devices] == pci
    assert found.outer == tuple(expected)
    assert found.reason == ""


@pytest.mark.parametrize("value", ["", "NoDevFiles", "-1", "n300s"])
def test_detect_when_the_mask_names_nothing_then_all_is_hidden(value: str) -> None:
    found = detect("tenstorrent", **{MASK: value})

    assert (found.devices, found.outer) == ((), ())
    assert found.reason == f"{MASK}={value!r} hides every device"


@pytest.mark.parametrize("missing", ["4", "0000:99:00.0"])
def test_detect_when_the_mask_names_a_missing_chip_then_it_ends_there(
    missing: str,
) -> None:
    found = detect("tenstorrent", **{MASK: f"1,{missing},0"})

    assert ids(found) == ["1"]
    assert f"ends before {missing!r}: there is no such device" in found.reason


def test_detect_when_one_chip_is_named_twice_then_it_is_offered_once() -> None:
    found = detect("tenstorrent", **{MASK: "1,0000:41:00.0"})
    assert ids(found) == ["1"]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({SECOND: "1,2"}, ["1", "2"]),
        ({SECOND: ""}, []),
        ({MASK: "3", SECOND: "0"}, ["3"]),
        ({MASK: "", SECOND: "0"}, []),
    ],
)
def test_detect_when_tt_metals_list_is_set_then_it_counts_if_it_is_alone(
    environ: dict[str, str], expected: list[str]
) -> None:
    assert ids(detect("tenstorrent", **environ)) == expected


@pytest.mark.parametrize(
    ("environ", "changes", "told"),
    [
        ({}, {MASK: "1"}, [1]),
        ({MASK: "0,1"}, {MASK: "1"}, ["1"]),
        ({MASK: "0,41:00.0"}, {MASK: "41:00.0"}, ["41:00.0"]),
        ({SECOND: "0,1"}, {MASK: "1", SECOND: None}, ["1"]),
    ],
)
def test_lease_when_it_holds_a_chip_then_there_is_one_list_and_the_owners_word(
    environ: dict[str, str], changes: dict[str, str | None], told: list[int | str]
) -> None:
    family = Tenstorrent()
    host = RecordedHost.load("tenstorrent", environ=environ)
    known = inventory(discover(host, [family]), {}, [family])
    lease = Lease(amounts={}, shares=(Share(known.devices["TTNPU"][1], 10_000),))

    assert environment(lease, known, hide=True, environ=environ) == changes
    assert accelerator_ids(lease, known) == {"TTNPU": told}


def test_environment_when_nothing_is_held_then_the_list_is_empty() -> None:
    assert Tenstorrent().environment((), {SECOND: "0"}, ()) == {MASK: "", SECOND: None}


@pytest.mark.parametrize("name", ["TENSTORRENT_VISIBLE_DEVICES", "TT_VISIBLE_DEVICES"])
def test_environment_when_ray_is_told_to_leave_it_then_it_is_left(name: str) -> None:
    family = Tenstorrent()
    known = inventory(
        discover(RecordedHost.load("tenstorrent"), [family]), {}, [family]
    )
    environ = {f"RAY_EXPERIMENTAL_NOSET_{name}": "1"}
    assert environment(Lease(amounts={}), known, hide=True, environ=environ) == {}
