"""Serves those who ask at a server: one thread, which waits for nobody in particular.

Whoever asks gets so many bytes for the question and so much time for each step, and
there are few at once. So one who asks nonsense, says nothing, reads nothing, or comes
again and again, takes from the others little and from the program next to nothing:

* who is neither the runtime's own user nor root is sent away unread, and nobody is let
  in for a moment then: anybody on the machine may connect;
* what the loop is asked is one callback, whatever number ask, and who has gone by the
  time that it comes is not answered.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast, final

from actorlib._loops.fork_copies import close_in_forks
from actorlib._queries.addresses import peer_uid
from actorlib._queries.protocol import (
    BLOCKED,
    LONGEST_PATIENCE,
    MOST_ASKED,
    OK,
    OTHER_VERSION,
    REFUSED,
    FrameReader,
    OtherVersionError,
    answer_frame,
    read_question,
    version,
)
from actorlib._queries.queries import begin_query
from actorlib._queries.stacks import where_it_stands
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from actorlib._core.engine import RuntimeEngine
    from actorlib._queries.protocol import Question
    from actorlib._queries.queries import Asked, FindQuery

MOST_CONNECTIONS = 8
_ASKING = 2.0
"""Seconds that a question may take to come."""
_READING = 10.0
"""Seconds that an answer may take to be read."""
_PATIENCE = 1.0
"""Seconds that the loop is waited for, unless the question says otherwise."""
_PAUSE = 0.05
"""Seconds in which nobody is let in after somebody was sent away."""
_PIECE = 256 * 1024
_NO_SIGNAL = int(getattr(socket, "MSG_NOSIGNAL", 0))
"""A program may have the default handler of SIGPIPE back, which ends it."""


class LoopRequest:
    """One question that waits for the owner's loop.

    Args:
        work: What is called there.
        asked_at: When it was asked for.

    Attributes:
        work: As given.
        asked_at: As given.
        probe: Asked for behind it, once its answer is late.
        has_begun: Whether it was called.
        is_done: Whether it has given what it gives.
        value: What that is.
        error: What it raised instead.
        is_wanted: Whether anybody still waits for it.
        future: What it gave first, if that is waited for.
    """

    def __init__(self, work: Callable[[], Any], asked_at: float) -> None:
        self.work = work
        self.asked_at = asked_at
        self.has_begun = False
        self.is_done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_wanted = True
        self.future: asyncio.Future[Any] | None = None
        self.probe: LoopRequest | None = None

    def begin(self, wake: Callable[[], None]) -> None:
        """Calls it; on the loop.

        Args:
            wake: Called when it is done later.
        """
        self.has_begun = True
        try:
            value = self.work()
        except Exception as error:  # noqa: BLE001  # it is for who has asked
            self.error = error
        else:
            if isinstance(value, asyncio.Future):
                self.future = cast("asyncio.Future[Any]", value)
                self.future.add_done_callback(partial(self._end, wake))
                if not self.is_wanted:  # they have gone meanwhile
                    self.future.cancel()
                return
            self.value = value
        self.is_done = True

    def _end(self, wake: Callable[[], None], future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self.error = asyncio.CancelledError("the runtime has ended")
        elif (error := future.exception()) is not None:
            self.error = error
        else:
            self.value = future.result()
        self.is_done = True
        wake()


def _nothing() -> None:
    """Does nothing."""


@final
class LoopRequests:
    """Has functions called by the owner's loop, and knows since when it has not come.

    Args:
        loop: The loop.
        wake: Called, by the loop, when answers are there.
    """

    def __init__(self, loop: AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: list[LoopRequest] = []
        self.posted_at: float | None = None

    def ask(self, work: Callable[[], Any], now: float) -> LoopRequest:
        """Has a function called soon.

        Raises:
            RuntimeError: The loop is closed.
        """
        request = LoopRequest(work, now)
        with self._lock:
            # A loop that is blocked for hours gets one callback, however many ask.
            self._waiting = [other for other in self._waiting if other.is_wanted]
            self._waiting.append(request)
            if self.posted_at is None:
                self._loop.call_soon_threadsafe(self._come)
                self.posted_at = now
        return request

    def leave(self, request: LoopRequest) -> None:
        """Nobody waits for a function any more."""
        request.is_wanted = False
        if request.probe is not None:
            request.probe.is_wanted = False
        if request.future is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(request.future.cancel)

    def probe(self, request: LoopRequest, now: float) -> None:
        """Has nothing called soon, which shows whether the loop is blocked."""
        with suppress(RuntimeError):  # the loop is closed
            request.probe = self.ask(_nothing, now)

    def explain_late(
        self, request: LoopRequest, thread: int, now: float
    ) -> tuple[str, object]:
        """Says why a function has not answered in time.

        Args:
            request: The function.
            thread: The thread that the loop runs on.
            now: The time.

        Returns:
            The outcome and the value of the answer.
        """
        late = request if request.future is None else request.probe
        if late is None or late.is_done:
            return REFUSED, (
                f"the answer is not complete after {now - request.asked_at:.1f} s: the "
                "event loop is busy, but not blocked. Ask again later"
            )
        since = late.asked_at
        if self.posted_at is not None:
            since = min(since, self.posted_at)
        return BLOCKED, where_it_stands(self._loop, thread, since, now)

    def _come(self) -> None:
        """Calls what waits; on the loop."""
        with self._lock:
            self.posted_at = None
            waiting, self._waiting = self._waiting, []
        for request in waiting:
            if request.is_wanted:
                request.begin(self._wake)
        if waiting:
            self._wake()


@final
class Connection:
    """Somebody who asks.

    Args:
        sock: The connection.
        end: When the question has to be there.
    """

    def __init__(self, sock: socket.socket, end: float) -> None:
        self.sock = sock
        self.end = end
        self.reader = FrameReader(MOST_ASKED)
        self.asked: Asked | None = None
        self.request: LoopRequest | None = None
        self.takes = 0.0
        self._left: memoryview | None = None

    @property
    def events(self) -> int:
        """What to wait for; that the other end is gone is always told."""
        if self._left is not None:
            return select.POLLOUT
        return 0 if self.request is not None else select.POLLIN

    def answer(self, frame: bytes, now: float) -> None:
        """Begins to send an answer."""
        self._left = memoryview(frame)
        self.request = None
        self.end = now + _READING

    def send(self) -> bool:
        """Sends what the other end takes now; says whether that was all.

        Raises:
            OSError: It is gone.
        """
        assert self._left is not None
        try:
            sent = self.sock.send(self._left[:_PIECE], _NO_SIGNAL)
        except BlockingIOError:
            return False
        self._left = self._left[sent:]
        return not self._left

    def close(self, requests: LoopRequests) -> None:
        """Ends the connection."""
        if self.request is not None:
            requests.leave(self.request)
        self.sock.close()


@final
class Service:
    """Serves those who ask, until nobody is left who does.

    Args:
        engine: The runtime.
        find_query: Finds what answers a question.
        listener: Where they come.
        loop_thread: The thread of its loop.
        wake: Makes the listener readable.
        is_over: Whether the server is closed.
    """

    def __init__(
        self,
        engine: RuntimeEngine,
        find_query: FindQuery,
        listener: socket.socket,
        loop_thread: int,
        *,
        wake: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._find_query = find_query
        self._listener = listener
        self._loop_thread = loop_thread
        self._is_over = is_over
        self._requests = LoopRequests(engine.loop, wake)
        self._connections: dict[int, Connection] = {}
        self._closed_until = 0.0

    def serve(self, first: socket.socket) -> None:
        """Serves somebody, and all who come meanwhile.

        Args:
            first: The connection; closed in any case.

        Raises:
            OSError: Nobody can come any more.
        """
        try:
            self._admit(first)
            while not self._is_over():
                now = time.monotonic()
                self._expire(now)
                if not self._connections and now >= self._closed_until:
                    return
                self._wait(now)
                for connection in list(self._connections.values()):
                    self._settle(connection)
        finally:
            for connection in self._connections.values():
                connection.close(self._requests)
            self._connections.clear()

    def _wait(self, now: float) -> None:
        """Waits until something can be done, and does it."""
        poller = select.poll()
        is_open = now >= self._closed_until
        ends = [connection.end for connection in self._connections.values()]
        if is_open:
            poller.register(self._listener, select.POLLIN)
        else:
            ends.append(self._closed_until)
        for number, connection in self._connections.items():
            poller.register(number, connection.events)
        left = max(0.0, min(ends) - now)
        for number, events in poller.poll(left * 1000 + 1):
            if number == self._listener.fileno():
                self._accept()
            elif number in self._connections:
                self._attend(self._connections[number], events)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it is closed, has gone again, or descriptors are short
            self._closed_until = time.monotonic() + _PAUSE
        else:
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        """Lets somebody in, or not."""
        close_in_forks(sock, socket.socket.close)
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        uid = peer_uid(sock)
        is_known = uid in (None, 0, os.geteuid())
        now = time.monotonic()
        if is_known and len(self._connections) < MOST_CONNECTIONS:
            self._connections[sock.fileno()] = Connection(sock, now + _ASKING)
            return
        self._closed_until = now + _PAUSE
        sock.close()

    def _attend(self, connection: Connection, events: int) -> None:
        """Does what can be done for somebody."""
        try:
            if events & select.POLLOUT:
                if connection.send():
                    self._part(connection)
            elif events & select.POLLIN and connection.events & select.POLLIN:
                self._read(connection)
            else:
                self._part(connection)  # it is gone
        except OSError:
            self._part(connection)

    def _read(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(connection.reader.missing)
        except BlockingIOError:
            return
        if not piece:
            self._part(connection)
            return
        now = time.monotonic()
        try:
            content = connection.reader.take(piece)
            if content is not None:
                self._begin(connection, read_question(content), now)
        except OtherVersionError:
            connection.answer(answer_frame(OTHER_VERSION, version()), now)
        except (ProtocolError, ValueError) as error:
            connection.answer(answer_frame(REFUSED, str(error)), now)

    def _begin(self, connection: Connection, question: Question, now: float) -> None:
        """Has a question answered.

        Raises:
            ValueError: It cannot be.
        """
        options = dict(question.options)
        patience = options.pop("patience", _PATIENCE)
        if type(patience) not in (int, float) or not 0 <= patience <= LONGEST_PATIENCE:
            raise ValueError(
                f"patience takes 0 to {LONGEST_PATIENCE:g} seconds, not {patience!r}"
            )
        asked = begin_query(self._find_query, self._engine, question.verb, options)
        connection.asked = asked
        if asked.on_loop is None:
            self._finish(connection, asked, None, now)
            return
        try:
            connection.request = self._requests.ask(asked.on_loop, now)
        except RuntimeError:
            raise ValueError("the event loop of this runtime is closed") from None
        connection.end = now + patience
        connection.takes = asked.takes

    def _settle(self, connection: Connection) -> None:
        """Answers somebody whom the loop has answered."""
        request, asked = connection.request, connection.asked
        if request is None or asked is None or not request.is_done:
            return
        now = time.monotonic()
        if request.error is not None:
            said = f"{type(request.error).__name__}: {request.error}"
            connection.answer(answer_frame(REFUSED, said), now)
        else:
            self._finish(connection, asked, request.value, now)

    def _finish(
        self, connection: Connection, asked: Asked, value: object, now: float
    ) -> None:
        """Answers with what was found out."""
        try:
            frame = answer_frame(OK, asked.finish(value))
        except Exception as error:  # noqa: BLE001  # the server is there for the next one
            said = f"there is no answer: {type(error).__name__}: {error}"
            frame = answer_frame(REFUSED, said)
        connection.answer(frame, now)

    def _expire(self, now: float) -> None:
        """Lets those go whose time is over; who waits for the loop is told of it."""
        for connection in list(self._connections.values()):
            if now < connection.end:
                continue
            if connection.request is None:
                self._part(connection)
                continue
            if connection.request.is_done:
                continue
            if connection.request.has_begun and connection.takes:
                self._requests.probe(connection.request, now)
                connection.end = now + connection.takes
                connection.takes = 0.0
                continue
            late = self._requests.explain_late(
                connection.request, self._loop_thread, now
            )
            self._requests.leave(connection.request)
            connection.answer(answer_frame(*late), now)

    def _part(self, connection: Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.close(self._requests)
