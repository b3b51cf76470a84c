from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_mailbox
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._base.ids import ActorId
from actorlib._owner.calls.mailbox import MOST_IN_VAIN, Mailbox, Retries
from actorlib._shm.running_calls import BegunCalls
from actorlib._wire.messages import CALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.messages import Frame


@pytest.fixture
def mailbox() -> Iterator[Mailbox[str]]:
    box: Mailbox[str] = Mailbox()
    yield box
    check_mailbox(box)


def post(mailbox: Mailbox[str], reply: str, method: str = "ping") -> int:
    number, _ = mailbox.post(reply, method, None, b"")
    return number


# Frames.


def test_frames_when_the_actor_is_ready_then_those_that_waited_go_first(
    mailbox: Mailbox[str],
) -> None:
    assert mailbox.post("me", "a", None, b"x") == (1, None)
    mailbox.post("me", "b", [ActorId(b"a")], b"y")
    assert repr(mailbox) == "<Mailbox closed, 2 waiting, 0 sent>"

    frames = mailbox.opened()
    number, frame = mailbox.post("me", "c", None, b"z")

    assert frames == [(CALL, 1, "a", None, b"x"), (CALL, 2, "b", [b"a"], b"y")]
    assert frame == (CALL, number, "c", None, b"z")
    assert repr(mailbox) == "<Mailbox open, 0 waiting, 3 sent>"


def test_number_when_there_is_no_such_call_then_nothing_happens(
    mailbox: Mailbox[str],
) -> None:
    assert (mailbox.settle(5), mailbox.drop(5)) == (None, None)
    assert mailbox.again(5, Retries(1)) is None
    assert not mailbox.was_sent(5)


def test_hold_when_calls_are_sent_then_they_go_on_and_new_ones_wait(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    sent = post(mailbox, "me")
    mailbox.hold()
    held = post(mailbox, "you", "later")

    assert repr(mailbox) == "<Mailbox open, 1 waiting, 1 sent>"
    assert (mailbox.was_sent(sent), mailbox.was_sent(held)) == (True, False)
    states = [(call.number, call.state) for call in mailbox.unanswered()]
    assert states == [(sent, "sent"), (held, "pending_actor")]
    assert mailbox.settle(sent) == "me"
    assert mailbox.under_way == 0
    assert [frame[2] for frame in mailbox.let_go()] == ["later"]
    assert mailbox.settle(held) == "you"


def test_drop_when_a_call_was_sent_then_it_is_abandoned_until_the_process_ends(
    mailbox: Mailbox[str],
) -> None:
    waits = post(mailbox, "me")
    mailbox.drop(waits)
    assert not mailbox.abandoned
    mailbox.opened()
    sent = post(mailbox, "me", "ping")
    mailbox.drop(sent)

    assert mailbox.abandoned == {sent: ("ping", None)}
    mailbox.interrupted()
    assert not mailbox.abandoned


# The end of a process, and another one.


def post_kept(
    mailbox: Mailbox[str], reply: str, times: int = 1, payload: bytes = b""
) -> int:
    number, _ = mailbox.post(reply, "ping", None, payload, None, Retries(times))
    return number


def numbers_of(frames: list[Frame]) -> list[int]:
    return [frame[1] for frame in frames]


def test_interrupted_when_calls_have_retries_then_they_go_again_as_they_were(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    number, frame = mailbox.post("me", "ping", [ActorId(b"a")], b"x", None, Retries(1))

    assert mailbox.survives_restart
    assert mailbox.interrupted() == ([], [])
    assert not mailbox.was_sent(number)
    assert mailbox.opened() == [frame]
    assert mailbox.settle(number) == "me"
    assert mailbox.release(number) == frame


# Which of them have begun.


@pytest.mark.parametrize(
    ("begun", "paying"),
    [
        (BegunCalls(2, frozenset({2})), [2]),
        (BegunCalls(4, frozenset({2, 4})), [2, 4]),
        (BegunCalls(0, frozenset()), []),
        (BegunCalls(4, frozenset()), []),
        (BegunCalls(3, frozenset({2}), is_crowded=True), [1, 2, 3]),
        (None, [1, 2, 3, 4]),
    ],
)
def test_interrupted_when_calls_have_begun_then_those_that_ran_pay(
    mailbox: Mailbox[str], begun: BegunCalls | None, paying: list[int]
) -> None:
    mailbox.opened()
    for _ in range(4):
        post_kept(mailbox, "me", times=2)

    mailbox.note_begun(begun)
    assert mailbox.interrupted() == ([], [])

    left = {number: kept.retries.times for number, kept in mailbox.kept.items()}
    assert left == {number: 1 if number in paying else 2 for number in range(1, 5)}
    assert numbers_of(mailbox.opened()) == [1, 2, 3, 4]


NOTHING_BEGAN = BegunCalls(0, frozenset())


def die_in_vain(mailbox: Mailbox[str], times: int) -> list[list[str]]:
    """Deaths before a call has begun; who gets no answer at each."""
    lost: list[list[str]] = []
    for _ in range(times):
        mailbox.opened()
        mailbox.note_begun(NOTHING_BEGAN)
        lost.append(mailbox.interrupted()[0])
    return lost


def test_interrupted_when_no_call_is_finished_for_long_then_those_that_wait_are_lost(
    mailbox: Mailbox[str],
) -> None:
    post_kept(mailbox, "me", times=5)
    always = post_kept(mailbox, "you", times=-1)

    assert die_in_vain(mailbox, MOST_IN_VAIN) == [[]] * MOST_IN_VAIN
    late = post_kept(mailbox, "late")
    assert die_in_vain(mailbox, 1) == [["me", "late"]]

    assert late not in mailbox.kept
    assert die_in_vain(mailbox, 2 * MOST_IN_VAIN) == [[]] * 2 * MOST_IN_VAIN
    assert numbers_of(mailbox.opened()) == [always]


def test_interrupted_when_a_call_is_finished_between_then_the_others_wait_on(
    mailbox: Mailbox[str],
) -> None:
    post_kept(mailbox, "me")
    for is_dropped in (False, False, True):
        assert die_in_vain(mailbox, MOST_IN_VAIN) == [[]] * MOST_IN_VAIN
        mailbox.opened()
        plain = post(mailbox, "you")  # a call that is never sent again counts, too
        if is_dropped:  # it was not finished
            mailbox.drop(plain)
        else:
            mailbox.settle(plain)
        mailbox.note_begun(NOTHING_BEGAN)
        lost, _ = mailbox.interrupted()
        assert lost == ["me"] * is_dropped


def test_interrupted_when_a_call_is_lost_between_then_the_others_wait_on(
    mailbox: Mailbox[str],
) -> None:
    first, _ = post_kept(mailbox, "bad", times=MOST_IN_VAIN), post_kept(mailbox, "me")
    lost: list[str] = []
    for _ in range(MOST_IN_VAIN + 1):
        mailbox.opened()
        mailbox.note_begun(BegunCalls(first, frozenset({first})))
        lost += mailbox.interrupted()[0]

    assert lost == ["bad"]
    assert die_in_vain(mailbox, MOST_IN_VAIN) == [[]] * MOST_IN_VAIN


# A method that raised, and is called again.


def test_again_when_it_may_then_the_same_call_with_a_new_number(
    mailbox: Mailbox[str],
) -> None:
    mailbox.opened()
    first = post_kept(mailbox, "me", times=2, payload=b"x")
    other = post(mailbox, "you")

    frame = mailbox.again(first, Retries(0))

    assert frame is not None
    assert frame[1] > other
    assert frame[2:] == ("ping", None, b"x")
    assert mailbox.current(first) == frame[1]
    assert mailbox.was_sent(first)
    assert mailbox.settle(first) is None
    assert mailbox.settle(frame[1]) == "me"
    mailbox.release(frame[1])


@pytest.mark.parametrize("how", ["drop", "interrupted", "closed", "release"])
def test_again_when_the_call_is_over_then_its_first_number_is_forgotten(
    mailbox: Mailbox[str], how: str
) -> None:
    mailbox.opened()
    first = post_kept(mailbox, "me", times=1)
    frame = mailbox.again(first, Retries(0))
    assert frame is not None

    if how == "drop":
        assert mailbox.drop(first) == frame
    elif how == "release":
        mailbox.settle(frame[1])
        assert mailbox.release(frame[1]) == frame
    else:
        assert getattr(mailbox, how)() == (["me"], [frame])

    assert mailbox.current(first) == first
    assert (len(mailbox), mailbox.kept) == (0, {})


class MailboxMachine(RuleBasedStateMachine):
    """Against a naive model: what each call is, in the order in which it was made.

    A call is known by the number that it was posted with, as its caller knows it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mailbox: Mailbox[int] = Mailbox()
        self.is_open = False
        self.is_away = False
        self.is_held = False
        self.is_mixed = False
        self.waiting: list[int] = []
        self.sent: list[int] = []
        self.now: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.wanted: dict[int, int] = {}
        self.over: list[int] = []

    def went(self, frames: list[Frame]) -> list[int]:
        first = {now: number for number, now in self.now.items()}
        return [first[frame[1]] for frame in frames]

    def take(self, data: st.DataObject, numbers: list[int]) -> int:
        number = data.draw(st.sampled_from(numbers))
        numbers.remove(number)
        self.over.append(number)
        return number

    def kept(self, numbers: list[int]) -> list[int]:
        return [number for number in numbers if number in self.left]

    @rule(reply=st.integers(), times=st.integers(-1, 3))
    def post(self, reply: int, times: int) -> None:
        retries = Retries(times) if times else None
        number, frame = self.mailbox.post(reply, "ping", None, b"", None, retries)
        if self.is_away and not times:
            assert (number, frame) == (0, None)
            return
        assert number not in self.wanted
        self.wanted[number] = reply
        self.now[number] = number
        if times:
            self.left[number] = times
        goes = self.is_open and not self.is_held
        assert (frame is not None) == goes
        (self.sent if goes else self.waiting).append(number)

    @rule()
    def open(self) -> None:
        frames = self.mailbox.opened()
        assert self.went(frames) == self.waiting
        numbers = [frame[1] for frame in frames]
        assert numbers == sorted(numbers) or self.is_mixed
        self.is_open, self.is_away = True, False
        self.sent += self.waiting
        self.waiting = []

    @precondition(lambda self: self.is_open)
    @rule()
    def hold(self) -> None:
        self.mailbox.hold()
        self.is_held = True

    @precondition(lambda self: self.is_held)
    @rule()
    def let_go(self) -> None:
        assert self.went(self.mailbox.let_go()) == self.waiting
        self.sent += self.waiting
        self.waiting = []
        self.is_held = False

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        number = self.take(data, self.sent)
        assert self.mailbox.settle(self.now[number]) == self.wanted[number]
        was_kept = self.mailbox.release(self.now[number]) is not None
        assert was_kept == (number in self.left)

    @precondition(lambda self: self.over or self.waiting)
    @rule(data=st.data())
    def settle_what_is_over_or_waits(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.over + self.waiting))
        assert self.mailbox.settle(self.now[number]) is None

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def drop_what_waits(self, data: st.DataObject) -> None:
        number = self.take(data, self.waiting)
        frame = self.mailbox.drop(number)
        assert frame is not None
        assert frame[1] == self.now[number]

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def drop_what_was_sent(self, data: st.DataObject) -> None:
        number = self.take(data, self.sent)
        was_kept = self.mailbox.drop(number) is not None
        assert was_kept == (number in self.left)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data(), reply=st.integers())
    def replace(self, data: st.DataObject, reply: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.wanted)))
        self.mailbox.calls.replace(self.mailbox.current(number), reply)
        self.wanted[number] = reply

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.sent))
        left = Retries(self.left.get(number, 0)).after_end(ran=True) or Retries(0)
        frame = self.mailbox.again(self.now[number], left)
        assert (frame is not None) == (number in self.left)
        if frame is not None:
            self.is_mixed |= self.is_held
            assert frame[1] > max(self.now.values())
            self.now[number] = frame[1]
            self.left[number] = left.times
            self.sent.remove(number)
            self.sent.append(number)

    @rule(data=st.data(), is_known=st.booleans())
    def interrupt(self, data: st.DataObject, *, is_known: bool) -> None:
        ran = self.sent
        begun: BegunCalls | None = None
        if is_known:
            ran = data.draw(st.lists(st.sampled_from(self.sent or [0]), unique=True))
            running = frozenset(self.now.get(number, 0) for number in ran)
            begun = BegunCalls(max(running, default=0), running)
        # Finishes a call: what becomes of those in vain is tested above.
        self.mailbox.calls.drop(self.mailbox.calls.begin(0, "ping"))
        self.mailbox.note_begun(begun)
        replies, frames = self.mailbox.interrupted()
        lost = [
            number
            for number in self.sent
            if number not in self.left or (number in ran and not self.left[number])
        ]
        assert replies == [self.wanted[number] for number in lost]
        assert self.went(frames) == self.kept(lost)
        again = [number for number in self.sent if number not in lost]
        for number in again:
            self.left[number] -= number in ran and self.left[number] > 0
        self.over += lost
        self.sent, self.waiting = [], again + self.waiting
        self.is_open, self.is_away, self.is_held = False, True, False

    @rule()
    def close(self) -> None:
        replies, frames = self.mailbox.closed()
        left = self.sent + self.waiting
        assert replies == [self.wanted[number] for number in left]
        assert sorted(self.went(frames)) == sorted(self.kept(self.sent) + self.waiting)
        self.over += left
        self.sent, self.waiting, self.is_open, self.is_away = [], [], False, False
        self.is_held = False

    @invariant()
    def every_call_is_in_one_place(self) -> None:
        check_mailbox(self.mailbox)
        assert len(self.mailbox) == len(self.waiting) + len(self.sent)
        assert self.mailbox.under_way == len(self.sent)
        place = "open" if self.is_open else "away" if self.is_away else "closed"
        assert repr(self.mailbox) == (
            f"<Mailbox {place}, {len(self.waiting)} waiting, {len(self.sent)} sent>"
        )
        was_sent = [n for n in self.wanted if self.mailbox.was_sent(n)]
        assert was_sent == sorted(self.sent)
        assert not self.mailbox.kept.keys() & {self.now[number] for number in self.over}
        may_go_again = any(self.left.get(number) for number in self.sent)
        assert self.mailbox.survives_restart == (bool(self.waiting) or may_go_again)


MailboxMachine.TestCase.settings = settings(stateful_step_count=30)
TestMailbox = MailboxMachine.TestCase


def test_unanswered_when_calls_were_made_then_each_says_since_when() -> None:
    mailbox: Mailbox[str] = Mailbox()
    mailbox.opened()
    mailbox.calls.begin("me", "first")
    mailbox.calls.mark(10.0)
    mailbox.calls.begin("me", "second")  # in the same turn
    mailbox.calls.begin("me", "third")
    mailbox.calls.mark(20.0)

    told = [(call.method, call.since, call.state) for call in mailbox.unanswered()]

    assert told == [
        ("first", 10.0, "sent"),
        ("second", 10.0, "sent"),
        ("third", 20.0, "sent"),
    ]
