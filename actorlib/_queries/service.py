"""Serves the clients of a server on one thread.

The size of a question, the time for each step and the number of clients are limited. So
a client that sends nonsense or nothing, reads nothing or connects again and again costs
the others little, and the program almost nothing:

* Connections of other users than the runtime's own and root are closed unread, and for
  a moment none is accepted: all users of the machine may connect.
* All queries together use one callback on the loop, and a query whose client has gone
  by then is not run.
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

from actorlib._base.named_sockets import NO_SIGNAL, peer_uid
from actorlib._loops.fork_copies import close_in_forks
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
_QUESTION_TIME = 2.0
"""Seconds in which a question has to arrive."""
_ANSWER_TIME = 10.0
"""Seconds in which a client has to read its answer."""
_PATIENCE = 1.0
"""Seconds that the loop may take, unless the question has another number."""
_PAUSE = 0.05
"""Seconds without accepting after a connection was refused."""
_PIECE = 256 * 1024


class LoopRequest:
    """One function that the owner's loop is to call.

    Attributes:
        work: The function.
        asked_at: The time of the request.
        probe: A later request, made when the result is late.
        has_begun: Whether the function was called.
        is_done: Whether there is a result.
        value: The result.
        error: The exception that was raised instead.
        is_wanted: Whether a client still waits for it.
        future: The future that the function returned, if it did.
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
        """Calls the function, on the loop; calls ``wake`` if it is done later."""
        self.has_begun = True
        try:
            value = self.work()
        except Exception as error:  # noqa: BLE001  # it is sent to the client
            self.error = error
        else:
            if isinstance(value, asyncio.Future):
                self.future = cast("asyncio.Future[Any]", value)
                self.future.add_done_callback(partial(self._end, wake))
                if not self.is_wanted:  # the client has gone
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
    pass


@final
class LoopRequests:
    """Has the owner's loop call functions, and measures for how long it is blocked.

    The loop calls ``wake`` when there are results.
    """

    def __init__(self, loop: AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: list[LoopRequest] = []
        self.posted_at: float | None = None

    def ask(self, work: Callable[[], Any], now: float) -> LoopRequest:
        """Has the loop call a function soon.

        Raises:
            RuntimeError: The loop is closed.
        """
        request = LoopRequest(work, now)
        with self._lock:
            # A loop that is blocked for hours gets one callback for all requests.
            self._waiting = [other for other in self._waiting if other.is_wanted]
            self._waiting.append(request)
            if self.posted_at is None:
                self._loop.call_soon_threadsafe(self._come)
                self.posted_at = now
        return request

    def leave(self, request: LoopRequest) -> None:
        """Cancels a request: no client waits for it."""
        request.is_wanted = False
        if request.probe is not None:
            request.probe.is_wanted = False
        if request.future is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(request.future.cancel)

    def probe(self, request: LoopRequest, now: float) -> None:
        """Has the loop call an empty function, to detect that it is blocked."""
        with suppress(RuntimeError):  # the loop is closed
            request.probe = self.ask(_nothing, now)

    def explain_late(
        self, request: LoopRequest, thread: int, now: float
    ) -> tuple[str, object]:
        """Returns the outcome and the value of the answer to a late request."""
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
        """Calls the functions, on the loop."""
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
    """The connection of one client; its question has to arrive until ``end``."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self.sock = sock
        self.end = end
        self.reader = FrameReader(MOST_ASKED)
        self.query: Asked | None = None
        self.request: LoopRequest | None = None
        self.takes = 0.0
        self._unsent: memoryview | None = None

    @property
    def events(self) -> int:
        """The events to wait for; the end of the connection is always reported."""
        if self._unsent is not None:
            return select.POLLOUT
        return 0 if self.request is not None else select.POLLIN

    def answer(self, frame: bytes, now: float) -> None:
        self._unsent = memoryview(frame)
        self.request = None
        self.end = now + _ANSWER_TIME

    def send(self) -> bool:
        """Sends what the other end accepts now; returns True if that was all.

        Raises:
            OSError: The client has gone.
        """
        assert self._unsent is not None
        try:
            sent = self.sock.send(self._unsent[:_PIECE], NO_SIGNAL)
        except BlockingIOError:
            return False
        self._unsent = self._unsent[sent:]
        return not self._unsent

    def close(self, requests: LoopRequests) -> None:
        if self.request is not None:
            requests.leave(self.request)
        self.sock.close()


@final
class Service:
    """Serves clients while there are any.

    ``wake`` makes the listener readable; ``is_over`` tells that the server is closed.
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
        """Serves a client, and those that connect meanwhile; closes its connection.

        Raises:
            OSError: The listener is closed.
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
        """Waits for the next event, and handles it."""
        poller = select.poll()
        is_open = now >= self._closed_until
        ends = [connection.end for connection in self._connections.values()]
        if is_open:
            poller.register(self._listener, select.POLLIN)
        else:
            ends.append(self._closed_until)
        for number, connection in self._connections.items():
            poller.register(number, connection.events)
        seconds = max(0.0, min(ends) - now)
        for number, events in poller.poll(seconds * 1000 + 1):
            if number == self._listener.fileno():
                self._accept()
            elif number in self._connections:
                self._attend(self._connections[number], events)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it is closed, has gone, or descriptors have run out
            self._closed_until = time.monotonic() + _PAUSE
        else:
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        """Accepts or closes a connection."""
        close_in_forks(sock, socket.socket.close)
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        uid = peer_uid(sock)
        is_known = uid in (None, 0, os.geteuid())
        now = time.monotonic()
        if is_known and len(self._connections) < MOST_CONNECTIONS:
            self._connections[sock.fileno()] = Connection(sock, now + _QUESTION_TIME)
            return
        self._closed_until = now + _PAUSE
        sock.close()

    def _attend(self, connection: Connection, events: int) -> None:
        try:
            if events & select.POLLOUT:
                if connection.send():
                    self._close(connection)
            elif events & select.POLLIN and connection.events & select.POLLIN:
                self._read(connection)
            else:
                self._close(connection)  # the client has gone
        except OSError:
            self._close(connection)

    def _read(self, connection: Connection) -> None:
        try:
            piece = connection.sock.recv(connection.reader.missing)
        except BlockingIOError:
            return
        if not piece:
            self._close(connection)
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
        """Begins to answer a question; raises ValueError if it is refused."""
        options = dict(question.options)
        patience = options.pop("patience", _PATIENCE)
        if type(patience) not in (int, float) or not 0 <= patience <= LONGEST_PATIENCE:
            raise ValueError(
                f"patience takes 0 to {LONGEST_PATIENCE:g} seconds, not {patience!r}"
            )
        query = begin_query(self._find_query, self._engine, question.verb, options)
        connection.query = query
        if query.on_loop is None:
            self._finish(connection, query, None, now)
            return
        try:
            connection.request = self._requests.ask(query.on_loop, now)
        except RuntimeError:
            raise ValueError("the event loop of this runtime is closed") from None
        connection.end = now + patience
        connection.takes = query.takes

    def _settle(self, connection: Connection) -> None:
        """Answers a client if the loop has answered."""
        request, query = connection.request, connection.query
        if request is None or query is None or not request.is_done:
            return
        now = time.monotonic()
        if request.error is not None:
            reason = f"{type(request.error).__name__}: {request.error}"
            connection.answer(answer_frame(REFUSED, reason), now)
        else:
            self._finish(connection, query, request.value, now)

    def _finish(
        self, connection: Connection, query: Asked, value: object, now: float
    ) -> None:
        try:
            frame = answer_frame(OK, query.finish(value))
        except Exception as error:  # noqa: BLE001  # the server goes on for other clients
            reason = f"there is no answer: {type(error).__name__}: {error}"
            frame = answer_frame(REFUSED, reason)
        connection.answer(frame, now)

    def _expire(self, now: float) -> None:
        """Ends connections that are late; a late loop is reported to its client."""
        for connection in list(self._connections.values()):
            if now < connection.end:
                continue
            if connection.request is None:
                self._close(connection)
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

    def _close(self, connection: Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.close(self._requests)
