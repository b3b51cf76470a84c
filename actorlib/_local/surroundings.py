"""What a life needs around it: its share, its worker, and who else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.birth import Sealed
    from actorlib._local.launcher import WorkerProcess
    from actorlib._local.registry import ActorRecord
    from actorlib._local.session import Session
    from actorlib._wire.frames import Frame
    from actorlib.accelerators.base import Lease


L_contra = TypeVar("L_contra", contravariant=True)


class Surroundings(Protocol[L_contra]):
    """What a life needs of the engine it is lived in."""

    loop: asyncio.AbstractEventLoop
    grace: float

    def awaits_neighbours(self, record: ActorRecord) -> bool:
        """Whether actors it is to be near to, or apart from, have no place yet."""
        ...

    async def neighbours(self, record: ActorRecord) -> None:
        """Done when they have a place, or are dead."""
        ...

    def enter(self, record: ActorRecord) -> asyncio.Future[Lease]:
        """Asks for the actor's share: done at once, or when its turn has come.

        It fails with ActorUnschedulableError if that turn can never come.
        """
        ...

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line, or a share that was not taken."""
        ...

    def queue_anew(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line for one at its end."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Gives a share back."""
        ...

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a worker for the actor."""
        ...

    def open_session(self, life: L_contra, process: WorkerProcess) -> Session:
        """Opens the pipe to the worker."""
        ...

    def start_frame(
        self, life: L_contra, session: Session, lease: Lease, arguments: Sealed
    ) -> Frame:
        """What the worker is told first."""
        ...

    def spent(self, arguments: Sealed) -> None:
        """A constructor's arguments will not be sent again."""
        ...

    def close_session(self, session: Session) -> None:
        """Forgets what the worker held."""
        ...

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last look."""
        ...

    def buried(self, life: L_contra) -> None:
        """The actor is dead and everything it had is back."""
        ...
