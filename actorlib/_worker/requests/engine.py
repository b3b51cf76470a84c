"""The interface of a worker's client for the parts of it.

The client creates and imports its parts (calls, creations, objects, links). They know
it by this interface, which avoids an import cycle.
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
    """The engine of a worker, with or without an event loop.

    Attributes:
        refcount: Counts the handles that the worker holds.
        is_over: Whether the actor has ended itself, or this process is a fork of the
            worker. ``check_over`` must then be called before an answer is sent.
        events: Notifies consumers of the calls that run; None while there are none.
        running_calls: Records the calls that run; None until a call may be retried.
    """

    refcount: LocalRefCount
    is_over: bool
    events: RunEvents | None
    running_calls: RunningCalls | None

    @property
    def sender(self) -> OrderedSender: ...

    def check_over(self, call: int, error: BaseException | None = None) -> None:
        """Returns only if a call is to be answered although ``is_over``.

        Raises:
            ActorExit: The call has ended the actor, whatever it did afterwards.
        """
        ...

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner, from any thread."""
        ...

    def gather(self, frame: Frame) -> None:
        """Sends a frame, at the latest with the answer of the call that runs."""
        ...

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a RESULT or FAILURE frame answers."""
        ...

    def item(self, frame: Frame) -> None: ...

    def take_other(self, frame: Frame) -> list[Frame]:
        """Handles a frame about links or events; returns the frames that follow."""
        ...

    def ask(self, kind: int, *fields: object) -> ObjectRef[Any]:
        """Sends a frame that the owner answers."""
        ...

    def ask_and_wait(self, kind: int, *fields: object) -> Any:
        """Sends a frame and blocks until the owner has answered it."""
        ...

    def later(self, callback: Callable[[], object]) -> None:
        """Calls a function when no other work of the engine is under way."""
        ...

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Assigns a ref the number of its answer."""
        ...

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Cancels the call from now on when the ref has no holder."""
        ...

    def new_id(self, kind: int) -> bytes: ...

    def where(self, method: str) -> str:
        """Returns the name of a method of the actor, for messages."""
        ...

    def arguments(
        self,
        borrowed: Collection[CountedId] | None,
        payload: Payload | tuple[Any, ...],
    ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
        """Loads the arguments of a call; a tuple contains them as values."""
        ...

    def borrowing(
        self, borrowed: Collection[CountedId] | None
    ) -> AbstractContextManager[None]:
        """Holds the references of a frame while its payload is loaded."""
        ...

    def set_interface(self, interface: Callable[[], Interface]) -> None: ...

    def link_call_began(self, call: int, method: str) -> None: ...

    def return_borrowed_soon(self) -> None:
        """Returns the borrowed references that have no holder; for destructors."""
        ...
