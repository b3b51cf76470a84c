"""Rebellions' cards are counted by place, and both names of the mask are written."""

from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators import (
    Detection,
    Device,
    Lease,
    Share,
    discover,
    environment,
    inventory,
)
from actorlib.accelerators.rbln import Rbln

MASK, ALIAS = "RBLN_DEVICES", "RBLN_VISIBLE_DEVICES"
NOWHERE = "99999"


def detect(name: str, **environ: str) -> Detection:
    return Rbln().detect(RecordedHost.load(name, environ=environ))


def ids(found: Detection) -> list[str]:
    return [card.id for card in found.devices]


def test_detect_when_there_are_cards_then_they_are_in_the_order_of_their_numbers() -> (
    None
):
    found = detect("rbln")

    assert ids(found) == [str(number) for number in range(12)]
    assert found.devices[2] == Device(
        family="rbln",
        kind="RBLN",
        index=2,
        id="2",
        pci="0000:ad:00.0",
        model="RBLN-CA22",
        type="RBLN-CA22",
        memory=16_877_879_296,
        source="/dev/rbln2",
    )
    assert (found.outer, found.reason, found.rejected) == (None, "", ())


def test_detect_when_a_container_has_some_cards_then_ids_count_what_is_here() -> None:
    found = detect("rbln_container")

    assert [(card.id, card.source) for card in found.devices] == [
        ("0", "/dev/rbln4"),
        ("1", "/dev/rbln5"),
        ("2", "/dev/rbln6"),
    ]
    assert [(item.name, item.why) for item in found.rejected[:2]] == [
        (
            "/dev/rbln7",
            "no permission to read and write /dev/rbln7; join the group of that file",
        ),
        (
            "/sys/class/rebellions/rbln0",
            "there is no /dev/rbln0 here; give it to the container",
        ),
    ]
    assert len(found.rejected) == 5
    assert found.reason == ""


def test_detect_when_no_card_may_be_opened_then_says_which_and_why() -> None:
    found = Rbln().detect(RecordedHost(devices={"/dev/rbln0": False}))

    assert found.devices == ()
    assert found.reason.startswith("no permission to read and write /dev/rbln0;")


def test_detect_when_sysfs_tells_nothing_then_the_card_is_there_all_the_same() -> None:
    (card,) = Rbln().detect(RecordedHost(devices={"/dev/rbln0": True})).devices
    assert (card.id, card.pci, card.model, card.memory) == ("0", None, None, None)


@pytest.mark.parametrize(
    "host", [RecordedHost.load("bare"), RecordedHost(devices={"/dev/rblnfs0": True})]
)
def test_detect_when_there_is_no_trace_then_there_is_no_reason(
    host: RecordedHost,
) -> None:
    assert Rbln().detect(host) == Detection(family="rbln")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({MASK: "3,1"}, ["3", "1"]),
        ({ALIAS: "3,1"}, ["3", "1"]),
        ({MASK: "2", ALIAS: "3"}, ["2"]),
        ({MASK: "", ALIAS: "3"}, []),
        ({MASK: "NoDevFiles"}, []),
        ({MASK: "-1"}, []),
        ({ALIAS: "-1"}, []),
        ({MASK: NOWHERE}, []),
    ],
)
def test_detect_when_the_owner_has_a_mask_then_the_older_name_goes_first(
    environ: dict[str, str], expected: list[str]
) -> None:
    found = detect("rbln", **environ)

    assert ids(found) == expected
    assert found.outer == tuple(expected)
    assert [card.index for card in found.devices] == list(range(len(expected)))


@pytest.mark.parametrize("value", ["", "all"])
def test_detect_when_a_container_toolkit_wrote_the_newer_name_then_nothing_is_hidden(
    value: str,
) -> None:
    found = detect("rbln", **{ALIAS: value})
    assert (len(found.devices), found.outer) == (12, None)


def test_detect_when_the_mask_names_a_missing_card_then_it_ends_there() -> None:
    found = detect("rbln", **{ALIAS: "1,12,0"})

    assert ids(found) == ["1"]
    assert found.reason == (
        f"{ALIAS}='1,12,0' ends before '12': there is no such device"
    )


def test_environment_when_a_card_is_held_then_both_names_show_it() -> None:
    rbln = Rbln()
    known = inventory(discover(RecordedHost.load("rbln"), [rbln]), {}, [rbln])
    lease = Lease(amounts={}, shares=(Share(known.devices["RBLN"][4], 10_000),))

    changes = environment(lease, known, hide=True, environ={ALIAS: "0,1"})

    assert changes == {MASK: "4", ALIAS: "4"}


def test_environment_when_nothing_is_held_then_the_mask_leads_nowhere() -> None:
    found = detect("rbln", **{MASK: NOWHERE})
    assert Rbln().environment((), {}, ()) == {MASK: NOWHERE, ALIAS: NOWHERE}
    assert found.devices == ()


@pytest.mark.parametrize(
    "switch",
    [
        "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_RBLN_DEVICES",
    ],
)
def test_environment_when_ray_is_told_to_leave_it_then_it_is_left(switch: str) -> None:
    rbln = Rbln()
    known = inventory(discover(RecordedHost.load("rbln"), [rbln]), {}, [rbln])
    lease = Lease(amounts={})
    assert environment(lease, known, hide=True, environ={switch: "1"}) == {}
