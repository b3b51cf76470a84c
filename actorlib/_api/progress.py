"""Shows the progress of an iterator over results; loaded only where it is used."""

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
"""The shortest time between two drawings, in seconds."""
_TICK = 1.0
"""Seconds after which it is drawn again without new results, for its clock."""


class ProgressDisplay(Protocol):
    """A place for progress: ``ProgressLine`` or ``ProgressCell``."""

    def show(self, bars: Bars) -> None:
        """Draws the bars."""
        ...

    def hide(self) -> None:
        """Removes them until the next drawing; from any thread."""
        ...


def display_here() -> ProgressDisplay | None:
    """Returns the place for progress in this process; None if there is none."""
    if is_terminal(sys.stderr):
        return ProgressLine()
    if "ipykernel" in sys.modules:
        from actorlib._api.progress_cell import cell_of_notebook  # noqa: PLC0415  # in a notebook

        return cell_of_notebook()
    return None


def progress_of(label: bool | str, total: int | None) -> Progress | None:  # noqa: FBT001  # the option
    """Makes the progress for an option; None if there is no place to show it.

    Args:
        label: True, False, or a label.
        total: The number of results, or None if it is unknown.

    Raises:
        TypeError: The label is something else.
    """
    if not isinstance(cast("object", label), bool | str):
        raise TypeError(
            f"progress takes True, False or a label for it, not {label!r} "
            f"({type(label).__name__})"
        )
    display = None if label is False else display_here()
    if display is None:
        return None
    return Progress(display, label if isinstance(label, str) else "", total)


def total_of(iterables: Iterable[object]) -> int | None:
    """Returns the length of the shortest iterable; None if one is unknown."""
    listed = list(iterables)
    lengths = [len(each) for each in listed if isinstance(each, Sized)]
    return min(lengths, default=None) if len(lengths) == len(listed) else None


class Progress:
    """Counts the results of one iterator, and shows their number.

    It is drawn at most ten times a second, and once a second without new results. An
    iteration of less than a tenth of a second is never shown, and rich is not imported
    for it. There is no thread and no task: the wait for a result draws it in between.

    Args:
        display: The place for it, which is cleared with this object.
        label: Its label.
        total: The number of results, or None if it is unknown.
        clock: The time in seconds. Default: None, for that of the system.

    Attributes:
        ready: Returns the number of results that were not taken.
    """

    def __init__(
        self,
        display: ProgressDisplay,
        label: str,
        total: int | None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._display = display
        self._label = " ".join(label.split())  # on one line
        self._total = total
        self._clock = clock or time.monotonic
        self._bars: Bars | None = None
        self._done = 0
        self.ready: Callable[[], int] = int
        self._begun = self._shown = self._clock()
        self._next = self._begun + PERIOD
        # At the end of the interpreter too, which may print an error after it.
        weakref.finalize(self, display.hide)

    def look(self) -> float:
        """Draws it if that is due; returns the seconds until the next drawing."""
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
        self._done += 1
        self._next = min(self._next, self._shown + PERIOD)
        self.look()

    def hide(self) -> None:
        self._display.hide()

    def _all_done(self) -> int:
        done = self._done + self.ready()
        return done if self._total is None else min(done, self._total)

    def followed(self, steps: Steps[bool]) -> Steps[bool]:
        """Runs a wait for results, and draws the progress meanwhile.

        It is removed before an error, so that it is not between the lines of that.

        Args:
            steps: The wait; it returns False if there are no more results.
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
    """Makes the bars of one progress for rich.

    Args:
        label: Its label.
        total: The number of results, or None if it is unknown.
        begun: When it began, by the clock.
        clock: The time in seconds.
    """
    from rich import progress  # noqa: PLC0415  # short iterations do not need it

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
    """Shows a label and the time during a block, on the running loop.

    Args:
        label: The label.
        after: Seconds until it is shown.
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
