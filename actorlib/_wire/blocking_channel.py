"""Sends and receives frames over a socket, on plain threads: reads block.

A worker without an event loop answers in about the time of one wake-up; a loop there
would add a third to every round trip and a megabyte to every idle actor.
"""

from __future__ import annotations

import select
import signal
import socket
import struct
import threading
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from actorlib._shm.memory import SharedMemory
from actorlib._wire.codec import FrameDecoder, borrowed_of, encode, encode_with_borrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from actorlib._shm.layout import Buffer
    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._wire.messages import Frame

_timeval = struct.Struct("ll")
# A few hundred small results: the caller reads the first while the rest are made.
_BURST = 4 * 1024
_ATOMIC = 32 * 1024
"""Bytes that the kernel accepts whole or not at all, even if a signal arrives."""
# The C module: the enums of ``signal`` take longer than the write.
_sigmask: Any = import_module("_signal").pthread_sigmask
_SIGNALS = tuple(map(int, signal.valid_signals()))
_BLOCK, _SET = int(signal.SIG_BLOCK), int(signal.SIG_SETMASK)


@contextmanager
def _without_signals() -> Generator[None]:
    """Delays signals for this thread: a handler of the user may raise an exception.

    Amid a large write it would cut a frame.
    """
    before = _sigmask(_BLOCK, ())
    try:
        _sigmask(_BLOCK, _SIGNALS)  # it raises what a signal has just raised
        yield
    finally:
        _sigmask(_SET, before)


class BlockingChannel:
    """Sends and receives frames on threads: one end of a pipe.

    One thread at a time reads; any thread writes. If the other side is gone, a read
    raises EOFError, and a write OSError.

    Args:
        sock: Its end of a socket pair; blocking from now on.

    Attributes:
        read_timeout: The maximum wait of a read in seconds; 0 for no limit.
    """

    def __init__(
        self,
        sock: socket.socket,
        sharing: SegmentSharing | None = None,
        decoder: FrameDecoder | None = None,
    ) -> None:
        sock.setblocking(True)  # noqa: FBT003  # the socket API
        self.sock = sock
        self.sharing = sharing
        self.memory = sharing.memory if sharing is not None else SharedMemory()
        self.decoder = decoder or FrameDecoder(sharing)
        self._read: Callable[[int], bytes] = sock.recv
        self._gathered: list[Buffer] = []
        self._gathered_size = 0
        self._write_lock = threading.Lock()
        self.read_timeout = 0.0

    def set_read_timeout(self, seconds: float) -> None:
        """Sets after how long a waiting read raises BlockingIOError; 0 for never.

        The kernel keeps the time: a read that does not wait costs nothing more.
        """
        if self.read_timeout != seconds:
            self.read_timeout = seconds
            whole = int(seconds)
            limit = _timeval.pack(whole, int((seconds - whole) * 1e6))
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def receive_first(self) -> list[Frame]:
        """Waits for the first frames, before which a descriptor may come."""
        if self.sharing is not None:
            self._read = partial(self.sharing.read_first, self.sock)
        frames = self.receive()
        self._read = self.sock.recv
        return frames

    def receive(self) -> list[Frame]:
        """Waits for bytes until they complete at least one frame."""
        while True:
            frames = self.receive_some()
            if frames:
                return frames

    def receive_some(self) -> list[Frame]:
        """Waits for bytes once; returns the frames that they complete, perhaps none.

        Raises:
            BlockingIOError: No bytes came within the read timeout.
            EOFError: The other side is gone.
            ProtocolError: It sent bytes that are not a frame.
        """
        decoder = self.decoder
        try:
            data = self._read(decoder.read_size)
        except ConnectionError as error:  # it died with frames unread
            raise EOFError from error
        if not data:
            raise EOFError
        return decoder.feed(data)

    def gather(self, frame: Frame) -> None:
        """Keeps a frame for the next ``flush``; sends it now if many are waiting."""
        has_borrowed = borrowed_of(frame) is not None
        sharing = self.sharing if has_borrowed else None
        data: bytes | list[Buffer] = b""
        if sharing is None:
            data = encode_with_borrowed(frame) if has_borrowed else encode(frame)
        with self._write_lock:
            if sharing is not None:  # under the lock: its tables have an order
                data = sharing.encode(frame)
            if type(data) is bytes:
                self._gathered.append(data)
                self._gathered_size += len(data)
            else:
                # A small one may wait here, and its bytes may be the user's.
                pieces = [
                    piece if len(piece) >= _BURST else bytes(piece)
                    for piece in cast("list[Buffer]", data)
                ]
                self._gathered += pieces  # at once: a signal must not cut a frame
                self._gathered_size += sum(map(len, pieces))
            if self._gathered_size >= _BURST:
                self._write()

    def try_send(self, frames: Callable[[], Iterable[Frame]]) -> None:
        """Sends frames now unless a write is running; else does not request them.

        For destructors, which may run in the middle of a write of their own thread.
        """
        if not self._write_lock.acquire(blocking=False):
            return
        try:
            for frame in frames():
                self._gathered.append(cast("bytes", encode(frame)))
                self._gathered_size += 1
            if self._gathered_size:
                self._write()
        except OSError:  # the other side is gone
            pass
        finally:
            self._write_lock.release()

    def offer(self, frame: Frame) -> bool:
        """Sends a frame of a few KiB; False if that would block."""
        # This thread may hold it, if it runs a destructor.
        if not self._write_lock.acquire(blocking=False):
            return False
        try:
            poller = select.poll()
            poller.register(self.sock, select.POLLOUT)
            # A socket is writable while a good part of its buffer is empty.
            if not poller.poll(0):
                return False
            self._gathered.append(cast("bytes", encode(frame)))
            self._gathered_size += 1
            self._write()
        finally:
            self._write_lock.release()
        return True

    def close_in_fork(self) -> None:
        """Closes a fork's copy of this end; the parent's end does not change."""
        # A thread that does not exist in the fork may have held it.
        self._write_lock = threading.Lock()
        self._gathered, self._gathered_size = [], 0
        self.sock.close()
        if self.sharing is not None:
            self.sharing.close()

    @property
    def has_gathered(self) -> bool:
        return self._gathered_size > 0

    def flush(self) -> None:
        """Sends the gathered frames; waits while the other side does not read."""
        if self._gathered_size:
            with self._write_lock:
                self._write()

    def send(self, frame: Frame) -> None:
        """Sends a frame now, after the gathered ones."""
        self.gather(frame)
        self.flush()

    def _write(self) -> None:
        gathered, size = self._gathered, self._gathered_size
        self._gathered, self._gathered_size = [], 0
        if size <= _ATOMIC:
            self.sock.sendall(b"".join(gathered))
            return
        small: list[Buffer] = []
        with _without_signals():
            for piece in gathered:
                if len(piece) < _BURST:
                    small.append(piece)
                    continue
                if small:
                    self.sock.sendall(b"".join(small))
                    small = []
                self.sock.sendall(piece)
            if small:
                self.sock.sendall(b"".join(small))
