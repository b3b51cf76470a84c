"""Where what workers print appears: this process's own output."""

from __future__ import annotations

import sys
from contextvars import Context
from typing import TYPE_CHECKING, TextIO

from actorlib._local.repeats import Line, Repeats

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from actorlib._local.log_style import LogStyle


class Terminal:
    """The output of this process, as all workers of a runtime share it.

    Args:
        loop: The owner's loop.
        style: How lines look.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, style: LogStyle) -> None:
        self._loop = loop
        self._style = style
        self._repeats = Repeats() if style.merges else None
        self._timer: asyncio.TimerHandle | None = None
        self._lost: dict[str, object] = {}

    def show(self, stream: str, label: str, pid: int, texts: Iterable[bytes]) -> None:
        """Shows lines of a worker, but for those that others have just printed.

        Args:
            stream: ``stdout`` or ``stderr``.
            label: The name of the actor's class.
            pid: The worker's process.
            texts: Lines without their ends.
        """
        if not self._style.is_shown:
            return
        lines = [Line(stream, label, pid, text) for text in texts]
        if self._repeats is not None and lines:
            now = self._loop.time()
            lines = self._repeats.admit(lines, now)
            if self._repeats.is_due:
                self._tell(self._repeats.tell(now))
            if not lines:
                self._wake()
        told = self._style.told
        self._write(stream, "".join(map(told, lines)))

    def close(self) -> None:
        """Tells what was held back; what comes later is shown as it comes."""
        if self._timer is not None:
            self._timer.cancel()
        repeats, self._repeats = self._repeats, None
        if repeats is not None:
            self._tell(repeats.tell_all())

    def _wake(self) -> None:
        due = self._repeats.due if self._repeats is not None else None
        if self._timer is None and due is not None:
            self._timer = self._loop.call_at(due, self._be_due)

    def _be_due(self) -> None:
        self._timer = None
        if self._repeats is not None:
            self._tell(self._repeats.tell(self._loop.time()))
            self._wake()

    def _tell(self, held: Iterable[tuple[Line, int]]) -> None:
        for line, count in held:
            self._write(line.stream, self._style.told(line, count))

    def _write(self, name: str, text: str) -> None:
        stream = getattr(sys, name)
        if not text or stream is None or stream is self._lost.get(name):
            return
        try:
            # Whoever started what calls this, the output is not theirs: a notebook asks
            # the context which cell it belongs to, and without one shows it in the
            # cell that runs.
            Context().run(_put, stream, text)
        except (OSError, ValueError):  # it is closed: there is nobody left to read it
            self._lost[name] = stream


def _put(stream: TextIO, text: str) -> None:
    coding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(coding, "backslashreplace").decode(coding))
    stream.flush()
