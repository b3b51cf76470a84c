"""Shows how far an iterator over results is; only who asks for that loads this file."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import weakref
from collections.abc import Sized
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from actorlib._api.progress_line import ProgressLine, is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from rich.progress import Progress as Bars

    from actorlib._api.waiting import Steps

T = TypeVar("T")

PERIOD = 0.1
"""Seconds between two drawings, at the least."""
_TICK = 1.0
"""Seconds after which it is shown again although nothing came: time goes on."""


class ProgressDisplay(Protocol):
    """Shows progress where somebody sees it.

    ``ProgressLine`` does on a terminal, ``ProgressCell`` in a notebook.
    """

    def show(self, bars: Bars) -> None:
        """Shows how far it is."""
        ...

    def hide(self) -> None:
        """Wipes it, until it is shown again; also twice, and from any thread."""
        ...


def display_here() -> ProgressDisplay | None:
    """Chooses the form of progress for this process; None where nobody looks."""
    if is_terminal(sys.stderr):
        return ProgressLine()
    if "ipykernel" in sys.modules:
        from actorlib._api.progress_cell import cell_of_notebook  # noqa: PLC0415  # in a notebook

        return cell_of_notebook()
    return None


def progress_of(asked: bool | str, total: int | None) -> Progress | None:  # noqa: FBT001  # of the one that is called
    """The progress that somebody has asked for; None where nobody would see it.

    Args:
        asked: True, False, or a label.
        total: How many results there will be, or None if that is unknown.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(cast("object", asked), bool | str):
        raise TypeError(
            f"progress takes True, False or a label for it, not {asked!r} "
            f"({type(asked).__name__})"
        )
    display = None if asked is False else display_here()
    if display is None:
        return None
    return Progress(display, asked if isinstance(asked, str) else "", total)


def total_of(iterables: Iterable[object]) -> int | None:
    """How many calls iterables make, of which the shortest counts; None if unknown."""
    given = list(iterables)
    known = [len(each) for each in given if isinstance(each, Sized)]
    return min(known, default=None) if len(known) == len(given) else None


class Progress:
    """Counts the results of one iterator, and shows how many there are.

    It is shown at most ten times a second, and while a result is waited for once a
    second; what is over within a tenth of a second is never shown, and rich is not
    imported for it. There is no thread and no task: whoever waits for a result looks up
    in between.

    Args:
        display: Where it is shown. It is wiped when this is gone, too.
        label: What it is called.
        total: How many results there will be, or None if that is unknown.
        clock: The time in seconds. Default: None, for that of the system.

    Attributes:
        ready: Gives how many results are there that nobody has taken.
    """

    def __init__(
        self,
        display: ProgressDisplay,
        label: str,
        total: int | None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._display = display
        self._label = " ".join(label.split())  # it is one line, whatever was given
        self._total = total
        self._clock = clock or time.monotonic
        self._bars: Bars | None = None
        self._done = 0
        self.ready: Callable[[], int] = int
        self._begun = self._shown = self._clock()
        self._next = self._begun + PERIOD
        # Also at the end of the interpreter, which may print an error behind it.
        weakref.finalize(self, display.hide)

    def look(self) -> float:
        """Shows what is due; gives the seconds after which to look again."""
        now = self._clock()
        if now >= self._next:
            if self._bars is None:
                self._bars = bars_of(self._label, self._total, self._begun, self._clock)
            self._bars.update(self._bars.task_ids[0], completed=self._all_done())
            self._display.show(self._bars)
            self._shown = now
            self._next = now + _TICK
        return self._next - now

    def advance(self) -> None:
        """Counts one more result."""
        self._done += 1
        self._next = min(self._next, self._shown + PERIOD)
        self.look()

    def hide(self) -> None:
        """Wipes it, until something is shown again."""
        self._display.hide()

    def _all_done(self) -> int:
        done = self._done + self.ready()
        return done if self._total is None else min(done, self._total)

    def followed(self, steps: Steps[bool]) -> Steps[bool]:
        """The same wait for results, with progress shown meanwhile.

        What the wait raises is shown to the user, with no line in between.

        Args:
            steps: The wait; it gives False if there is no further result.
        """
        try:
            while True:
                try:
                    request = next(steps)
                except StopIteration as over:
                    has_more: bool = over.value
                    break
                yield request._replace(timeout=self.look())
        except BaseException:
            self.hide()
            raise
        if not has_more:
            self.hide()
        return has_more


def bars_of(
    label: str, total: int | None, begun: float, clock: Callable[[], float]
) -> Bars:
    """Makes the bars that rich draws: those of one progress.

    Args:
        label: What it is called.
        total: How many results there will be, or None if that is unknown.
        begun: When it began, by the clock.
        clock: The time in seconds.
    """
    from rich import progress  # noqa: PLC0415  # what is over soon needs none

    bars = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        speed_estimate_period=float("inf"),  # a result may take minutes
        get_time=clock,
    )
    bars.add_task(label, total=total)
    bars.tasks[0].start_time = begun
    return bars


@contextlib.contextmanager
def shown_while(label: str, after: float = 1.0) -> Generator[None]:
    """Shows what takes so long, on the running loop, if it takes longer.

    Args:
        label: What it is.
        after: Seconds for which it is not shown.
    """
    display = display_here()
    if display is None:
        yield
        return
    loop = asyncio.get_running_loop()
    progress = Progress(display, label, None, loop.time)
    timer: asyncio.TimerHandle

    def show() -> None:
        nonlocal timer
        timer = loop.call_later(progress.look(), show)

    timer = loop.call_later(after, show)
    try:
        yield
    finally:
        timer.cancel()
        display.hide()
