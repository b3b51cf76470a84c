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
    counted,
    described,
)

if TYPE_CHECKING:
    from actorlib import ActorInfo
    from actorlib._queries.rows import Status
    from actorlib._web.looks import Shown


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
    rates.add(counted(status, usages or {}, 1.0))
    return described(status, usages or {}, rates, 1.0)


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


def test_rate_when_there_was_one_look_then_it_is_unknown() -> None:
    rates = rates_of((1.0, {"a": Count(100, 2, 1.0)}))

    assert rates.calls("a") is rates.cpu("a") is rates.seconds_a_call(["a"]) is None


def test_time_when_four_wait_and_two_are_answered_a_second_then_it_is_two_seconds() -> (
    None
):
    rates = rates_of(*((at, {"a": Count(4 + 2 * at, 4, None)}) for at in range(6)))

    assert rates.seconds_a_call(["a"]) == pytest.approx(2.0)


def test_time_when_nothing_is_answered_then_it_is_unknown() -> None:
    rates = rates_of((1.0, {"a": Count(4, 4, None)}), (2.0, {"a": Count(9, 9, None)}))

    assert rates.seconds_a_call(["a"]) is None


def test_time_when_no_look_meets_a_call_then_it_is_unknown() -> None:
    rates = rates_of((1.0, {"a": Count(4, 0, None)}), (2.0, {"a": Count(9, 0, None)}))

    assert rates.seconds_a_call(["a"]) is None


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


def test_actor_when_it_is_a_thread_of_the_program_then_it_has_none_of_its_figures() -> (
    None
):
    usages = {7: Usage("S", 5.0, 1000), 101: Usage("T", 1.0, 50)}

    page = shown(status(actor(1), actor(2, pid=7)), usages)

    own, inline = (row.process for row in page.actors)
    assert (own.rss, own.is_stopped) == (50, True)
    assert (inline.rss, inline.cpu) == (None, None)
    assert page.process.rss == 1000


def test_line_when_some_wait_then_each_has_its_reason_and_its_place() -> None:
    waits = actor(1, state="pending")
    restarts = actor(2, state="restarting")
    reasons = {
        waits.actor_id: "Model 'm1' asks GPU=1",
        restarts.actor_id: "Model 'm2' is restarting",
    }
    line = ("function f: CPU=1", "Model 'm1': GPU=1")

    page = shown(
        status(waits, restarts, waiting=line, waiting_count=9, reasons=reasons)
    )

    assert [(row.label, row.asks, row.why) for row in page.line] == [
        ("function f", "CPU=1", ""),
        ("Model 'm1'", "GPU=1", "Model 'm1' asks GPU=1"),
        ("Model 'm2'", "", "Model 'm2' is restarting"),
    ]
    assert page.line[1].actor == waits.actor_id
    assert page.line_left_out == 7


def test_calls_when_some_run_then_no_more_than_are_under_way() -> None:
    one, other = actor(1), actor(2)
    running = {one.actor_id: 2, other.actor_id: 9}

    rows = shown(status(one, other, running_calls=running)).actors

    assert [(row.running_calls, row.waiting_calls) for row in rows] == [(2, 1), (3, 0)]


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
