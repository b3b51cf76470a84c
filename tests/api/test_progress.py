"""Progress: what it says, when it is shown, and that it breaks no other output."""

from __future__ import annotations

import gc
import io
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.terminal import Terminal

from actorlib._api.progress import (
    PERIOD,
    Progress,
    ProgressCell,
    ProgressDisplay,
    ProgressLine,
    bars_of,
    display_here,
    progress_of,
    total_of,
)
from actorlib._api.results import Raised, Results
from actorlib._api.waiting import WaitRequest

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from actorlib._api.waiting import Steps


# When it is shown.


class Seen(ProgressDisplay):
    """A display that keeps what it was told."""

    def __init__(self) -> None:
        self.counts: list[float] = []
        self.elapsed: float | None = None
        self.is_shown = False

    def show(self, bars: Bars) -> None:
        (task,) = bars.tasks
        assert task.description == "all"
        self.counts.append(task.completed)
        self.elapsed = task.elapsed
        self.is_shown = True

    def hide(self) -> None:
        self.is_shown = False


class Clock:
    """A clock that goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


END = object()


class Followed(Results[object]):
    """Results that a test lets come, with progress."""

    def __init__(self, total: int | None = 10) -> None:
        self.clock, self.seen = Clock(), Seen()
        self._value: object = END
        self._waits = 0.0
        super().__init__(Progress(self.seen, "all", total, self.clock))

    def cancel(self) -> None:
        """Nothing is under way."""

    def _fill(self) -> Steps[bool]:
        if self._waits:
            yield WaitRequest(())
        if self._value is not END:
            is_error = isinstance(self._value, Exception)
            self._ready.append(Raised(self._value) if is_error else self._value)
        return bool(self._ready)

    def take(self, value: object = 1, waits: float = 0.0) -> float | None:
        """Takes a result, after one wait if it takes long; gives what was waited."""
        self._value, self._waits = value, waits
        following = self._shown()
        looked = None
        try:
            while True:
                looked = next(following).timeout
                self.clock.now += waits
        except StopIteration as end:
            if end.value:
                self._take()
        return looked


def test_progress_when_it_is_over_soon_then_it_is_never_shown() -> None:
    results = Followed()
    for _ in range(5):
        results.take()
    results.take(END)

    assert results.seen.counts == []


def test_progress_when_results_come_quickly_then_ten_times_a_second_at_most() -> None:
    results = Followed(total=1000)
    for _ in range(1000):
        results.clock.now += 0.005
        results.take()

    assert 40 <= len(results.seen.counts) <= 5.0 / PERIOD
    assert results.seen.counts == sorted(results.seen.counts)


def test_progress_when_a_result_is_waited_for_then_time_goes_on() -> None:
    results = Followed()

    assert results.take(waits=0.2) == pytest.approx(PERIOD)
    assert results.seen.counts == [1]
    # What came too soon to be shown is shown a moment later.
    results.take()
    assert results.take(waits=0.2) == pytest.approx(PERIOD)
    results.take()
    results.clock.now += PERIOD
    assert results.take(waits=5.0) == pytest.approx(1.0)
    assert results.seen.elapsed == pytest.approx(5.4 + PERIOD)


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
    assert results.seen.counts == [1, 3]  # what has failed is done, too


def test_progress_when_it_ends_or_is_left_then_wiped() -> None:
    results = Followed()
    results.clock.now += 1
    results.take()
    results.take(END)
    assert not results.seen.is_shown

    left = Followed()
    left.clock.now += 1
    left.take()
    seen = left.seen
    del left
    gc.collect()
    assert not seen.is_shown


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


def so_far(done: int, label: str = "") -> Bars:
    bars = bars_of(label, 9, 0.0, float)
    bars.update(bars.task_ids[0], completed=done)
    return bars


def rows_of(terminal: Terminal) -> list[list[str]]:
    """The words of each row, without the bar itself."""
    return [re.sub("[━╸╺]", "", row).split() for row in terminal.screen()]


def test_display_when_nobody_looks_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed, object()):
        monkeypatch.setattr(sys, "stderr", stream)
        assert display_here() is None
        assert progress_of("all", 3) is None


def test_line_when_some_time_is_over_then_it_says_how_long_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, clock = Terminal.of(monkeypatch), Clock()
    progress = Progress(ProgressLine(), "my\n[b]trials", 40, clock)
    for _ in range(2):
        clock.now += 75
        progress.advance()

    assert rows_of(terminal) == [["my", "[b]trials", "2/40", "0:02:30", "0:47:30"]]
    progress.hide()


def test_line_when_shown_and_hidden_then_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    display = display_here()
    assert display is not None
    display.show(so_far(1, "a longer label"))
    assert rows_of(terminal)[0][:4] == ["a", "longer", "label", "1/9"]
    display.show(so_far(2))
    assert rows_of(terminal)[0][0] == "2/9"
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
    sys.stderr.writelines(["[b]three\n", "four\n"])
    line.show(so_far(2))
    assert terminal.screen()[:3] == ["one two", "[b]three", "four"]
    assert rows_of(terminal)[3][0] == "2/9"
    say("begun", end="")
    line.show(so_far(3))
    say(" and ended")
    line.show(so_far(4))
    assert terminal.screen()[3] == "begun and ended"
    assert rows_of(terminal)[4][0] == "4/9"
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
        assert terminal.screen()[0] == "an actor has logged"
        assert rows_of(terminal)[1][0] == "2/9"
        line.hide()
        assert handler.stream is terminal
        assert elsewhere.stream.getvalue() == "an actor has logged\n"
    finally:
        root.removeHandler(handler)
        root.removeHandler(elsewhere)


def test_line_when_the_output_is_a_file_then_what_is_printed_goes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    line = ProgressLine()
    line.show(so_far(1))
    say("printed")
    line.hide()

    assert file.getvalue() == "printed\n"
    assert terminal.screen() == [""]


def test_lines_when_there_are_two_then_one_is_below_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    one, other = display_here(), display_here()
    assert one is not None
    assert other is not None
    one.show(so_far(1, "a"))
    other.show(so_far(2, "b"))
    assert [row[:2] for row in rows_of(terminal)] == [["a", "1/9"], ["b", "2/9"]]
    one.hide()
    assert [row[:2] for row in rows_of(terminal)] == [["b", "2/9"]]
    assert display_here() is not None
    other.hide()

    assert terminal.screen() == [""]
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
    assert sys.stderr is terminal


# In a cell of a notebook.


class Publisher:
    """Keeps what would be shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, bool]] = []
        self.html = ""

    def publish(
        self, *, data: dict[str, str], transient: dict[str, Any], update: bool
    ) -> None:
        self.shown.append((transient["display_id"], data["text/plain"], update))
        self.html = data["text/html"]


def cell_so_far(done: int, total: int | None = 40) -> Bars:
    bars = bars_of("<trials>", total, 0.0, lambda: 2.0)
    bars.update(bars.task_ids[0], completed=done)
    return bars


def test_show_when_repeated_then_the_same_output_is_updated_and_wiped() -> None:
    publisher = Publisher()
    cell = ProgressCell(publisher)
    cell.hide()  # nothing was shown
    cell.show(cell_so_far(10))
    cell.show(cell_so_far(20))
    cell.hide()

    ids, texts, updates = zip(*publisher.shown, strict=True)
    assert len(set(ids)) == 1
    assert texts == (
        "<trials> 10/40",
        "<trials> 20/40",
        "",
    )
    assert updates == (False, True, True)


@pytest.mark.parametrize(("total", "said"), [(40, "10/40"), (None, "10/?")])
def test_html_when_it_is_shown_then_a_bar_and_words(
    total: int | None, said: str
) -> None:
    publisher = Publisher()
    ProgressCell(publisher).show(cell_so_far(10, total))

    for shown in ("━", "&lt;trials&gt;", said, "0:00:02"):
        assert shown in publisher.html
