"""Encodes the arguments of calls, and refs and values inside of values.

A ref that is itself an argument arrives as its value, so its call waits for it. The
other arguments are pickled at once all the same: later changes of the caller have no
effect, and a value that cannot be sent is refused in the line that tried to.

A value in shared memory is not copied again when its ref is sent to another actor: its
location is sent. A ref inside a value is sent as the id of an object, which the owner
keeps for its holders. The receiver requests the object when it needs it.
"""

from __future__ import annotations

import pickle
import traceback
import weakref
from typing import TYPE_CHECKING, Any, Protocol, cast, final

from actorlib._core.engine import (
    Engine,
    HandlePin,
    collecting_ids,
    current_engine,
    pickling_engine,
)
from actorlib._futures.object_ref import REFS, ObjectRef
from actorlib._shm.memory import SharedPayload, share_payload
from actorlib._wire.errors import (
    argument_label,
    blame_argument,
    encode_exception,
    fill_future,
    unsendable_error,
    with_note,
)
from actorlib._wire.messages import CALL_DEFERRED, DIED, FAILURE, RESULT
from actorlib._wire.serialization import (
    Reduced,
    decode,
    encode,
    encode_array_call,
    encode_plain_call,
    join_plain_call,
    one_line,
    pickle_call,
    split_arguments,
    with_own_buffers,
)
from actorlib.exceptions import SerializationError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._futures.object_ref import BorrowedRef
    from actorlib._options.callee import Callee
    from actorlib._options.interface import Interface
    from actorlib._shm.memory import Payload, SharedMemory
    from actorlib._wire.messages import Frame


def load_handle(actor_id: ActorId, interface: Interface, name: str | None) -> HandlePin:
    """Returns the pin of a handle that has come, which is a borrowed reference."""
    return HandlePin(current_engine(), actor_id, interface, name)


class SendingEngine(Engine, Protocol):
    """An engine with shared memory, which sends values to other processes."""

    memory: SharedMemory


class EncodedValue:
    """Puts an encoded value inside of another one; it arrives as the value."""

    def __init__(
        self,
        engine: SendingEngine,
        payload: Payload,
        borrowed: Collection[Any] | None,
    ) -> None:
        self._engine = engine
        self.payload = payload
        self.borrowed = borrowed

    def __reduce__(self) -> tuple[object, ...]:
        for reference in self.borrowed or ():
            self._engine.note_pickled(reference)
        payload = self.payload
        if isinstance(payload, SharedPayload):
            if payload.is_forwardable:
                return _load_shared, (payload.location(),)
            # Its memory is mapped here, but its descriptor could not stay open.
            payload = list(payload.buffers())
        if type(payload) is list:
            return _load_parts, tuple(map(pickle.PickleBuffer, payload))
        return decode, (payload,)


def value_to_send(engine: SendingEngine, ref: ObjectRef[Any]) -> object:
    """Returns the value of a ref for pickle, without encoding it again if possible."""
    kept_value = ref.kept_value
    if kept_value is None:
        return ref.result()  # it raises the ref's error
    payload, borrowed, *_ = kept_value
    return payload() if callable(payload) else EncodedValue(engine, payload, borrowed)


def reduce_ref(object_id: ObjectId) -> tuple[object, ...]:
    """Reduces a ref to the id of its object, for pickle.

    Raises:
        TypeError: It is not pickled for a call or its result.
        ValueError: It belongs to another runtime.
    """
    engine = pickling_engine()
    if object_id[:4].hex() != engine.context.job_id:
        raise ValueError(
            f"the ref {object_id.hex()} belongs to another runtime, which this one "
            "cannot reach: await it, and send its value"
        )
    engine.note_pickled(object_id)
    return load_ref, (object_id,)


def encode_shared(
    engine: SendingEngine, value: object
) -> tuple[Payload, list[CountedId]]:
    """Encodes a value as it is now, in shared memory if it is large.

    Returns:
        The payload and its borrowed references.

    Raises:
        SerializationError: It cannot be sent.
        ObjectStoreFullError: There is no room, and it may not be sent another way.
    """
    with collecting_ids(engine) as borrowed:
        return with_own_buffers(
            share_payload(engine.memory, encode_value(value), borrowed)
        ), borrowed


def payload_of(
    engine: SendingEngine, ref: ObjectRef[Any]
) -> tuple[Payload, Collection[CountedId] | None]:
    """Encodes the value of a ref that has it; without encoding it again if possible."""
    value = value_to_send(engine, ref)
    if isinstance(value, EncodedValue):
        return value.payload, value.borrowed
    return encode_shared(engine, value)


def encode_error(
    engine: SendingEngine, error: BaseException
) -> tuple[Payload, list[CountedId] | None]:
    """Encodes an exception and its borrowed references; see ``encode_exception``."""
    borrowed: list[CountedId] = []

    def encode_once(value: object) -> Payload:
        nonlocal borrowed
        with collecting_ids(engine) as borrowed:
            return with_own_buffers(
                share_payload(engine.memory, encode(value), borrowed)
            )

    payload = encode_exception(error, encode_once)
    return payload, (borrowed or None) if payload else None


def failure_frame(engine: SendingEngine, error: BaseException) -> Frame:
    payload, borrowed = encode_error(engine, error)
    text = "" if payload else "".join(traceback.format_exception(error))
    return (FAILURE, 0, DIED, one_line(error), text, "", borrowed, payload)


def fill_encoded(
    ref: ObjectRef[Any], payload: Payload, borrowed: list[CountedId]
) -> None:
    """Fills a ref with a value of this process, which is encoded only once."""
    fill_future(ref, (RESULT, 0, borrowed or None, payload))


class BorrowedRefs:
    """The refs of other processes that are here: one for each object."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._refs: weakref.WeakValueDictionary[ObjectId, BorrowedRef[Any]] = (
            weakref.WeakValueDictionary()
        )

    def get(self, object_id: ObjectId) -> BorrowedRef[Any] | None:
        return self._refs.get(object_id)

    def add(
        self,
        ref: BorrowedRef[Any],
        object_id: ObjectId,
        want: Callable[[], None],
        revoke: Callable[[], None],
    ) -> None:
        """Adds a ref that has come; it is counted while it is here.

        ``want`` requests the value, and must not hold the ref. ``revoke`` cancels the
        call of the result.
        """
        ref.set_source(want, revoke, object_id)
        self._refs[object_id] = ref
        engine = self._engine()
        engine.retain(object_id)
        weakref.finalize(ref, engine.release, object_id).atexit = False


def load_ref(object_id: ObjectId) -> ObjectRef[Any]:
    return current_engine().borrow(object_id)


def _load_shared(location: dict[bytes, Any]) -> object:
    return decode(cast("SendingEngine", current_engine()).memory.payload_at(location))


def _load_parts(*parts: Any) -> object:
    return decode([memoryview(part) for part in parts])


def _fill_holes(
    arguments: object, places: Sequence[int | str], values: Sequence[object]
) -> tuple[list[object], dict[str, object]]:
    args, kwargs = split_arguments(arguments)
    filled, named = with_values(args, kwargs, places, values)
    return list(filled), named


def without_refs(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[
    tuple[object, ...],
    Mapping[str, object],
    list[int | str],
    list[ObjectRef[Any]],
]:
    """Removes the refs that are themselves arguments, and leaves holes.

    Returns:
        The positional and the keyword arguments; the holes: positions, and names of
        keyword arguments; the refs that were there.
    """
    places: list[int | str] = []
    refs: list[ObjectRef[Any]] = []
    if REFS.isdisjoint(map(type, args)) and REFS.isdisjoint(map(type, kwargs.values())):
        return args, kwargs, places, refs

    def without(place: int | str, value: object) -> object:
        if type(value) not in REFS:
            return value
        refs.append(cast("ObjectRef[Any]", value))
        places.append(place)
        return None

    positional = tuple(without(place, value) for place, value in enumerate(args))
    named = {name: without(name, value) for name, value in kwargs.items()}
    return positional, named, places, refs


def with_values(
    args: Sequence[object],
    kwargs: Mapping[str, object],
    places: Sequence[int | str],
    values: Sequence[object],
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Puts values into the holes that ``without_refs`` left."""
    positional, named = list(args), dict(kwargs)
    for place, value in zip(places, values, strict=True):
        if isinstance(place, int):
            positional[place] = value
        else:
            named[place] = value
    return tuple(positional), named


def encode_arguments(
    engine: SendingEngine,
    where: object,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    *,
    may_be_plain: bool = True,
) -> tuple[Payload, list[CountedId]]:
    """Encodes a call's arguments, as they are now; none of them is a ref itself.

    Args:
        engine: The engine that sends the call.
        where: The callee: its ``str`` is for messages.
        args: The positional arguments.
        kwargs: The keyword arguments.
        may_be_plain: False if ``encode_plain_call`` has refused them.

    Returns:
        The payload and its borrowed references.

    Raises:
        SerializationError: One cannot be sent; the message names it.
        ObjectStoreFullError: There is no room, and they may not be sent another way.
    """
    borrowed: list[CountedId] = []
    # Plain values and arrays contain no references. Collecting these would be half of
    # the cost of a call with a megabyte, apart from its copies.
    payload: Payload | None = encode_plain_call(args, kwargs) if may_be_plain else None
    if payload is None:
        payload = encode_array_call(args, kwargs)
    if payload is None:
        with collecting_ids(engine) as borrowed:
            try:
                payload = pickle_call(args, kwargs)
            except Exception as error:
                named: list[tuple[int | str, object]] = [
                    *enumerate(args),
                    *kwargs.items(),
                ]
                raise SerializationError(blame_argument(where, named, error)) from error
    return with_own_buffers(share_payload(engine.memory, payload, borrowed)), borrowed


def encode_value(value: object) -> Payload:
    """Encodes one value; the payload's buffers may be the value's own."""
    try:
        return encode(value)
    except Exception as error:
        raise unsendable_error("the value", value, error) from error


class Arguments:
    """Encodes the arguments of one call, and later the values of refs among them.

    Args:
        where: The callee: its ``str`` is for messages.

    Attributes:
        refs: The refs that are themselves arguments.
        borrowed: The ids of the borrowed references in the arguments (handles, refs
            inside of values, blocks of shared memory), each as often as it occurs.

    Raises:
        SerializationError: One cannot be sent; the message names it.
        ObjectStoreFullError: There is no room, and they may not be sent another way.
    """

    def __init__(
        self,
        engine: SendingEngine,
        where: object,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        self.borrowed: list[CountedId] = []
        self._engine = engine
        self._where = where
        args, kwargs, self._places, self.refs = without_refs(args, kwargs)
        # Most calls with refs have few other arguments, which contain no references.
        self._payload: Payload
        tries_plain = bool(self.refs) and not kwargs
        plain = encode_plain_call(args) if tries_plain else None
        self._is_plain = plain is not None
        if plain is not None:
            self._payload = plain
            return
        self._payload, self.borrowed = encode_arguments(
            engine, where, args, kwargs, may_be_plain=not tries_plain
        )

    @property
    def are_ready(self) -> bool:
        return not self.refs or all(ref.done() for ref in self.refs)

    def payload(self) -> tuple[Payload, list[CountedId] | None]:
        """Encodes the arguments with the values of all refs.

        Returns:
            The payload and its borrowed references.

        Raises:
            SerializationError: A value cannot be sent on.
            Exception: The error of the first failed ref.
        """
        if not self.refs:
            return self._payload, self.borrowed or None
        engine = self._engine
        values = [
            self._value(place, ref)
            for place, ref in zip(self._places, self.refs, strict=True)
        ]
        if self._is_plain:
            args, _ = with_values(decode(self._payload), {}, self._places, values)
            encoded = {
                place: value.payload
                for place, value in enumerate(args)
                if type(value) is EncodedValue
            }
            plain = join_plain_call(args, encoded)
            if plain:
                return plain, None
        with collecting_ids(engine) as borrowed:
            # References in the other arguments are counted again, now for this payload.
            others = EncodedValue(engine, self._payload, self.borrowed)
            try:
                # The values of refs are put into arguments that were encoded earlier.
                payload = encode(Reduced(_fill_holes, others, self._places, values))
            except Exception as error:
                named = zip(self._places, values, strict=True)
                raise SerializationError(
                    blame_argument(self._where, named, error)
                ) from error
            return with_own_buffers(
                share_payload(engine.memory, payload, borrowed)
            ), borrowed or None

    def _value(self, place: int | str, ref: ObjectRef[Any]) -> object:
        """Returns the value of a ref, or raises its error and names the argument."""
        if ref.cancelled():
            label = argument_label(place, self._where)
            raise TaskCancelledError(f"a ref given as {label} was cancelled")
        error = ref.exception()
        if error is not None:
            raise with_note(error, f"its ref was {argument_label(place, self._where)}")
        return value_to_send(self._engine, ref)


@final
class Call:
    """A call as it was when it was made, until it can be sent.

    It does not hold its ref, which may be dropped meanwhile, nor the user's arguments.
    A plain call of the owner never needs this object: it is sent when it is made.

    Attributes:
        number: Its number in the sending process.
        parent: The number of the call that makes it; 0 outside of calls.
    """

    __slots__ = ("arguments", "callee", "headers", "number", "parent")

    def __init__(
        self,
        number: int,
        callee: Callee,
        arguments: Arguments,
        headers: dict[str, Any] | None,
        parent: int = 0,
    ) -> None:
        self.number = number
        self.callee = callee
        self.arguments = arguments
        self.headers = headers
        self.parent = parent

    def deferred(self) -> Frame:
        """Makes the frame that announces a worker's call while that waits."""
        deadline = self.headers and self.headers.get("deadline")
        callee = self.callee
        return (
            CALL_DEFERRED,
            self.number,
            self.parent,
            callee.actor,
            deadline,
            callee.name,
        )


def call_when_done(refs: Iterable[ObjectRef[Any]], then: Callable[[], None]) -> None:
    """Calls back once when all refs are done, perhaps at once."""
    pending = [ref for ref in refs if not ref.done()]
    count = len(pending)

    def one_done(_: object) -> None:
        nonlocal count
        count -= 1
        if not count:
            then()

    for ref in pending:
        ref.add_done_callback(one_done)
    if not pending:
        then()
