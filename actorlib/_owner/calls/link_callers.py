"""The workers that call one actor over links.

Calls over links do not pass the owner. So the owner knows neither their number nor
which are unanswered. The actor knows: before an idle actor is ended, it is asked to
accept no more calls over links, and it reports when all of them are answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._base.ids import LINKED
from actorlib._owner.objects.refcount import OWNER
from actorlib._wire.errors import dump_exception
from actorlib._wire.messages import LINK_CLOSE, LINK_LOST, Frame
from actorlib._wire.peer_socket import method_number
from actorlib._wire.serialization import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.objects.refcount import BorrowedReferences, UnsentResults


@final
class LinkCallers:
    """Tracks the workers that call one actor over links, and reports its end to them.

    Attributes:
        ran: The method that ran when the process ended, if it was called over a link.
    """

    def __init__(
        self,
        references: BorrowedReferences,
        unsent: UnsentResults,
        send: Callable[[Frame], None],
    ) -> None:
        self._references = references
        self._unsent = unsent
        self._send = send
        self._sessions: dict[int, WorkerSession] = {}
        self._number = 0
        self._has_parted = True
        self._is_parting = False
        self.ran: str | None = None

    def add(self, caller: WorkerSession, number: int) -> None:
        """Adds a worker that has a link to the actor.

        Args:
            caller: The worker.
            number: The number of the actor's session.
        """
        self._sessions = self._living()
        self._sessions[caller.number] = caller
        self._number = number
        self._has_parted = False

    def answer(self, frame: Frame) -> None:
        """Forwards an answer that did not use its link because of its references."""
        caller = self._sessions.get(frame[1] // LINKED)
        borrowed = frame[-2]
        if caller is None or not caller.channel.is_open:
            if borrowed:
                self._references.arrived(borrowed, OWNER)
                self._references.returned(borrowed, OWNER)
            return
        if borrowed:
            self._references.arrived(borrowed, caller.number)
        caller.channel.send(frame)

    def have_parted(self) -> bool:
        """Whether every call over a link is answered.

        If that is unknown, the actor is asked, and is not idle until it has answered.
        """
        if self._has_parted:
            return True
        if not self._is_parting:
            self._is_parting = True
            self._unsent.add()
            self._send((LINK_CLOSE, 0))
        return False

    def parted(self) -> None:
        """Notes that the actor has answered everything and accepts nothing more."""
        self._has_parted = True
        self._stop_parting()

    def note(self, mark: int, methods: Iterable[str]) -> None:
        """Reads what the ended process has noted of the call that ran.

        Args:
            mark: The number that it has noted, or 0.
            methods: The names of the actor's methods.
        """
        marks = {method_number(name): name for name in methods} if mark else {}
        self.ran = marks.get(mark)

    def lost(self, why: Callable[[], BaseException]) -> None:
        """Reports the end of the process to all callers."""
        callers, self._sessions = self._living(), {}
        self.ran = None
        self._has_parted = True
        if callers:
            error = why()
            lost = (LINK_LOST, self._number, one_line(error), dump_exception(error))
            for caller in callers.values():
                caller.channel.send(lost)
        self._stop_parting()

    def _stop_parting(self) -> None:
        if self._is_parting:
            self._is_parting = False
            self._unsent.remove()

    def _living(self) -> dict[int, WorkerSession]:
        return {
            number: caller
            for number, caller in self._sessions.items()
            if caller.channel.is_open
        }
