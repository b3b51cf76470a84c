"""Records when calls ran in this worker, and when it made calls over links.

The owner says when to begin and when to end. What was recorded goes to it in pieces, a
quarter of a second's at the most, with the next run: so little is kept here, and little
is lost if the process is killed. The owner keeps the pieces as they come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._wire.messages import RECORDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.messages import Frame
    from actorlib._worker.call_run import CallRun

_PIECE: Final = 1000
_SECONDS: Final = 0.25

_msgpack: Any = msgpack


@final
class RunRecorder:
    """Records the runs of one worker; a consumer of ``RunEvents``.

    Args:
        send: Sends a frame to the owner.
    """

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        # Filled by any thread that runs calls, and emptied by one at a time.
        self._runs: deque[tuple[int, str, float, float, str, bool]] = deque()
        self._link_calls: deque[tuple[int, int, float]] = deque()
        self._sent_at = 0.0
        self._sending = threading.Lock()

    def ran(self, run: CallRun) -> None:
        """A run has ended, or a part of a stream."""
        ended = run.ended
        self._runs.append(
            (run.call, run.name, run.resumed, ended, run.error, run.is_stream)
        )
        if ended - self._sent_at > _SECONDS or len(self._runs) >= _PIECE:
            self.send(0)

    def link_call(self, number: int, parent: int) -> None:
        """A call leaves over a link.

        Args:
            number: The number that no other call over a link has.
            parent: That of the call that makes it, or 0.
        """
        self._link_calls.append((number, parent, time.monotonic()))

    def send(self, number: int) -> None:
        """Sends what was recorded since the last time.

        Args:
            number: That of the question that this answers; 0 if nobody has asked.
        """
        with self._sending:
            self._sent_at = time.monotonic()
            runs = [self._runs.popleft() for _ in range(len(self._runs))]
            calls = [self._link_calls.popleft() for _ in range(len(self._link_calls))]
            piece = cast("bytes", _msgpack.packb((runs, calls)))
            self._send((RECORDED, number, len(runs), piece))
