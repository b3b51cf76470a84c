"""A queue that the program and any number of actors share, in an actor of its own.

Every method returns an ObjectRef: ``await q.get()`` where a loop runs,
``q.get().get()`` in plain methods of actors. Only the ref of a get has its item. If the
wait is cancelled or the ref is dropped, ``QueueClient``, the connection of each process
to the queue, puts the item back to its place.
"""

from __future__ import annotations

import itertools
import os
import weakref
from asyncio import InvalidStateError
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.queue_actor import QueueActor, sendable
from actorlib._api.waiting import (
    CombinedRef,
    Steps,
    Waiting,
    WaitRequest,
    refuse_running_loop,
)
from actorlib._base.ids import ActorId
from actorlib._base.public import public
from actorlib._base.validation import check_bool, check_count, check_seconds, wrong_type
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
    """The answer of a queue; an item that is not taken is put back."""

    __slots__ = (
        "_call_ref",
        "_client",
        "_error",
        "_items",
        "_many",
        "_refusal",
        "_value",
    )

    def __init__(
        self,
        client: QueueClient,
        call_ref: ObjectRef[Any],
        refusal: Callable[[], Exception],
        *,
        many: bool = False,
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
        if answer is None or answer is False:
            self.set_exception(self._refusal())
            return
        if answer is not True:
            self._items = answer if self._many else [answer]
        self.set_result(cast("R", None))

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The call to the queue's actor; ``call`` is a number of the client."""
        return self._call_ref.awaited_calls

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the answer, and decodes the item; see ObjectRef."""
        yield from super().__await__()
        return self.result()

    def result(self) -> R:
        """Returns the item, which is decoded the first time."""
        super().result()
        items = self._items  # another thread may take them, too
        if items is not None:
            self._load(items)
        if self._error is not None:
            raise self._error
        return cast("R", self._value)

    def _load(self, items: list[Any]) -> None:
        try:
            values = [decode(payload) for _, payload, _ in items]
            self._value = values if self._many else values[0]
        except Exception as error:  # noqa: BLE001  # it runs the user's code
            failure = SerializationError(f"the item cannot be loaded here: {error}")
            failure.__cause__ = error
            self._error = failure
        self._items = None  # it is taken, even if it cannot be decoded

    def __del__(self) -> None:
        if self._items is not None:
            self._client.put_back(self._items)
        elif not self.done():
            self._client.give_up(self.call)
        super().__del__()  # type: ignore[misc]  # pyright: ignore  # noqa: PGH003  # it logs errors that no caller has received

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(_NOT_SENDABLE)


def _call_ref_of(reply: QueueRef[Any]) -> ObjectRef[Any]:
    return reply._call_ref  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


class QueueClient:
    """Connects one process to a queue; the result owner of its refs."""

    def __init__(self, actor: ActorHandle[Any]) -> None:
        self.actor = actor
        self._engine = pin_of(actor).engine
        own = self._engine.context.actor_id
        self._own = None if own is None else bytes.fromhex(own)
        self._name = os.urandom(8)
        self._count = itertools.count(1)
        # Weak for gets: without a ref, the item remains in the queue.
        self._refs: dict[int, QueueRef[Any] | weakref.ref[QueueRef[Any]]] = {}
        self._unsent: deque[tuple[str, object]] = deque()

    # Calls.

    def put(
        self, item: object, timeout: float | None, refusal: Callable[[], Exception]
    ) -> QueueRef[None]:
        number = self._next()
        _, payload, handles = self._encoded(item)
        call_ref = self.actor.put.remote(self._token(number), timeout, payload, handles)
        return self._bind(number, QueueRef(self, call_ref, refusal))

    def put_all(
        self, items: list[Any], refusal: Callable[[], Exception]
    ) -> QueueRef[None]:
        number = self._next()
        call_ref = self.actor.put_all.remote([self._encoded(item) for item in items])
        return self._bind(number, QueueRef(self, call_ref, refusal))

    def get(
        self, timeout: float | None, refusal: Callable[[], Exception]
    ) -> QueueRef[Any]:
        number = self._next()
        call_ref = self.actor.get.remote(self._token(number), timeout, self._own)
        return self._bind(number, QueueRef(self, call_ref, refusal), is_weak=True)

    def get_many(
        self, number_of_items: int, refusal: Callable[[], Exception]
    ) -> QueueRef[list[Any]]:
        number = self._next()
        call_ref = self.actor.get_many.remote(number_of_items)
        reply: QueueRef[list[Any]] = QueueRef(self, call_ref, refusal, many=True)
        return self._bind(number, reply, is_weak=True)

    def _bind(
        self, number: int, reply: QueueRef[R], *, is_weak: bool = False
    ) -> QueueRef[R]:
        self._refs[number] = weakref.ref(reply) if is_weak else reply
        reply.bind(self, number)
        call_ref = _call_ref_of(reply)
        call_ref.watch(partial(self._answered, number, call_ref))
        return reply

    def query(self, method: str) -> ObjectRef[Any]:
        if self._unsent:
            self._send_unsent()
        return cast("ObjectRef[Any]", getattr(self.actor, method).remote())

    def _next(self) -> int:
        if self._unsent:  # a withdrawn get must not take an item that is put now
            self._send_unsent()
        return next(self._count)

    def _token(self, number: int) -> bytes:
        return self._name + number.to_bytes(8, "big")

    def _encoded(self, item: object) -> list[Any]:
        """Encodes an item, with the handles in it; only its taker decodes it."""
        if isinstance(item, ObjectRef):
            raise TypeError(
                f"a queue takes values, not refs: await {item!r}, and put its value"
            )
        try:
            with collecting_ids(self._engine) as ids:
                payload = with_own_buffers(encode(item))
        except Exception as error:
            raise SerializationError(
                f"the item, a {type(item).__qualname__}, cannot be sent to another "
                f"process: {error}"
            ) from error
        # Handles for the ids of refs and blocks too: they keep them alive.
        pins = [HandlePin(self._engine, ActorId(each), NO_METHODS) for each in ids]
        handles = [ActorHandle[Any](pin) for pin in pins] or None
        return sendable([0, payload, handles])

    def _answered(self, number: int, call_ref: ObjectRef[Any]) -> None:
        entry = self._refs.pop(number, None)
        reply = entry() if isinstance(entry, weakref.ref) else entry
        error: BaseException | None = TaskCancelledError("the call was cancelled")
        if not call_ref.cancelled():
            error = call_ref.exception()
        if reply is None or reply.done():
            if (
                error is None
                and isinstance(answer := call_ref.result(), list)
                and answer
            ):
                items = cast("list[Any]", answer)
                self.put_back(items if isinstance(items[0], list) else [items])
            return
        with suppress(InvalidStateError):  # another thread is cancelling it
            if error is None:
                reply._settle(call_ref.result())  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
                return
            reply.set_exception(error)
            if isinstance(error, ActorDiedError) and error.exit.cause == "asked":
                reply.exception()  # not logged: the user has ended the queue

    # These may be called from destructors.

    def put_back(self, items: list[Any]) -> None:
        self._send_soon("put_back", [sendable(item) for item in items])

    def give_up(self, number: int) -> None:
        """Withdraws a call whose ref was dropped."""
        self._send_soon("withdraw", self._token(number))

    def _send_soon(self, method: str, argument: object) -> None:
        self._unsent.append((method, argument))
        self._engine.later(self._send_unsent)

    def _send_unsent(self) -> None:
        while self._unsent:
            with suppress(IndexError):  # another thread was faster
                method, argument = self._unsent.popleft()
                with suppress(ActorlibError, RuntimeError):  # the queue is gone
                    ref = getattr(self.actor, method).remote(argument)
                    ref.add_done_callback(mark_seen)

    # For its refs; see ResultOwner.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        del recursive  # the queue makes no calls
        self._refs.pop(call, None)
        self._unsent.append(("withdraw", self._token(call)))
        self._send_unsent()

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Withdraws the call as soon as the ref is dropped; see ResultOwner."""
        if ref.call in self._refs:
            self._refs[ref.call] = weakref.ref(cast("QueueRef[Any]", ref))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        _call_ref_of(cast("QueueRef[Any]", ref)).result_owner.watch(ref, then)

    def name(self) -> bytes:
        """Refuses: no other process can use the ref; see ResultOwner."""
        raise TypeError(_NOT_SENDABLE)

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Refuses: no other process can wait for the ref; see ResultOwner."""
        del ref
        raise TypeError(_NOT_SENDABLE)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
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
    """A first-in, first-out queue in an actor; it can be passed as an argument.

    Its methods return refs: ``item = await q.get()``; in plain methods of actors write
    ``item = q.get().get()``. Items of one producer arrive in the order of its puts.
    Waiting calls do not block others.

    A get that is cancelled, or whose ref is dropped, takes no item; a put that is
    cancelled while it waits for room puts none. A get of an actor that dies takes none
    either. An item that was sent to a process is lost if the process dies, and so is an
    item that waits for an actor that is restarted. If the queue's own actor dies, all
    items are lost: all methods fail with ActorDiedError or, if its options restart the
    actor, go on with an empty queue.

    Args:
        maxsize: The largest number of items, or 0 for any number. Default: 0.
        actor_options: Options of its actor by name, see ``ActorClass.options``. By
            default it asks for no resources. With a ``name`` and ``get_if_exists`` it
            is the existing queue of that name, if there is one. Default: None.

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
            raise wrong_type(
                "actor_options takes a dict of options, for example {'num_cpus': 1}",
                actor_options,
            )
        actor_class = cast("ActorClass[..., Any]", QueueActor).options(
            **cast("Any", actor_options or {})
        )
        self._client = QueueClient(actor_class.remote(maxsize))
        self._maxsize = maxsize

    @property
    def actor(self) -> ActorHandle[Any]:
        """The handle of its actor."""
        return self._client.actor

    @property
    def maxsize(self) -> int:
        """The largest number of items, or 0."""
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
            item: The item, sent by value.
            block: False fails at once if there is no room. Default: True.
            timeout: The seconds to wait for room, or None. Default: None.

        Returns:
            A ref that is done when the item is in the queue; it need not be awaited. It
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
        """Removes and returns the first item; waits while there is none.

        Args:
            block: False fails at once if there is none. Default: True.
            timeout: The seconds to wait for one, or None. Default: None.

        Returns:
            A ref of the item, which belongs to this ref as long as that exists. It
            fails with Empty if there is no item in time.

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
        """Removes and returns the first item, or fails with Empty."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> ObjectRef[None]:
        """Puts several items at the end, or none of them and fails with Full.

        Args:
            items: The items, each sent by value.

        Raises:
            TypeError: It is not iterable.
        """
        if not isinstance(cast("object", items), Iterable):
            raise wrong_type(
                "put_nowait_batch() takes an iterable of items, such as a list", items
            )
        listed = list(items)
        return self._client.put_all(listed, partial(self._full_for, len(listed)))

    def get_nowait_batch(self, num_items: int) -> ObjectRef[list[T]]:
        """Removes and returns several first items, or none and fails with Empty.

        Args:
            num_items: The number, 0 or more.

        Raises:
            TypeError: It is not a number.
            ValueError: It is negative.
        """
        check_count("num_items", num_items, 0)
        return self._client.get_many(num_items, partial(_too_few, num_items))

    put_async = put
    get_async = get
    put_nowait_async = put_nowait
    get_nowait_async = get_nowait

    def qsize(self) -> ObjectRef[int]:
        """Returns the number of items."""
        return self._client.query("qsize")

    size = qsize

    def empty(self) -> ObjectRef[bool]:
        """Returns whether there are no items."""
        return self._client.query("empty")

    def full(self) -> ObjectRef[bool]:
        """Returns whether there is no room."""
        return self._client.query("full")

    def shutdown(self, grace: float = _GRACE) -> Waiting[None]:
        """Ends the queue's actor after its calls.

        Waiting calls and later ones fail with ActorDiedError. The items in the queue
        are lost.

        Args:
            grace: The seconds for calls that were made before. Default: 5.0.

        Returns:
            A wait until its process is gone: await it, or call ``get()``.

        Raises:
            TypeError: It is not a number.
            ValueError: It is negative.
        """
        check_seconds("grace", grace)
        return Waiting(_end(self._client.actor, grace))

    def _full(self, timeout: float | None) -> Full:
        late = f" and stayed full for {timeout:g} s" if timeout else ""
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
    queue._maxsize = maxsize  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
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


def _end(actor: ActorHandle[Any], grace: float) -> Steps[None]:
    if grace:
        last_call = actor.qsize.remote()
        last_call.add_done_callback(mark_seen)
        yield WaitRequest([last_call], timeout=grace)
    pin = pin_of(actor)
    end = pin.engine.kill(pin.actor_id)
    if not end.done():
        yield WaitRequest([end])
