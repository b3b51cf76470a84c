"""Mobilint's cards are the numbered files, and not what lies beside them."""

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
from actorlib.accelerators.mobilint import Mobilint

MASK = "QBRUNTIME_VISIBLE_DEVICES"


def detect(name: str, **environ: str) -> Detection:
    return Mobilint().detect(RecordedHost.load(name, environ=environ))


def test_detect_when_there_are_aries_then_those_that_open_are_offered() -> None:
    found = detect("mobilint")

    assert [card.id for card in found.devices] == ["0", "2"]
    assert found.devices[1] == Device(
        family="mobilint",
        kind="MBLT",
        index=1,
        id="2",
        model="Mobilint ARIES",
        type="MOBILINT_ARIES",
        source="/dev/aries2",
    )
    assert [(item.name, item.why) for item in found.rejected] == [
        (
            "/dev/aries1",
            "no permission to read and write /dev/aries1; join the group of that file",
        )
    ]
    assert found.reason == ""


def test_detect_when_there_is_a_regulus_then_the_files_beside_it_are_no_cards() -> None:
    found = detect("mobilint_regulus")

    (card,) = found.devices
    assert (card.id, card.type) == ("0", "MOBILINT_REGULUS")
    assert card.source == "/dev/regulus-npu"


def test_detect_when_both_are_there_then_no_number_is_there_twice() -> None:
    found = detect("mobilint_both")

    assert [(card.id, card.type) for card in found.devices] == [
        ("0", "MOBILINT_ARIES"),
        ("1", "MOBILINT_REGULUS"),
    ]
    assert [(item.name, item.why) for item in found.rejected] == [
        ("/dev/regulus-npu0", "another card has the number 0")
    ]


@pytest.mark.parametrize("path", ["/dev/aries0", "/dev/regulus-npu"])
def test_detect_when_nothing_may_be_opened_then_says_which_and_why(path: str) -> None:
    found = Mobilint().detect(RecordedHost(devices={path: False}))

    assert found.devices == ()
    assert found.reason.startswith(f"no permission to read and write {path};")


def test_detect_when_there_is_no_trace_then_there_is_no_reason() -> None:
    assert detect("bare") == Detection(family="mobilint")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("2,0", ["2", "0"]), ("2", ["2"]), ("", []), ("NoDevFiles", []), ("-1", [])],
)
def test_detect_when_the_owner_has_a_mask_then_its_order_holds(
    value: str, expected: list[str]
) -> None:
    found = detect("mobilint", **{MASK: value})

    assert [card.id for card in found.devices] == expected
    assert found.outer == tuple(expected)


def test_environment_when_cards_are_held_then_the_runtime_is_shown_them() -> None:
    mobilint = Mobilint()
    known = inventory(
        discover(RecordedHost.load("mobilint"), [mobilint]), {}, [mobilint]
    )
    lease = Lease(amounts={}, shares=(Share(known.devices["MBLT"][1], 10_000),))

    assert environment(lease, known, hide=True, environ={}) == {MASK: "2"}
    assert environment(Lease(amounts={}), known, hide=True, environ={}) == {MASK: ""}


@pytest.mark.parametrize("name", ["MBLT_RT_VISIBLE_DEVICES", MASK])
def test_environment_when_ray_is_told_to_leave_it_then_it_is_left(name: str) -> None:
    mobilint = Mobilint()
    known = inventory(
        discover(RecordedHost.load("mobilint"), [mobilint]), {}, [mobilint]
    )
    environ = {f"RAY_EXPERIMENTAL_NOSET_{name}": "true"}
    assert environment(Lease(amounts={}), known, hide=True, environ=environ) == {}
