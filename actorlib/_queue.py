"""A queue that the owner and any number of actors share: one actor stands behind it.

What every method gives is an ObjectRef: ``await q.get()`` where a loop runs,
``q.get().get()`` in plain methods of actors. The item of a get is the ref's alone, so
one that nobody can take any more, because the wait was cancelled or given up, goes back
to where it stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._checks import count, seconds, truth
from actorlib._desk import Desk, unheard
from actorlib._handle import ActorHandle, hold_of
from actorlib._queue_actor import QueueActor
from actorlib._waiting import Steps, Waiting, Wish
from actorlib.exceptions import Empty, Full

if TYPE_CHECKING:
    from actorlib._ref import ObjectRef
    from actorlib._remote import ActorClass

T = TypeVar("T")

_GRACE = 5.0


class Queue(Generic[T]):
    """A first-in, first-out queue, kept by an actor of its own; travels as an argument.

    What it gives is awaited, or in plain methods of actors asked by ``get()``:
    ``item = await q.get()``, ``item = q.get().get()``. Items of one producer come in
    the order in which it put them. Nobody who waits keeps others from going on.

    A get that is cancelled, or whose ref nobody holds any more, takes no item; a put
    that is cancelled while it waits for room puts none. An actor that dies while it
    waits takes none either; an item that was on its way to a process that dies, or was
    taken by it, is gone with it, and so is what waits for a process whose actor is
    restarted. With the queue's own actor everything in it is gone: all methods fail
    with ActorDiedError, or, if its options restart it, go on with an empty queue.

    Args:
        maxsize: How many items it may have, or 0 for any number.
        actor_options: Options of its actor; see ActorOptions. It asks for nothing
            unless they say so. With a ``name`` and ``get_if_exists`` the queue of that
            name, which may be there already.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: One is out of range.
        RuntimeError: No runtime is running in this process.
    """

    def __init__(
        self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None
    ) -> None:
        count("maxsize", maxsize, 0)
        if not isinstance(cast("object", actor_options), Mapping | None):
            raise TypeError(
                "actor_options takes a dict of options, for example {'num_cpus': 1}, "
                f"not {actor_options!r}"
            )
        made = cast("ActorClass[..., Any]", QueueActor).options(
            **cast("Any", actor_options or {})
        )
        self._desk = Desk(made.remote(maxsize))
        self._maxsize = maxsize

    @property
    def actor(self) -> ActorHandle[Any]:
        """The handle of the actor behind it."""
        return self._desk.actor

    @property
    def maxsize(self) -> int:
        """How many items it may have, or 0."""
        return self._maxsize

    def __repr__(self) -> str:
        return f"<Queue of {self._desk.actor!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _load, (self._desk.actor, self._maxsize)

    def put(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> ObjectRef[None]:
        """Puts an item at the end; waits while there is no room.

        Args:
            item: Sent by value, as the arguments of calls are.
            block: False fails at once if there is no room.
            timeout: Seconds to wait for room at the most, or None.

        Returns:
            Done when the item is in the queue; it need not be awaited. It fails with
            Full if there is no room in time.

        Raises:
            SerializationError: The item cannot be sent.
            TypeError: The item is a ref, or an argument has the wrong type.
            ValueError: ``timeout`` is negative.
        """
        patience = _patience(block, timeout)
        return self._desk.put(item, patience, partial(self._full, patience))

    def get(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> ObjectRef[T]:
        """Takes the first item; waits while there is none.

        Args:
            block: False fails at once if there is none.
            timeout: Seconds to wait for one at the most, or None.

        Returns:
            The item, to be awaited; nobody else gets it while the ref is held. It fails
            with Empty if there is none in time.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: ``timeout`` is negative.
        """
        patience = _patience(block, timeout)
        return self._desk.get(patience, partial(_empty, patience))

    def put_nowait(self, item: T) -> ObjectRef[None]:
        """Puts an item at the end, or fails with Full."""
        return self.put(item, block=False)

    def get_nowait(self) -> ObjectRef[T]:
        """Takes the first item, or fails with Empty."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> ObjectRef[None]:
        """Puts several items at the end, or none of them and fails with Full.

        Raises:
            TypeError: It is no iterable.
        """
        if not isinstance(cast("object", items), Iterable):
            raise TypeError(f"put_nowait_batch() takes several items, not {items!r}")
        given = list(items)
        return self._desk.put_all(given, partial(self._full_for, len(given)))

    def get_nowait_batch(self, num_items: int) -> ObjectRef[list[T]]:
        """Takes the first items, so many, or none and fails with Empty.

        Raises:
            TypeError: It is no number.
            ValueError: It is negative.
        """
        count("num_items", num_items, 0)
        return self._desk.get_many(num_items, partial(_too_few, num_items))

    put_async = put
    get_async = get
    put_nowait_async = put_nowait
    get_nowait_async = get_nowait

    def qsize(self) -> ObjectRef[int]:
        """How many items there are."""
        return self._desk.look("qsize")

    size = qsize

    def empty(self) -> ObjectRef[bool]:
        """Whether there is no item."""
        return self._desk.look("empty")

    def full(self) -> ObjectRef[bool]:
        """Whether there is no room."""
        return self._desk.look("full")

    def shutdown(self, grace: float = _GRACE) -> Waiting[None]:
        """Ends the queue's actor: behind what it was sent, but not behind who waits.

        Whoever waits, and whoever uses the queue later, gets ActorDiedError. Items that
        are in it are gone.

        Args:
            grace: Seconds that it is given to serve what it was sent.

        Returns:
            To be awaited, or ``get()``; done when its process is gone.

        Raises:
            TypeError: It is no number.
            ValueError: It is negative.
        """
        seconds("grace", grace)
        return Waiting(_ended(self._desk.actor, grace))

    def _full(self, patience: float | None) -> Full:
        late = f" and had none within {patience:g} s" if patience else ""
        return Full(f"the queue has room for {self._maxsize} items{late}")

    def _full_for(self, number: int) -> Full:
        return Full(
            f"the queue, which has room for {self._maxsize} items, has none for "
            f"{number} more"
        )


def _load(actor: ActorHandle[Any], maxsize: int) -> Queue[Any]:
    queue = cast("Queue[Any]", Queue.__new__(Queue))
    queue._desk = Desk(actor)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    queue._maxsize = maxsize  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # likewise
    return queue


def _patience(block: object, timeout: float | None) -> float | None:
    truth("block", block)
    if timeout is not None:
        seconds("timeout", timeout)
    return timeout if block else 0


def _empty(patience: float | None) -> Empty:
    late = f": nothing came within {patience:g} s" if patience else ""
    return Empty(f"the queue is empty{late}")


def _too_few(number: int) -> Empty:
    return Empty(f"the queue has less than {number} items")


def _ended(actor: ActorHandle[Any], grace: float) -> Steps[None]:
    if grace:
        served = actor.qsize.remote()
        served.add_done_callback(unheard)
        yield Wish([served], timeout=grace)
    hold = hold_of(actor)
    gone = hold.engine.kill(hold.actor_id)
    if not gone.done():
        yield Wish([gone])
