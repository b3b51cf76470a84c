"""Sends errors to other processes: exceptions of calls, and why a value cannot be sent.

The user's exception arrives as an instance of its own class and of ``TaskError``, of a
class derived from the two. If that is not possible (the class forbids it, or its module
is missing here), a plain ``TaskError`` represents it. Some exceptions can be pickled
but not loaded, because Python calls their constructor with ``args``: those are sent in
parts.

A result fills a future with its value or with such an error. Loading either runs the
user's code. Whatever that code does, the future is done afterwards, so no caller waits
for a result that has come.

The members of a value that cannot be sent are tried one by one, and the error names the
one that prevents it.
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
from actorlib._base.public import public
from actorlib._base.stack_frames import OWN_FILES, shows_own_frames
from actorlib._core.engine import HandlePin, current_engine
from actorlib._core.serializers import REDUCERS
from actorlib._futures.object_ref import IMMUTABLE, ObjectRef
from actorlib._options.interface import NO_METHODS
from actorlib._shm.memory import SharedPayload
from actorlib._wire.messages import CANCELLED, DIED, RESULT
from actorlib._wire.serialization import Reduced, decode, dump, encode, one_line
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
    StopIteration,  # it ends a coroutine; a future refuses it
    asyncio.CancelledError,  # it cancels the waiting task
    GeneratorExit,
    KeyboardInterrupt,  # it ends the whole loop
    SystemExit,
)
_READ_ONLY = ("destination is read-only", "array is read-only", "read-only memory")
"""How NumPy, Cython and ``memoryview`` say that a buffer may not be written."""
_COPY_FIRST = (
    "Arrays and memory views arrive read-only in an actor and in results: copy one "
    "before you change it, for example array = array.copy()"
)
_args: Any = BaseException.args  # even if a user's property of that name hides it


class SettableFuture(Protocol):
    """Accepts a result as a future does."""

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def done(self) -> bool:
        """Whether it has a result or was cancelled, perhaps while one was loaded."""
        ...


def fill_future(future: SettableFuture, frame: Frame) -> None:
    """Fills a future with the value or the error in a frame.

    The future is done afterwards, whatever the loading does.
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
    future: SettableFuture, payload: Payload, borrowed: Collection[bytes] | None = None
) -> None:
    """Fills a future with the value in a payload, or with its loading error.

    A ref keeps the payload of a mutable value.
    """
    try:
        if type(payload) is SharedPayload:
            payload.hold()  # first, so that the loaded value shares that view
        value = decode(payload)
        kept_value = None
        if type(payload) is SharedPayload or type(value) not in IMMUTABLE:
            kept_value = kept_with(value, payload, borrowed)
    except BaseException as error:  # noqa: BLE001  # loading runs the user's code
        fail_to_load(future, error)
    else:
        if not future.done():
            if kept_value is not None and isinstance(future, ObjectRef):
                cast("ObjectRef[Any]", future).set_result(value, kept_value)
            else:
                future.set_result(value)


def kept_with(
    value: object, payload: Payload, borrowed: Collection[bytes] | None = None
) -> KeptValue | None:
    """Returns the kept value of a ref, for the value of a payload.

    None for an immutable value, unless it lies in shared memory: it is sent on from
    there without a copy.
    """
    own = b""
    if type(payload) is SharedPayload:
        own = payload.block  # the payload itself holds its block
    elif type(value) in IMMUTABLE:
        return None
    holds: list[HandlePin] | None = None
    counted = [each for each in borrowed if each != own] if borrowed else None
    if counted:
        engine = current_engine()
        holds = [HandlePin(engine, ActorId(each), NO_METHODS) for each in counted]
    return payload, borrowed, holds, False


def load_kept(kept: KeptValue) -> Any:
    """Makes the value of a ref again, as it was produced."""
    payload: Any = kept[0]
    return payload() if callable(payload) else decode(payload)


def fail_to_load(future: SettableFuture, error: BaseException) -> None:
    """Fills a future with the error that its value cannot be loaded here.

    Raises:
        KeyboardInterrupt: It ended the loading. On an event loop it is raised a turn
            later: the result of another call may follow this one.
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
) -> tuple[type, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of ``rebuild_exception`` for an exception.

    Builtin exceptions have their own rule: the arguments are not always ``args``
    (``OSError.filename``), nor is all other state in ``__dict__``
    (``ImportError.name``).
    """
    args = cast("tuple[Any, ...]", _args.__get__(error))
    arguments, state = args, dict(error.__dict__)
    for name in _slots_of(type(error)):
        with contextlib.suppress(AttributeError):
            state[name] = getattr(error, name)
    maker = next(base for base in type(error).__mro__ if "__reduce__" in vars(base))
    if maker.__module__ == "builtins":
        # Only builtin methods: one of the user would run the user's constructor.
        _, arguments, *rest = cast("tuple[Any, ...]", error.__reduce__())
        if rest and isinstance(rest[0], dict):
            state |= rest[0]
    return type(error), arguments, args, state


def _set(error: BaseException, name: str, value: object) -> None:
    """Sets an attribute, even if the class refuses that or makes it read-only."""
    try:
        object.__setattr__(error, name, value)
    except AttributeError:
        error.__dict__[name] = value


def _slots_of(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        for name in copyreg._slotnames(base)  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # as in pickle
    ]


def rebuild_exception(
    cls: type[BaseException],
    arguments: tuple[Any, ...],
    args: tuple[Any, ...],
    state: dict[str, Any],
) -> BaseException:
    """Makes an exception from its class, its ``args`` and its state.

    No constructor of the user is run: ``arguments`` are for that of the closest builtin
    base.
    """
    try:
        error = cls.__new__(cls, *arguments)
    except TypeError:  # that of MemoryError accepts no other class, and has no state
        error = BaseException.__new__(cls, *arguments)
    _builtin_constructor(cls)(error, *arguments)
    _args.__set__(error, args)
    for name, value in state.items():
        _set(error, name, value)
    return error


def exception_of(
    kind: int, summary: str, text: str, where: str, payload: Payload
) -> BaseException:
    """Makes the exception of a FAILURE frame.

    The summary of a cancelled call is the reason, if known. The payload is empty if
    there was no exception, or if it could not be pickled.
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
    """Loads the exception in a payload; None without one, or if it cannot be loaded."""
    try:
        return decode(payload) if payload else None
    except Exception:  # noqa: BLE001  # loading runs the user's code, and its module may be missing here
        return None


def _may_be_raised(error: BaseException | None) -> TypeGuard[Exception]:
    """Whether an exception that is raised in the awaiting task has no other effect.

    Others would end or cancel the waiting task, or its loop, and a future refuses
    StopIteration.
    """
    return isinstance(error, Exception) and not isinstance(error, _CONTROL_FLOW)


def encode_exception(
    error: BaseException, encode: Callable[[object], Payload]
) -> Payload:
    """Encodes an exception so that it can be loaded; empty if that is impossible.

    Exceptions with their own constructor can often be pickled but not loaded, because
    Python calls it with ``args``. Those are sent in parts and made again without it.
    """
    chunk = take_chunk(error)
    if chunk is not None:
        with contextlib.suppress(Exception):  # the user's classes may forbid anything
            return encode(_SentChunk(chunk))
        return encode(_SentChunk(chunk.without_unsendable("", encode)))
    for make in (
        lambda: error,
        lambda: Reduced(rebuild_exception, *exception_parts(error)),
    ):
        try:
            payload = encode(make())
            if type(decode(payload)) is type(error):
                return payload
        except Exception:  # noqa: BLE001  # the user's class: there is another way
            continue
    return b""


_CHUNK = "_actorlib_chunk"
"""The attribute of the first error of a chunk that contains the chunk."""


class PartialChunk(NamedTuple):
    """The outcome of a chunk of calls some of which have failed.

    Attributes:
        seconds: How long the calls took.
        values: Their values, with None in the place of each error. If the chunk ended
            at its first error, only the values before that.
        failures: The errors, each with the index of its call.
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
        """Replaces each value that cannot be sent by an error that explains it."""
        values, failures = list(self.values), list(self.failures)
        for place, value in enumerate(values):
            error = sending_error(value, encode)
            if error is not None:
                what = f"the result of {where}" if where else "a result"
                failures.append((place, unsendable_error(what, value, error, encode)))
                values[place] = None
        return PartialChunk(self.seconds, values, failures)


def take_chunk(error: BaseException) -> PartialChunk | None:
    chunk: PartialChunk | None = error.__dict__.pop(_CHUNK, None)
    return chunk


def chunk_of(error: BaseException) -> PartialChunk | None:
    """Returns the chunk of an error, which keeps it; None if it was taken."""
    chunk: PartialChunk | None = error.__dict__.get(_CHUNK)
    return chunk


class _SentChunk:
    """Pickles a partial chunk, with a separate payload for each error.

    So an error that cannot be loaded does not affect the others. They are pickled at
    the same time as the whole, so their references are counted with it.
    """

    def __init__(self, chunk: PartialChunk) -> None:
        self._chunk = chunk

    def __reduce__(self) -> tuple[object, ...]:
        seconds, values, failures = self._chunk
        packed = [
            (place, one_line(error), traceback_of(error), encode_exception(error, dump))
            for place, error in failures
        ]
        return _LoadedChunk, (seconds, values, packed)


class _LoadedChunk(NamedTuple):
    """A partial chunk after loading: each error with its summary and traceback."""

    seconds: float
    values: list[Any]
    failures: list[tuple[int, str, str, Payload]]

    def error(self, where: str) -> BaseException:
        """Returns the first error, which carries the others; see PartialChunk."""
        failures: list[tuple[int, BaseException]] = []
        for place, summary, text, payload in self.failures:
            loaded = _load(payload)
            cause = loaded if isinstance(loaded, BaseException) else None
            failures.append((place, task_error(cause, summary, text, where)))
        return PartialChunk(self.seconds, self.values, failures).error()


def dump_exception(error: BaseException) -> bytes:
    """Pickles an exception, or its traceback if that is impossible.

    For results of the runtime itself: references in it are not counted. See
    ``encode_exception``.
    """
    payload = encode_exception(error, dump)
    if payload:
        return cast("bytes", payload)
    text = "".join(traceback.format_exception(error))
    return dump(task_error(None, one_line(error), text, ""))


def traceback_of(error: BaseException) -> str:
    """Formats the traceback of a user's error, without our frames above it."""
    if type(error) in (TypeError, ValueError) and str(error).endswith(_READ_ONLY):
        error.add_note(_COPY_FIRST)
    trace = error.__traceback__
    if shows_own_frames():
        return "".join(traceback.format_exception(error))
    # The outermost frame is always ours, whatever the package's path is.
    first = inner = trace.tb_next if trace is not None else None
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(OWN_FILES):
        inner = inner.tb_next
    lines = traceback.format_exception(type(error), error, inner or first or trace)
    return "".join(lines)


def with_note(error: BaseException, note: str) -> BaseException:
    """Copies an exception and adds a note; returns itself if it cannot be copied.

    For an exception that other waiters raise too, to whom the note does not apply.
    """
    try:
        cls, arguments, args, state = exception_parts(error)
        state["__notes__"] = [*state.get("__notes__", ()), note]
        copy = rebuild_exception(cls, arguments, args, state)
    except Exception:  # noqa: BLE001  # the user's class: it may forbid anything
        return error
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def clear_locals(error: BaseException) -> None:
    """Clears the variables of the frames in an error's traceback; its lines stay.

    A holder of such an error would otherwise keep the values of the code that raised
    it.
    """
    following: BaseException | None = error
    ids: set[int] = set()
    while following is not None and id(following) not in ids:
        ids.add(id(following))
        traceback.clear_frames(following.__traceback__)
        following = following.__cause__ or following.__context__


def task_error(
    cause: BaseException | None, summary: str, text: str, where: str
) -> TaskError:
    """Makes a TaskError that is an instance of the cause's class too, if possible.

    Without a cause, the summary and the text of its traceback replace it.
    """
    while isinstance(cause, TaskError) and cause.cause is not None:
        cause = cause.cause  # it crossed another process before; the text has both
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
    cause = None if parts is None else rebuild_exception(*parts)
    return task_error(cause, summary, text, where)


def _dual_error(cause: BaseException) -> TaskError | None:
    """Makes the same exception an instance of TaskError too, if possible."""
    if isinstance(cause, UnserializableException):  # no code raised it
        return None
    try:
        cls = _dual_class(type(cause))  # type: ignore[arg-type]  # classes are hashable
        error = rebuild_exception(cls, *exception_parts(cause)[1:])
    except Exception:  # noqa: BLE001  # the user's class: it may forbid anything
        return None
    return error if isinstance(error, TaskError) else None


@functools.cache
def _dual_class(cls: type[BaseException]) -> type[TaskError]:
    if issubclass(cls, _CONTROL_FLOW):
        raise TypeError(f"{cls.__name__} has another meaning for the awaiting task")

    def reduce(self: TaskError) -> tuple[object, ...]:
        summary = f"{cls.__name__}: {self}"
        parts = None if self.cause is None else exception_parts(self.cause)
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
    """Returns the constructor of the closest builtin base, which sets the state in C.

    ``OSError.errno`` or ``UnicodeDecodeError.start`` are not in a dict.
    """
    for base in cls.__mro__:
        if base.__module__ == "builtins":
            return inspect.getattr_static(base, "__init__")
    raise AssertionError("every exception has a builtin base")


_MAX_DEPTH = 5
"""The depth to which an error searches a value."""
_MAX_TRIES = 300
"""The members that it tries: a value of millions is not searched to its end."""
_MAX_NAMED = 3
"""The maximum number of members that an error names."""


def blame_argument(
    where: object,
    arguments: Iterable[tuple[int | str, object]],
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> str:
    """Returns a message that names the argument that cannot be sent, and the reason.

    ``arguments`` are pairs of a position or a name, and a value. ``error`` is the error
    of the attempt to send all of them.
    """
    for place, value in arguments:
        own = sending_error(value, attempt)
        if own is not None:
            return str(
                unsendable_error(argument_label(place, where), value, own, attempt)
            )
    return f"the arguments of {where} cannot be sent to another process: {error}"


def argument_label(place: int | str, where: object) -> str:
    named = f"{place}=" if isinstance(place, str) else str(place + 1)
    return f"argument {named} of {where}"


def unsendable_error(
    what: str,
    value: object,
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> SerializationError:
    """Makes the error that names a value that cannot be sent, and the reason.

    ``what`` is the label of the value, for example ``"argument 1 of Model.ping"``.
    """
    return SerializationError(
        f"{what}, a {type(value).__qualname__}, cannot be sent to another process: "
        f"{unsendable_reason(value, error, attempt)}"
    )


@public("actorlib.types")
class Failure(NamedTuple):
    """An object that cannot be sent, although all of its members can be.

    Attributes:
        obj: The object.
        name: Its name in the value, as ``"self.lock"`` or ``"[3]"``.
        parent: The object that contains it; itself if it is the whole value.
    """

    obj: object
    name: str
    parent: object

    def __hash__(self) -> int:
        return hash((id(self.obj), self.name, id(self.parent)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failure) and hash(self) == hash(other)

    def __repr__(self) -> str:
        parent = type(self.parent).__qualname__
        kind = type(self.obj).__qualname__
        return f"Failure({self.name!r}, a {kind}, in a {parent})"


def sending_error(
    value: object, attempt: Callable[[object], object] = encode
) -> Exception | None:
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
    """Lists the innermost objects in a value that cannot be sent; itself if none are.

    Each of the ``tries`` pickles one member.
    """
    budget = itertools.repeat(None, tries)
    return list(_culprits(Failure(value, name, value), depth, [], budget, attempt))


def _culprits(
    failure: Failure,
    depth: int,
    above: Sequence[object],
    budget: Iterator[None],
    attempt: Callable[[object], object],
) -> Iterator[Failure]:
    inner = [
        Failure(member, f"{failure.name}{step}", failure.obj)
        for (step, member), _ in zip(_members(failure.obj), budget, strict=False)
        if not any(member is outer for outer in (*above, failure.obj))
        and sending_error(member, attempt) is not None
    ]
    if not inner or not depth:
        yield failure
        return
    for each in inner:
        yield from _culprits(each, depth - 1, [*above, failure.obj], budget, attempt)


def unsendable_reason(
    value: object,
    error: Exception,
    attempt: Callable[[object], object] = encode,
) -> str:
    """Explains why a value cannot be sent: the members that prevent it, and why."""
    label = str(getattr(value, "__qualname__", type(value).__qualname__))
    culprits = failures_in(value, label, _MAX_DEPTH, _MAX_TRIES, attempt)
    first = culprits[0].obj
    if first is value:
        return str(error)
    names = [
        f"{each.name}, a {type(each.obj).__qualname__}"
        for each in culprits[:_MAX_NAMED]
    ]
    others = len(culprits) - _MAX_NAMED
    more = f" and {others} more" if others > 0 else ""
    return f"{'; '.join(names)}{more}: {sending_error(first, attempt) or error}"


def _members(value: object) -> Iterator[tuple[str, object]]:
    """Yields the members of a value, each with the step to it."""
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
    """Whether pickle sends the attributes of instances, by its default rule.

    Other classes send something else than their attributes (a ref has its whole engine
    there), so their attributes are not the cause.
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
        if not name.startswith(
            "__"
        ):  # attributes that Python adds to a class are not sent
            is_wrapped = isinstance(member, staticmethod | classmethod)
            yield f".{name}", cast("Any", member).__func__ if is_wrapped else member
