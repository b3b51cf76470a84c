"""The decisions about replicas: how many, who gets a key, when to call again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._api.replica_limits import CallRate
from actorlib._api.replica_routing import KeyTable, digest_of, rank_first
from actorlib._api.replica_scaling import (
    Decision,
    ReplicaLoad,
    Scaler,
    ScalingLimits,
    WaitMeter,
    scaling_limits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMITS = ScalingLimits(least=1, most=8, target_wait=0.1, idle=30.0)
LOOK = LIMITS.interval


def replica(
    pending: int, wait: float = 0.0, *, accepts: bool = True, starts: bool = False
) -> ReplicaLoad:
    return ReplicaLoad(pending, wait, accepts, starts)


# How many.


@pytest.mark.parametrize(
    ("loads", "concurrency", "size"),
    [
        ([replica(5, 0.1)], 1, 1),  # it has not waited for longer
        ([replica(2, 0.2)], 1, 2),
        ([replica(9, 0.2)], 1, 2),  # at most twice as many
        ([replica(2, 0.2), replica(1), replica(1)], 1, 4),  # one call waits
        ([replica(5, 0.2), replica(5)], 1, 4),
        ([replica(40, 0.2)], 16, 2),
        ([replica(5, 0.2)] * 6, 1, 8),  # no more than the most
        ([replica(5, 9.0)] * 8, 1, 8),
        ([replica(5, 9.0), replica(0)], 1, 2),  # one is idle: a key, or bad luck
        ([replica(5, 9.0), replica(9)], 10, 2),
        ([replica(5, 9.0), replica(0, starts=True, accepts=False)], 1, 2),
        ([replica(5, 9.0, accepts=False)], 1, 1),  # it is being restarted
        ([], 1, 0),  # the next is being made
    ],
)
def test_number_when_calls_have_waited_then_it_grows_as_they_need(
    loads: Sequence[ReplicaLoad], concurrency: int, size: int
) -> None:
    assert Scaler(LIMITS).decide(100.0, loads, concurrency).size == size


def test_number_when_calls_get_fewer_then_it_shrinks_to_what_was_needed() -> None:
    scaler = Scaler(LIMITS)

    def look(now: float, *pending: int) -> Decision:
        return scaler.decide(now, [replica(each) for each in pending], 1)

    assert look(0, 2, 2, 1, 1) == (4, LOOK)
    assert look(10, 1, 1, 1, 0) == (4, LOOK)
    assert look(20, 1, 0, 0, 0) == (4, LOOK)
    # The six calls of 0 are 30 s ago, the three of 10 are not.
    assert look(30, 1, 0, 0, 0) == (3, LOOK)
    assert look(31, 0, 0, 0) == (3, 9.0)
    assert look(40, 0, 0, 0) == (1, None)
    assert look(41, 0) == (1, None)


def test_number_when_it_has_just_grown_then_it_stays_for_the_idle_time() -> None:
    scaler = Scaler(LIMITS)

    assert scaler.decide(0, [replica(0)], 1) == (1, None)
    assert scaler.decide(100, [replica(0)] * 3, 1) == (3, 30.0)  # by scale()
    assert scaler.decide(129, [replica(1)] * 2 + [replica(0)], 1) == (3, LOOK)
    assert scaler.decide(130, [replica(1)] * 2 + [replica(0)], 1) == (2, LOOK)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((None, None, None, None, None), "needs a number of replicas: n, or max="),
        ((None, 2, None, None, None), "max= is missing"),
        ((2, None, 4, None, None), r"n=2 is a fixed number of replicas, and max=4"),
        ((2, None, None, None, 5), "idle=5 is for a changing one"),
        ((None, 0, 4, None, None), "min takes a whole number >= 1, not 0"),
        ((None, 5, 4, None, None), r"max takes a whole number >= min=5, not 4"),
        ((None, 1, 4, 0, None), "target_wait takes a finite number of seconds > 0"),
        ((None, 1, 4, None, 0), "idle takes a finite number of seconds > 0"),
        ((-1, None, None, None, None), "n takes a whole number >= 0"),
        ((None, 1, 2.0, None, None), "max takes a whole number"),
    ],
)
def test_limits_when_they_make_no_sense_then_refused_by_name(
    options: Any, error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        scaling_limits(*options)


def test_limits_when_left_out_then_the_defaults() -> None:
    assert scaling_limits(0, None, None, None, None) is None
    limits = scaling_limits(None, None, 4, None, None)
    assert limits == ScalingLimits(least=1, most=4, target_wait=0.1, idle=30.0)


# For how long a call waits.


def test_wait_when_calls_go_on_then_only_the_oldest_that_has_not_begun_counts() -> None:
    meter = WaitMeter()

    assert meter.measure(0.0, oldest=0, last=3) == 0
    assert meter.measure(1.0, oldest=5, last=6) == 0  # made after the last look
    assert meter.measure(1.5, oldest=6, last=9) == 0.5
    assert meter.measure(2.0, oldest=6, last=9) == 1.0
    assert meter.measure(2.5, oldest=8, last=9) == 1.0  # the look at 1.5 saw it
    assert meter.measure(3.0, oldest=0, last=9) == 0
    assert meter.measure(3.5, oldest=10, last=10) == 0


def test_wait_when_a_call_waits_for_hours_then_little_is_remembered() -> None:
    meter = WaitMeter()
    waits = [meter.measure(now, oldest=1, last=now + 1) for now in range(10_000)]

    assert waits == [*range(10_000)]
    assert len(meter._marks) < 100


def test_wait_when_earlier_calls_are_forgotten_then_later_ones_count() -> None:
    meter = WaitMeter()
    meter.measure(0.0, oldest=2, last=5)
    assert meter.measure(1.0, oldest=2, last=5) == 1.0
    meter.forget()

    assert meter.measure(1.5, oldest=3, last=5) == 0
    assert meter.measure(2.0, oldest=3, last=8) == 0
    assert meter.measure(2.5, oldest=3, last=9) == 0.5  # the sixth waits, too
    assert meter.measure(3.0, oldest=7, last=9) == 1.0


# Who gets a key.


@pytest.mark.parametrize("key", ["user 7", "", b"\x00", 0, -7, 2**100, "\ud800"])
def test_digest_when_of_a_key_then_always_the_same(key: object) -> None:
    assert digest_of(key) == digest_of(key)


def test_digest_when_of_different_types_then_different() -> None:
    assert len({digest_of(key) for key in ("1", b"1", 1, "s1", -1)}) == 5
    # A change of the digest would move all keys.
    assert digest_of("user 7").hex() == "abe97f93a181cca176433f558d8a1b5c"


@pytest.mark.parametrize("key", [1.5, True, ("a",), object()])
def test_digest_when_of_anything_else_then_refused(key: object) -> None:
    with pytest.raises(TypeError, match="key takes a str, bytes or an int"):
        digest_of(key)


def test_slots_when_one_is_added_or_removed_then_few_keys_move() -> None:
    keys = [digest_of(number) for number in range(4000)]
    of_four = {key: rank_first(key, range(4)) for key in keys}
    of_five = {key: rank_first(key, range(5)) for key in keys}
    without_two = {key: rank_first(key, (0, 1, 3)) for key in keys}

    assert all(800 < count < 1200 for count in Counter(of_four.values()).values())
    moved = {key for key in keys if of_four[key] != of_five[key]}
    assert {of_five[key] for key in moved} == {4}
    assert 600 < len(moved) < 1000
    assert {key for key in keys if of_four[key] != without_two[key]} == {
        key for key in keys if of_four[key] == 2
    }


def test_keys_when_slots_change_then_recent_ones_stay() -> None:
    table = KeyTable(most=100)
    keys = [digest_of(number) for number in range(100)]
    before = [table.choose(key, range(2), range(2)) for key in keys]

    assert [table.choose(key, range(4), range(4)) for key in keys] == before
    # Slot 1 is gone: its keys get another one, and stay there when it is back.
    without = [table.choose(key, (0, 2, 3), (0, 2, 3)) for key in keys]
    assert [b for a, b in zip(before, without, strict=True) if a == 0] == [
        0 for slot in before if slot == 0
    ]
    assert [table.choose(key, range(4), range(4)) for key in keys] == without

    table.choose(digest_of("new"), range(4), range(4))
    assert len(table) == 100
    assert table.choose(keys[0], (), ()) is None


# When to call again.


def test_retry_when_nothing_has_ended_then_a_second() -> None:
    rate = CallRate()
    rate.sample(0.0, 0)
    assert rate.time_for(10, 5.0, 0) == 1.0


def test_retry_when_calls_have_ended_then_by_the_recent_ones() -> None:
    rate = CallRate()
    for tenths in range(0, 100, 4):
        rate.sample(tenths / 10, ended=tenths * 2)  # 20 a second
    assert rate.time_for(10, 10.0, 200) == pytest.approx(0.5)
    # An hour later, without a call between, the pause does not count.
    assert rate.time_for(10, 3600.0, 200) == pytest.approx(0.5)
    rate.sample(3600.0, 200)
    assert rate.time_for(10, 3601.0, 205) == pytest.approx(2.0)
    assert rate.time_for(10_000, 3601.0, 205) == 300.0


def test_sample_when_one_is_recent_then_none_is_due() -> None:
    rate = CallRate()
    assert rate.due <= 0.0
    rate.sample(1.0, 0)
    assert rate.due == 1.25
