"""What makes a share hold is the strongest that was asked and can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.tiers import all_tiers, chosen, why_not
from hypothesis import given
from hypothesis import strategies as st

from actorlib._features.runtime import TIERS
from actorlib._options.kinds import UNITS
from actorlib._options.shares import ENFORCEMENTS
from actorlib.accelerators import Device, Share
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from actorlib._enforcement.tiers import Tier

GIB = 2**30
EVERYTHING = all_tiers()
NOTHING = all_tiers(unlisted="no list", mps="no daemon", cgroup="an old driver")


def gpu(
    family: str = "nvidia", memory: int | None = 80 * GIB, **said: object
) -> Device:
    return Device(
        family=family,
        kind="GPU",
        index=0,
        id="0",
        memory=memory,
        **{"uuid": "GPU-0", **said},  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # as a test says
    )


def half(device: Device | None = None) -> Share:
    return Share(device or gpu(), UNITS // 2)


def test_words_when_listed_then_they_are_those_that_users_write() -> None:
    assert list(ENFORCEMENTS) == ["auto", "off", *TIERS]
    assert list(TIERS) == [tier.word for tier in EVERYTHING]


BY_NAME = "to be had by name alone, as it changes how programs run"


@pytest.mark.parametrize(
    ("family", "tiers", "word", "why"),
    [
        ("nvidia", EVERYTHING, "watchdog", f"mps, cgroup: {BY_NAME}"),
        (
            "nvidia",
            all_tiers(unlisted="no list"),
            "frameworks",
            f"watchdog: no list; mps, cgroup: {BY_NAME}",
        ),
        (
            "foo",
            NOTHING,
            "off",
            "frameworks: no framework is known that takes a limit for foo devices; "
            "watchdog, mps, cgroup: GPU 0 is not an NVIDIA device",
        ),
    ],
)
def test_auto_when_tiers_are_there_then_the_strongest_is_chosen_and_it_says_why(
    family: str, tiers: list[Tier], word: str, why: str
) -> None:
    choice = chosen("auto", half(gpu(family)), tiers)

    assert (choice.tier.word, choice.not_stronger_because) == (word, why)


def test_off_when_asked_then_nothing_is_done() -> None:
    assert chosen("off", half(), EVERYTHING).tier.word == "off"


@pytest.mark.parametrize("word", ENFORCEMENTS)
def test_whole_device_when_held_then_nothing_is_needed(word: str) -> None:
    assert chosen(word, Share(gpu(), UNITS), NOTHING).tier.word == "off"


@pytest.mark.parametrize("word", ["frameworks", "watchdog", "mps", "cgroup"])
def test_tier_when_named_and_there_then_it_is_chosen(word: str) -> None:
    choice = chosen(word, half(), EVERYTHING)

    assert choice.tier.word == word
    assert (choice.not_stronger_because == "") == (word == "cgroup")


PART, NAMELESS = gpu(parent="GPU-1"), gpu(uuid=None)


@pytest.mark.parametrize(
    ("word", "device", "tiers", "why"),
    [
        ("watchdog", gpu(), NOTHING, "no list"),
        ("mps", gpu(), NOTHING, "no daemon"),
        ("cgroup", gpu(), NOTHING, "an old driver"),
        ("watchdog", gpu("amd"), EVERYTHING, "GPU 0 is not an NVIDIA device"),
        ("watchdog", gpu(logical=True), EVERYTHING, "GPU 0 was declared, not found"),
        ("watchdog", gpu(memory=None), EVERYTHING, "the memory of GPU 0 is unknown"),
        ("mps", PART, EVERYTHING, "GPU 0 is a part of a card"),
        ("cgroup", PART, EVERYTHING, "GPU 0 is a part of a card"),
        ("mps", NAMELESS, EVERYTHING, "the UUID of GPU 0 is unknown"),
        ("cgroup", NAMELESS, EVERYTHING, "the UUID of GPU 0 is unknown"),
    ],
)
def test_tier_when_named_and_not_there_then_it_is_refused_with_the_reason(
    word: str, device: Device, tiers: list[Tier], why: str
) -> None:
    with pytest.raises(EnforcementRefused, match=why):
        chosen(word, half(device), tiers)


reasons = st.sampled_from(["", "because"])


@given(
    asked=st.sampled_from(ENFORCEMENTS),
    family=st.sampled_from(["nvidia", "amd", "intel", "foo"]),
    memory=st.sampled_from([None, 80 * GIB]),
    units=st.integers(1, UNITS),
    faults=st.fixed_dictionaries(
        {"unlisted": reasons, "mps": reasons, "cgroup": reasons}
    ),
)
def test_choice_when_made_then_it_can_be_had_and_says_why_nothing_stronger(
    asked: str,
    family: str,
    memory: int | None,
    units: int,
    faults: dict[str, str],
) -> None:
    share, tiers = Share(gpu(family, memory), units), all_tiers(**faults)
    whys = {tier.word: why for tier, why in why_not(share.device, tiers).items()}
    try:
        tier, because = chosen(asked, share, tiers)
    except EnforcementRefused:
        assert whys[asked]
        return

    assert tier.word == "off" or not whys[tier.word]
    assert tier.word in ("off", "frameworks", "watchdog", asked)
    assert bool(because) == (tier.word != "cgroup")
