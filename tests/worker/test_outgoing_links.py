"""Calls take one of two routes, and none overtakes another whichever they take.

Both ends are the real ones, over real links; what goes by way of the owner is a line of
frames that is passed on whenever it pleases.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.ids import LINKED, ActorId
from actorlib._shm.memory import SharedMemory
from actorlib._wire.codec import pack
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._wire.messages import (
    CALL,
    CALL_ACTOR,
    CANCEL,
    CANCEL_CHILDREN,
    FAILURE,
    LINK_BEGIN,
    LINK_CALL,
    LINK_CANCEL,
    LINK_CLOSE,
    LINK_CLOSED,
    LINK_FENCE,
    LINK_LOST,
    LINK_OPEN,
    LINK_OPENED,
    LINK_PAUSE,
    RESULT,
)
from actorlib._wire.peer_socket import socket_pair
from actorlib._worker.links.incoming_links import IncomingLinks
from actorlib._worker.links.outgoing_links import (
    CALLS,
    FALLBACK_CALLS,
    OutgoingLinks,
    Route,
    RoutePolicy,
)
from actorlib._worker.requests.refcount import LocalRefCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.messages import Frame
    from actorlib._worker.requests.inbox import LinkSource

CALLER, CALLEE = 3, 5
ACTOR = ActorId(b"a" * 16)


class Reading:
    """Reads links when it is told to, in place of an inbox."""

    def __init__(self) -> None:
        self.sources: list[LinkSource] = []
        self.has_loop = False
        self._turn: list[Callable[[], None]] = []

    def watch(self, source: LinkSource) -> None:
        self.sources.append(source)

    def unwatch(self, source: LinkSource) -> None:
        if source in self.sources:
            self.sources.remove(source)

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        if self.has_loop:
            self._turn.append(callback)
        return self.has_loop

    def end_turn(self) -> None:
        turn, self._turn = self._turn, []
        for callback in turn:
            callback()


class Engine:
    """That of a worker, whose frames to the owner are kept."""

    class sender:  # noqa: N801  # as the attribute is called
        lock = threading.RLock()

    def __init__(self) -> None:
        self.refcount = LocalRefCount()
        self.events: Any = None
        self.posted: deque[Frame] = deque()
        self.returns = 0

    def post(self, frame: Frame) -> None:
        self.posted.append(frame)

    def return_borrowed_soon(self) -> None:
        self.returns += 1


class Two:
    """A caller and whom it calls, with an owner between them."""

    def __init__(self) -> None:
        self.sharings = SegmentSharing(SharedMemory()), SegmentSharing(SharedMemory())
        self.engines: Any = (Engine(), Engine())
        self.readers: Any = (Reading(), Reading())
        self.outgoing = OutgoingLinks(
            self.engines[0], self.readers[0], CALLER, self.sharings[0]
        )
        self.incoming = IncomingLinks(
            self.engines[1], self.readers[1], CALLEE, self.sharings[1]
        )
        self.received: list[Frame] = []
        self.answers: list[Frame] = []
        self._down: deque[Frame] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.outgoing.leave(ACTOR)
        self.incoming.close_links()
        for reader in self.readers:
            for source in [*reader.sources]:
                source.read()
        for sharing in self.sharings:
            sharing.close()

    def call(self, number: int, payload: bytes = b"") -> None:
        if not self.outgoing.send(number, 0, ACTOR, "m", None, payload):
            self.engines[0].post((CALL_ACTOR, number, 0, ACTOR, "m", None, payload))

    def other(self, number: int) -> None:
        self.outgoing.fence(ACTOR)
        self.engines[0].post((CALL_ACTOR, number, 0, ACTOR, "m", ("loan",), b""))

    def open_link(self, number: int = 1) -> int:
        """Calls until there is a link; gives the number of the next call."""
        while not self.readers[0].sources:
            self.call(number)
            number += 1
            self.pass_on()
        self.read_pipe()
        self.read_answers()
        return number

    def pass_on(self, most: int = 1000) -> None:
        """The owner passes on so many frames of the caller."""
        for _ in range(most):
            if not self.engines[0].posted:
                return
            frame = self.engines[0].posted.popleft()
            if frame[0] == LINK_OPEN:
                self.connect()
            elif frame[0] in (LINK_BEGIN, LINK_FENCE):
                self._down.append((frame[0], CALLER, *frame[2:]))
            elif frame[0] == CALL_ACTOR:
                self._down.append((CALL, *frame[1:2], "m", None, b""))

    def connect(self) -> None:
        ours, theirs = socket_pair()
        self.sharings[0].links[-CALLEE] = ours.detach()
        self.sharings[1].links[CALLER] = theirs.detach()
        self.outgoing.take((LINK_OPENED, ACTOR, CALLEE))
        self._down.append((LINK_OPEN, CALLER))

    def read_pipe(self, most: int = 1000) -> None:
        """The callee reads so many frames of its pipe."""
        for _ in range(most):
            if not self._down:
                return
            frame = self._down.popleft()
            self._receive([frame] if frame[0] == CALL else self.incoming.take(frame))

    def read_links(self) -> None:
        for source in [*self.readers[1].sources]:
            while frames := source.read(is_next=True):
                self._receive(frames)

    def read_answers(self) -> None:
        for source in [*self.readers[0].sources]:
            self.answers += source.read()

    def settle(self) -> list[int]:
        """Everything arrives; gives the caller's numbers of the calls, in order."""
        self.readers[0].end_turn()
        while self.engines[0].posted or self._down:
            self.pass_on()
            self.read_pipe()
        self.read_links()
        return [frame[1] % LINKED for frame in self.received if frame[0] == CALL]

    def _receive(self, frames: list[Frame]) -> None:
        self.received += frames


# Which way.


def test_route_when_calls_are_few_then_nobody_asks_for_a_link() -> None:
    policy = RoutePolicy()

    assert [policy.route_plain() for _ in range(CALLS)] == [Route.OWNER] * CALLS
    assert policy.route_plain() is Route.ASK_FOR_LINK
    assert policy.route_plain() is Route.OWNER


def test_route_when_there_is_a_link_then_it_begins_once() -> None:
    policy = RoutePolicy()
    policy.link_opened()

    assert [policy.route_plain() for _ in range(3)] == [
        Route.START_LINK,
        Route.LINK,
        Route.LINK,
    ]


def test_route_when_something_else_is_sent_then_it_comes_back_later() -> None:
    policy = RoutePolicy()
    policy.link_opened()
    policy.route_plain()

    assert policy.route_other() is Route.FENCE
    assert policy.route_other() is Route.OWNER
    steps = [policy.route_plain() for _ in range(FALLBACK_CALLS + 1)]
    assert steps == [Route.OWNER] * FALLBACK_CALLS + [Route.START_LINK]


@pytest.mark.parametrize(
    ("forever", "last"), [(True, Route.OWNER), (False, Route.ASK_FOR_LINK)]
)
def test_route_when_the_owner_refuses_then_it_is_asked_again_unless_never(
    *, forever: bool, last: Route
) -> None:
    policy = RoutePolicy()
    while policy.route_plain() is not Route.ASK_FOR_LINK:
        pass
    policy.link_refused(forever=forever)

    assert [policy.route_plain() for _ in range(2 * FALLBACK_CALLS + 1)][-1] is last


# In which order.

_DEEDS = st.sampled_from(
    [
        *["call"] * 3,
        *["other", "large", "larger"],
        *["end turn", "pass on", "read pipe", "read links", "read answers"],
    ]
)
_SIZES = {"call": 10, "large": 20_000, "larger": 100_000}


@given(st.booleans(), st.lists(st.tuples(_DEEDS, st.integers(1, 20)), max_size=60))
def test_order_when_calls_go_either_way_then_none_passes_another(
    has_loop: bool,  # noqa: FBT001  # hypothesis gives it so
    deeds: list[tuple[str, int]],
) -> None:
    with Two() as two:
        number = two.open_link()
        two.readers[0].has_loop = has_loop
        for deed, times in deeds:
            if deed == "end turn":
                two.readers[0].end_turn()
            elif deed == "pass on":
                two.pass_on(times)
            elif deed == "read pipe":
                two.read_pipe(times)
            elif deed == "read links":
                two.read_links()
            elif deed == "read answers":
                two.read_answers()
            else:
                for _ in range(times if deed == "call" else 1):
                    if deed == "other":
                        two.other(number)
                    else:
                        two.call(number, bytes(_SIZES[deed]))
                    number += 1

        assert two.settle() == list(range(1, number))


def test_order_when_the_link_is_full_then_none_passes_another() -> None:
    with Two() as two:
        first = two.open_link()
        for number in range(first, 5_000):
            two.call(number, b"x" * 1_000)
            if number % 1_000 == 0:
                two.pass_on()
                two.read_pipe(700)
                two.read_answers()

        assert two.settle() == list(range(1, 5_000))


def test_order_when_the_link_was_full_then_the_next_calls_get_a_new_link() -> None:
    with Two() as two:
        number = two.open_link()
        while (LINK_FENCE, CALLEE) not in two.engines[0].posted:
            two.call(number, b"x" * 1_000)
            number += 1
        two.settle()
        two.read_answers()
        assert two.readers[0].sources == []
        number = two.open_link(number)
        two.call(number)

        assert not two.engines[0].posted or two.engines[0].posted[0][0] == LINK_BEGIN
        assert two.settle() == list(range(1, number + 1))


# What becomes of them.


def test_answer_when_it_is_plain_then_it_goes_over_the_link() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        two.settle()

        two.incoming.answer((RESULT, two.received[-1][1], None, b"7"))
        two.read_answers()

        (answer,) = two.answers
        assert two.outgoing.answered(answer) == (RESULT, number, None, b"7")
        assert number not in {call for call, *_ in two.outgoing.unanswered()}


def test_answer_when_it_has_loans_then_it_goes_by_way_of_the_owner() -> None:
    with Two() as two:
        two.call(two.open_link())
        two.settle()
        answer = (RESULT, two.received[-1][1], (b"loan",), b"7")

        two.incoming.answer(answer)

        assert list(two.engines[1].posted) == [answer]


def test_answers_when_they_are_gathered_then_they_leave_together() -> None:
    with Two() as two:
        first = two.open_link()
        for number in range(first, first + 10):
            two.call(number)
        two.settle()
        for call in two.received[-10:]:
            two.incoming.gather((RESULT, call[1], None, b""))

        two.read_answers()
        assert not two.answers
        two.incoming.flush()
        two.read_answers()

        assert len(two.answers) == 10


def test_end_when_the_callee_is_gone_then_answers_come_before_the_error() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        two.call(number + 1)
        two.settle()
        two.incoming.answer((RESULT, two.received[-2][1], None, b"7"))

        frames = two.outgoing.take((LINK_LOST, CALLEE, "it died", b"error"))

        assert frames[0][0] == RESULT
        assert {frame[1] % LINKED for frame in frames if frame[0] == FAILURE} >= {
            number + 1
        }


def test_parting_when_calls_are_there_then_they_are_answered_first() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        two.pass_on()
        two.read_pipe()

        (call,) = two.incoming.take((LINK_CLOSE, 0))
        assert (LINK_CLOSED, 0) not in two.engines[1].posted
        two.call(number + 1)
        two.incoming.answer((RESULT, call[1], None, b""))

        assert (LINK_CLOSED, 0) in two.engines[1].posted
        assert two.engines[0].posted[-1][:2] == (CALL_ACTOR, number + 1)


def test_cancelling_when_a_call_is_on_the_link_then_it_follows_it() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        assert two.outgoing.cancel(number, recursive=False)
        two.settle()

        assert two.received[-1] == (CANCEL, CALLER * LINKED + number)
        assert not two.outgoing.cancel(number, recursive=False)


def test_cancelling_when_the_link_is_full_then_it_goes_by_way_of_the_owner() -> None:
    with Two() as two:
        number = first = two.open_link()
        while two.outgoing.send(number, 0, ACTOR, "m", None, b"x" * 1_000):
            if two.engines[0].posted and two.engines[0].posted[-1][0] == CALL_ACTOR:
                break
            number += 1
        two.outgoing.cancel(first, recursive=False)

        assert two.engines[0].posted[-1] == (
            LINK_CANCEL,
            CALLEE,
            CALLER * LINKED + first,
            True,
        )


def test_cancelling_when_the_link_is_not_in_use_then_it_goes_by_the_owner() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        two.other(number + 1)
        two.outgoing.cancel(number, recursive=False)

        dropped = (LINK_CANCEL, CALLEE, CALLER * LINKED + number, True)
        assert two.engines[0].posted[-1] == dropped


def test_closing_when_a_pause_is_on_the_link_then_all_behind_it_is_taken() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)
        two.other(number + 1)
        for later in range(number + 2, number + 20):
            two.call(later)

        frames = two.incoming.close_links()

        expected = [number, *range(number + 2 + FALLBACK_CALLS, number + 20)]
        assert [frame[1] % LINKED for frame in frames] == expected


def test_cancelling_when_the_caller_is_busy_then_the_callee_knows_what_it_made() -> (
    None
):
    with Two() as two:
        number = two.open_link()
        two.outgoing.send(number, 9, ACTOR, "m", None, b"")
        two.settle()

        frames = two.incoming.take((CANCEL_CHILDREN, CALLER, 9))

        assert frames == [(CANCEL, CALLER * LINKED + number)]


def test_references_when_an_actor_has_to_answer_then_they_go_back_later() -> None:
    with Two() as two:
        refcount = two.engines[0].refcount
        refcount.borrow((ACTOR,))
        refcount.retain(ACTOR)
        number = two.open_link()
        two.call(number)
        two.settle()
        refcount.release_all((ACTOR,))
        assert refcount.take_returned() == []

        two.incoming.answer((RESULT, two.received[-1][1], None, b""))
        two.read_answers()
        two.outgoing.answered(two.answers[0])

        assert two.engines[0].returns == 1
        assert refcount.take_returned() == [(ACTOR, 1)]


def test_descriptors_when_nobody_takes_an_end_then_it_is_closed() -> None:
    ours, theirs = socket_pair()
    sharing = SegmentSharing(SharedMemory())
    sharing.links[CALLER] = theirs.detach()

    sharing.close()

    with ours:
        assert ours.recv(1) == b""


def test_link_when_the_callee_never_had_its_end_then_calls_go_by_the_owner() -> None:
    with Two() as two:
        ours, theirs = socket_pair()
        two.sharings[0].links[-CALLEE] = ours.detach()
        two.outgoing.take((LINK_OPENED, ACTOR, CALLEE))
        theirs.close()
        two.read_answers()

        two.call(1)

        assert [frame[0] for frame in two.engines[0].posted] == [CALL_ACTOR]


# Nonsense of the worker at the other end.


@pytest.mark.parametrize(
    "message",
    [
        b"\xc1",
        b"\x90",
        b"\x01",
        pack((LINK_CALL, CALLER * LINKED + 1)),
        pack((LINK_CALL, CALLER * LINKED + 1, 0, b"m", None, b"")),
        pack((LINK_CALL, CALLEE * LINKED + 1, 0, "m", None, b"")),
        pack((LINK_CALL, "1", 0, "m", None, b"")),
        pack((LINK_CALL, CALLER * LINKED + 1, 0, "m", {"deadline": 1}, b"")),
        pack((LINK_CALL, CALLER * LINKED + 1, 0, "m", None, None)),
        pack((CANCEL, [])),
        pack((RESULT, 1, None, b"")),
        pack((LINK_PAUSE, 0)) + pack((CANCEL, 1)),
        pack(([],)),
    ],
)
def test_caller_when_it_sends_nonsense_over_a_link_then_that_is_closed_and_no_more(
    message: bytes,
) -> None:
    with Two() as two:
        two.open_link()
        known = two.settle()
        link = two.outgoing._links[ACTOR]
        assert link.socket is not None
        assert link.socket._send_message(message)
        two.read_links()

        assert two.settle() == known
        assert two.readers[1].sources == []


@pytest.mark.parametrize(
    "message",
    [
        b"\xc1",
        pack((RESULT, 1)),
        pack((RESULT, "1", None, b"")),
        pack((RESULT, CALLER * LINKED + 1, [ACTOR], b"")),
        pack((RESULT, CALLER * LINKED + 1, None, {})),
        pack((FAILURE, 1)),
        pack((FAILURE, CALLER * LINKED + 1, 0, "", "", "", [ACTOR], b"")),
    ],
)
def test_callee_when_it_answers_nonsense_over_a_link_then_that_is_closed_and_no_more(
    message: bytes,
) -> None:
    with Two() as two:
        two.open_link()
        two.settle()
        (link,) = two.incoming._links.values()
        assert link.socket._send_message(message)
        two.read_answers()

        assert two.answers == []
        assert two.readers[0].sources == []


def test_callee_when_it_answers_what_it_was_not_asked_then_nobody_is_told() -> None:
    with Two() as two:
        two.open_link()
        answer = (RESULT, CALLER * LINKED + 77, None, b"")

        assert two.outgoing.answered(answer) == (RESULT, 0, None, b"")


# Handles that are gone.


def test_link_when_no_handle_is_left_then_it_is_closed() -> None:
    with Two() as two:
        two.open_link()
        two.outgoing.forget(ACTOR)

        assert two.readers[0].sources == []


def test_link_when_a_call_awaits_its_answer_then_it_stays() -> None:
    with Two() as two:
        number = two.open_link()
        two.call(number)  # of another thread, which has got a handle meanwhile
        two.outgoing.forget(ACTOR)

        assert number in two.settle()
        assert len(two.readers[0].sources) == 1


def test_link_when_no_handle_is_left_before_it_opens_then_it_is_closed() -> None:
    with Two() as two:
        for number in range(1, CALLS + 2):
            two.call(number)
        two.outgoing.forget(ACTOR)
        two.pass_on()
        two.read_pipe()

        assert two.readers[0].sources == []
        next_number = two.open_link(CALLS + 2)
        two.call(next_number)
        assert next_number in two.settle()


def test_link_when_it_is_used_again_before_it_opens_then_it_is_the_only_one() -> None:
    with Two() as two:
        for number in range(1, CALLS + 2):
            two.call(number)
        two.outgoing.forget(ACTOR)
        two.call(CALLS + 2)
        requests = [frame for frame in two.engines[0].posted if frame[0] == LINK_OPEN]
        two.pass_on()

        assert len(requests) == 1
        assert len(two.readers[0].sources) == 1
        two.call(CALLS + 3)
        assert two.settle() == [*range(1, CALLS + 4)]
