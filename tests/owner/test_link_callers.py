"""The callers of one actor: what they are told, and when the actor is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._base.ids import LINKED
from actorlib._owner.calls.link_callers import LinkCallers
from actorlib._owner.objects.refcount import OWNER, UnsentResults
from actorlib._wire.messages import LINK_CLOSE, LINK_LOST, RESULT
from actorlib._wire.peer_socket import method_number

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._wire.messages import Frame


class Worker:
    """A worker whose pipe keeps what is sent."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.channel: Any = self
        self.is_open = True
        self.sent: list[Frame] = []

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)


def worker(number: int) -> Any:
    return Worker(number)


class Counted:
    """Counts loans by holder."""

    def __init__(self) -> None:
        self.held: list[tuple[Any, int]] = []

    def arrived(self, loans: Collection[Any], holder: int) -> None:
        self.held += [(loan, holder) for loan in loans]

    def returned(self, loans: Collection[Any], holder: int) -> None:
        for loan in loans:
            self.held.remove((loan, holder))

    def lent(self, loans: Collection[Any], holder: int) -> None:
        self.returned(loans, OWNER)
        self.arrived(loans, holder)


class Actor:
    """An actor, and what its callers need of it."""

    def __init__(self) -> None:
        self.told: list[Frame] = []
        self.loans: Any = Counted()
        self.unsent = UnsentResults(lambda: None)
        self.callers = LinkCallers(self.loans, self.unsent, self.told.append)


def test_answer_when_it_has_loans_then_they_are_the_callers() -> None:
    actor, caller = Actor(), worker(3)
    actor.callers.add(caller, 5)
    answer = (RESULT, 3 * LINKED + 7, (b"loan",), b"")

    actor.callers.answer(answer)

    assert caller.sent == [answer]
    assert actor.loans.held == [(b"loan", 3)]


def test_answer_when_the_caller_is_gone_then_its_loans_are_given_back() -> None:
    actor, caller = Actor(), worker(3)
    actor.callers.add(caller, 5)
    caller.is_open = False

    actor.callers.answer((RESULT, 3 * LINKED + 7, (b"loan",), b""))

    assert caller.sent == []
    assert actor.loans.held == []


def test_parting_when_there_are_callers_then_the_actor_is_asked_once() -> None:
    actor = Actor()
    assert actor.callers.have_parted()
    actor.callers.add(worker(3), 5)

    assert not actor.callers.have_parted()
    assert not actor.callers.have_parted()
    assert actor.told == [(LINK_CLOSE, 0)]
    assert actor.unsent

    actor.callers.parted()
    assert actor.callers.have_parted()
    assert not actor.unsent


def test_parting_when_a_caller_has_ended_then_its_calls_count_too() -> None:
    actor, caller = Actor(), worker(3)
    actor.callers.add(caller, 5)
    caller.is_open = False

    assert not actor.callers.have_parted()


def test_end_when_there_are_callers_then_each_is_told_and_nothing_is_owed() -> None:
    actor, caller = Actor(), worker(3)
    actor.callers.add(caller, 5)
    actor.callers.have_parted()

    actor.callers.lost(lambda: ValueError("it died"))
    actor.callers.lost(lambda: ValueError("again"))

    assert [frame[:3] for frame in caller.sent] == [
        (LINK_LOST, 5, "ValueError: it died")
    ]
    assert not actor.unsent


def test_mark_when_it_is_that_of_a_method_then_that_ran() -> None:
    actor = Actor()

    actor.callers.note(method_number("work"), ["rest", "work"])
    assert actor.callers.ran == "work"

    actor.callers.note(0, ["rest", "work"])
    assert actor.callers.ran is None
