"""Sends and receives frames over a socket, on an event loop.

A channel works on a raw non-blocking socket through ``add_reader``, the same on
asyncio's loop and on uvloop, because streams and transports cost twice: a worker would
need two turns of the loop to be connected, and every frame would pass their buffers.

To write at once is fastest for a single frame, to gather is fastest for many, and the
channel does not know how many will follow. So the first frame of a turn of the loop is
sent at once, which also wakes the other side early. The other frames of that turn are
sent in one write at its end.

Nothing is dropped when the kernel's buffer is full: the rest waits here and is sent
when there is room. A worker then stops reading calls until its results are sent
(``pause_above``). The owner never stops reading, or two full pipes would wait for each
other for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import select
import socket
from collections import deque
from socket import SO_ERROR, SOL_SOCKET
from typing import TYPE_CHECKING, TypeVar, cast

from actorlib._base.named_sockets import NO_SIGNAL
from actorlib._wire.codec import FrameDecoder, borrowed_of, encode, encode_with_borrowed
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._shm.layout import Buffer
    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._wire.messages import Frame

S = TypeVar("S")

_MAX_READS = 16
# Enough for a few hundred small frames: the other side processes the first of a burst
# while this side still makes the rest.
_BURST = 8 * 1024


class AsyncChannel:
    """Sends and receives frames on a loop: one end of a pipe.

    Args:
        loop: Its event loop; every method is called from the loop's thread.
        sock: Its end of a socket pair; non-blocking from now on, closed by ``close``.
        receive: Called with the frames of one read, in order.
        on_lost: Called once when the other side is gone, with the error, or None if it
            simply closed. Not called after ``close``.
        decoder: Contains the bytes that were read before the loop ran, if any.
        pause_above: Bytes of results that may wait here before reading is paused, or
            None for no limit.

    Attributes:
        refused: The maximum number of frames that were sent after the other side was
            gone.
        is_turn_timed: Whether its user has recorded the time of this turn of the loop;
            False again from the next turn on, which begins behind ``write``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        receive: Callable[[list[Frame]], None],
        on_lost: Callable[[Exception | None], None],
        *,
        sharing: SegmentSharing | None = None,
        decoder: FrameDecoder | None = None,
        pause_above: int | None = None,
    ) -> None:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._receive = receive
        self._on_lost = on_lost
        self._sharing = sharing
        self._decoder = decoder or FrameDecoder(sharing)
        self._pause_above = pause_above
        self._gathered: list[Buffer] = []
        self._gathered_size = 0
        self._is_gathering = False
        self.is_turn_timed = False
        self._backlog: deque[memoryview] = deque()
        self._backlog_size = 0
        self._drained: asyncio.Future[None] | None = None
        self.is_open = True
        self._is_paused = False
        self.refused = 0
        loop.add_reader(self._fd, self._readable)

    @property
    def unsent(self) -> int:
        """The bytes that the kernel has not accepted yet."""
        return self._backlog_size + self._gathered_size

    def send(self, frame: Frame) -> None:
        """Sends a frame after the earlier ones; drops a frame for a closed pipe."""
        if borrowed_of(frame) is None:
            data = encode(frame)
        elif self._sharing and self.is_open:
            data = self._sharing.encode(frame)
        else:
            data = encode_with_borrowed(frame)
        if type(data) is bytes:
            self.write(data)
            return
        for piece in cast("list[Buffer]", data):
            self.write(piece)

    def write(self, data: Buffer) -> None:
        """Sends bytes of a frame, after the earlier ones; see ``send``."""
        if self._is_gathering:
            self._gathered.append(data)
            self._gathered_size += len(data)
            if self._gathered_size >= _BURST:
                self._write_gathered()
            return
        self._loop.call_soon(self._flush)
        self._is_gathering = True
        self._write(data)

    def write_last(self, data: Buffer) -> None:
        """Sends bytes after which no others are expected in this turn of the loop.

        Unlike ``write``, it does not schedule a turn that flushes other frames. Such a
        turn costs the loop a system call, for each call if they are answered one at a
        time.
        """
        if self._is_gathering:
            self.write(data)
        else:
            self._write(data)

    def send_now(self, frame: Frame) -> None:
        """Sends a frame after the earlier ones, not at the end of the loop's turn.

        For code that blocks the loop, perhaps for long.
        """
        was_gathering, self._is_gathering = self._is_gathering, True
        self.send(frame)
        self._is_gathering = was_gathering
        self._write_gathered()

    def push(self) -> None:
        """Blocks the loop until the kernel has accepted everything that was sent.

        Frames that come meanwhile are received as usual, but the loop runs nothing
        else.
        """
        if self._gathered:
            self._write_gathered()
        while self._backlog and self.is_open:
            self.pump(None)

    async def drain(self) -> None:
        """Waits until the kernel has accepted everything that was sent, or the end."""
        self._flush()
        if self._backlog:
            self._drained = self._drained or self._loop.create_future()
            await asyncio.shield(self._drained)

    def pump(
        self,
        timeout: float | None,
        others: Mapping[int, S] | None = None,
        read: Callable[[S], None] | None = None,
    ) -> bool:
        """Writes and reads once in the place of the loop, whose thread is blocked.

        ``read`` reads the objects in ``others``, by their descriptors, meanwhile.
        Returns False if there was nothing to do within the timeout. Raises EOFError if
        this end is closed.
        """
        if self.is_open:
            self._flush()
        if not self.is_open:
            raise EOFError("the other side of the pipe is gone")
        poller = select.poll()
        reads = 0 if self._is_paused else select.POLLIN
        poller.register(self._fd, reads | (select.POLLOUT if self._backlog else 0))
        for fd in others or ():
            poller.register(fd, select.POLLIN)
        limit = None if timeout is None else math.ceil(timeout * 1000)
        ready = [fd for fd, _ in poller.poll(limit)]
        for fd in ready:
            if others and read and fd in others:
                read(others[fd])
        if self._backlog:
            self._writable()
        if self.is_open and not self._is_paused:
            self._readable()
        return bool(ready)

    def close_in_fork(self) -> None:
        """Closes a fork's copy of this end; the parent's end does not change."""
        if self.is_open:
            self.is_open = False
            self._sock.close()
            if self._sharing is not None:
                self._sharing.close()

    def close(self) -> None:
        """Closes this end after one attempt to send the rest."""
        if self.is_open:
            self._flush()
        self._shut()

    def _shut(self) -> None:
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._fd)
            # Even a writer that another object has added, such as the launcher, which
            # sends descriptors: uvloop aborts when a watched descriptor is closed.
            self._loop.remove_writer(self._fd)
            self._backlog.clear()
            self._gathered.clear()
            self._gathered_size = 0
            # This end and its user refer to each other. The buffer, 64 KiB, must not
            # wait with them for the garbage collector.
            del self._decoder
            # Closing is not enough: a fork of this process has a copy of the socket.
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()
            if self._sharing is not None:
                self._sharing.close()
            self._wake_drainers()

    def _fail(self, error: Exception | None) -> None:
        if self.is_open:
            self._shut()
            self._on_lost(error)

    def _flush(self) -> None:
        self._is_gathering = self.is_turn_timed = False
        self._write_gathered()

    def _write_gathered(self) -> None:
        gathered, self._gathered, self._gathered_size = self._gathered, [], 0
        small: list[Buffer] = []
        for piece in gathered:
            if len(piece) < _BURST:
                small.append(piece)
                continue
            self._write(b"".join(small), len(small))
            self._write(piece)
            small = []
        self._write(b"".join(small), len(small))

    def _write(self, data: Buffer, count: int = 1) -> None:
        if not self.is_open or not data:
            return
        if self._backlog:
            self._add_to_backlog(memoryview(data))
            return
        try:
            sent = self._sock.send(data, NO_SIGNAL)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            # The other side is gone. The bytes that it has sent are still to be read,
            # and their end reports the loss, once.
            self.refused += count
            return
        if sent < len(data):
            self._loop.add_writer(self._fd, self._writable)
            self._add_to_backlog(memoryview(data)[sent:])

    def _add_to_backlog(self, rest: memoryview) -> None:
        self._backlog.append(rest)
        self._backlog_size += len(rest)
        if self._pause_above is not None and self._backlog_size > self._pause_above:
            self._is_paused = True
            self._loop.remove_reader(self._fd)

    def _writable(self) -> None:
        while self._backlog:
            rest = self._backlog[0]
            try:
                sent = self._sock.send(rest, NO_SIGNAL)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._backlog.clear()
                break
            self._backlog_size -= sent
            if sent < len(rest):
                self._backlog[0] = rest[sent:]
                return
            self._backlog.popleft()
        self._backlog_size = 0
        self._loop.remove_writer(self._fd)
        self._wake_drainers()
        if self._is_paused:
            self._is_paused = False
            self._loop.add_reader(self._fd, self._readable)

    def _wake_drainers(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _readable(self) -> None:
        """Reads all there is: uvloop reports a socket's error once and never again.

        A read that returns less than it may was the last one, unless there is such an
        error; checking for that is cheaper than a read in vain.
        """
        for _ in range(_MAX_READS):
            try:
                wanted = self._decoder.read_size
                data = self._sock.recv(wanted)
                frames = self._decoder.feed(data) if data else []
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # reset: it died with frames unread
                self._fail(None)
                return
            except ProtocolError as error:
                self._fail(error)
                return
            if not data:
                self._fail(None)
                return
            if frames:
                self._receive(frames)
            if not self.is_open or self._is_paused:
                return
            if len(data) < wanted and not self._sock.getsockopt(SOL_SOCKET, SO_ERROR):
                return
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self.is_open and not self._is_paused:
            self._readable()
