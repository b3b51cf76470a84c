"""Whatever one client does, the next is answered, and the program goes on."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import msgpack
import pytest
from helpers.actors import Echo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import actorlib
from actorlib._base.ids import ActorId
from actorlib._cli import logs
from actorlib._core.engine import find_engine, set_engine
from actorlib._features.logs import runtime_lines as actor_logs
from actorlib._features.logs.runtime_lines import ActorLogs
from actorlib._features.runtime import find_query, logs_of
from actorlib._queries import stacks
from actorlib._queries.addresses import Address, find_servers
from actorlib._queries.client import ask
from actorlib._queries.protocol import (
    BLOCKED,
    MOST_ASKED,
    OK,
    OTHER_VERSION,
    REFUSED,
    VERSION,
    FrameReader,
    answer_frame,
    question_frame,
    read_answer,
)
from actorlib._queries.rows import Standstill
from actorlib._queries.server import QueryServer
from actorlib._queries.service import MOST_CONNECTIONS, LoopRequests
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._queries.protocol import Answer
    from actorlib._queries.rows import Frame

LIMIT = 20.0


class Household:
    """An inline runtime with a server, on a loop in a thread of its own."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    async def _live(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        async with actorlib.init(engine="inline", num_cpus=2, num_gpus=1):
            self.engine: Any = find_engine()
            before = find_servers()
            self.server = QueryServer(self.engine, find_query)
            [self.address] = set(find_servers()) - set(before)
            self.echo = Echo.options(name="m1", num_gpus=1).remote()
            await self.echo
            self.waiting = Echo.options(name="m2", num_gpus=0.5).remote()
            set_engine(None)  # it is that of another thread, and none of a test's
            self._is_open.set()
            await self._end.wait()
            self.server.close()
            del self.echo, self.waiting

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(LIMIT)

    def knock(self) -> socket.socket:
        """A connection on which nothing was said."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(LIMIT)
        sock.connect(self.address.place)
        return sock

    def names(self) -> list[str]:
        """The actors that the server tells of."""
        answer = ask(self.address, "status", patience=10)
        assert answer.outcome == OK, answer
        return [row.name for row in answer.value.snapshot.actors]

    def rest(self) -> None:
        """Waits until the loop has done what it was given until now."""
        has_come = threading.Event()
        self.loop.call_soon_threadsafe(has_come.set)
        assert has_come.wait(LIMIT)

    def blocked(self) -> Blocked:
        """Keeps the loop busy in a block."""
        return Blocked(self.loop)


class Blocked:
    """A loop that does nothing else in the block."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_there, self._go_on = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self._loop.call_soon_threadsafe(self.stand_still)
        assert self._is_there.wait(LIMIT)
        return self

    def stand_still(self) -> None:
        """What the loop does."""
        self._is_there.set()
        assert self._go_on.wait(LIMIT)

    def __exit__(self, *_: object) -> None:
        self._go_on.set()


@pytest.fixture(scope="module")
def household() -> Iterator[Household]:
    with Household() as household:
        yield household


@pytest.fixture(autouse=True)
def nobody_is_left(household: Household, nothing_is_left: None) -> Iterator[None]:
    """Waits at the end until the server has closed what others have closed.

    The loop wakes the server by its own connection, and the server may have answered
    by then: whoever was answered knows nothing of that one.
    """
    del nothing_is_left  # it looks when that is done
    yield
    household.rest()
    sock = household.knock()
    sock.sendall(question_frame("none", {}))
    assert answered(sock).outcome == REFUSED


def answered(sock: socket.socket) -> Answer:
    """What comes back, to its end."""
    reader = FrameReader(2**30)
    with sock:
        while piece := sock.recv(reader.missing):
            content = reader.take(piece)
            if content is not None:
                assert sock.recv(1) == b""
                return read_answer(content)
    raise EOFError


def packed(value: object) -> bytes:
    body = msgpack.packb(value)
    return struct.pack("!I", len(body)) + body


# What is answered.


def test_status_when_asked_then_actors_and_who_holds_what_they_wait_for(
    household: Household,
) -> None:
    answer = ask(household.address, "status", patience=10)

    assert answer.outcome == OK
    status = answer.value
    m1, m2 = status.snapshot.actors
    assert (m1.name, m1.state, status.running_calls) == ("m1", "alive", {})
    assert (m2.name, m2.state) == ("m2", "pending")
    assert "m1" in status.reasons[m2.actor_id]
    assert status.snapshot.total["GPU"] == 1
    assert status.snapshot.available["GPU"] == 0
    assert status.version == actorlib.__version__


def test_stack_when_asked_then_the_threads_of_the_owner(household: Household) -> None:
    with household.blocked():
        answer = ask(household.address, "stack")

    assert answer.outcome == OK
    found = {row.name: row.frames for row in answer.value.threads}
    standing = [frames for frames in found.values() if stands_still(frames)]
    assert len(standing) == 1
    assert "actorlib-server" not in found
    assert any(row.coroutine.endswith("_live") for row in answer.value.tasks)


def stands_still(frames: tuple[Frame, ...]) -> bool:
    return any(frame.function == Blocked.stand_still.__name__ for frame in frames)


def test_loop_when_blocked_then_since_when_and_where(
    household: Household,
) -> None:
    with household.blocked():
        for _ in range(20):
            answer = ask(household.address, "status", patience=0)
            assert answer.outcome == BLOCKED
        assert answer.value.is_running
        assert answer.value.is_exact
        assert answer.value.seconds > 0
        assert stands_still(answer.value.frames)
    assert household.names() == ["m1", "m2"]


# Lines of actors.


@pytest.fixture
def lines(household: Household, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of m1, which has printed, and of m2, which has not."""
    table = household.engine.actor_table
    kept = ActorLogs()
    monkeypatch.setattr(logs_of(household.engine, "logs"), "lines", kept)
    address = household.address
    monkeypatch.setattr(logs, "the_runtime", lambda _: address)
    m1, m2 = table.by_id
    kept.add_printed(m1, "stdout", "Echo 'm1'", 7, [b"one", b"two", b"three"])
    return [m1.hex(), m2.hex()]


def shown(
    capsys: pytest.CaptureFixture[str], word: str | None, **said: Any
) -> list[str]:
    """The texts that the command shows."""
    asked: dict[str, Any] = {"count": 100, **said}
    logs.show(word, as_json=True, **asked)
    told = json.loads(capsys.readouterr().out)
    return [line["text"] for line in told["lines"]]


def test_logs_when_asked_then_the_lines_of_who_was_meant(
    household: Household, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, None) == shown(capsys, "m1") == ["one", "two", "three"]
    assert shown(capsys, "m2") == []
    assert shown(capsys, "m1", count=1) == ["three"]
    assert shown(capsys, "m1", pattern="o$") == ["two"]
    after = ask(household.address, "logs", actor=lines[0], after=1, most=1).value
    assert [line.text for line in after.lines] == ["two"]


def test_logs_when_the_loop_is_blocked_then_they_are_there_all_the_same(
    household: Household,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "_PATIENCE", 0.0)
    assert lines

    with household.blocked():
        assert shown(capsys, "m1", count=2) == ["two", "three"]


def test_logs_when_followed_then_what_is_new_until_nobody_reads(
    household: Household, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = logs_of(household.engine, "logs").lines
    m1 = ActorId(bytes.fromhex(lines[0]))
    written: list[str] = []

    def wait(_: float) -> None:
        if len(written) > 1:
            raise KeyboardInterrupt
        kept.add_printed(m1, "stderr", "Echo 'm1'", 7, [b"four"])

    monkeypatch.setattr(logs, "write_text", written.append)
    # Not time.sleep itself: other threads sleep, too.
    monkeypatch.setattr(logs, "time", SimpleNamespace(**{**vars(time), "sleep": wait}))
    with pytest.raises(KeyboardInterrupt):
        logs.show("m1", as_json=False, count=1, is_followed=True)

    assert [text.split()[-2:] for text in written] == [
        ["out", "three"],
        ["err", "four"],
    ]


@pytest.mark.parametrize(
    ("pattern", "as_json"), [(None, False), ("e$", False), ("e$", True)]
)
def test_logs_when_followed_and_lines_are_dropped_then_every_line_is_counted(
    household: Household,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pattern: str | None,
    *,
    as_json: bool,
) -> None:
    monkeypatch.setattr(actor_logs, "BUDGET", 1000 * 204)
    kept = logs_of(household.engine, "logs").lines
    m1 = ActorId(bytes.fromhex(lines[0]))
    bursts = [[b"line"] * 1500, [b"one more"], [b"none", b"last line"]]

    def wait(_: float) -> None:
        if not bursts:
            raise KeyboardInterrupt
        kept.add_printed(m1, "stdout", "Echo 'm1'", 7, bursts.pop(0))

    monkeypatch.setattr(logs, "time", SimpleNamespace(**{**vars(time), "sleep": wait}))
    with pytest.raises(KeyboardInterrupt):
        logs.show(
            "m1",
            as_json=as_json,
            count=1,
            pattern=pattern,
            is_followed=True,
        )

    printed = capsys.readouterr().out.splitlines()
    if as_json:
        rows = [json.loads(row) for row in printed]
        assert sum(row["lost"] for row in rows) == 500
        assert rows[1]["lost"] == 500
    else:
        assert [row[:24] for row in printed if row.startswith("(")] == [
            "(500 lines are lost here"
        ]
        assert printed[1].startswith("(500 lines")


# What is refused.


@pytest.mark.parametrize(
    ("verb", "options", "said"),
    [
        ("stat", {}, "no query 'stat'"),
        ("status", {"dead": 1}, "dead takes true or false, not 1"),
        ("status", {"all": True}, "takes no parameter 'all'"),
        ("status", {"patience": -1}, "patience takes 0 to 10 seconds, not -1"),
        ("status", {"patience": 11}, "patience takes 0 to 10 seconds, not 11"),
        ("status", {"patience": float("nan")}, "patience takes"),
        ("status", {"patience": "1"}, "patience takes"),
        ("stack", {"dead": True}, "takes no parameter 'dead'"),
        ("calls", {"limit": 3}, "takes no parameter 'limit'"),
        ("trace", {"seconds": 0}, "seconds takes more than 0 and at most 3600, not 0"),
        ("trace", {"seconds": float("nan")}, "seconds takes"),
        ("trace", {"kept": 0}, "kept takes 1 to 200000 calls, not 0"),
        ("trace", {"for": 3}, "takes no parameter 'for'"),
        ("explain", {}, "the id of an actor in hex, not None"),
        ("explain", {"actor": "ab"}, "the id of an actor in hex, not 'ab'"),
        ("explain", {"actor": "00" * 16}, "ActorHandleNotFoundError"),
        ("logs", {"actor": "m1"}, "actor takes the id"),
        ("logs", {"after": -1}, "after takes the number"),
        ("logs", {"most": 0}, "most takes 1 to"),
        ("logs", {"most": 5001}, "most takes 1 to"),
        ("logs", {"since": "now"}, "since takes seconds"),
        ("logs", {"newest": 1}, "newest takes true or false"),
        ("logs", {"grep": "x"}, "takes no parameter"),
        ("kill", {"actor": 1}, "the id of an actor in hex, not 1"),
        ("kill", {"actor": "00" * 16, "restart": 1}, "restart takes true or false"),
    ],
)
def test_question_when_wrong_then_told_why(
    household: Household, verb: str, options: dict[str, Any], said: str
) -> None:
    sock = household.knock()
    sock.sendall(question_frame(verb, options))

    _, outcome, value = answered(sock)
    assert outcome == REFUSED
    assert said in value


def test_question_when_it_is_refused_then_the_client_raises_the_reason(
    household: Household,
) -> None:
    with pytest.raises(ValueError, match="takes no parameter 'grep'"):
        ask(household.address, "logs", grep="x")


def test_question_when_of_another_version_then_told_which_this_is(
    household: Household,
) -> None:
    sock = household.knock()
    sock.sendall(packed([VERSION + 1, ["whatever"]]))

    _, outcome, value = answered(sock)
    assert (outcome, value) == (OTHER_VERSION, actorlib.__version__)


def test_client_when_the_runtime_is_of_another_version_then_told(
    tmp_path: Any,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "server"))
        listener.listen()

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(packed([7, OTHER_VERSION, "9.9"]))

        with ThreadPoolExecutor(1) as serving:
            serving.submit(serve)
            address = Address(os.geteuid(), 1 << 22, str(tmp_path / "server"))
            with pytest.raises(RuntimeUnreachableError, match=r"runs actorlib 9\.9"):
                ask(address, "status")


# Who means no good.


def test_query_server_when_full_then_those_in_it_are_served_and_others_later(
    household: Household,
) -> None:
    silent = [household.knock() for _ in range(2 * MOST_CONNECTIONS)]
    for sock in silent:
        sock.close()
    with ThreadPoolExecutor(MOST_CONNECTIONS) as asking:
        asked = [asking.submit(household.names) for _ in range(3 * MOST_CONNECTIONS)]

    assert [each.result() for each in asked] == [["m1", "m2"]] * len(asked)


def test_connection_when_it_never_reads_then_others_are_served(
    household: Household,
) -> None:
    deaf = [household.knock() for _ in range(MOST_CONNECTIONS - 1)]
    try:
        for sock in deaf:
            sock.sendall(question_frame("stack", {}))
        assert household.names() == ["m1", "m2"]
    finally:
        for sock in deaf:
            sock.close()


_MOVES = st.one_of(
    st.binary(max_size=80),
    st.just(question_frame("status", {})),
    st.just(question_frame("stack", {})),
    st.just(question_frame("status", {})[:-1]),
    st.just(answer_frame(OK, None)),
    st.just(struct.pack("!I", 2**32 - 1)),
    st.just(struct.pack("!I", MOST_ASKED) + bytes(100)),
    st.just(bytes(64 * 1024)),
    st.builds(packed, st.recursive(st.none() | st.integers(0, 9), st.lists)),
    st.sampled_from(["half-close", "read", "close"]),
)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), _MOVES), max_size=12))
def test_connection_when_they_send_anything_then_the_next_is_answered(
    household: Household, moves: list[tuple[int, Any]]
) -> None:
    socks = [household.knock() for _ in range(3)]
    try:
        for who, move in moves:
            act(socks[who], move)
    finally:
        for sock in socks:
            sock.close()

    assert household.names() == ["m1", "m2"]


def act(sock: socket.socket, move: Any) -> None:
    """Does one thing; the other end may have gone by then."""
    try:
        # With a limit of time, Python waits for it even where it is told not to wait.
        sock.settimeout(0)
        if move == "half-close":
            sock.shutdown(socket.SHUT_WR)
        elif move == "close":
            sock.close()
        elif move == "read":
            sock.recv(10)
        else:
            sock.send(move)
    except OSError:
        pass


# What takes a while.


def test_query_server_when_descriptors_are_short_for_once_then_the_next_is_answered(
    household: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    before = find_servers()
    server = QueryServer(household.engine, find_query)
    [address] = set(find_servers()) - set(before)
    try:
        with monkeypatch.context() as patched:
            patched.setattr("actorlib._queries.service.Service", short)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(LIMIT)
                sock.connect(address.place)
                assert sock.recv(1) == b""
        assert ask(address, "status").outcome == OK
    finally:
        server.close()


async def test_loop_when_asked_often_while_blocked_then_it_has_one_callback() -> None:
    loop = CountingLoop(asyncio.get_running_loop())
    woken = asyncio.Event()
    done: list[int] = []
    requests = LoopRequests(cast("Any", loop), woken.set)
    for number in range(20):
        request = requests.ask(partial(done.append, number), 0.0)
        if number < 19:
            requests.leave(request)
    await woken.wait()

    assert loop.callbacks == 1
    assert done == [19]  # nobody waits for the others


class CountingLoop:
    """A loop that counts what it is asked to call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.callbacks = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> Any:
        self.callbacks += 1
        return self._loop.call_soon_threadsafe(callback, *args)


async def test_future_when_nobody_waits_any_more_then_it_is_cancelled() -> None:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    requests = LoopRequests(loop, woken.set)
    futures = [loop.create_future() for _ in range(3)]

    first, second, third = (requests.ask(lambda f=f: f, 0.0) for f in futures)
    requests.leave(third)
    await woken.wait()
    woken.clear()
    requests.leave(first)
    futures[1].set_result("made")
    await woken.wait()

    assert (second.is_done, second.value) == (True, "made")
    assert not third.has_begun
    assert first.is_done
    assert futures[0].cancelled()


async def test_answer_when_it_is_late_then_only_a_blocked_loop_is_called_blocked() -> (
    None
):
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    requests = LoopRequests(loop, woken.set)
    request = requests.ask(loop.create_future, 1.0)
    await woken.wait()
    woken.clear()

    requests.probe(request, 3.0)
    blocked, where = requests.explain_late(request, threading.get_ident(), 5.5)
    await woken.wait()
    busy, why = requests.explain_late(request, threading.get_ident(), 5.5)
    requests.leave(request)

    assert (blocked, busy) == (BLOCKED, REFUSED)
    assert isinstance(where, Standstill)
    assert "not complete after 4.5 s" in str(why)


async def test_loop_when_it_came_to_others_before_then_since_a_question_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of another loop than asyncio's nothing tells when its turn began.
    monkeypatch.setattr(stacks, "_began_turn", lambda _: None)
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    requests = LoopRequests(loop, woken.set)
    seen: list[Any] = []

    def slow() -> None:
        seen.append(requests.explain_late(second, threading.get_ident(), 4.0))

    requests.ask(slow, 1.0)
    second = requests.ask(int, 1.5)
    await woken.wait()

    ((outcome, where),) = seen
    assert (outcome, where.seconds, where.is_exact) == (BLOCKED, 2.5, False)
