from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.attached import new_name

from actorlib._base.named_sockets import named_sockets
from actorlib._client.connection import connect
from actorlib._queries.addresses import RUNTIMES
from actorlib._queries.attach_server import (
    ATTACH,
    LONGEST_PROGRAM,
    AttachServer,
    Caller,
    python_version,
)
from actorlib._queries.protocol import (
    MOST_ASKED,
    OK,
    OTHER_VERSION,
    REFUSED,
    Answer,
    FrameReader,
    question_frame,
    read_answer,
    version,
)
from actorlib.exceptions import (
    RuntimeAlreadyExistsError,
    RuntimeNotFoundError,
    RuntimeUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SAID = {"version": version(), "python": python_version(), "program": "a b"}


class Hall:
    """A attach_server that lets in, or not, and keeps whom it has let in."""

    def __init__(self) -> None:
        self.name = new_name()
        self.refusal = ""
        self.admitted: list[Caller] = []
        self.attach_server = AttachServer(self.name)
        self.attach_server.begin(
            asyncio.get_running_loop(), lambda: self.refusal, self.admitted.append
        )

    async def knock(self) -> socket.socket:
        """A connection on which nothing was sent."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        place = named_sockets(RUNTIMES).place(self.name)
        await asyncio.get_running_loop().sock_connect(sock, place)
        return sock

    async def asked(self, question: bytes) -> Answer:
        """Asks as a client does, and gives the answer."""
        loop = asyncio.get_running_loop()
        with await self.knock() as sock:
            await loop.sock_sendall(sock, question)
            reader = FrameReader(MOST_ASKED)
            while True:
                piece = await loop.sock_recv(sock, reader.missing)
                assert piece, "it was sent away without an answer"
                content = reader.take(piece)
                if content is not None:
                    return read_answer(content)


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    hall = Hall()
    yield hall
    hall.attach_server.close()
    for caller in hall.admitted:
        caller.sock.close()


async def test_caller_when_it_is_alike_then_it_is_let_in(hall: Hall) -> None:
    answer = await hall.asked(question_frame(ATTACH, SAID))

    assert answer.outcome == OK
    [caller] = hall.admitted
    assert caller.program == "a b"
    assert caller.pid in (os.getpid(), 0)


@pytest.mark.parametrize(
    "other", [{"version": "0.0.1"}, {"python": "2.7"}, {"version": None}]
)
async def test_caller_when_its_version_is_another_then_both_are_named(
    hall: Hall, other: dict[str, Any]
) -> None:
    answer = await hall.asked(question_frame(ATTACH, {**SAID, **other}))

    assert answer.outcome == REFUSED
    [said] = other.values()
    assert f"actorlib {version()} on Python {python_version()}" in answer.value
    assert str(said) in answer.value
    assert hall.name in answer.value
    assert hall.admitted == []


async def test_client_when_its_command_line_has_long_words_then_it_is_let_in(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["python", *["\N{PILE OF POO}" * 80, "\udcff" * 80] * 20]
    monkeypatch.setattr(sys, "orig_argv", words)

    def admit(caller: Caller) -> None:
        hall.admitted.append(caller)
        caller.sock.close()  # nothing here could start the client

    monkeypatch.setattr(hall.attach_server, "_admit", admit)
    with pytest.raises(RuntimeUnreachableError, match="has just ended"):
        await asyncio.to_thread(connect, hall.name)

    [caller] = hall.admitted
    assert caller.program == " ".join(words)[:LONGEST_PROGRAM]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (struct.pack("!I", 4097) + bytes(4097), "4097 bytes, where 4096 are the most"),
        (b"\xff" * 4, "4294967295 bytes"),
        (question_frame("\N{PILE OF POO}" * 1000, {}), "there is no query"),
        (question_frame(ATTACH, {**SAID, "version": "\0" * 4000}), "runs actorlib"),
        (question_frame(ATTACH, {**SAID, "python": ["\0"] * 2000}), "runs actorlib"),
    ],
)
async def test_caller_when_it_says_too_much_then_it_is_told_so(
    hall: Hall, question: bytes, why: str
) -> None:
    answer = await hall.asked(question)

    assert answer.outcome == REFUSED
    assert why in answer.value


async def test_caller_when_it_asks_for_something_else_then_it_is_refused(
    hall: Hall,
) -> None:
    assert (await hall.asked(question_frame("status", {}))).outcome == REFUSED
    other = bytearray(question_frame(ATTACH, SAID))
    other[5] += 1  # the version of the agreement
    assert (await hall.asked(bytes(other)))[1:] == (OTHER_VERSION, version())


async def test_caller_when_the_runtime_ends_then_it_hears_so(hall: Hall) -> None:
    hall.refusal = "it is being shut down"

    with pytest.raises(RuntimeUnreachableError, match=f"{hall.name}.* shut down"):
        await asyncio.to_thread(connect, hall.name)


async def test_caller_when_nobody_answers_then_it_waits_no_longer_than_said(
    hall: Hall,
) -> None:
    # This loop, which would answer, is blocked by the very question.
    with pytest.raises(RuntimeUnreachableError, match=r"not answered within 0\.05 s"):
        connect(hall.name, patience=0.05)


async def test_caller_when_it_talks_nonsense_or_leaves_then_others_are_served(
    hall: Hall,
) -> None:
    with await hall.knock() as sock:
        await asyncio.get_running_loop().sock_sendall(sock, b"\0\0\0")
    with await hall.knock():
        answer = await hall.asked(question_frame(ATTACH, SAID))

    assert answer.outcome == OK


async def test_caller_when_it_leaves_before_its_answer_then_no_signal_comes(
    hall: Hall,
) -> None:
    # A program may have restored the default handler, which would end it.
    signals: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
    try:
        for question in (question_frame(ATTACH, SAID), question_frame("status", {})):
            with await hall.knock() as sock:
                await asyncio.get_running_loop().sock_sendall(sock, question)
            await hall.asked(question)
    finally:
        signal.signal(signal.SIGPIPE, before)

    assert signals == []


class Crowd:
    """A socket that listens, before which there is always one more."""

    def __init__(self) -> None:
        self.accepted = 0

    def accept(self) -> tuple[socket.socket, str]:
        self.accepted += 1
        assert self.accepted < 1000, "the loop does nothing else any more"
        here, there = socket.socketpair()
        there.close()
        return here, ""


async def test_callers_when_they_never_cease_then_the_loop_has_its_turns(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach_server: Any = hall.attach_server
    with monkeypatch.context() as patched:
        patched.setattr(attach_server, "_listener", Crowd())
        attach_server._let_in()

    assert (await hall.asked(question_frame(ATTACH, SAID))).outcome == OK


async def test_name_when_it_is_taken_or_unknown_then_the_error_says_by_whom(
    hall: Hall,
) -> None:
    with pytest.raises(RuntimeAlreadyExistsError, match=f"pid {os.getpid()}"):
        AttachServer(hall.name)
    with pytest.raises(RuntimeNotFoundError, match=repr(hall.name)):
        connect(hall.name + "x")


async def test_attach_server_when_it_is_closed_then_nobody_is_let_in(
    hall: Hall,
) -> None:
    with await hall.knock() as silent:
        await hall.asked(question_frame(ATTACH, SAID))  # the silent one is taken in

        hall.attach_server.close()

        assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
    with pytest.raises(RuntimeNotFoundError):
        connect(hall.name)
