"""Records when the calls of this worker run, for traces and timelines."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._wire.messages import CALL_WITH, RECORDED, STREAM_ACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame

BEGIN: Final = 0
"""Starts the recording."""
TELL: Final = 1
"""Requests the recording, which continues."""
END: Final = 2
"""Requests the recording, and stops it."""
_PIECE: Final = 1000
_SECONDS: Final = 0.25

_msgpack: Any = msgpack


def attach(engine: Any, config: ActorConfig) -> RunRecorder:
    """Attaches a recorder to the engine of a worker; see ``_worker/features.py``."""
    del config
    return RunRecorder(engine.post)


@final
class RunRecorder:
    """Records when calls ran, and when the worker made calls over links.

    The recording goes to the owner in pieces of at most a quarter of a second, with the
    next run: so little is kept here, and little is lost if the process is killed. The
    owner keeps the pieces as they arrive.
    """

    def __init__(self, post: Callable[[Frame], None]) -> None:
        self._post = post
        # Filled by any thread that runs calls, and emptied by one at a time.
        self._runs: deque[tuple[int, str, float, float, str, bool]] = deque()
        self._link_calls: deque[tuple[int, int, float]] = deque()
        self._sent_at = 0.0
        self._sending = threading.Lock()

    def switch(self, events: Any, mode: int, number: int) -> None:
        """Starts or stops the recording; sends it if a request has a number.

        Args:
            events: The events of the worker.
            mode: ``BEGIN``, ``TELL`` or ``END``.
            number: The number of the request, or 0.
        """
        events.recorder = None if mode == END else self
        if number:
            self.send(number)

    def ran(self, frame: Frame, began: float, ended: float, error: str) -> None:
        """Records a run of a call or a part of a stream; see ``run_events``."""
        kind, call, name = frame[0], frame[1], frame[2]
        is_part = kind == STREAM_ACK or (kind == CALL_WITH and "stream" in frame[4])
        self._runs.append((call, name, began, ended, error, is_part))
        if ended - self._sent_at > _SECONDS or len(self._runs) >= _PIECE:
            self.send(0)

    def link_call(self, number: int, parent: int) -> None:
        """Records a call over a link."""
        self._link_calls.append((number, parent, time.monotonic()))

    def send(self, number: int) -> None:
        """Sends the recording since the last time."""
        with self._sending:
            self._sent_at = time.monotonic()
            runs = [self._runs.popleft() for _ in range(len(self._runs))]
            calls = [self._link_calls.popleft() for _ in range(len(self._link_calls))]
            piece = cast("bytes", _msgpack.packb((runs, calls)))
            self._post((RECORDED, number, len(runs), piece))
