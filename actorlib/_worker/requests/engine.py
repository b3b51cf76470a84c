"""Says what the parts of a worker's client need of it, and of what reads its links.

The client makes its parts (calls, creations, objects, links) and imports them; these
are the agreements in the other direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actorlib._futures.stream_reader import StreamOwner
from actorlib._wire.arguments import SendingEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    from actorlib._base.ids import CountedId
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.interface import Interface
    from actorlib._shm.memory import Payload
    from actorlib._shm.running_calls import RunningCalls
    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.run_events import RunEvents
    from actorlib._worker.requests.pending import OrderedSender
    from actorlib._worker.requests.refcount import LocalRefCount


class WorkerEngine(SendingEngine, StreamOwner, Protocol):
    """The engine of a worker, whether it has an event loop or not.

    Attributes:
        refcount: Counts the handles that the worker holds.
        is_over: Whether the actor has ended itself, or this process is a fork of the
            worker, so that ``check_over`` is to be called before anything is answered.
        events: Tells consumers of the calls that run; None while there are none.
        running_calls: Notes the calls that run; None before the first that may be made
            again.
    """

    refcount: LocalRefCount
    is_over: bool
    events: RunEvents | None
    running_calls: RunningCalls | None

    @property
    def sender(self) -> OrderedSender:
        """Sends what is about actors, in order."""
        ...

    def check_over(self, call: int, error: BaseException | None = None) -> None:
        """Returns only if a call is to be answered although ``is_over``.

        Args:
            call: The call that would be answered.
            error: What its code raised, if it did.

        Raises:
            ActorExit: The call has ended the actor, whatever it did then.
        """
        ...

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner, from any thread."""
        ...

    def offer(self, frame: Frame) -> bool:
        """Sends a frame if that does not wait, from any thread and in destructors.

        Args:
            frame: One without loans, of a few KiB at the most.

        Returns:
            False if it was not sent, as there is no room now.

        Raises:
            EOFError: Nothing can be sent any more.
            OSError: Likewise.
        """
        ...

    def ask(self, kind: int, *fields: object) -> ObjectRef[Any]:
        """Sends a frame that the owner answers."""
        ...

    def ask_and_wait(self, kind: int, *fields: object) -> Any:
        """Sends a frame and blocks until the owner has answered it."""
        ...

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks any thread until the owner has answered; for short questions."""
        ...

    def later(self, callback: Callable[[], object]) -> None:
        """Calls back where no other work of the engine is under way."""
        ...

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref the number under which its answer will come."""
        ...

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref any more."""
        ...

    def new_id(self, kind: int) -> bytes:
        """Makes an id for something of a kind that is created here."""
        ...

    def where(self, method: str) -> str:
        """Names a method of the actor, for messages."""
        ...

    def arguments(
        self,
        borrowed: Collection[CountedId] | None,
        payload: Payload | tuple[Any, ...],
    ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
        """Decodes the arguments of a call; a tuple has them as they are."""
        ...

    def borrowing(
        self, borrowed: Collection[CountedId] | None
    ) -> AbstractContextManager[None]:
        """Holds the references of a frame while its payload is loaded."""
        ...

    def set_interface(self, interface: Callable[[], Interface]) -> None:
        """Takes what gives the interface of the actor's class."""
        ...

    def link_call_began(self, call: int, method: str) -> None:
        """Notes that a call which came over a link runs from now on."""
        ...

    def return_borrowed_soon(self) -> None:
        """Gives the borrowed references back that nothing here holds any more."""
        ...


class LinkSource(Protocol):
    """A link that is read."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether ``read_next`` may have left something."""
        ...

    def read(self) -> list[Frame]:
        """Reads all that has come, as frames of a pipe; does not wait."""
        ...

    def read_next(self) -> list[Frame]:
        """Reads what has come next, and more if that is likely; see ``read``."""
        ...


class LinkReader(Protocol):
    """Reads links beside the pipe, as each inbox does."""

    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on."""
        ...

    def unwatch(self, source: LinkSource) -> None:
        """Reads it no more."""
        ...

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; False if there is no loop.

        What is sent until then may leave together.
        """
        ...
