"""Keeps the streams that a worker makes: how far each may go, and which are paused.

A stream whose reader is behind is *paused*: whoever runs it lets go of it, and what its
reader says later *wakes* it, by a frame that is served as calls are, in order with
them. So nothing waits for a reader: neither a thread nor a place among the calls that
may run at once.
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
    "the stream was cut off: its actor was ended, and nobody took its items any more"
)
CANCELLED = "the call was cancelled"


class OutgoingStream:
    """Keeps what is known of one stream.

    Args:
        call: Its call.
        name: What that calls.
        headers: What the caller says of the call.

    Attributes:
        call: Its call.
        wake_frame: The frame that wakes it.
        window: What was sent, and what of it was taken.
        source: The generator, when there is one.
        next_item: Takes its next item, if it is a plain one.
        run: Its run, if it is a plain one and there are consumers of events.
        item_count: How many items it has given, also to nobody.
        end_reason: Why it is to end before its end, if it is.
        is_paused: Whether it waits for its reader.
        last_taken: How many items were taken when stalled ones were looked for last.
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
    """Keeps all streams that a worker makes; for several threads.

    Args:
        wake: Gets the frames that wake streams.
        cap: How many items of all of them together may be unread, or -1.

    Attributes:
        are_closing: Whether none is to wait for its reader any more.
    """

    def __init__(self, wake: Callable[[Frame], None], cap: int = -1) -> None:
        self.are_closing = False
        self._wake = wake
        self._cap = cap
        self._open: dict[int, OutgoingStream] = {}
        self._finished: dict[int, OutgoingStream] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._open)

    def begin(self, frame: Frame) -> OutgoingStream:
        """A stream begins.

        Args:
            frame: Its call.
        """
        stream = self._open[frame[1]] = OutgoingStream(frame[1], frame[2], frame[4])
        return stream

    def of(self, call: int) -> OutgoingStream:
        """The stream of a call.

        Raises:
            LookupError: It is none.
        """
        return self._open[call]

    def may_go(self, stream: OutgoingStream) -> bool:
        """Whether it may make another item, or has another reason to go on."""
        window = stream.window
        if not window.is_read or stream.end_reason is not None:
            return True
        return window.has_room and (self._cap < 0 or self._has_share(stream))

    def put(self, stream: OutgoingStream, nbytes: int) -> None:
        """It has sent an item of that size."""
        with self._lock:
            stream.window.put(nbytes)

    def pause(self, stream: OutgoingStream) -> None:
        """It waits for its reader; it is woken at once if there is room by now."""
        with self._lock:
            stream.is_paused = True
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake_frame)

    def acknowledge(self, call: int, count: int) -> None:
        """A reader has taken items, or is gone."""
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
        """Ends a stream at its next item; False if there is no such stream."""
        with self._lock:
            stream = self._open.get(call)
            if stream is None:
                return False
            stream.end_reason = stream.end_reason or why
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake_frame)
        return True

    def end_all(self, why: str = CANCELLED) -> None:
        """Ends every stream that runs at its next item: the owner is gone."""
        with self._lock:
            for stream in self._open.values():
                stream.end_reason = stream.end_reason or why

    def stalled(self) -> list[int]:
        """The streams of which nothing was taken since this was asked last."""
        stalled: list[int] = []
        with self._lock:
            for stream in self._open.values():
                window = stream.window
                waits = stream.is_paused or not window.is_read
                taken = window.taken if waits else None
                if taken is not None and taken == stream.last_taken:
                    stalled.append(stream.call)
                stream.last_taken = taken
        return stalled

    def end(self, call: int) -> None:
        """A stream has ended; what is unread of it still counts."""
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
        """Gives all of them up."""
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
        return left

    def _woken(self, stream: OutgoingStream) -> list[OutgoingStream]:
        """Those that may go now that something has happened to one."""
        others = [stream]
        if self._cap >= 0:  # first those that have least there to be read
            others = sorted(self._open.values(), key=_unread_of)
        return [other for other in others if self._is_woken(other)]

    def _is_woken(self, stream: OutgoingStream) -> bool:
        if not stream.is_paused or not self.may_go(stream):
            return False
        stream.is_paused = False
        return True

    def _has_share(self, stream: OutgoingStream) -> bool:
        """Whether all together may have one more unread item, and it may be this one's.

        One is left for each stream that has nothing there to be read: else a reader of
        two would wait for the one, while the other has taken all there may be.
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
    """Whether a CALL_WITH frame calls a generator."""
    return "stream" in frame[4]


def nbytes_of(payload: Any) -> int:
    """The bytes of a payload."""
    if type(payload) is bytes:
        return len(payload)
    if isinstance(payload, SharedPayload):
        return sum(payload.sizes)
    return sum(memoryview(buffer).nbytes for buffer in payload)
