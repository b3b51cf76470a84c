"""FuriosaAI's cards are granted whole, and named npu: and a number."""

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
from actorlib.accelerators.furiosa import Furiosa

MASK = "FURIOSA_DEVICES"


def detect(name: str, **environ: str) -> Detection:
    return Furiosa().detect(RecordedHost.load(name, environ=environ))


def ids(found: Detection) -> list[str]:
    return [card.id for card in found.devices]


def test_detect_when_there_are_cards_then_their_elements_are_not_counted() -> None:
    found = detect("furiosa")

    assert ids(found) == ["0", "1", "2", "3"]
    assert found.devices[1] == Device(
        family="furiosa",
        kind="FURIOSA",
        index=1,
        id="1",
        uuid="77e1d2b4-90aa-4f6e-b7c5-19f0c3d2ab11",
        pci="0000:04:00.0",
        model="FuriosaAI RNGD",
        type="FURIOSA_RNGD",
        source="/dev/rngd/npu1pe*",
    )
    assert (found.outer, found.reason, found.rejected) == (None, "", ())


def test_detect_when_a_container_shares_cards_then_each_is_judged_by_its_elements() -> (
    None
):
    found = detect("furiosa_shared")

    (card,) = found.devices
    assert (card.id, card.uuid, card.pci) == ("0", None, None)
    (rejected,) = found.rejected
    assert rejected.name == "npu:1"
    assert rejected.why.startswith("no permission to read and write /dev/rngd/npu1pe0")


def test_detect_when_no_element_may_be_opened_then_says_why() -> None:
    found = Furiosa().detect(RecordedHost(devices={"/dev/rngd/npu0pe0": False}))
    assert found.reason.startswith("npu:0: no permission to read and write /dev/rngd/")


@pytest.mark.parametrize(
    "host",
    [
        RecordedHost.load("bare"),
        RecordedHost(devices={"/dev/rngd/npu0mgmt": True}),
        RecordedHost(files={"/dev/rngd/npu0pe0": "a file, and no device"}),
    ],
)
def test_detect_when_there_is_no_element_then_there_is_no_card(
    host: RecordedHost,
) -> None:
    assert Furiosa().detect(host) == Detection(family="furiosa")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("npu:0,npu:3", ["0", "3"]),
        ("npu:3,npu:0", ["3", "0"]),
        ("0,3", ["0", "3"]),
        ("npu:0, 3", ["0", "3"]),
        ("npu:1,", ["1"]),
    ],
)
def test_detect_when_the_mask_names_cards_then_only_they_are_offered(
    value: str, expected: list[str]
) -> None:
    found = detect("furiosa", **{MASK: value})

    assert ids(found) == expected
    assert found.outer == tuple(expected)
    assert found.reason == ""
    assert {item.why for item in found.rejected} == {f"hidden by {MASK}={value!r}"}


@pytest.mark.parametrize("value", ["npu:0:0-3", "npu:0:0", "npu:0:*", "0:4-7"])
def test_detect_when_the_mask_names_elements_then_the_card_counts_and_it_is_told(
    value: str,
) -> None:
    found = detect("furiosa", **{MASK: value})

    assert ids(found) == ["0"]
    assert found.reason == f"{value} is read as all of its card, as no less is granted"


def test_detect_when_two_parts_are_of_one_card_then_it_counts_once() -> None:
    found = detect("furiosa", **{MASK: "npu:0:0-3,npu:0:4-7,npu:1"})

    assert ids(found) == ["0", "1"]
    assert "names '0' twice, which counts once" in found.reason


@pytest.mark.parametrize("value", ["", "NoDevFiles", "-1", "warboy(2)*1", "npu0"])
def test_detect_when_the_mask_names_nothing_then_all_is_hidden(value: str) -> None:
    found = detect("furiosa", **{MASK: value})

    assert (found.devices, found.outer) == ((), ())
    assert found.reason == f"{MASK}={value!r} hides every device"


@pytest.mark.parametrize(("environ", "told"), [({}, [3]), ({MASK: "npu:3"}, ["3"])])
def test_lease_when_it_holds_a_card_then_the_mask_says_npu(
    environ: dict[str, str], told: list[int | str]
) -> None:
    furiosa = Furiosa()
    host = RecordedHost.load("furiosa", environ=environ)
    known = inventory(discover(host, [furiosa]), {}, [furiosa])
    lease = Lease(amounts={}, shares=(Share(known.devices["FURIOSA"][-1], 10_000),))

    assert environment(lease, known, hide=True, environ={}) == {MASK: "npu:3"}
    assert accelerator_ids(lease, known) == {"FURIOSA": told}
    assert environment(Lease(amounts={}), known, hide=True, environ={}) == {MASK: ""}


def test_declared_when_there_is_no_card_then_the_mask_says_npu_all_the_same() -> None:
    furiosa = Furiosa()
    found = discover(RecordedHost.load("bare"), [furiosa])
    known = inventory(found, {"FURIOSA": 2}, [furiosa])
    lease = Lease(amounts={}, shares=(Share(known.devices["FURIOSA"][1], 10_000),))
    assert environment(lease, known, hide=True, environ={}) == {MASK: "npu:1"}


def test_inventory_when_uuids_are_wanted_then_refuses() -> None:
    furiosa = Furiosa()
    found = discover(RecordedHost.load("furiosa"), [furiosa])
    with pytest.raises(ValueError, match=f"{MASK} takes no UUIDs"):
        inventory(found, {}, [furiosa], "uuid")
