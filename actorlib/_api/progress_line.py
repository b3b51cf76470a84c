"""Shows progress on the terminal, below what the program prints: rich draws it.

While a bar is there, ``sys.stdout`` and ``sys.stderr`` are rich's streams, which print
above it. So neither what actors print, which the owner writes there, nor what the
program prints in its loop breaks it. Handlers of the root logger that write to one of
the two are given the same streams meanwhile: actors log there, too.
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
    """Whether somebody sees a stream on a terminal; False for one that is closed."""
    # Before rich 15 its own stream does not tell what it stands for.
    stream = getattr(stream, "rich_proxied_file", stream)
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False


class ProgressLine:
    """Shows one progress on the terminal; several stand below one another."""

    _lock: ClassVar = threading.RLock()  # a finalizer may run in the middle
    _shown: ClassVar[dict[ProgressLine, Bars]] = {}
    _live: ClassVar[Live | None] = None

    def show(self, bars: Bars) -> None:
        """Shows how far it is."""
        with self._lock, _unseen():
            self._shown[self] = bars
            if ProgressLine._live is None:
                ProgressLine._live = self._begun()
                with _handlers_follow():
                    ProgressLine._live.start()
            ProgressLine._live.refresh()

    def hide(self) -> None:
        """Wipes it, until it is shown again."""
        with self._lock, _unseen():
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

    def _begun(self) -> Live:
        from rich.console import Group  # noqa: PLC0415  # what is over soon needs none
        from rich.live import Live  # noqa: PLC0415  # see above

        from actorlib._rows.tables import console  # noqa: PLC0415  # see above

        return Live(
            get_renderable=lambda: Group(*self._shown.values()),
            console=console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=is_terminal(sys.stdout),
        )


@contextlib.contextmanager
def _handlers_follow() -> Generator[None]:
    """Has handlers of standard streams write to what takes their place."""
    before = sys.stdout, sys.stderr
    try:
        yield
    finally:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                given = cast("logging.StreamHandler[Any]", handler)
                for old, new in zip(before, (sys.stdout, sys.stderr), strict=True):
                    if given.stream is old:
                        given.setStream(new)
                        break


def _unseen() -> contextlib.suppress:
    """Lets the program go on where the terminal is gone."""
    return contextlib.suppress(OSError, ValueError)
