"""Progress: what it says, when it is shown, and that it breaks no other output."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.terminal import Terminal
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib._api.progress import (
    Progress,
    ProgressDisplay,
    display_here,
    progress_of,
    total_of,
)
from actorlib._api.progress_line import PERIOD, GuardedStream, ProgressLine
from actorlib._api.progress_text import (
    ProgressState,
    columns_of,
    fitted,
    progress_text,
    rate,
    span,
)
from actorlib._api.waiting import WaitRequest

if TYPE_CHECKING:
    from actorlib._api.waiting import Steps

# What it says.


def said(done: int, total: int | None, elapsed: float, label: str = "") -> str:
    return progress_text(
        ProgressState(label=label, done=done, total=total, elapsed=elapsed)
    )


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [
        (12, 40, 4.0, "12/40, 3.0/s, 9.3 s left"),
        (0, 40, 3.2, "0/40, 3.2 s"),
        (40, 40, 10.0, "40/40, 4.0/s"),
        (7, None, 2.0, "7, 3.5/s"),
        (0, None, 75.0, "1 min 15 s"),
        (3, 9, 0.0, "3/9"),
        (41, 40, 10.0, "41/40, 4.1/s"),
        (1, 4, 3600.0, "1/4, 1 h 0 min each, 3 h 0 min left"),
    ],
)
def test_text_when_so_far_then_count_rate_and_what_is_left(
    done: int, total: int | None, elapsed: float, text: str
) -> None:
    assert said(done, total, elapsed) == text


def test_text_when_it_has_a_label_then_in_front_and_in_one_line() -> None:
    assert said(1, 2, 1.0, "my\n trials") == "my trials 1/2, 1.0/s, 1.0 s left"
    assert said(0, None, 12.0, "importing torch") == "importing torch, 12 s"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (rate(1234.5), "1234/s"),
        (rate(3.14), "3.1/s"),
        (rate(0.05), "20 s each"),
        (span(0.0), "0 s"),
        (span(9.94), "9.9 s"),
        (span(9.96), "10 s"),
        (span(59.7), "1 min 0 s"),
        (span(12_000), "3 h 20 min"),
    ],
)
def test_rate_and_span_when_shown_then_in_words(shown: str, text: str) -> None:
    assert shown == text


@settings(max_examples=30)
@given(st.text(max_size=40), st.integers(0, 30))
def test_fitted_when_it_is_too_long_then_cut_where_it_fits(
    text: str, columns: int
) -> None:
    cut, used = fitted(text, columns)

    assert text.startswith(cut)
    assert used == sum(map(columns_of, cut)) <= columns
    if cut != text:
        assert used + columns_of(text[len(cut)]) > columns


def test_fitted_when_characters_are_wide_then_each_takes_two_columns() -> None:
    assert fitted("試行 3/8", 5) == ("試行 ", 5)


# When it is shown.


class Seen(ProgressDisplay):
    """A display that keeps what it was told."""

    def __init__(self) -> None:
        self.states: list[ProgressState] = []
        self.is_shown = False

    def show(self, state: ProgressState) -> None:
        self.states.append(state)
        self.is_shown = True

    def hide(self) -> None:
        self.is_shown = False


class Clock:
    """A clock that goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


END = object()


class Followed:
    """Results that a test lets come, with progress."""

    def __init__(self, total: int | None = 10) -> None:
        self.clock, self.seen = Clock(), Seen()
        self.progress = Progress(self.seen, "all", total, self.clock)

    def counts(self) -> list[int]:
        return [state.done for state in self.seen.states]

    def take(self, value: object = 1, waits: float = 0.0) -> float | None:
        """Takes a result, after one wait if it takes long; gives what was waited."""

        def steps() -> Steps[object]:
            if waits:
                yield WaitRequest(())
            if isinstance(value, Exception):
                raise value
            return value

        following = self.progress.followed(steps(), END)
        looked = None
        with contextlib.suppress(StopIteration):
            while True:
                looked = next(following).timeout
                self.clock.now += waits
        return looked


def test_progress_when_it_is_over_soon_then_it_is_never_shown() -> None:
    results = Followed()
    for _ in range(5):
        results.take()
    results.take(END)

    assert results.seen.states == []


def test_progress_when_results_come_quickly_then_ten_times_a_second_at_most() -> None:
    results = Followed(total=1000)
    for _ in range(1000):
        results.clock.now += 0.005
        results.take()

    assert 40 <= len(results.seen.states) <= 5.0 / PERIOD
    assert results.counts() == sorted(results.counts())
    assert results.seen.states[0].label == "all"


def test_progress_when_a_result_is_waited_for_then_time_goes_on() -> None:
    results = Followed()

    assert results.take(waits=0.2) == pytest.approx(PERIOD)
    assert results.counts() == [1]
    # What came too soon to be shown is shown a moment later.
    results.take()
    assert results.take(waits=0.2) == pytest.approx(PERIOD)
    results.take()
    results.clock.now += PERIOD
    assert results.take(waits=5.0) == pytest.approx(1.0)
    assert results.seen.states[-1].elapsed == pytest.approx(5.4 + PERIOD)


def test_progress_when_a_call_has_failed_then_wiped_until_it_goes_on() -> None:
    results = Followed()
    results.clock.now += 1
    results.take()
    assert results.seen.is_shown
    with pytest.raises(ValueError, match="no"):
        results.take(ValueError("no"))
    assert not results.seen.is_shown
    results.clock.now += 1
    results.take()

    assert results.seen.is_shown
    assert results.counts() == [1, 3]  # what has failed is done, too


def test_progress_when_it_ends_or_is_left_then_wiped() -> None:
    results = Followed()
    results.clock.now += 1
    results.take()
    results.take(END)
    assert not results.seen.is_shown

    left = Followed()
    left.clock.now += 1
    left.take()
    del left.progress
    gc.collect()
    assert not left.seen.is_shown


def test_total_when_iterables_have_lengths_then_the_shortest() -> None:
    assert total_of([[1, 2, 3], "ab"]) == 2
    assert total_of([[1, 2, 3], iter("ab")]) is None
    assert total_of([range(4)]) == 4


@pytest.mark.parametrize("asked", [1, None, ["a"]])
def test_progress_when_asked_for_by_something_else_then_refused(asked: Any) -> None:
    with pytest.raises(TypeError, match="progress takes True"):
        progress_of(asked, 3)


# On a terminal.


def say(*words: str, end: str = "\n") -> None:
    print(*words, end=end)  # noqa: T201  # as programs do


def so_far(done: int, label: str = "") -> ProgressState:
    return ProgressState(label=label, done=done, total=9, elapsed=0.0)


def test_display_when_nobody_looks_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed, object()):
        monkeypatch.setattr(sys, "stderr", stream)
        assert display_here() is None
        assert progress_of("all", 3) is None
        ProgressLine().show(so_far(1))


def test_line_when_shown_and_hidden_then_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    display = display_here()
    assert display is not None
    display.show(so_far(1, "a longer label"))
    assert terminal.screen() == ["a longer label 1/9"]
    display.show(so_far(2))
    assert terminal.screen() == ["2/9"]
    display.hide()
    display.hide()

    assert terminal.screen() == [""]
    assert sys.stdout is sys.stderr is terminal


def test_line_when_the_program_prints_then_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    line = ProgressLine()
    line.show(so_far(1))
    say("one", "two")
    sys.stderr.writelines(["three\n", "four\n"])
    line.show(so_far(2))
    assert terminal.screen() == ["one two", "three", "four", "2/9"]
    say("begun", end="")
    line.show(so_far(3))
    assert terminal.screen()[-1] == "begun"
    say(" and ended")
    line.show(so_far(4))
    assert terminal.screen()[-2:] == ["begun and ended", "4/9"]
    line.hide()
    say("last")

    assert terminal.screen()[-2:] == ["last", ""]


def test_line_when_a_handler_logs_to_the_terminal_then_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    handler = logging.StreamHandler(terminal)
    elsewhere = logging.StreamHandler(io.StringIO())
    root = logging.getLogger()
    root.addHandler(handler)
    root.addHandler(elsewhere)
    try:
        line = ProgressLine()
        line.show(so_far(1))
        root.error("an actor has logged")
        line.show(so_far(2))
        assert terminal.screen() == ["an actor has logged", "2/9"]
        line.hide()
        assert handler.stream is terminal
        assert elsewhere.stream.getvalue() == "an actor has logged\n"
    finally:
        root.removeHandler(handler)
        root.removeHandler(elsewhere)


def test_lines_when_there_are_two_then_they_share_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    one, other = ProgressLine(), ProgressLine()
    one.show(so_far(1, "a"))
    other.show(so_far(2, "b"))
    assert terminal.screen() == ["a 1/9 | b 2/9"]
    one.hide()
    assert terminal.screen() == ["b 2/9"]
    other.hide()

    assert terminal.screen() == [""]
    assert sys.stdout is terminal


def test_line_when_somebody_else_sets_the_stream_then_theirs_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    line = ProgressLine()
    line.show(so_far(1))
    guarded = sys.stdout
    theirs = io.StringIO()
    monkeypatch.setattr(sys, "stdout", theirs)
    line.hide()
    assert sys.stdout is theirs
    # They put back what they found, when nothing is shown any more.
    monkeypatch.setattr(sys, "stdout", guarded)
    monkeypatch.setattr(sys, "stderr", guarded)
    say("plain")
    assert terminal.screen()[-2:] == ["plain", ""]
    line.show(so_far(2))
    say("above")
    line.show(so_far(3))

    assert terminal.screen()[-2:] == ["above", "3/9"]
    assert isinstance(sys.stdout, GuardedStream)
    line.hide()
    assert sys.stdout is terminal


def test_line_when_the_terminal_is_gone_then_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    line = ProgressLine()
    line.show(so_far(1))
    terminal.close()
    line.show(so_far(2))
    say("printed")
    line.hide()

    assert sys.stdout.getvalue() == "printed\n"  # type: ignore[attr-defined]


def test_line_when_the_process_is_forked_then_the_child_only_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    line = ProgressLine()
    line.show(so_far(1))
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: 1)
        before = terminal.getvalue()
        say("of the child")
        assert terminal.getvalue() == before + "of the child\n"
    line.hide()
    assert sys.stdout is terminal
