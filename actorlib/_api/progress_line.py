"""Shows progress on the terminal, below the program's output: rich draws it.

While a bar is shown, ``sys.stdout`` and ``sys.stderr`` are rich's streams, which print
above it. So the output of actors and of the program does not break it. Handlers of the
root logger that write to one of the two get the same streams meanwhile, as actors log
there too.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.live import Live
    from rich.progress import Progress as Bars


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
    _shown: ClassVar[dict[ProgressLine, Bars]] = {}
    _live: ClassVar[Live | None] = None

    def show(self, bars: Bars) -> None:
        with self._lock, _without_terminal():
            self._shown[self] = bars
            if ProgressLine._live is None:
                ProgressLine._live = self._new_live()
                with _handlers_follow():
                    ProgressLine._live.start()
            ProgressLine._live.refresh()

    def hide(self) -> None:
        with self._lock, _without_terminal():
            live = ProgressLine._live
            if live is None or self not in self._shown:
                return
            if len(self._shown) == 1:
                ProgressLine._live = None
                try:
                    with _handlers_follow():
                        live.stop()
                finally:
                    self._shown.clear()
            else:
                del self._shown[self]
                live.refresh()

    def _new_live(self) -> Live:
        from rich.console import Group  # noqa: PLC0415  # short iterations do not need it
        from rich.live import Live  # noqa: PLC0415  # short iterations do not need it

        from actorlib._rows.tables import console  # noqa: PLC0415  # short iterations do not need it

        return Live(
            get_renderable=lambda: Group(*self._shown.values()),
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
