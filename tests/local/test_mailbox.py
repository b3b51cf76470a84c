from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._engine import ActorId
from actorlib._local.mailbox import Mailbox
from actorlib._wire.frames import CALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.frames import Frame


@pytest.fixture
def mailbox() -> Iterator[Mailbox[str]]:
    box: Mailbox[str] = Mailbox()
    yield box
    box.check()


def post(mailbox: Mailbox[str], reply: str, method: str = "ping") -> int:
    number, _ = mailbox.post(reply, method, None, b"")
    return number


# Posting.


def test_post_when_the_actor_is_not_ready_then_the_call_waits(
    mailbox: Mailbox[str],
) -> None:
    assert mailbox.post("me", "ping", None, b"x") == (1, None)
    assert repr(mailbox) == "<Mailbox closed, 1 waiting, 0 sent>"


def test_post_when_the_actor_is_ready_then_its_frame_goes(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()

    number, frame = mailbox.post("me", "ping", [ActorId(b"a")], b"x")

    assert frame == (CALL, number, "ping", [b"a"], b"x")
    assert repr(mailbox) == "<Mailbox open, 0 waiting, 1 sent>"


def test_post_when_repeated_then_numbers_go_up(mailbox: Mailbox[str]) -> None:
    numbers = [post(mailbox, "me") for _ in range(2)]
    mailbox.opened()
    numbers += [post(mailbox, "me") for _ in range(2)]

    assert numbers == sorted(set(numbers))
    assert 0 not in numbers  # it stands for the constructor


def test_opened_when_calls_wait_then_their_frames_in_order(
    mailbox: Mailbox[str],
) -> None:
    for method in ("a", "b", "c"):
        mailbox.post("me", method, None, method.encode())

    frames = mailbox.opened()

    assert [(frame[2], frame[4]) for frame in frames] == [
        ("a", b"a"),
        ("b", b"b"),
        ("c", b"c"),
    ]
    assert repr(mailbox) == "<Mailbox open, 0 waiting, 3 sent>"


# Answers.


def test_settle_when_an_answer_comes_then_it_is_for_whoever_asked(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    first, second = post(mailbox, "one"), post(mailbox, "two")

    assert [mailbox.settle(second), mailbox.settle(first)] == ["two", "one"]
    assert len(mailbox) == 0


def test_settle_when_it_comes_twice_then_the_second_is_for_nobody(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    number = post(mailbox, "me")
    mailbox.settle(number)

    assert mailbox.settle(number) is None


def test_settle_when_nobody_asked_then_none(mailbox: Mailbox[str]) -> None:
    assert mailbox.settle(5) is None


@pytest.mark.parametrize("is_open", [True, False])
def test_replace_when_there_is_no_answer_then_it_is_for_somebody_else(
    mailbox: Mailbox[str], *, is_open: bool
) -> None:
    if is_open:
        mailbox.opened()
    number = post(mailbox, "me")

    mailbox.replace(number, "you")
    mailbox.opened()

    assert mailbox.settle(number) == "you"


def test_replace_when_it_was_answered_then_nothing(mailbox: Mailbox[str]) -> None:
    mailbox.opened()
    number = post(mailbox, "me")
    mailbox.settle(number)

    mailbox.replace(number, "you")

    assert len(mailbox) == 0


# Calls that nobody wants any more.


def test_drop_when_it_waits_then_its_frame_and_it_never_goes(
    mailbox: Mailbox[str],
) -> None:
    number = post(mailbox, "me")
    post(mailbox, "you")

    frame = mailbox.drop(number)

    assert frame == (CALL, number, "ping", None, b"")
    assert [frame[1] for frame in mailbox.opened()] == [number + 1]


def test_drop_when_it_was_sent_then_no_frame_and_its_answer_is_for_nobody(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    number = post(mailbox, "me")

    assert mailbox.drop(number) is None
    assert mailbox.settle(number) is None


def test_drop_when_it_is_not_there_then_nothing(mailbox: Mailbox[str]) -> None:
    assert mailbox.drop(5) is None


def test_was_sent_when_waiting_sent_and_answered_then_only_in_between(
    mailbox: Mailbox[str],
) -> None:
    number = post(mailbox, "me")
    seen = [mailbox.was_sent(number)]
    mailbox.opened()
    seen.append(mailbox.was_sent(number))
    mailbox.settle(number)
    seen.append(mailbox.was_sent(number))

    assert seen == [False, True, False]


# What runs.


def test_running_when_several_were_sent_then_the_oldest_without_an_answer(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    first = post(mailbox, "me", "a")
    post(mailbox, "me", "b")

    seen = [mailbox.running()]
    mailbox.settle(first)
    seen.append(mailbox.running())

    assert seen == ["a", "b"]


def test_running_when_calls_only_wait_then_none(mailbox: Mailbox[str]) -> None:
    post(mailbox, "me")

    assert mailbox.running() is None


# The end.


def test_closed_when_calls_are_left_then_all_replies_in_order(
    mailbox: Mailbox[str],
) -> None:
    post(mailbox, "one")
    mailbox.opened()
    post(mailbox, "two")

    assert mailbox.closed() == (["one", "two"], [])
    assert len(mailbox) == 0


def test_closed_when_calls_never_went_then_their_frames_too(
    mailbox: Mailbox[str],
) -> None:
    number = post(mailbox, "one")

    replies, frames = mailbox.closed()

    assert replies == ["one"]
    assert [frame[1] for frame in frames] == [number]


def test_closed_when_a_call_comes_afterwards_then_it_waits(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    mailbox.closed()

    _, frame = mailbox.post("me", "ping", None, b"")

    assert frame is None


def test_check_when_calls_wait_for_an_actor_that_is_ready_then_it_raises() -> None:
    mailbox: Mailbox[str] = Mailbox()
    post(mailbox, "me")
    mailbox._is_open = True

    with pytest.raises(AssertionError, match="although the actor is ready"):
        mailbox.check()


def test_check_when_a_call_is_in_two_places_then_it_raises() -> None:
    mailbox: Mailbox[str] = Mailbox()
    mailbox._sent[post(mailbox, "me")] = ("me", "ping")

    with pytest.raises(AssertionError, match="two places"):
        mailbox.check()


class MailboxMachine(RuleBasedStateMachine):
    """Against a naive model: what each call is, in the order in which it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.mailbox: Mailbox[int] = Mailbox()
        self.is_open = False
        self.waiting: list[int] = []
        self.sent: list[int] = []
        self.wanted: dict[int, int] = {}
        self.over: list[int] = []

    def went(self, frames: list[Frame]) -> list[int]:
        return [frame[1] for frame in frames]

    def take(self, data: st.DataObject, numbers: list[int]) -> int:
        number = data.draw(st.sampled_from(numbers))
        numbers.remove(number)
        self.over.append(number)
        return number

    @rule(reply=st.integers())
    def post(self, reply: int) -> None:
        number, frame = self.mailbox.post(reply, "ping", None, b"")
        assert number not in self.wanted
        self.wanted[number] = reply
        assert (frame is not None) == self.is_open
        (self.sent if self.is_open else self.waiting).append(number)

    @rule()
    def open(self) -> None:
        assert self.went(self.mailbox.opened()) == self.waiting
        self.is_open = True
        self.sent += self.waiting
        self.waiting = []

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        number = self.take(data, self.sent)
        assert self.mailbox.settle(number) == self.wanted[number]

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def settle_what_is_over(self, data: st.DataObject) -> None:
        assert self.mailbox.settle(data.draw(st.sampled_from(self.over))) is None

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def drop_what_waits(self, data: st.DataObject) -> None:
        number = self.take(data, self.waiting)
        frame = self.mailbox.drop(number)
        assert frame is not None
        assert frame[1] == number

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def drop_what_was_sent(self, data: st.DataObject) -> None:
        assert self.mailbox.drop(self.take(data, self.sent)) is None

    @precondition(lambda self: self.wanted)
    @rule(data=st.data(), reply=st.integers())
    def replace(self, data: st.DataObject, reply: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.wanted)))
        self.mailbox.replace(number, reply)
        self.wanted[number] = reply

    @rule()
    def close(self) -> None:
        replies, frames = self.mailbox.closed()
        left = self.sent + self.waiting
        assert replies == [self.wanted[number] for number in left]
        assert self.went(frames) == self.waiting
        self.over += left
        self.sent, self.waiting, self.is_open = [], [], False

    @invariant()
    def every_call_is_in_one_place(self) -> None:
        self.mailbox.check()
        assert len(self.mailbox) == len(self.waiting) + len(self.sent)
        was_sent = [n for n in self.wanted if self.mailbox.was_sent(n)]
        assert was_sent == sorted(self.sent)


MailboxMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None
)
TestMailbox = MailboxMachine.TestCase
