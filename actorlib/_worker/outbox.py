"""What a worker asks about other actors, in order behind what waits for its arguments.

A call whose arguments are refs of this worker waits here until they have their values,
and those behind it to the same actor wait with it.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._arguments import Arguments, when_done
from actorlib._wire.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._ids import ActorId, LoanId
    from actorlib._ref import ObjectRef
    from actorlib._wire.frames import Frame


class Sender(Protocol):
    """What sends the frames, and holds the actors in those that wait."""

    def post(self, frame: Frame) -> None:
        """Sends a frame."""
        ...

    def retain(self, actor: LoanId) -> None:
        """Counts a holder of an actor."""
        ...

    def release(self, actor: LoanId) -> None:
        """Counts a holder less."""
        ...


class Outbox:
    """Frames about actors that wait for their arguments, or behind one that does.

    Args:
        sender: Sends them.

    Attributes:
        ordering: Held while a frame is sent, so that none passes another.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.ordering = threading.RLock()
        self._places = itertools.count(1)
        self._lanes: Lanes[ActorId, int] = Lanes()
        self._held_back: dict[int, tuple[Callable[[], Frame | None], list[LoanId]]] = {}
        self._unsettled: dict[int, tuple[list[ObjectRef[Any]], Callable[[], None]]] = {}
        self._when_all_went: list[Callable[[], None]] = []

    def post(
        self,
        actor: ActorId,
        frame: Callable[[], Frame | None],
        arguments: Arguments | None = None,
        *,
        passes: bool = False,
        held: Callable[[], Frame] | None = None,
    ) -> None:
        """Sends a frame about an actor, behind those that wait for their arguments.

        Args:
            actor: Whom it is about.
            frame: Makes it when it may go; None if it need not any more.
            arguments: What it waits for.
            passes: Whether it goes as soon as they are there, whatever waits before.
            held: Makes what is sent at once if it has to wait.
        """
        refs = arguments.refs if arguments is not None else ()
        actors: list[LoanId] = [actor]
        if arguments is not None:
            actors += arguments.loans
        with self.ordering:
            if not refs and not self._lanes:
                self._post_if(frame())
                return
            place = next(self._places)
            ready = arguments is None or arguments.are_ready
            if self._lanes.post(actor, place, ready=ready, passes=passes):
                self._post_if(frame())
                return
            if held is not None:
                self._post_if(held())
            for other in actors:  # until the frame has gone: nobody else may hold them
                self._sender.retain(other)
            self._held_back[place] = frame, actors

        def settled() -> None:
            with self.ordering:
                self._unsettled.pop(place, None)
                for free in self._lanes.settled(actor, place, goes=True):
                    freed, kept = self._held_back.pop(free)
                    self._post_if(freed())
                    for other in kept:
                        self._sender.release(other)

            if not self._held_back:
                waiting, self._when_all_went = self._when_all_went, []
                for callback in waiting:
                    callback()

        if refs:
            self._unsettled[place] = list(refs), settled
        when_done(refs, settled)

    def go_on(self) -> None:
        """Sends what has its arguments by now, while the loop cannot say so."""
        for refs, settled in list(self._unsettled.values()):
            if all(ref.done() for ref in refs):
                settled()

    def all_went(self, then: Callable[[], None]) -> None:
        """Calls back when no frame waits for its arguments any more, perhaps now."""
        with self.ordering:
            if self._held_back:
                self._when_all_went.append(then)
                return
        then()

    def _post_if(self, frame: Frame | None) -> None:
        if frame is not None:
            self._sender.post(frame)
