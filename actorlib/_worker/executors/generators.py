"""Keeps the streams that a worker produces: how far each may go, and which are paused.

A stream whose reader is behind is *paused*: the executor stops running it. A later
report of the reader *wakes* it by a frame that is served like a call, in order with
calls. So neither a thread nor a place among the calls that may run at once waits for a
reader.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actorlib._futures.flow_control import SendWindow, bounds_of
from actorlib._shm.memory import SharedPayload
from actorlib._wire.messages import STREAM_ACK, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._worker.executors.run_events import CallRun

CUT_OFF = (
    "the stream was cut off: its actor was ended, and its items were not being read"
)
CANCELLED = "the call was cancelled"


class OutgoingStream:
    """The state of one stream.

    Attributes:
        window: The items that were sent, and those that were taken.
        source: The generator, after its creation.
        next_item: Returns the next item of a plain generator.
        run: The run of a plain generator, if there are consumers of events.
        item_count: The number of items, including those without a reader.
        end_reason: Why the stream has to end early, or None.
        last_taken: The number of taken items at the last check for stalled streams.
    """

    __slots__ = (
        "call",
        "end_reason",
        "is_paused",
        "item_count",
        "last_taken",
        "next_item",
        "run",
        "source",
        "wake_frame",
        "window",
    )

    def __init__(self, call: int, name: str, headers: Mapping[str, Any]) -> None:
        self.call = call
        self.wake_frame: Frame = (STREAM_ACK, call, name, None, headers, b"")
        self.window = SendWindow(bounds_of(headers["stream"]))
        self.source: Any = None
        self.next_item: Callable[[], Any]
        self.run: CallRun | None = None
        self.item_count = 0
        self.end_reason: str | None = None
        self.is_paused = False
        self.last_taken: int | None = None

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "runs"
        return f"<Stream {self.call} {state}, {self.window!r}>"


class OutgoingStreams:
    """The streams that a worker produces; safe for several threads.

    Args:
        wake: Receives the frames that wake streams.
        cap: How many items of all streams together may be unread, or -1.

    Attributes:
        are_closing: Whether streams end instead of waiting for their readers.
    """

    def __init__(self, wake: Callable[[Frame], None], cap: int = -1) -> None:
        self.are_closing = False
        self._wake = wake
        self._cap = cap
        self._open: dict[int, OutgoingStream] = {}
        self._finished: dict[int, OutgoingStream] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, frame: Frame) -> OutgoingStream:
        stream = self._open[frame[1]] = OutgoingStream(frame[1], frame[2], frame[4])
        return stream

    def of(self, call: int) -> OutgoingStream:
        return self._open[call]

    def may_go(self, stream: OutgoingStream) -> bool:
        """Whether the window has room for an item, or the generator has to end."""
        window = stream.window
        if not window.is_read or stream.end_reason is not None:
            return True
        return window.has_room and (self._cap < 0 or self._has_share(stream))

    def put(self, stream: OutgoingStream, nbytes: int) -> None:
        """Counts an item that was sent."""
        with self._lock:
            stream.window.put(nbytes)

    def pause(self, stream: OutgoingStream) -> None:
        """Makes a stream wait for its reader; wakes it at once if there is room now."""
        with self._lock:
            stream.is_paused = True
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake_frame)

    def acknowledge(self, call: int, count: int) -> None:
        """Counts the items that a reader has taken, or records that it is gone."""
        with self._lock:
            stream = self._open.get(call) or self._finished.get(call)
            if stream is None:
                return
            stream.window.took(count)
            if not stream.window.unread:
                self._finished.pop(call, None)
            woken = self._woken(stream)
        for other in woken:
            self._wake(other.wake_frame)

    def cancel(self, call: int, why: str = CANCELLED) -> bool:
        """Ends a stream at its next item; False if the call has no open stream."""
        with self._lock:
            stream = self._open.get(call)
            if stream is None:
                return False
            stream.end_reason = stream.end_reason or why
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake_frame)
        return True

    def end_all(self) -> None:
        """Ends every stream at its next item: the owner is gone."""
        with self._lock:
            for stream in self._open.values():
                stream.end_reason = stream.end_reason or CANCELLED

    def stalled(self) -> list[int]:
        """Returns the streams whose readers have taken no item since the last check."""
        stalled: list[int] = []
        with self._lock:
            for stream in self._open.values():
                window = stream.window
                waits = stream.is_paused or not window.is_read
                count = window.taken if waits else None
                if count is not None and count == stream.last_taken:
                    stalled.append(stream.call)
                stream.last_taken = count
        return stalled

    def end(self, call: int) -> None:
        """Closes a stream; its unread items still count."""
        with self._lock:
            stream = self._open.pop(call, None)
            if stream is None or self._cap < 0:
                return
            if stream.window.unread:
                self._finished[call] = stream
            woken = self._woken(stream)
        for other in woken:
            self._wake(other.wake_frame)

    def clear(self) -> list[OutgoingStream]:
        with self._lock:
            streams = list(self._open.values())
            self._open.clear()
            return streams

    def _woken(self, stream: OutgoingStream) -> list[OutgoingStream]:
        """Returns the streams that may continue after a change of one."""
        others = [stream]
        if self._cap >= 0:  # those with the fewest unread items first
            others = sorted(self._open.values(), key=_unread_of)
        return [other for other in others if self._is_woken(other)]

    def _is_woken(self, stream: OutgoingStream) -> bool:
        if not stream.is_paused or not self.may_go(stream):
            return False
        stream.is_paused = False
        return True

    def _has_share(self, stream: OutgoingStream) -> bool:
        """Whether this stream may have one more of the unread items of all streams.

        One item is reserved for each stream without unread items. Otherwise a reader of
        two streams could wait for the first, while the second has used up the limit.
        """
        opened = list(self._open.values())
        unread = sum(map(_unread_of, [*opened, *list(self._finished.values())]))
        if stream.window.unread:
            unread += sum(
                other.window.is_read and not other.window.unread for other in opened
            )
        return unread < self._cap


def _unread_of(stream: OutgoingStream) -> int:
    return stream.window.unread


def is_stream(frame: Frame) -> bool:
    return "stream" in frame[4]


def nbytes_of(payload: Any) -> int:
    if type(payload) is bytes:
        return len(payload)
    if isinstance(payload, SharedPayload):
        return sum(payload.sizes)
    return sum(memoryview(buffer).nbytes for buffer in payload)
