"""One end of a link: messages that go whole, at once, or not at all."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from actorlib._wire.codec import decode_message
from actorlib._wire.messages import LINK_CALL, RESULT
from actorlib._wire.peer_socket import PeerSocket, method_number, socket_pair
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def linked() -> Iterator[tuple[PeerSocket, PeerSocket]]:
    ours, theirs = (PeerSocket(end.detach()) for end in socket_pair())
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_frame_when_it_is_sent_then_it_arrives_once() -> None:
    with linked() as (ours, theirs):
        assert ours.send((LINK_CALL, 1, 0, "m", None, b"x"))

        assert theirs.receive() == [(LINK_CALL, 1, 0, "m", None, b"x")]
        assert theirs.receive() == []


def test_link_when_it_is_shut_for_writing_then_all_arrives_and_answers_return() -> None:
    with linked() as (ours, theirs):
        assert ours.send((RESULT, 1, None, b""))
        ours.shut_writing()

        assert not ours.send((RESULT, 2, None, b""))
        assert theirs.receive() == [(RESULT, 1, None, b"")]
        with pytest.raises(EOFError):
            theirs.receive()
        assert not theirs.has_more
        assert theirs.send((RESULT, 3, None, b""))
        assert ours.receive() == [(RESULT, 3, None, b"")]


@pytest.mark.parametrize("payload", [bytes(100_000), [b"head", b"part"]])
def test_frame_when_it_is_large_then_it_does_not_go(payload: object) -> None:
    with linked() as (ours, theirs):
        assert not ours.send((RESULT, 1, None, payload))

        assert theirs.receive() == []


def test_link_when_nobody_reads_then_it_is_full_and_nothing_is_cut() -> None:
    with linked() as (ours, theirs):
        sent = 0
        while ours.send((RESULT, sent, None, bytes(1000))):
            sent += 1

        for number in range(sent):
            assert theirs.receive() == [(RESULT, number, None, bytes(1000))]
        assert ours.send((RESULT, 0, None, b""))


def test_gathered_when_a_large_one_follows_then_they_keep_their_order() -> None:
    with linked() as (ours, theirs):
        assert ours.gather((RESULT, 1, None, b"")) == []
        assert ours.gather((RESULT, 2, None, bytes(20_000))) == []

        assert [theirs.receive()[0][1] for _ in range(2)] == [1, 2]


def test_gathered_when_they_cannot_go_then_they_are_given_back() -> None:
    with linked() as (ours, theirs):
        theirs.close()
        ours.gather((RESULT, 1, None, b""))

        assert ours.flush() == [(RESULT, 1, None, b"")]


def test_refusal_when_messages_are_there_then_they_are_received_and_no_other() -> None:
    with linked() as (ours, theirs):
        ours.send((RESULT, 1, None, b""))

        theirs.shut_reading()

        assert not ours.send((RESULT, 2, None, b""))
        assert theirs.receive() == [(RESULT, 1, None, b"")]
        with pytest.raises(EOFError):
            theirs.receive()
        assert theirs.send((RESULT, 3, None, b""))
        assert ours.receive() == [(RESULT, 3, None, b"")]


def test_end_when_the_other_left_messages_unread_then_its_own_are_received() -> None:
    with linked() as (ours, theirs):
        ours.send((RESULT, 1, None, b""))
        theirs.send((RESULT, 2, None, b""))
        theirs.close()

        assert ours.receive() == [(RESULT, 2, None, b"")]
        with pytest.raises(EOFError):
            ours.receive()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01"])
def test_message_when_it_is_no_frame_then_that_is_said(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="something else than a frame"):
        decode_message(data)


def test_look_when_messages_come_alone_then_few_are_made_in_vain() -> None:
    with linked() as (ours, theirs):
        looks = 0
        for number in range(90):
            ours.send((RESULT, number, None, b""))
            assert theirs.receive() == [(RESULT, number, None, b"")]
            assert theirs.has_more
            if theirs.expects_more():
                looks += 1
                assert theirs.receive() == []
                assert not theirs.has_more

        assert looks == 10


def test_look_when_messages_come_together_then_all_are_found() -> None:
    with linked() as (ours, theirs):
        for _ in range(9):
            for number in range(5):
                ours.send((RESULT, number, None, b""))
            for number in range(5):
                assert theirs.receive() == [(RESULT, number, None, b"")]
                assert theirs.expects_more()
            assert theirs.receive() == []


def test_marks_when_methods_differ_then_so_do_they_and_none_is_nothing() -> None:
    assert method_number("one") != method_number("two")
    assert method_number("") > 0
