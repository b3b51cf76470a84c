"""Knows who calls one actor over links, and tells them of its end.

Calls that other workers make over links do not come by the owner, so it knows neither
how many there are nor which have no answer. The actor itself knows: before it is ended
for want of anything to do, it is asked to take nothing more over links, and says when
everything is answered.
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
    from actorlib._owner.objects.objects import UnsentResults
    from actorlib._owner.objects.refcount import BorrowedReferences


@final
class LinkCallers:
    """Knows who calls one actor over links, and tells them of its end.

    Args:
        loans: Counts the handles in answers.
        unsent: What keeps the actor from being ended.
        tell: Sends the actor a frame.

    Attributes:
        ran: The method that ran when the process ended, if it was called over a link.
    """

    def __init__(
        self,
        loans: BorrowedReferences,
        unsent: UnsentResults,
        tell: Callable[[Frame], None],
    ) -> None:
        self._loans = loans
        self._unsent = unsent
        self._tell = tell
        self._sessions: dict[int, WorkerSession] = {}
        self._number = 0
        self._has_parted = True
        self._is_parting = False
        self.ran: str | None = None

    def add(self, caller: WorkerSession, number: int) -> None:
        """A worker has a link to the actor.

        Args:
            caller: The worker.
            number: That of the actor's session.
        """
        self._sessions = self._living()
        self._sessions[caller.number] = caller
        self._number = number
        self._has_parted = False

    def answer(self, frame: Frame) -> None:
        """Passes on an answer that did not go over its link, as it has loans."""
        caller = self._sessions.get(frame[1] // LINKED)
        loans = frame[-2]
        if caller is None or not caller.channel.is_open:
            if loans:
                self._loans.arrived(loans, OWNER)
                self._loans.returned(loans, OWNER)
            return
        if loans:
            self._loans.arrived(loans, caller.number)
        caller.channel.send(frame)

    def have_parted(self) -> bool:
        """Whether everything that came over links is answered.

        If it is not known, the actor is asked, and is not idle until it has said so.
        """
        if self._has_parted:
            return True
        if not self._is_parting:
            self._is_parting = True
            self._unsent.add()
            self._tell((LINK_CLOSE, 0))
        return False

    def parted(self) -> None:
        """The actor has answered everything, and takes nothing more."""
        self._has_parted = True
        self._pay()

    def note(self, mark: int, methods: Iterable[str]) -> None:
        """The actor's process is gone: takes what it has written of what it ran.

        Args:
            mark: The number that it has written, or 0.
            methods: The names of the actor's methods.
        """
        marks = {method_number(name): name for name in methods} if mark else {}
        self.ran = marks.get(mark)

    def lost(self, why: Callable[[], BaseException]) -> None:
        """The actor's process is gone: what it has not answered gets no answer."""
        callers, self._sessions = self._living(), {}
        self.ran = None
        self._has_parted = True
        if callers:
            error = why()
            lost = (LINK_LOST, self._number, one_line(error), dump_exception(error))
            for caller in callers.values():
                caller.channel.send(lost)
        self._pay()

    def _pay(self) -> None:
        if self._is_parting:
            self._is_parting = False
            self._unsent.remove()

    def _living(self) -> dict[int, WorkerSession]:
        return {
            number: caller
            for number, caller in self._sessions.items()
            if caller.channel.is_open
        }
