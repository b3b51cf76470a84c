"""What the page shows of what a runtime tells, and the rates of two looks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import device, info, status
from hypothesis import given
from hypothesis import strategies as st

from actorlib._queries.processes import Usage
from actorlib._web import looks
from actorlib._web.looks import (
    MOST_DEAD,
    PAGE,
    Count,
    Counts,
    Rates,
    count_calls,
    describe_status,
)

if TYPE_CHECKING:
    from helpers.goldens import Golden

    from actorlib._queries.rows import Status
    from actorlib._web.looks import Shown
    from actorlib.types import ActorInfo


def actor(number: int, **changed: Any) -> ActorInfo:
    known: dict[str, Any] = {
        "actor_id": f"{number:032x}",
        "name": f"m{number}",
        "pid": 100 + number,
        "device_nbytes": {"0": None},
        "device_memory": {},
        "made_calls": 10,
        "started_at": 1.0,
    }
    return info(**{**known, **changed})


def shown(status: Status, usages: dict[int, Usage] | None = None) -> Shown:
    rates = Rates()
    rates.add(count_calls(status, usages or {}, 1.0))
    return describe_status(status, usages or {}, rates, 1.0)


def rates_of(*looks: tuple[float, dict[str, Count]]) -> Rates:
    rates = Rates()
    for at, actors in looks:
        rates.add(Counts(at, actors))
    return rates


# Rates.


def test_rate_when_calls_were_made_between_two_looks_then_it_counts_those() -> None:
    rates = rates_of(
        (1.0, {"a": Count(100, 0, 1.0)}),
        (3.0, {"a": Count(110, 0, 2.0), "new": Count(4, 0, 0.1)}),
    )

    assert rates.calls("a") == 5.0
    assert rates.calls("new") == 2.0  # it was made since
    assert rates.calls("gone") is None
    assert rates.cpu("a") == 50.0
    assert rates.cpu("new") is None


@pytest.mark.parametrize(
    "counts",
    [
        [Count(100, 2, 1.0)],  # one look
        [Count(4, 4, None), Count(9, 9, None)],  # nothing is answered
        [Count(4, 0, None), Count(9, 0, None)],  # no look meets a call
    ],
)
def test_time_of_a_call_when_looks_do_not_tell_it_then_it_is_unknown(
    counts: list[Count],
) -> None:
    rates = rates_of(*((float(at), {"a": count}) for at, count in enumerate(counts)))

    assert rates.seconds_a_call(["a"]) is None
    assert rates.cpu("a") is None


def test_time_when_four_wait_and_two_are_answered_a_second_then_it_is_two_seconds() -> (
    None
):
    rates = rates_of(*((at, {"a": Count(4 + 2 * at, 4, None)}) for at in range(6)))

    assert rates.seconds_a_call(["a"]) == pytest.approx(2.0)


def test_rates_when_nobody_looked_for_long_then_they_begin_anew() -> None:
    rates = rates_of((1.0, {"a": Count(4, 4, None)}))

    assert rates.add(Counts(100.0, {"a": Count(900, 0, None)}))
    assert rates.calls("a") is None


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20),
            st.dictionaries(
                st.sampled_from("abc"),
                st.builds(
                    Count, st.integers(0, 99), st.integers(0, 99), st.floats(0, 9)
                ),
            ),
        ),
        max_size=13,
    )
)
def test_rates_when_looks_are_any_then_none_is_below_zero(
    looks: list[tuple[float, dict[str, Count]]],
) -> None:
    rates = rates_of(*looks)

    told = [f(a) for f in (rates.calls, rates.cpu) for a in "abc"]
    told.append(rates.seconds_a_call(["a", "b", "c"]))
    assert all(value is None or value >= 0 for value in told)


# What is shown.


def test_actors_when_many_are_dead_then_the_latest_are_shown_and_the_rest_counted() -> (
    None
):
    dead = [actor(n, state="dead", ended_at=float(n)) for n in range(MOST_DEAD + 5)]

    page = shown(status(*dead, actor(500)))

    assert len(page.actors) == MOST_DEAD + 1
    assert page.dead_left_out == 5
    assert [row.name for row in page.actors[:2]] == ["m500", "m104"]


def test_look_at_a_runtime(golden: Golden) -> None:
    waits, restarts = actor(1, state="pending"), actor(2, state="restarting")
    inline, busy = actor(3, pid=7), actor(4)
    reasons = {
        waits.actor_id: "Model 'm1' requests GPU=1",
        restarts.actor_id: "Model 'm2' is restarting",
    }
    found = status(
        waits,
        restarts,
        inline,
        busy,
        devices=(device(),),
        waiting=("function f: CPU=1", "Model 'm1': GPU=1"),
        waiting_count=9,
        reasons=reasons,
        running_calls={inline.actor_id: 2, busy.actor_id: 9},
    )
    usages = {7: Usage("S", 5.0, 1000), 104: Usage("T", 1.0, 50)}

    look = shown(found, usages)

    rows = {row.name: row for row in look.actors}
    # A thread of the program has none of its figures.
    assert (rows["m3"].process.rss, look.process.rss) == (None, 1000)
    # Not more calls run than are under way.
    assert (rows["m4"].running_calls, rows["m4"].waiting_calls) == (3, 0)
    golden.check_value("look.txt", PAGE.encode(look))


def test_line_when_labels_are_equal_or_have_a_colon_then_each_has_its_actor() -> None:
    first, second = (actor(n, name=None, state="pending") for n in (1, 2))
    named = actor(3, name="a: b", state="pending")
    found = status(
        first,
        second,
        named,
        waiting=("Model: GPU=1", "Model 'a: b': GPU=2", "Model: GPU=1", "f: CPU=1"),
        waiting_count=4,
        reasons={one.actor_id: "it waits" for one in (first, second, named)},
    )

    line = shown(found).line

    assert [(entry.label, entry.asks, entry.actor) for entry in line] == [
        ("Model", "GPU=1", first.actor_id),
        ("Model 'a: b'", "GPU=2", named.actor_id),
        ("Model", "GPU=1", second.actor_id),
        ("f", "CPU=1", None),
    ]


def test_calls_when_too_many_are_under_way_then_what_runs_is_unknown() -> None:
    (row,) = shown(status(actor(1), running_calls=None)).actors

    assert (row.running_calls, row.waiting_calls, row.pending_calls) == (None, None, 3)


def test_page_when_it_reads_a_column_then_it_is_there() -> None:
    script = Path(looks.__file__).with_name("page.html").read_text("utf-8")
    page = PAGE.encode(shown(status(actor(1), devices=(device(),))))

    of_actors = set(re.findall(r"\b(?:actor|a)\.(?!words\b)([a-z_]+)\b(?!\()", script))
    of_devices = set(re.findall(r"\bdevice\.([a-z_]+)\b", script))
    of_looks = set(re.findall(r"\bshown\.([a-z_]+)\b", script))

    assert of_actors <= page["actors"][0].keys()
    assert of_devices <= page["devices"][0].keys()
    assert of_looks <= page.keys()
