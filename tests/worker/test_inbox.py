"""What came and was not served is there for whoever reads next."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest

from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._wire.codec import encode
from actorlib._wire.messages import CALL, RESULT
from actorlib._wire.peer_socket import PeerSocket, socket_pair
from actorlib._worker.requests.inbox import LinkSource, PipeInbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.messages import Frame


class Client:
    """Is interrupted by the first answer; it has no streams, and no links."""

    def __init__(self) -> None:
        self.settled: list[int] = []

    def settle(self, frame: Frame) -> None:
        self.settled.append(frame[1])
        if frame[1] == 1:
            raise KeyboardInterrupt

    def item(self, frame: Frame) -> None:
        raise AssertionError(frame)

    def take_other(self, frame: Frame) -> list[Frame]:
        raise AssertionError(frame)


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def ends(client: Client) -> Iterator[tuple[socket.socket, PipeInbox]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox = PipeInbox(cast("Any", client), BlockingChannel(theirs))
        yield ours, inbox
        if inbox._events is not None:
            inbox._events.close()


def sent(sock: socket.socket, *frames: Frame) -> None:
    sock.sendall(b"".join(bytes(encode(frame)) for frame in frames))  # type: ignore[arg-type]  # they are small


def test_read_when_an_answer_interrupts_it_then_what_came_behind_is_kept(
    ends: tuple[socket.socket, PipeInbox], client: Client
) -> None:
    sock, inbox = ends
    sent(
        sock, (RESULT, 1, None, b""), (RESULT, 2, None, b""), (CALL, 3, "m", None, b"")
    )
    with pytest.raises(KeyboardInterrupt):
        inbox.read(lambda: bool(inbox.calls))
    assert not inbox.calls
    inbox.read(lambda: bool(inbox.calls))

    assert client.settled == [1, 2]
    assert [frame[1] for frame in inbox.calls] == [3]


def test_read_available_when_something_was_kept_then_it_is_read_first(
    ends: tuple[socket.socket, PipeInbox], client: Client
) -> None:
    sock, inbox = ends
    sent(sock, (RESULT, 1, None, b""), (RESULT, 2, None, b""))
    with pytest.raises(KeyboardInterrupt):
        inbox.read_available()
    inbox.read_available()

    assert client.settled == [1, 2]


class Link(LinkSource):
    """A link that is read one message at a time, or whole."""

    def __init__(self, end: PeerSocket) -> None:
        self._end = end

    @property
    def has_more(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._end.fileno()

    def read(self, *, is_next: bool = False) -> list[Frame]:
        found = self._end.receive()
        while not is_next and (frames := self._end.receive()):
            found += frames
        return found


def test_links_when_the_pipe_brings_something_then_all_of_theirs_is_before_it(
    ends: tuple[socket.socket, PipeInbox],
) -> None:
    sock, inbox = ends
    far, near = (PeerSocket(end.detach()) for end in socket_pair())
    with closing(far), closing(near):
        inbox.watch(Link(near))
        for number in (1, 2, 3):
            far.send((CALL, number, "m", None, b""))
        inbox.read(lambda: bool(inbox.calls))
        assert [frame[1] for frame in inbox.calls] == [1]
        sent(sock, (CALL, 4, "m", None, b""))
        inbox.read(lambda: len(inbox.calls) > 1)

        assert [frame[1] for frame in inbox.calls] == [1, 2, 3, 4]


def test_read_available_when_links_have_several_messages_then_reads_all(
    ends: tuple[socket.socket, PipeInbox],
) -> None:
    _, inbox = ends
    far, near = (PeerSocket(end.detach()) for end in socket_pair())
    with closing(far), closing(near):
        inbox.watch(Link(near))
        for number in range(50):
            far.send((CALL, number, "m", None, b""))
        inbox.read_available()

        assert [frame[1] for frame in inbox.calls] == [*range(50)]


def test_read_when_another_thread_reads_behind_the_first_look_then_it_returns(
    ends: tuple[socket.socket, PipeInbox],
) -> None:
    sock, inbox = ends
    sent(sock, (CALL, 1, "m", None, b""))
    looks: list[bool] = []

    def has_calls() -> bool:
        looks.append(bool(inbox.calls))
        if len(looks) == 1:
            other = threading.Thread(target=inbox.read_available)
            other.start()
            other.join()
        return looks[-1]

    assert inbox.read(has_calls, timeout=10)


def test_read_when_threads_wait_at_the_end_of_the_pipe_then_each_is_told(
    ends: tuple[socket.socket, PipeInbox],
) -> None:
    sock, inbox = ends

    def wait() -> None:
        with pytest.raises(EOFError):
            inbox.read(lambda: False)

    with ThreadPoolExecutor(3) as threads:
        waits = [threads.submit(wait) for _ in range(3)]
        sock.shutdown(socket.SHUT_RDWR)
        for waiting in waits:
            waiting.result()


def test_read_when_the_reader_leaves_then_another_thread_reads_on(
    ends: tuple[socket.socket, PipeInbox],
) -> None:
    sock, inbox = ends

    def wait_for(count: int) -> bool:
        return inbox.read(lambda: len(inbox.calls) >= count)

    with ThreadPoolExecutor(3) as threads:
        waits = [threads.submit(wait_for, count) for count in (3, 1, 2)]
        for number in range(3):
            sent(sock, (CALL, number, "m", None, b""))

        assert all(waiting.result() for waiting in waits)
