"""A queue that the owner and any number of actors share: one actor stands behind it.

What every method gives is an ObjectRef: ``await q.get()`` where a loop runs,
``q.get().get()`` in plain methods of actors. The item of a get is the ref's alone, so
one that nobody can take any more, because the wait was cancelled or given up, goes back
to its place: ``QueueClient``, each process's connection to the queue, does that.
"""

from __future__ import annotations

import itertools
import os
import pickle
import weakref
from asyncio import InvalidStateError
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.queue_actor import QueueActor
from actorlib._api.waiting import (
    CombinedRef,
    Steps,
    Waiting,
    WaitRequest,
    refuse_running_loop,
)
from actorlib._base.ids import ActorId
from actorlib._base.public import public
from actorlib._base.validation import check_bool, check_count, check_seconds
from actorlib._core.engine import HandlePin, collecting_ids
from actorlib._futures.object_ref import ObjectRef, mark_seen
from actorlib._options.interface import NO_METHODS
from actorlib._wire.serialization import decode, encode, with_own_buffers
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    Empty,
    Full,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actorlib._api.decorators import ActorClass


R = TypeVar("R")

_NOT_SENDABLE = (
    "the ref of a queue's answer cannot be sent to another process: await it, and send "
    "its value"
)


class QueueRef(ObjectRef[R]):
    """The answer of a queue; its item is decoded when it is taken, and else put back.

    Args:
        client: The client of the queue that made the call.
        call_ref: The ref of the call to the queue's actor.
        refusal: Makes the error that it fails with if the answer is no.
        many: Whether the answer is a list of items.
    """

    __slots__ = (
        "_client",
        "_items",
        "_many",
        "_refusal",
        "_trouble",
        "_under",
        "_value",
    )

    def __init__(
        self,
        client: QueueClient,
        call_ref: ObjectRef[Any],
        refusal: Callable[[], Exception],
        *,
        many: bool,
    ) -> None:
        super().__init__(loop=call_ref.get_loop())
        self._call_ref = call_ref
        self._refusal = refusal
        self._client = client
        self._many = many
        self._items: list[Any] | None = None
        self._value: Any = None
        self._error: SerializationError | None = None

    def _settle(self, answer: Any) -> None:
        """Takes the answer of the queue's actor."""
        if answer is None or answer is False:
            self.set_exception(self._refusal())
            return
        if answer is not True:
            self._items = answer if self._many else [answer]
        self.set_result(cast("R", None))

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The call to the queue's actor; ``call`` is a number of the client's own."""
        return self._call_ref.awaited_calls

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the answer, and decodes the item; see ObjectRef."""
        yield from super().__await__()
        return self.result()

    def result(self) -> R:
        """The item; it is decoded here when it is asked for first.

        Raises:
            SerializationError: It cannot be loaded here.
        """
        super().result()
        if self._items is not None:
            self._load(self._items)
        if self._error is not None:
            raise self._error
        return cast("R", self._value)

    def _load(self, items: list[Any]) -> None:
        try:
            values = [decode(payload) for _, payload, _ in items]
            self._value = values if self._many else values[0]
        except Exception as error:  # noqa: BLE001  # it runs the user's code
            trouble = SerializationError(f"the item cannot be loaded here: {error}")
            trouble.__cause__ = error
            self._error = trouble
        self._items = None  # it is taken, also if it cannot be decoded

    def __del__(self) -> None:
        if self._items is not None:
            self._client.put_back(self._items)
        elif not self.done():
            self._client.give_up(self.call)
        super().__del__()  # type: ignore[misc]  # pyright: ignore  # noqa: PGH003  # it logs errors that nobody has seen

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_SENDABLE)


def _call_ref_of(reply: QueueRef[Any]) -> ObjectRef[Any]:
    """The ref of the call to the queue's actor behind what a queue gave."""
    return reply._call_ref  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


class QueueClient:
    """One process's end of a queue: it asks the actor, and is its refs' Replier."""

    def __init__(self, actor: ActorHandle[Any]) -> None:
        self.actor = actor
        self._engine = pin_of(actor).engine
        own = self._engine.context.actor_id
        self._own = None if own is None else bytes.fromhex(own)
        self._name = os.urandom(8)
        self._count = itertools.count(1)
        # Weak for gets: an item that nobody waits for stays in the queue.
        self._refs: dict[int, QueueRef[Any] | weakref.ref[QueueRef[Any]]] = {}
        self._unsent: deque[tuple[str, object]] = deque()

    # Calls.

    def put(
        self, item: object, timeout: float | None, refusal: Callable[[], Exception]
    ) -> QueueRef[None]:
        number = self._next()
        _, payload, handles = self._encoded(item)
        asked = self.actor.put.remote(self._token(number), timeout, payload, handles)
        reply: QueueRef[None] = QueueRef(self, asked, refusal, many=False)
        self._refs[number] = reply
        return self._asked(number, reply)

    def put_all(
        self, items: list[Any], refusal: Callable[[], Exception]
    ) -> QueueRef[None]:
        number = self._next()
        asked = self.actor.put_all.remote([self._encoded(item) for item in items])
        reply: QueueRef[None] = QueueRef(self, asked, refusal, many=False)
        self._refs[number] = reply
        return self._asked(number, reply)

    def get(
        self, timeout: float | None, refusal: Callable[[], Exception]
    ) -> QueueRef[Any]:
        number = self._next()
        asked = self.actor.get.remote(self._token(number), timeout, self._own)
        reply: QueueRef[Any] = QueueRef(self, asked, refusal, many=False)
        self._refs[number] = weakref.ref(reply)
        return self._asked(number, reply)

    def get_many(
        self, number_of_items: int, refusal: Callable[[], Exception]
    ) -> QueueRef[list[Any]]:
        number = self._next()
        asked = self.actor.get_many.remote(number_of_items)
        reply: QueueRef[list[Any]] = QueueRef(self, asked, refusal, many=True)
        self._refs[number] = weakref.ref(reply)
        return self._asked(number, reply)

    def _asked(self, number: int, reply: QueueRef[R]) -> QueueRef[R]:
        reply.bind(self, number)
        call_ref = _call_ref_of(reply)
        call_ref.watch(partial(self._answered, number, call_ref))
        return reply

    def query(self, method: str) -> ObjectRef[Any]:
        if self._unsent:
            self._send_unsent()
        return cast("ObjectRef[Any]", getattr(self.actor, method).remote())

    def _next(self) -> int:
        if self._unsent:  # a get that was given up must not take what is put now
            self._send_unsent()
        return next(self._count)

    def _token(self, number: int) -> bytes:
        return self._name + number.to_bytes(8, "big")

    def _encoded(self, item: object) -> list[Any]:
        """The item, which only its taker decodes, and the handles that are in it."""
        if isinstance(item, ObjectRef):
            raise TypeError(
                f"a queue takes values, not refs: await {item!r}, and put its value"
            )
        try:
            with collecting_ids(self._engine) as loans:
                payload = with_own_buffers(encode(item))
        except Exception as error:
            raise SerializationError(
                f"the item, a {type(item).__qualname__}, cannot be sent to another "
                f"process: {error}"
            ) from error
        # Handles of refs and blocks, too: they keep them alive by their ids.
        holds = [HandlePin(self._engine, ActorId(loan), NO_METHODS) for loan in loans]
        handles = [ActorHandle[Any](hold) for hold in holds] or None
        if type(payload) is list:
            return [0, [pickle.PickleBuffer(part) for part in payload], handles]
        return [0, payload, handles]

    def _answered(self, number: int, asked: ObjectRef[Any]) -> None:
        entry = self._refs.pop(number, None)
        reply = entry() if isinstance(entry, weakref.ref) else entry
        error: BaseException | None = TaskCancelledError("the call was cancelled")
        if not asked.cancelled():
            error = asked.exception()
        if reply is None or reply.done():
            if error is None and isinstance(answer := asked.result(), list) and answer:
                items = cast("list[Any]", answer)
                self.put_back(items if isinstance(items[0], list) else [items])
            return
        with suppress(InvalidStateError):  # another thread cancels it right now
            if error is None:
                reply._settle(asked.result())  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
                return
            reply.set_exception(error)
            if isinstance(error, ActorDiedError) and error.exit.cause == "asked":
                reply.exception()  # seen: the user has ended the queue

    # Also from destructors.

    def put_back(self, items: list[Any]) -> None:
        """Puts items back that were taken and not used."""
        back = [
            [
                place,
                [pickle.PickleBuffer(part) for part in cast("list[Any]", payload)]
                if type(payload) is list
                else payload,
                handles,
            ]
            for place, payload, handles in items
        ]
        self._send_soon("put_back", back)

    def give_up(self, number: int) -> None:
        """Withdraws a call that nobody waits for any more."""
        self._send_soon("withdraw", self._token(number))

    def _send_soon(self, method: str, what: object) -> None:
        self._unsent.append((method, what))
        self._engine.later(self._send_unsent)

    def _send_unsent(self) -> None:
        while self._unsent:
            with suppress(IndexError):  # another thread was quicker
                method, what = self._unsent.popleft()
                with suppress(ActorlibError, RuntimeError):  # the queue is gone
                    ref = getattr(self.actor, method).remote(what)
                    ref.add_done_callback(mark_seen)

    # For its refs; see ResultOwner.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops waiting; see ResultOwner."""
        del recursive  # nothing was called for it
        self._refs.pop(call, None)
        self._unsent.append(("withdraw", self._token(call)))
        self._send_unsent()

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Gives the call up as soon as nobody holds the ref; see ResultOwner."""
        if ref.call in self._refs:
            self._refs[ref.call] = weakref.ref(cast("QueueRef[Any]", ref))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when it is done; see ResultOwner."""
        _call_ref_of(cast("QueueRef[Any]", ref)).result_owner.watch(ref, then)

    def name(self) -> bytes:
        """Refuses: no other process can use the ref; see ResultOwner."""
        raise TypeError(_NOT_SENDABLE)

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Refuses: no other process can wait for the ref; see ResultOwner."""
        del ref
        raise TypeError(_NOT_SENDABLE)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until it is done; see ResultOwner."""
        refuse_running_loop(ref)
        refs = ref.refs if isinstance(ref, CombinedRef) else (ref,)
        call_ref = next(
            _call_ref_of(reply) for reply in refs if isinstance(reply, QueueRef)
        )
        call_ref.result_owner.wait(ref, timeout)


T = TypeVar("T")

_GRACE = 5.0


@public("actorlib")
class Queue(Generic[T]):
    """A first-in, first-out queue, kept by an actor of its own; travels as an argument.

    Await what its methods give, ``item = await q.get()``; in plain methods of actors
    write ``item = q.get().get()``. Items of one producer come in the order in which it
    put them. Nobody who waits keeps others from going on.

    A get that is cancelled, or whose ref nobody holds any more, takes no item; a put
    that is cancelled while it waits for room puts none. An actor that dies while it
    waits takes none either; an item that was on its way to a process that dies, or was
    taken by it, is gone with it, and so is what waits for a process whose actor is
    restarted. If the queue's own actor dies, everything in the queue is lost: all
    methods fail with ActorDiedError or, if its options restart the actor, go on with an
    empty queue.

    Args:
        maxsize: How many items it may have, or 0 for any number. Default: 0.
        actor_options: Options of its actor by name, each of those that
            ``ActorClass.options`` lists. It asks for nothing unless they say so. With
            a ``name`` and ``get_if_exists`` the queue of that name, which may be there
            already. Default: None, for none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: One is out of range.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> queue = actorlib.Queue(maxsize=2)
        >>> await queue.put("a", timeout=1)
        >>> await queue.get()
        'a'
        >>> await queue.get(block=False)
        Traceback (most recent call last):
        Empty: the queue is empty
        >>> await queue.shutdown()
    """

    def __init__(
        self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None
    ) -> None:
        check_count("maxsize", maxsize, 0)
        if not isinstance(cast("object", actor_options), Mapping | None):
            raise TypeError(
                "actor_options takes a dict of options, for example {'num_cpus': 1}, "
                f"not {actor_options!r} ({type(actor_options).__name__})"
            )
        made = cast("ActorClass[..., Any]", QueueActor).options(
            **cast("Any", actor_options or {})
        )
        self._client = QueueClient(made.remote(maxsize))
        self._maxsize = maxsize

    @property
    def actor(self) -> ActorHandle[Any]:
        """The handle of the actor behind it."""
        return self._client.actor

    @property
    def maxsize(self) -> int:
        """How many items it may have, or 0."""
        return self._maxsize

    def __repr__(self) -> str:
        return f"<Queue of {self._client.actor!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _load, (self._client.actor, self._maxsize)

    def put(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> ObjectRef[None]:
        """Puts an item at the end; waits while there is no room.

        Args:
            item: Sent by value, as the arguments of calls are.
            block: False fails at once if there is no room. Default: True.
            timeout: Seconds to wait for room at the most, or None. Default: None.

        Returns:
            A ref that is done when the item is in the queue; you need not await it. It
            fails with Full if there is no room in time.

        Raises:
            SerializationError: The item cannot be sent.
            TypeError: The item is a ref, or an argument has the wrong type.
            ValueError: ``timeout`` is negative.
        """
        limit = _limit(block, timeout)
        return self._client.put(item, limit, partial(self._full, limit))

    def get(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> ObjectRef[T]:
        """Takes the first item; waits while there is none.

        Args:
            block: False fails at once if there is none. Default: True.
            timeout: Seconds to wait for one at the most, or None. Default: None.

        Returns:
            The item, to be awaited; nobody else gets it while the ref is held. It fails
            with Empty if there is none in time.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: ``timeout`` is negative.
        """
        limit = _limit(block, timeout)
        return self._client.get(limit, partial(_empty, limit))

    def put_nowait(self, item: T) -> ObjectRef[None]:
        """Puts an item at the end, or fails with Full."""
        return self.put(item, block=False)

    def get_nowait(self) -> ObjectRef[T]:
        """Takes the first item, or fails with Empty."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> ObjectRef[None]:
        """Puts several items at the end, or none of them and fails with Full.

        Args:
            items: Each is sent by value, as the arguments of calls are.

        Raises:
            TypeError: It is no iterable.
        """
        if not isinstance(cast("object", items), Iterable):
            raise TypeError(
                "put_nowait_batch() takes an iterable of items, such as a list, not "
                f"{items!r} ({type(items).__name__})"
            )
        given = list(items)
        return self._client.put_all(given, partial(self._full_for, len(given)))

    def get_nowait_batch(self, num_items: int) -> ObjectRef[list[T]]:
        """Takes so many items from the front, or none and fails with Empty.

        Args:
            num_items: How many, 0 or more.

        Raises:
            TypeError: It is no number.
            ValueError: It is negative.
        """
        check_count("num_items", num_items, 0)
        return self._client.get_many(num_items, partial(_too_few, num_items))

    put_async = put
    get_async = get
    put_nowait_async = put_nowait
    get_nowait_async = get_nowait

    def qsize(self) -> ObjectRef[int]:
        """Tells how many items there are."""
        return self._client.query("qsize")

    size = qsize

    def empty(self) -> ObjectRef[bool]:
        """Tells whether there is no item."""
        return self._client.query("empty")

    def full(self) -> ObjectRef[bool]:
        """Tells whether there is no room."""
        return self._client.query("full")

    def shutdown(self, grace: float = _GRACE) -> Waiting[None]:
        """Ends the queue's actor when it has done what it was sent.

        Whoever waits, and whoever uses the queue later, gets ActorDiedError. Items that
        are in it are gone.

        Args:
            grace: Seconds that it is given to serve what it was sent. Default: 5.0.

        Returns:
            To be awaited, or ``get()``; done when its process is gone.

        Raises:
            TypeError: It is no number.
            ValueError: It is negative.
        """
        check_seconds("grace", grace)
        return Waiting(_ended(self._client.actor, grace))

    def _full(self, timeout: float | None) -> Full:
        late = f" and had none within {timeout:g} s" if timeout else ""
        return Full(
            f"the queue is full: it has room for {self._maxsize} items{late}. Take "
            "some, or make it with a larger maxsize"
        )

    def _full_for(self, number: int) -> Full:
        return Full(
            f"the queue has room for {self._maxsize} items, and not for {number} more: "
            "put fewer at once, or make it with a larger maxsize"
        )


def _load(actor: ActorHandle[Any], maxsize: int) -> Queue[Any]:
    queue = cast("Queue[Any]", Queue.__new__(Queue))
    queue._client = QueueClient(actor)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    queue._maxsize = maxsize  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # likewise
    return queue


def _limit(block: object, timeout: float | None) -> float | None:
    check_bool("block", block)
    if timeout is not None:
        check_seconds("timeout", timeout)
    return timeout if block else 0


def _empty(timeout: float | None) -> Empty:
    late = f": nothing came within {timeout:g} s" if timeout else ""
    return Empty(f"the queue is empty{late}")


def _too_few(number: int) -> Empty:
    return Empty(f"the queue has fewer than {number} items: ask for fewer, or wait")


def _ended(actor: ActorHandle[Any], grace: float) -> Steps[None]:
    if grace:
        served = actor.qsize.remote()
        served.add_done_callback(mark_seen)
        yield WaitRequest([served], timeout=grace)
    hold = pin_of(actor)
    gone = hold.engine.kill(hold.actor_id)
    if not gone.done():
        yield WaitRequest([gone])
