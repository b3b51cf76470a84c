"""Shows the progress of an iterator over results; loaded only where it is used.

Rich draws it on a terminal, below the program's output. While a bar is shown,
``sys.stdout`` and ``sys.stderr`` are rich's streams, which print above it. So the
output of actors and of the program does not break it. Handlers of the root logger that
write to one of the two get the same streams meanwhile, as actors log there too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TextIO, cast

from actorlib._api.notebook import shell_of_kernel
from actorlib._base.validation import wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from rich.live import Live
    from rich.progress import Progress as Bars

    from actorlib._api.waiting import Steps

PERIOD = 0.1
"""The shortest time between two drawings, in seconds."""
_TICK = 1.0
"""Seconds after which it is drawn again without new results, for its clock."""


class ProgressDisplay(Protocol):
    """A place for progress: ``ProgressLine`` or ``ProgressCell``."""

    def show(self, bars: Bars) -> None: ...

    def hide(self) -> None:
        """Removes them until the next drawing; from any thread."""
        ...


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; False for a closed one."""
    # Before rich 15 its stream has no isatty() of the real one.
    stream = getattr(stream, "rich_proxied_file", stream)
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False


class ProgressLine:
    """Shows one progress on the terminal, several below one another."""

    _lock: ClassVar = threading.RLock()  # a finalizer may run in the middle
    _bars: ClassVar[dict[ProgressLine, Bars]] = {}
    _live: ClassVar[Live | None] = None

    def show(self, bars: Bars) -> None:
        with self._lock, _without_terminal():
            self._bars[self] = bars
            if ProgressLine._live is None:
                ProgressLine._live = self._new_live()
                with _handlers_follow():
                    ProgressLine._live.start()
            ProgressLine._live.refresh()

    def hide(self) -> None:
        with self._lock, _without_terminal():
            live = ProgressLine._live
            if live is None or self not in self._bars:
                return
            if len(self._bars) == 1:
                ProgressLine._live = None
                try:
                    with _handlers_follow():
                        live.stop()
                finally:
                    self._bars.clear()
            else:
                del self._bars[self]
                live.refresh()

    def _new_live(self) -> Live:
        from rich.console import Group  # noqa: PLC0415  # short iterations do not need it
        from rich.live import Live  # noqa: PLC0415  # short iterations do not need it

        from actorlib._rows.tables import console  # noqa: PLC0415  # short iterations do not need it

        return Live(
            get_renderable=lambda: Group(*self._bars.values()),
            console=console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=is_terminal(sys.stdout),
        )


@contextlib.contextmanager
def _handlers_follow() -> Generator[None]:
    """Lets handlers of standard streams write to the streams that replace these."""
    before = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                stream_handler = cast("logging.StreamHandler[Any]", handler)
                for old, new in zip(before, (sys.stdout, sys.stderr), strict=True):
                    if stream_handler.stream is old:
                        stream_handler.setStream(new)
                        break


def _without_terminal() -> contextlib.suppress:
    """Lets the program go on if the terminal is gone."""
    return contextlib.suppress(OSError, ValueError)


class ProgressCell:
    """Shows one progress in the output of the notebook's cell that begins it."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._display_id = ""

    def show(self, bars: Bars) -> None:
        from actorlib._rows.tables import html_of  # noqa: PLC0415  # in a notebook

        task = bars.tasks[0]
        text = f"{task.description} {task.completed:g}/{task.total or '?'}".strip()
        self._put({"text/plain": text, "text/html": html_of(bars)})

    def hide(self) -> None:
        if self._display_id:
            self._put({"text/plain": "", "text/html": ""})

    def _put(self, data: dict[str, str]) -> None:
        is_update = bool(self._display_id)
        self._display_id = self._display_id or uuid.uuid4().hex
        transient = {"display_id": self._display_id}
        self._publisher.publish(data=data, transient=transient, update=is_update)


def display_here() -> ProgressDisplay | None:
    """Returns the place for progress in this process; None if there is none."""
    if is_terminal(sys.stderr):
        return ProgressLine()
    shell = shell_of_kernel()
    return None if shell is None else ProgressCell(shell.display_pub)


def progress_of(label: bool | str, total: int | None) -> Progress | None:  # noqa: FBT001  # the option
    """Makes the progress for an option; None if there is no place to show it."""
    if not isinstance(cast("object", label), bool | str):
        raise wrong_type("progress takes True, False or a label for it", label)
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

    The display is cleared with this object.

    Attributes:
        ready: Returns the number of results that were not taken.
        loaded: The number of results of earlier runs. They are shown behind the label,
            and are not counted, as the remaining time is estimated from the others.
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
        self.loaded = 0
        self._begun = self._drawn_at = self._clock()
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
            if self.loaded:
                self._set_apart(self._bars)
            self._display.show(self._bars)
            self._drawn_at = now
            self._next = now + _TICK
        return self._next - now

    def advance(self) -> None:
        self._done += 1
        self._next = min(self._next, self._drawn_at + PERIOD)
        self.look()

    def hide(self) -> None:
        self._display.hide()

    def _all_done(self) -> int:
        done = self._done + self.ready() - self.loaded
        total = done if self._total is None else self._total - self.loaded
        return max(0, min(done, total))

    def _set_apart(self, bars: Bars) -> None:
        """Shows how many results were loaded, apart from the others."""
        label = f"{self._label} ({self.loaded} loaded)".strip()
        total = None if self._total is None else max(0, self._total - self.loaded)
        bars.update(bars.task_ids[0], description=label, total=total)

    def followed(self, steps: Steps[bool]) -> Steps[bool]:
        """Runs a wait for results, and draws the progress meanwhile.

        It is removed before an error, so that it is not between the lines of that, and
        at the end of the results, when the wait returns False.
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
    """Shows a label and the time during a block, on the running loop."""
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
