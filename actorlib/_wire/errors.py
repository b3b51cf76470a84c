"""Carries errors across processes: what a call raised, and why a value cannot be sent.

The user's exception arrives as an instance of its own class and of ``TaskError``, by
a class made for the two. Where that cannot be (the class forbids it, or its module is
not here), a plain ``TaskError`` carries it. Exceptions often pickle and then do not
load, as Python calls their constructor with ``args``: those are sent in parts.

An answer fills a future with its value or with such an error. Loading either runs the
user's code, and whatever that does, the future is done: nobody waits for an answer that
has come.

A value that cannot be sent is searched for what in it prevents that, and the error
names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import functools
import inspect
import itertools
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, cast

from actorlib._base.ids import ActorId
from actorlib._base.own_files import OWN_FILES, shows_own_frames
from actorlib._base.public import public
from actorlib._core.engine import HandlePin, current_engine
from actorlib._core.serializers import REDUCERS
from actorlib._futures.object_ref import IMMUTABLE, ObjectRef
from actorlib._options.interface import NO_METHODS
from actorlib._shm.memory import SharedPayload
from actorlib._wire.messages import CANCELLED, DIED, RESULT
from actorlib._wire.serialization import (
    decode,
    dump,
    encode,
    one_line,
)
from actorlib.exceptions import (
    RemoteTraceback,
    SerializationError,
    TaskCancelledError,
    TaskError,
    UnserializableException,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from actorlib._futures.object_ref import KeptValue
    from actorlib._shm.memory import Payload
    from actorlib._wire.messages import Frame


_CONTROL_FLOW = (
    StopIteration,  # of a coroutine; a future refuses it
    asyncio.CancelledError,  # of the task that waits
    GeneratorExit,
    KeyboardInterrupt,  # of the whole loop
    SystemExit,
)
_READ_ONLY = ("destination is read-only", "array is read-only", "read-only memory")
"""How NumPy, Cython and ``memoryview`` say that a buffer may not be written."""
_COPY_FIRST = (
    "Arrays and memory views arrive read-only in an actor and in results: copy one "
    "before you change it, for example array = array.copy()"
)
_args: Any = BaseException.args  # what a user's property of that name hides


class SettableFuture(Protocol):
    """Takes an answer as a future does."""

    def set_result(self, result: Any, /) -> None:
        """Takes the value."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Takes why there is none."""
        ...

    def done(self) -> bool:
        """Whether it needs no answer any more, as loading one may have cancelled it."""
        ...


def fill_future(future: SettableFuture, frame: Frame) -> None:
    """Fills a future with the value or the error of the frame that answers it.

    Whatever loading it does, the future is done afterwards.

    Raises:
        KeyboardInterrupt: See ``fail_to_load``.
    """
    if frame[0] == RESULT:
        load_result(future, frame[3], frame[2])
        return
    _, _, kind, summary, text, where, _, payload = frame
    try:
        error = exception_of(kind, summary, text, where, payload)
    except KeyboardInterrupt as interrupt:
        fail_to_load(future, interrupt)
    else:
        if not future.done():
            future.set_exception(error)


def load_result(
    future: SettableFuture, payload: Payload, loans: Collection[bytes] | None = None
) -> None:
    """Gives a future the value in a payload, or why it cannot be loaded.

    Args:
        future: The future; a ref keeps the payload of what can be changed.
        payload: The value.
        loans: What is in it and counted.

    Raises:
        KeyboardInterrupt: See ``fail_to_load``.
    """
    try:
        if type(payload) is SharedPayload:
            payload.hold()  # first, so that what is loaded shares that view
        value = decode(payload)
        kept = kept_with(value, payload, loans)
    except BaseException as error:  # noqa: BLE001  # loading runs the user's code
        fail_to_load(future, error)
    else:
        if not future.done():
            if kept is not None and isinstance(future, ObjectRef):
                cast("ObjectRef[Any]", future).set_result(value, kept)
            else:
                future.set_result(value)


def kept_with(
    value: object, payload: Payload, loans: Collection[bytes] | None = None
) -> KeptValue | None:
    """Returns what a ref keeps beside the value of a payload.

    Args:
        value: The value that was decoded from it.
        payload: The payload.
        loans: The ids that are counted in it; they are held while it is kept.

    Returns:
        None for a value that cannot be changed, unless it lies in shared memory: it is
        sent on from there without a copy.
    """
    own = b""
    if type(payload) is SharedPayload:
        own = payload.block  # the payload holds that by itself
    elif type(value) in IMMUTABLE:
        return None
    holds: list[HandlePin] | None = None
    counted = [loan for loan in loans if loan != own] if loans else None
    if counted:
        engine = current_engine()
        holds = [HandlePin(engine, ActorId(loan), NO_METHODS) for loan in counted]
    return payload, loans, holds, False


def load_kept(kept: KeptValue) -> Any:
    """Makes the value of a ref once more, as it was produced.

    Raises:
        Exception: Whatever loading it raised.
    """
    payload: Any = kept[0]
    return payload() if callable(payload) else decode(payload)


def fail_to_load(future: SettableFuture, error: BaseException) -> None:
    """Fills a future with the error that its value cannot be loaded here.

    Args:
        future: The future.
        error: What loading raised.

    Raises:
        KeyboardInterrupt: That is what loading was ended by. On an event loop it is
            raised by itself a turn later: others may have an answer behind this one.
    """
    why = str(error) if type(error) is SerializationError else one_line(error)
    failure = SerializationError(f"the result cannot be loaded here: {why}")
    failure.__cause__ = error
    if not future.done():
        future.set_exception(failure)
    if isinstance(error, Exception):
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None
    loop.call_soon(_raise, error)


def _raise(error: BaseException) -> None:
    raise error


def exception_parts(
    error: BaseException,
) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
    """Takes an exception apart: its class, the arguments that make it, its state.

    Builtin exceptions say themselves what makes them: it is not always ``args``
    (``OSError.filename``), nor is all else in ``__dict__`` (``ImportError.name``).
    """
    arguments, state = own_args(error), dict(error.__dict__)
    for name in _slots_of(type(error)):
        with contextlib.suppress(AttributeError):
            state[name] = getattr(error, name)
    maker = next(base for base in type(error).__mro__ if "__reduce__" in vars(base))
    if maker.__module__ == "builtins":
        # Only the builtin ones: a user's own says how to run the user's constructor.
        _, arguments, *rest = cast("tuple[Any, ...]", error.__reduce__())
        if rest and isinstance(rest[0], dict):
            state |= rest[0]
    return type(error), arguments, state


def own_args(error: BaseException) -> tuple[Any, ...]:
    """Gives the ``args`` of an exception, also where its class hides them."""
    return cast("tuple[Any, ...]", _args.__get__(error))


def _set(error: BaseException, name: str, value: object) -> None:
    """Sets an attribute, also where the class refuses to or only lets it be read."""
    try:
        object.__setattr__(error, name, value)
    except AttributeError:
        error.__dict__[name] = value


def _slots_of(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        for name in copyreg._slotnames(base)  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # as pickle finds them
    ]


def rebuild_exception(
    cls: type[BaseException],
    arguments: tuple[Any, ...],
    args: tuple[Any, ...],
    state: dict[str, Any],
) -> BaseException:
    """Makes an exception from its parts, without a constructor of the user's.

    Args:
        cls: Its class.
        arguments: For the constructor of its closest builtin base.
        args: Its ``args``.
        state: Its other attributes.
    """
    try:
        error = cls.__new__(cls, *arguments)
    except TypeError:  # MemoryError's own takes no other class, and keeps nothing
        error = BaseException.__new__(cls, *arguments)
    _builtin_constructor(cls)(error, *arguments)
    _args.__set__(error, args)
    for name, value in state.items():
        _set(error, name, value)
    return error


def exception_of(
    kind: int, summary: str, text: str, where: str, payload: Payload
) -> BaseException:
    """Makes the exception that a FAILURE frame stands for.

    Args:
        kind: RAISED, DIED or CANCELLED.
        summary: The last line of the traceback; of a cancelled call why, if it is
            known.
        text: The traceback.
        where: Which method of which actor.
        payload: The pickled exception, or empty if it could not be pickled, or there
            was none.

    Raises:
        KeyboardInterrupt: Somebody pressed Ctrl-C while it was loaded.
    """
    if kind == CANCELLED and not payload:
        return TaskCancelledError(summary or "the call was cancelled")
    loaded = _load(payload)
    if type(loaded) is _LoadedChunk:
        return loaded.error(where)
    cause = loaded if isinstance(loaded, BaseException) else None
    if kind in (CANCELLED, DIED) and _may_be_raised(cause):
        return cause
    return task_error(cause, summary, text, where)


def _load(payload: Payload) -> object:
    """Loads the exception in a payload; None if there is none that loads here.

    Raises:
        KeyboardInterrupt: Somebody pressed Ctrl-C meanwhile.
    """
    try:
        return decode(payload) if payload else None
    except Exception:  # noqa: BLE001  # loading runs the user's code, and its module may be missing here
        return None


def _may_be_raised(error: BaseException | None) -> TypeGuard[Exception]:
    """Whether raising an exception where a call is awaited has no other effect.

    Others would end or cancel the task that waits, or its loop, and a future refuses
    StopIteration.
    """
    return isinstance(error, Exception) and not isinstance(error, _CONTROL_FLOW)


def encode_exception(
    error: BaseException, encode: Callable[[object], Payload]
) -> Payload:
    """Encodes an exception so that it will load; gives nothing if there is no way.

    Exceptions with a constructor of their own often pickle and then do not load, as
    Python calls it with ``args``. Those are sent in parts and made again without it.

    Args:
        error: The exception.
        encode: Makes a payload of a value.
    """
    chunk = take_chunk(error)
    if chunk is not None:
        return _encode_chunk(chunk, encode)
    for made in (lambda: error, lambda: _ExceptionParts(error)):
        try:
            payload = encode(made())
            if type(decode(payload)) is type(error):
                return payload
        except Exception:  # noqa: BLE001  # the user's class: there is another way
            continue
    return b""


_CHUNK = "_actorlib_chunk"
"""The attribute by which the first error of a chunk carries the chunk."""


class PartialChunk(NamedTuple):
    """The outcome of a chunk of calls some of which have failed.

    Attributes:
        seconds: How long the calls took.
        values: Their values, with None in the place of each error. If the chunk ended
            at its first error, only the values before that.
        failures: The errors, each with the place of its call.
    """

    seconds: float
    values: list[Any]
    failures: list[tuple[int, BaseException]]

    def error(self) -> BaseException:
        """Returns the first error, which carries the whole chunk to the caller.

        So the chunk fails as one call, and is retried and observed as one.
        """
        error = self.failures[0][1]
        _set(error, _CHUNK, self)
        return error

    def without_unsendable(
        self, where: str, encode: Callable[[object], Payload]
    ) -> PartialChunk:
        """Replaces each value that cannot be sent by an error that says so."""
        values, failures = list(self.values), list(self.failures)
        for place, value in enumerate(values):
            error = sending_error(value, encode)
            if error is not None:
                what = f"the result of {where}" if where else "a result"
                failures.append((place, unsendable_error(what, value, error, encode)))
                values[place] = None
        return PartialChunk(self.seconds, values, failures)


def take_chunk(error: BaseException) -> PartialChunk | None:
    """Returns the chunk that an error carries, and removes it from the error."""
    chunk: PartialChunk | None = error.__dict__.pop(_CHUNK, None)
    return chunk


def _encode_chunk(chunk: PartialChunk, encode: Callable[[object], Payload]) -> Payload:
    try:
        return encode(_SentChunk(chunk))
    except Exception:  # noqa: BLE001  # the user's classes: one value is to blame
        return encode(_SentChunk(chunk.without_unsendable("", encode)))


class _SentChunk:
    """Pickles a partial chunk, with each error in a payload of its own.

    So an error that does not load where it arrives takes no other with it. They are
    pickled while the whole is, so what is counted in them is counted in the whole.
    """

    def __init__(self, chunk: PartialChunk) -> None:
        self._chunk = chunk

    def __reduce__(self) -> tuple[object, ...]:
        seconds, values, failures = self._chunk
        packed = [
            (place, one_line(error), traceback_of(error), encode_exception(error, dump))
            for place, error in failures
        ]
        return _loaded_chunk, (seconds, values, packed)


class _LoadedChunk(NamedTuple):
    """A partial chunk as it was loaded: each error with its summary and traceback."""

    seconds: float
    values: list[Any]
    failures: list[tuple[int, str, str, object]]

    def error(self, where: str) -> BaseException:
        """Returns the first error, which carries the others; see PartialChunk."""
        failures: list[tuple[int, BaseException]] = []
        for place, summary, text, loaded in self.failures:
            cause = loaded if isinstance(loaded, BaseException) else None
            failures.append((place, task_error(cause, summary, text, where)))
        return PartialChunk(self.seconds, self.values, failures).error()


def _loaded_chunk(
    seconds: float, values: list[Any], packed: list[tuple[int, str, str, Payload]]
) -> _LoadedChunk:
    failures = [
        (place, summary, text, _load(payload))
        for place, summary, text, payload in packed
    ]
    return _LoadedChunk(seconds, values, failures)


def dump_exception(error: BaseException) -> bytes:
    """Pickles an exception, or its traceback if it cannot; see ``encode_exception``.

    For answers of the runtime itself: what is counted does not go with them.
    """
    payload = encode_exception(error, dump)
    if payload:
        return cast("bytes", payload)
    text = "".join(traceback.format_exception(error))
    return dump(task_error(None, one_line(error), text, ""))


class _ExceptionParts:
    """Pickles an exception in parts, to be made again without its constructor."""

    def __init__(self, error: BaseException) -> None:
        cls, arguments, state = exception_parts(error)
        self._parts = cls, arguments, own_args(error), state

    def __reduce__(self) -> tuple[object, ...]:
        return rebuild_exception, self._parts


def traceback_of(error: BaseException) -> str:
    """Formats the traceback of a user's error, without our frames above it."""
    if type(error) in (TypeError, ValueError) and str(error).endswith(_READ_ONLY):
        error.add_note(_COPY_FIRST)
    trace = error.__traceback__
    if shows_own_frames():
        return "".join(traceback.format_exception(error))
    # The outermost frame is always ours, wherever the package was loaded from.
    first = inner = trace.tb_next if trace is not None else None
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(OWN_FILES):
        inner = inner.tb_next
    shown = traceback.format_exception(type(error), error, inner or first or trace)
    return "".join(shown)


def with_note(error: BaseException, note: str) -> BaseException:
    """Copies an exception with a note more; gives itself if it cannot be copied.

    For an exception that others raise too, for whom the note is not.
    """
    try:
        cls, arguments, state = exception_parts(error)
        state["__notes__"] = [*state.get("__notes__", ()), note]
        made = rebuild_exception(cls, arguments, own_args(error), state)
    except Exception:  # noqa: BLE001  # the user's class: it may forbid anything
        return error
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def clear_locals(error: BaseException) -> None:
    """Lets go of all that the frames in an error's traceback hold; its lines stay.

    Who keeps an error that was raised among other people's values would keep those.
    """
    following: BaseException | None = error
    seen: set[int] = set()
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        traceback.clear_frames(following.__traceback__)
        following = following.__cause__ or following.__context__


def task_error(
    cause: BaseException | None, summary: str, text: str, where: str
) -> TaskError:
    """Makes a TaskError that is an instance of the cause's class too, if that can be.

    Args:
        cause: The exception; without one, what is known of it stands in for it.
        summary: The last line of its traceback.
        text: The traceback.
        where: Which method of which actor.
    """
    while isinstance(cause, TaskError) and cause.cause is not None:
        cause = cause.cause  # it crossed another process before; the text tells of both
    if cause is None:
        cause = UnserializableException(summary, text)
    error = _dual_error(cause)
    if error is None:
        error = TaskError(f"{where} raised {summary}" if where else summary)
    remote = RemoteTraceback(f"In {where}:\n{text}")
    for name, value in (
        ("cause", cause),
        ("traceback_str", text),
        ("where", where),
        ("__cause__", remote),
    ):
        _set(error, name, value)
    return error


def _task_error_of(
    parts: tuple[Any, ...] | None, summary: str, text: str, where: str
) -> TaskError:
    cause = None
    if parts is not None:
        cls, arguments, state, args = parts
        cause = rebuild_exception(cls, arguments, args, state)
    return task_error(cause, summary, text, where)


def _dual_error(cause: BaseException) -> TaskError | None:
    """Makes the same exception an instance of TaskError too, if there can be one."""
    if isinstance(cause, UnserializableException):  # nobody raised that
        return None
    try:
        cls = _dual_class(type(cause))  # type: ignore[arg-type]  # classes are hashable
        _, arguments, state = exception_parts(cause)
        made = rebuild_exception(cls, arguments, own_args(cause), state)
    except Exception:  # noqa: BLE001  # the user's class: it may forbid anything
        return None
    return made if isinstance(made, TaskError) else None


@functools.cache
def _dual_class(cls: type[BaseException]) -> type[TaskError]:
    if issubclass(cls, _CONTROL_FLOW):
        raise TypeError(f"{cls.__name__} would mean something else to whoever awaits")

    def reduce(self: TaskError) -> tuple[object, ...]:
        summary = f"{cls.__name__}: {self}"
        parts = self.cause and (*exception_parts(self.cause), own_args(self.cause))
        return _task_error_of, (parts, summary, self.traceback_str, self.where)

    return type(
        f"TaskError({cls.__name__})",
        (TaskError, cls),
        {
            "__module__": cls.__module__,
            "__reduce__": reduce,
            "__init__": cls.__init__,
            "__str__": cls.__str__,
        },
    )


def _builtin_constructor(cls: type[BaseException]) -> Any:
    """Finds the constructor of the closest builtin base: it sets what a dict lacks.

    ``OSError.errno`` or ``UnicodeDecodeError.start`` live in C; the user's own
    ``__init__`` is not run again, as its arguments are not known.
    """
    for base in cls.__mro__:
        if base.__module__ == "builtins":
            return inspect.getattr_static(base, "__init__")
    raise AssertionError("every exception has a builtin base")


_MAX_DEPTH = 5
"""Steps into a value that an error searches."""
_MAX_TRIES = 300
"""Members that it tries: a value of millions is not searched to its end."""
_MAX_NAMED = 3
"""How many of them an error names."""


def blame_argument(
    where: object,
    arguments: Iterable[tuple[int | str, object]],
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> str:
    """Says which argument of a call cannot be sent, and why.

    Args:
        where: What is called.
        arguments: Each with its place, counted from 0, or its name.
        error: What came of the attempt to send all of them.
        attempt: Pickles a value as it is sent.
    """
    for place, value in arguments:
        own = sending_error(value, attempt)
        if own is not None:
            return str(
                unsendable_error(argument_label(place, where), value, own, attempt)
            )
    return f"the arguments of {where} cannot be sent to another process: {error}"


def argument_label(place: int | str, where: object) -> str:
    """Names an argument of a call.

    Args:
        place: Its place, counted from 0, or its name.
        where: What is called.
    """
    named = f"{place}=" if isinstance(place, str) else str(place + 1)
    return f"argument {named} of {where}"


def unsendable_error(
    what: str,
    value: object,
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> SerializationError:
    """Makes the error that says what cannot be sent, and what in it prevents that.

    Args:
        what: What the value is, for example ``"argument 1 of Model.ping"``.
        value: The value.
        error: What came of the attempt to send it.
        attempt: Pickles a value as it is sent.
    """
    return SerializationError(
        f"{what}, a {type(value).__qualname__}, cannot be sent to another process: "
        f"{unsendable_reason(value, error, attempt)}"
    )


@public("actorlib")
class Failure(NamedTuple):
    """Something that cannot be sent, although all that is in it can be.

    Attributes:
        obj: What it is.
        name: What it is called where it was found, as ``"self.lock"`` or ``"[3]"``.
        parent: What it was found in; itself if it is the value that was asked about.
    """

    obj: object
    name: str
    parent: object

    def __hash__(self) -> int:
        return hash((id(self.obj), self.name, id(self.parent)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failure) and hash(self) == hash(other)

    def __repr__(self) -> str:
        found_in = type(self.parent).__qualname__
        kind = type(self.obj).__qualname__
        return f"Failure({self.name!r}, a {kind}, in a {found_in})"


def sending_error(
    value: object, attempt: Callable[[object], object] = encode
) -> Exception | None:
    """Gives the error that sending a value raises, if it raises one."""
    try:
        attempt(value)
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        return error
    return None


def failures_in(
    value: object,
    name: str,
    depth: int,
    tries: int = sys.maxsize,
    attempt: Callable[[object], object] = encode,
) -> list[Failure]:
    """Finds the innermost things in a value that cannot be sent; itself if none are.

    Args:
        value: What cannot be sent.
        name: What it is called.
        depth: How many steps into it are searched.
        tries: How many members are tried at the most: each is pickled for that.
        attempt: Pickles a value as it is sent.
    """
    left = itertools.repeat(None, tries)
    return list(_culprits(Failure(value, name, value), depth, [], left, attempt))


def _culprits(
    failure: Failure,
    depth: int,
    above: Sequence[object],
    left: Iterator[None],
    attempt: Callable[[object], object],
) -> Iterator[Failure]:
    inner = [
        Failure(member, f"{failure.name}{step}", failure.obj)
        for (step, member), _ in zip(_members(failure.obj), left, strict=False)
        if not any(member is seen for seen in (*above, failure.obj))
        and sending_error(member, attempt) is not None
    ]
    if not inner or not depth:
        yield failure
        return
    for each in inner:
        yield from _culprits(each, depth - 1, [*above, failure.obj], left, attempt)


def unsendable_reason(
    value: object,
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> str:
    """Says why a value cannot be sent: what in it prevents that, and its error.

    Args:
        value: The value.
        error: What came of the attempt to send it.
        attempt: Pickles a value as it is sent.
    """
    label = str(getattr(value, "__qualname__", type(value).__qualname__))
    found = failures_in(value, label, _MAX_DEPTH, _MAX_TRIES, attempt)
    if found[0].obj is value:
        return str(error)
    named = [
        f"{each.name}, a {type(each.obj).__qualname__}" for each in found[:_MAX_NAMED]
    ]
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return f"{'; '.join(named)}{more}: {sending_error(found[0].obj, attempt) or error}"


def _members(value: object) -> Iterator[tuple[str, object]]:
    """Gives what a value is made of, each with the step to it."""
    if inspect.ismethod(value):
        yield ".__self__", value.__self__
        yield from _members(value.__func__)
    elif inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        for names in (used.globals, used.nonlocals):
            for name, member in names.items():
                yield f" -> {name}", member
    elif isinstance(value, dict):
        for key, member in cast("Mapping[object, object]", value).items():
            yield f"[{key!r}]", member
    elif isinstance(value, list | tuple | set | frozenset):
        for place, member in enumerate(cast("Sequence[object]", value)):
            yield f"[{place}]", member
    elif _is_sent_by_attributes(type(value)):
        yield from _attributes(value)


def _is_sent_by_attributes(cls: type) -> bool:
    """Whether pickle takes instances apart as it does by itself.

    What else their attributes hold is not sent: what a class of its own way keeps
    there, a ref its whole engine, is not to blame.
    """
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs_ex__")
    makers = (base for base in cls.__mro__ if any(name in vars(base) for name in own))
    return all(base.__module__ == "builtins" for base in makers) and cls not in REDUCERS


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    names = dict[str, object](getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                names[slot] = getattr(value, slot)
    for name, member in names.items():
        if not name.startswith("__"):  # what Python keeps of a class is not sent
            is_wrapped = isinstance(member, staticmethod | classmethod)
            yield f".{name}", cast("Any", member).__func__ if is_wrapped else member
