"""A progress bar on the standard error; only who asks for one loads rich."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

_PERIOD = 0.1


class ProgressBar:
    """Draws a progress bar, ten times a second at the most, in the caller's thread.

    Args:
        label: The text in front of it.
        total: How many results there will be, or None if that is unknown.
    """

    def __init__(self, label: str, total: int | None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._task = self._bar.add_task(label, total=total)
        self._drawn = 0.0
        self._is_open = False

    def advance(self) -> None:
        """Counts one more result."""
        if not self._is_open:
            self._is_open = True
            self._bar.start()
        self._bar.advance(self._task)
        now = time.monotonic()
        if now - self._drawn >= _PERIOD:
            self._drawn = now
            self._bar.refresh()

    def close(self) -> None:
        """Draws it for the last time."""
        if self._is_open:
            self._is_open = False
            self._bar.stop()
