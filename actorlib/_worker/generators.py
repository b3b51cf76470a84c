"""The streams that this actor makes: how far each is ahead, and which are set aside.

A stream whose reader is behind is *set aside*: whoever runs it lets go of it, and what
its reader says later *wakes* it, by a frame that is served as calls are, in order with
them. So nothing waits for a reader: neither a thread nor a place among the calls that
may run at once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actorlib._core.flow_control import SendWindow, bounds_of
from actorlib._shm.memory import SharedPayload
from actorlib._wire.messages import STREAM_ACK, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CUT_OFF = (
    "the stream was cut off: its actor was ended, and nobody took its items any more"
)
CANCELLED = "the call was cancelled"


class Stream:
    """One stream.

    Attributes:
        call: Its call.
        wake: The frame that wakes it.
        ahead: What was sent, and what of it was taken.
        source: The generator, when there is one.
        step: Takes its next item, if it is a plain one.
        made: How many items it has given, also to nobody.
        ending: Why it is to end before its end, if it is.
    """

    __slots__ = (
        "ahead",
        "call",
        "ending",
        "is_aside",
        "made",
        "mark",
        "source",
        "step",
        "wake",
    )

    def __init__(self, call: int, name: str, told: Mapping[str, Any]) -> None:
        self.call = call
        self.wake: Frame = (STREAM_ACK, call, name, None, told, b"")
        self.ahead = SendWindow(bounds_of(told["stream"]))
        self.source: Any = None
        self.step: Callable[[], Any]
        self.made = 0
        self.ending: str | None = None
        self.is_aside = False
        self.mark: int | None = None

    def __repr__(self) -> str:
        state = "set aside" if self.is_aside else "runs"
        return f"<Stream {self.call} {state}, {self.ahead!r}>"


class Streams:
    """All of them; for several threads.

    Args:
        wake: Gets the frames that wake streams.
        cap: How many items of all of them together may be unread, or -1.

    Attributes:
        are_ending: Whether none is to wait for its reader any more.
    """

    def __init__(self, wake: Callable[[Frame], None], cap: int = -1) -> None:
        self.are_ending = False
        self._wake = wake
        self._cap = cap
        self._open: dict[int, Stream] = {}
        self._finished: dict[int, Stream] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._open)

    def begin(self, frame: Frame) -> Stream:
        """A stream begins.

        Args:
            frame: Its call.
        """
        stream = self._open[frame[1]] = Stream(frame[1], frame[2], frame[4])
        return stream

    def of(self, call: int) -> Stream:
        """The stream of a call.

        Raises:
            LookupError: It is none.
        """
        return self._open[call]

    def may_go(self, stream: Stream) -> bool:
        """Whether it may make another item, or has another reason to go on."""
        ahead = stream.ahead
        if not ahead.is_read or stream.ending is not None:
            return True
        return ahead.has_room and (self._cap < 0 or self._has_share(stream))

    def put(self, stream: Stream, nbytes: int) -> None:
        """It has sent an item of that size."""
        with self._lock:
            stream.ahead.put(nbytes)

    def set_aside(self, stream: Stream) -> None:
        """It waits for its reader; it is woken at once if there is room by now."""
        with self._lock:
            stream.is_aside = True
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake)

    def told(self, call: int, count: int) -> None:
        """A reader has taken items, or is gone."""
        with self._lock:
            stream = self._open.get(call) or self._finished.get(call)
            if stream is None:
                return
            stream.ahead.took(count)
            if not stream.ahead.unread:
                self._finished.pop(call, None)
            woken = self._woken(stream)
        for other in woken:
            self._wake(other.wake)

    def cancel(self, call: int, why: str = CANCELLED) -> bool:
        """Ends a stream at its next item; False if there is no such stream."""
        with self._lock:
            stream = self._open.get(call)
            if stream is None:
                return False
            stream.ending = stream.ending or why
            wakes = self._is_woken(stream)
        if wakes:
            self._wake(stream.wake)
        return True

    def end_all(self, why: str = CANCELLED) -> None:
        """Ends every stream that runs at its next item: the owner is gone."""
        with self._lock:
            for stream in self._open.values():
                stream.ending = stream.ending or why

    def stand_still(self) -> list[int]:
        """The streams of which nothing was taken since this was asked last."""
        still: list[int] = []
        with self._lock:
            for stream in self._open.values():
                ahead = stream.ahead
                waits = stream.is_aside or not ahead.is_read
                mark = ahead.taken if waits else None
                if mark is not None and mark == stream.mark:
                    still.append(stream.call)
                stream.mark = mark
        return still

    def aside(self) -> list[Stream]:
        """Those that wait for their readers."""
        return [stream for stream in list(self._open.values()) if stream.is_aside]

    def end(self, call: int) -> None:
        """A stream has ended; what is unread of it still counts."""
        with self._lock:
            stream = self._open.pop(call, None)
            if stream is None or self._cap < 0:
                return
            if stream.ahead.unread:
                self._finished[call] = stream
            woken = self._woken(stream)
        for other in woken:
            self._wake(other.wake)

    def forget(self) -> list[Stream]:
        """Gives all of them up."""
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
        return left

    def _woken(self, stream: Stream) -> list[Stream]:
        """Those that may go now that something has happened to one."""
        others = [stream]
        if self._cap >= 0:  # first those that have least there to be read
            others = sorted(self._open.values(), key=_unread_of)
        return [other for other in others if self._is_woken(other)]

    def _is_woken(self, stream: Stream) -> bool:
        if not stream.is_aside or not self.may_go(stream):
            return False
        stream.is_aside = False
        return True

    def _has_share(self, stream: Stream) -> bool:
        """Whether all together may have one more unread item, and it may be this one's.

        One is left for each stream that has nothing there to be read: else a reader of
        two would wait for the one, while the other has taken all there may be.
        """
        opened = list(self._open.values())
        unread = sum(map(_unread_of, [*opened, *list(self._finished.values())]))
        if stream.ahead.unread:
            unread += sum(
                other.ahead.is_read and not other.ahead.unread for other in opened
            )
        return unread < self._cap


def _unread_of(stream: Stream) -> int:
    return stream.ahead.unread


def is_stream(frame: Frame) -> bool:
    """Whether a CALL_WITH frame calls a generator."""
    return "stream" in frame[4]


def size_of(payload: Any) -> int:
    """The bytes of a payload."""
    if type(payload) is bytes:
        return len(payload)
    if isinstance(payload, SharedPayload):
        return sum(payload.sizes)
    return sum(memoryview(buffer).nbytes for buffer in payload)
