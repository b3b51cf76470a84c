from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._options.actor_options import ActorOptions
from actorlib._owner.actors.restart_policy import (
    LATEST,
    LONGEST,
    QUIET,
    TRIES,
    Fault,
    GiveUp,
    Restart,
    RestartHistory,
    Restarts,
    decide,
)
from actorlib.exceptions import Exit

CRASH = Exit(cause="crashed", signal=9)
FAILED = Exit(cause="failed to start", reason="it raised")


def policy(
    max_restarts: int = 3, window: float | None = None, backoff: float = 0.5
) -> ActorOptions:
    return ActorOptions(
        max_restarts=max_restarts, restart_window=window, restart_backoff=backoff
    )


def course(allowed: ActorOptions, *gaps: float, how: Exit = CRASH) -> list[float]:
    """The waits of a course of deaths, each so long after the restart before it."""
    history, now, waits = RestartHistory(), 1000.0, []
    for gap in gaps:
        now += gap
        verdict = decide(allowed, history, how, now)
        if isinstance(verdict, GiveUp):
            break
        waits.append(verdict.after)
        history = verdict.history
        now += verdict.after
    return waits


ASKED, LOST = Exit(cause="asked"), Exit(cause="lost")
NEW, LIVED = RestartHistory(), RestartHistory(has_lived=True)

# Whether.


@pytest.mark.parametrize(
    ("allowed", "history", "how", "fault", "given_up"),
    [
        *[
            (policy(), NEW, Exit(cause=cause), Fault.OWN, None)
            for cause in ("crashed", "exited", "out of memory", "lost", "restarted")
        ],
        (policy(0), NEW, CRASH, Fault.OWN, ""),
        (policy(1), RestartHistory(1), CRASH, Fault.OWN, " after 1 restart (max_res"),
        *[
            (policy(allowed), LIVED, ASKED, fault, "")
            for allowed in (-1, 0, 3)
            for fault in Fault
        ],
        # What fails to start is not restarted, unless it is a restart.
        (policy(-1), NEW, FAILED, Fault.OWN, ""),
        (policy(2), RestartHistory(1), FAILED, Fault.OWN, None),
        (policy(2), RestartHistory(2), FAILED, Fault.OWN, " after 2 restarts (max_r"),
        # If there can be no process, only what has lived waits.
        (policy(-1), NEW, FAILED, Fault.UNLAUNCHED, ""),
        (policy(1), LIVED, FAILED, Fault.UNLAUNCHED, None),
        (policy(1), RestartHistory(1), FAILED, Fault.UNLAUNCHED, None),
        (policy(0), LIVED, LOST, Fault.LOST, ""),
        (
            policy(2, window=10.0),
            RestartHistory(7, 1, 5.0, (4.0, 5.0)),
            CRASH,
            Fault.OWN,
            " after 7 restarts (max_restarts=2 within 10 s)",
        ),
    ],
)
def test_decide_when_it_has_ended_then_whether_it_is_restarted(
    allowed: ActorOptions,
    history: RestartHistory,
    how: Exit,
    fault: Fault,
    given_up: str | None,
) -> None:
    verdict = decide(allowed, history, how, 6.0, fault)

    if given_up is None:
        assert isinstance(verdict, Restart)
    else:
        assert isinstance(verdict, GiveUp)
        assert verdict.reason.startswith(given_up)
        assert bool(verdict.reason) is bool(given_up)


@pytest.mark.parametrize(("allowed", "number"), [(1, 1), (2, 2), (5, 5), (-1, 2000)])
def test_decide_when_it_dies_again_and_again_then_as_often_as_allowed(
    allowed: int, number: int
) -> None:
    assert len(course(policy(allowed), *[1.0] * 2000)) == number


# What is not the fault of the actor.


def test_decide_when_it_is_lost_then_that_counts_against_nothing() -> None:
    history, now, waits = LIVED, 0.0, list[float]()
    for _ in range(50):
        verdict = decide(policy(1), history, LOST, now, Fault.LOST)
        assert isinstance(verdict, Restart)
        history, now = verdict.history, now + verdict.after
        waits.append(verdict.after)
    assert waits[:4] == [0.0, 0.5, 1.0, 2.0]
    assert (history.total, history.recent) == (0, ())

    after = decide(policy(1), history, CRASH, now)
    assert isinstance(after, Restart)
    assert isinstance(decide(policy(1), after.history, CRASH, now), GiveUp)


@pytest.mark.parametrize("allowed", [0, 1, -1])
@pytest.mark.parametrize(
    "history", [RestartHistory(), LIVED, RestartHistory(3, has_lived=True)]
)
def test_decide_when_it_is_lost_before_it_is_ready_then_it_is_tried_anew(
    allowed: int, history: RestartHistory
) -> None:
    made, now = history, 0.0
    for _ in range(TRIES):
        verdict = decide(policy(allowed), made, FAILED, now, Fault.LOST)
        assert isinstance(verdict, Restart)
        made, now = verdict.history, now + verdict.after
    assert made.total == history.total

    given_up = decide(policy(allowed), made, FAILED, now, Fault.LOST)
    assert given_up == GiveUp(f" after {TRIES} tries")
    assert now < 15.0


def test_restarts_when_it_is_ready_then_its_tries_are_forgotten() -> None:
    restarts = Restarts(policy(0))
    for _ in range(3):
        for _ in range(TRIES):
            decision = restarts.decide(FAILED, 0.0, Fault.LOST)
            assert isinstance(decision, Restart)
        restarts.is_ready()

    assert restarts.has_lived
    assert restarts.count == 0


def test_restarts_when_one_does_not_count_then_it_says_so() -> None:
    restarts = Restarts(policy(3))
    restarts.decide(FAILED, 0.0, Fault.LOST)
    restarts.decide(FAILED, 0.0, Fault.LOST)

    assert restarts.in_words(0.0) == "which does not count, in 0.1 s"


# Within a window, and when.


@pytest.mark.parametrize(
    ("allowed", "gaps", "waits"),
    [
        (policy(2, window=10.0, backoff=0.0), [4.0] * 50, [0.0] * 2),
        (
            policy(-1),
            [0.0] * 10,
            [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST, LONGEST, LONGEST],
        ),
        # It lived for a while: the next restart is at once.
        (policy(-1), [0, 0, 0, QUIET - 1, QUIET, 0], [0.0, 0.5, 1.0, 2.0, 0.0, 0.5]),
        (policy(-1, backoff=0.0), [0.0] * 50, [0.0] * 50),
        (policy(-1, backoff=100.0), [0.0] * 4, [0.0, 100.0, 100.0, 100.0]),
    ],
)
def test_decide_when_it_dies_at_some_times_then_it_waits_so_long_each_time(
    allowed: ActorOptions, gaps: list[float], waits: list[float]
) -> None:
    assert course(allowed, *gaps) == waits


def test_decide_when_deaths_are_rare_then_a_window_forgets_them() -> None:
    assert len(course(policy(2, window=10.0), *[11.0] * 50)) == 50


@given(st.lists(st.floats(0, 100), max_size=60), st.integers(1, 5))
def test_decide_when_there_is_a_window_then_never_more_in_it_nor_remembered(
    gaps: list[float], allowed: int
) -> None:
    history, now, decided = RestartHistory(), 0.0, list[float]()
    for gap in gaps:
        now += gap
        verdict = decide(policy(allowed, window=10.0, backoff=0.0), history, CRASH, now)
        if isinstance(verdict, Restart):
            decided.append(now)
            history = verdict.history
        assert len(history.recent) <= allowed

    for first, last in zip(
        decided, itertools.islice(decided, allowed, None), strict=False
    ):
        assert last - first >= 10.0


# As a life keeps them.


def test_restarts_when_one_follows_and_then_none_then_both_ends_are_kept() -> None:
    restarts = Restarts(policy(1))
    assert [restarts.would_restart(CRASH, 0.0) for _ in range(3)] == [True] * 3
    assert repr(restarts) == "<Restarts 0 of 1>"

    assert isinstance(restarts.decide(CRASH, 1.0), Restart)
    assert repr(restarts) == "<Restarts 1 of 1>"
    assert restarts.decide(FAILED, 1.0) == GiveUp(restarts.given_up)

    assert restarts.given_up == " after 1 restart (max_restarts=1)"
    assert (restarts.count, restarts.last_exit) == (1, CRASH)
    assert restarts.earlier_deaths == (str(CRASH),)


def test_restarts_when_many_followed_then_the_latest_ends_are_kept_in_a_line_each() -> (
    None
):
    restarts = Restarts(policy(-1))
    traceback = "Traceback\n  its line\nValueError"
    for code in range(LATEST + 2):
        how = Exit(
            cause="exited",
            code=code,
            reason="its own code ended it\nafter this",
            method="run",
            log_tail="some\nlines",
            constructor=traceback,
        )
        restarts.decide(how, 1.0)

    assert restarts.earlier_deaths == tuple(
        f"its own code ended it (exit code {code}), while it ran run"
        for code in range(2, LATEST + 2)
    )


@pytest.mark.parametrize(
    ("allowed", "deaths", "are_over"),
    [
        (policy(0), 0, True),
        (policy(0, window=5.0), 0, True),
        (policy(1), 0, False),
        (policy(1), 1, True),
        (policy(1, window=5.0), 1, False),
        (policy(-1), 50, False),
        (policy(-1, window=5.0), 50, False),
    ],
)
def test_are_over_when_none_can_ever_follow_then_true(
    allowed: ActorOptions, deaths: int, *, are_over: bool
) -> None:
    restarts = Restarts(allowed)
    for _ in range(deaths):
        restarts.decide(CRASH, 1.0)

    assert restarts.are_over is are_over


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (policy(3), "attempt 2 of 3, in 0.4 s"),
        (policy(-1), "attempt 2, in 0.4 s"),
        (policy(3, window=60.0), "attempt 2 of 3 within 60 s, in 0.4 s"),
    ],
)
def test_told_when_it_waits_then_which_attempt_and_when(
    allowed: ActorOptions, text: str
) -> None:
    restarts = Restarts(allowed)
    restarts.decide(CRASH, 1.0)
    restarts.decide(CRASH, 1.0)

    assert restarts.in_words(1.1) == text
    assert restarts.in_words(2.0) == text.removesuffix(", in 0.4 s")
