"""Streams through the owner: items to their readers, and back what those have taken.

A reader is the owner's own code or another worker. For both the same holds: a producer
is told of it only in answer to an item, so what it is told is of a stream it knows.

An actor that was ended by name (``end``, the end of its block) leaves behind what it
was sent. A stream that nobody takes anything of would keep it for ever: it is cut off
when nothing was taken of it for a while. Its worker knows which those are.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from actorlib._core.flow_control import UNREAD
from actorlib._core.stream_reader import StreamReader
from actorlib._owner.refcount import OWNER, passing
from actorlib._wire.errors import load_result
from actorlib._wire.messages import CANCEL, ITEM, STREAM_ACK, STREAM_EXPIRE, Frame
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from actorlib._core.ids import ActorId, LoanId
    from actorlib._core.object_ref import Namer, ObjectRef
    from actorlib._owner.refcount import BorrowedReferences
    from actorlib._wire.async_channel import AsyncChannel

_LEAST = 0.05


class Calls(Protocol):
    """Knows the calls of one actor, by number; see Mailbox."""

    def reply_of(self, number: int) -> Any:
        """Finds who waits for the answer of a call that was sent."""
        ...

    def replies(self) -> Iterable[Any]:
        """Walks over everybody who waits for an answer."""
        ...


class Streams:
    """Passes on the items of one actor's streams.

    Args:
        calls: Its calls.
        loans: Counts the handles in items.
    """

    def __init__(self, calls: Calls, loans: BorrowedReferences) -> None:
        self.channel: AsyncChannel | None = None
        self._calls = calls
        self._loans = loans

    def item(self, frame: Frame) -> None:
        """Gives an item to whoever reads; one that nobody wants is dropped.

        Raises:
            ProtocolError: It is of a call that is no stream.
        """
        reader = self._calls.reply_of(frame[1])
        if reader is not None and not (
            isinstance(reader, StreamReader) or hasattr(reader, "item")
        ):
            raise ProtocolError(f"an item of call {frame[1]}, which is no stream")
        if reader is None and frame[2] == 0 and self.channel is not None:
            # The cancellation met the call on the way from its line to its thread.
            self.channel.send((CANCEL, frame[1]))
        if frame[3]:
            with passing(self._loans, frame[3], OWNER):
                _give(reader, frame)
        else:
            _give(reader, frame)

    def taken(self, number: int, count: int) -> None:
        """Tells the actor how many items of a stream were taken."""
        if self.channel is not None:
            self.channel.send((STREAM_ACK, number, count))

    def cut_off(
        self,
        loop: asyncio.AbstractEventLoop,
        patience: float,
        is_over: Callable[[], bool],
    ) -> None:
        """Cuts off, now and again, what nobody has taken anything of meanwhile.

        Args:
            loop: The owner's loop.
            patience: Seconds.
            is_over: Whether the actor has nothing left to do.
        """
        if is_over():
            return
        are_read = any(isinstance(reply, _READERS) for reply in self._calls.replies())
        if are_read and self.channel is not None:
            self.channel.send((STREAM_EXPIRE, 0))
        after = max(patience, _LEAST)
        loop.call_later(after, self.cut_off, loop, patience, is_over)


def _give(reader: Any, frame: Frame) -> None:
    if isinstance(reader, StreamReader):
        _, number, index, loans, payload = frame
        reader.put(number, index, payload, partial(load_result, loans=loans))
    elif reader is not None:
        cast("Reader", reader).item(frame)


class Source(Protocol):
    """Makes the items of a stream: an actor, or the pool of functions."""

    def taken(self, number: int, count: int) -> None:
        """Tells whoever makes them how many of them were taken."""
        ...


class OwnerFeed:
    """Reads streams for the owner's own code; see Feed.

    Args:
        loop: The owner's loop.
        dispatch: The calls that they are of; see Replier.
        source: Where their items come from.
    """

    __slots__ = ("_dispatch", "_loop", "_source", "_thread")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, dispatch: Namer, source: Source
    ) -> None:
        self._loop = loop
        self._dispatch = dispatch
        self._source = source
        self._thread = threading.get_ident()

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops the call; see Replier."""
        self._dispatch.cancel(call, recursive=recursive)

    def called(self, call: int) -> str:
        """Names the call in messages; see Namer."""
        return self._dispatch.called(call)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""
        self._dispatch.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread beside the loop; see Replier."""
        self._dispatch.wait(ref, timeout)

    def name(self) -> bytes:
        """Makes an id for what a ref stands for; see Replier."""
        return self._dispatch.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Says how a ref is pickled into a value that is sent; see Replier."""
        return self._dispatch.travel(ref)

    def taken(self, number: int, count: int) -> None:
        """Tells how many items were taken; see Feed."""
        if threading.get_ident() == self._thread:
            self._source.taken(number, count)
        else:
            self._loop.call_soon_threadsafe(self._source.taken, number, count)

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back from the loop; see Feed."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(callback)
        else:
            self._loop.call_soon_threadsafe(callback)


class Worker(Protocol):
    """Reads a stream, or calls over a link; a Session does."""

    actor: ActorId
    number: int
    channel: AsyncChannel


class Answering(Protocol):
    """Passes an answer on to a worker that waits; see WorkerCall."""

    asking: int

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...

    def drop(self) -> bool:
        """Cancels the call; True if it is told when that has ended."""
        ...


class Reader:
    """Passes one stream, of an actor or a function, on to the worker that reads it.

    Args:
        asker: Passes the end on.
        lend: Counts handles that are about to be sent to the worker.
        session: The worker.
        call: What it calls the stream.
        source: Where the items come from.
        is_detached: Whether the call goes on when the worker is gone.

    Attributes:
        session: The worker.
        call: What it calls the stream.
        over: What is done at the end.
    """

    __slots__ = (
        "_asker",
        "_is_detached",
        "_is_gone",
        "_lend",
        "_number",
        "_source",
        "call",
        "over",
        "session",
    )

    def __init__(
        self,
        asker: Answering,
        lend: Callable[[tuple[LoanId, ...], Any], None],
        session: Worker,
        call: int,
        source: Source,
        *,
        is_detached: bool,
    ) -> None:
        self.session = session
        self.call = call
        self.over: Callable[[], None] | None = None
        self._is_gone = False
        self._is_detached = is_detached
        self._asker = asker
        self._lend = lend
        self._source = source
        self._number = 0

    def item(self, frame: Frame) -> None:
        """Passes an item on."""
        _, self._number, index, loans, payload = frame
        channel = self.session.channel
        if self._is_gone or not channel.is_open:
            if index == 0:
                self.took(UNREAD)
            return
        if loans:
            self._lend(loans, self.session)
        channel.send((ITEM, self.call, index, loans, payload))

    def took(self, count: int) -> None:
        """Tells the source that the worker has taken items, or is gone."""
        self._is_gone = self._is_gone or count == UNREAD
        if self._number:
            self._source.taken(self._number, count)

    @property
    def asking(self) -> int:
        """The number that the call which reads it has in the worker, or 0."""
        return self._asker.asking

    def leave(self) -> None:
        """Cancels the call of a worker that is gone, unless it is detached."""
        self.took(UNREAD)
        if not self._is_detached:
            self._asker.drop()

    def answer(self, frame: Frame) -> None:
        """Passes the end on."""
        self._asker.answer(frame)
        if self.over is not None:
            self.over()

    def fail(self, error: BaseException) -> None:
        """Passes on why there is no end."""
        self._asker.fail(error)
        if self.over is not None:
            self.over()


class Readers:
    """Finds the streams that workers read, by the worker's own number for each."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, Reader]] = {}

    def __len__(self) -> int:
        """Counts the streams that workers read."""
        return sum(map(len, self._open.values()))

    def add(self, reader: Reader, *, is_capped: bool) -> None:
        """Takes a stream that a worker begins to read.

        Args:
            reader: What it reads.
            is_capped: Whether what it takes matters also behind the end.
        """
        session, call = reader.session.number, reader.call
        self._open.setdefault(session, {})[call] = reader
        if not is_capped:
            reader.over = partial(self.end, session, call)

    def took(self, session: int, call: int, count: int) -> None:
        """Passes on how many items a worker has taken."""
        reader = self._open.get(session, {}).get(call)
        if reader is not None:
            reader.took(count)

    def end(self, session: int, call: int) -> None:
        """Forgets a stream of which a worker needs to hear no more."""
        readers = self._open.get(session)
        if readers is not None:
            readers.pop(call, None)
            if not readers:
                del self._open[session]

    def forget(self, session: int) -> list[Reader]:
        """Forgets a worker that is gone; gives what it read, to be left."""
        return list(self._open.pop(session, {}).values())


_READERS = (StreamReader, Reader)
