"""What a worker's ``replies`` make of an exception, and ``answers`` of that."""
# ruff: noqa: N818  # exceptions that are named after what is odd about them

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import traceback
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from helpers.engine import FakeEngine
from helpers.frames import written

from actorlib._futures.object_ref import immediate_loop
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.errors import exception_of, fill_future, task_error
from actorlib._wire.messages import CANCELLED, DIED, FAILURE, RAISED, RESULT
from actorlib._wire.serialization import decode, dump
from actorlib._wire.serialization import encode as encode_value
from actorlib._worker.executors import invoke
from actorlib.exceptions import (
    ActorDiedError,
    Exit,
    RemoteTraceback,
    SerializationError,
    TaskCancelledError,
    TaskError,
    UnserializableException,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.messages import Frame


class Custom(Exception):
    """Its constructor takes what is not in ``args``."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


class Silent(Exception):
    """It never tells its base what it was made with."""

    def __init__(self, code: int, detail: str) -> None:
        self.code = code
        self.detail = detail


class Worded(ValueError):
    def __str__(self) -> str:
        return f"worded {self.args[0]}"


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class OwnReduce(Exception):
    def __init__(self, code: int, detail: str) -> None:
        super().__init__("own")
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnReduce, (self.code, self.detail)


@dataclass
class Data(Exception):
    code: int
    detail: str = ""


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Sealed(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("no subclasses")


class SealedOtherwise(Exception):
    def __init_subclass__(cls) -> None:
        raise LookupError("no subclasses")


class Immutable(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("no attributes")


class ReadOnly(Exception):
    """It says itself what it was made with, and where."""

    def __init__(self, code: int) -> None:
        super().__init__("made", code)
        self.code = code

    @property
    def args(self) -> tuple[Any, ...]:  # type: ignore[override]
        return ("shown", self.code)

    @property
    def cause(self) -> str:
        return "its own"

    @property
    def where(self) -> str:
        return "its own"


class Hidden(Exception):
    """It keeps what may not be set under a name of a property."""

    @property
    def detail(self) -> object:
        return self.__dict__["detail"]


class DeepError(OSError):
    pass


class Unpicklable(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.generator = (x for x in ())


class Wordless(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


def no_file() -> Exception:
    try:
        open("/not/there")  # noqa: SIM115, PTH123  # it fails
    except OSError as error:
        return error
    raise AssertionError


def undecodable() -> Exception:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


def frame_of(error: BaseException) -> Frame:
    """The frame that a worker sends when a method raised, out of the pipe."""
    try:
        raise error
    except type(error) as raised:
        sent = invoke.failure(FakeEngine(immediate_loop()), 1, raised, "Model.ping")
    (frame,) = FrameDecoder().feed(written(sent))
    return frame


def arrived(error: BaseException) -> BaseException:
    """The exception as it is raised at the caller."""
    _, _, kind, summary, text, where, _, payload = frame_of(error)
    return exception_of(kind, summary, text, where, payload)


# Both classes at once.


ERRORS: list[tuple[Callable[[], Exception], list[str]]] = [
    (lambda: ValueError("a", 1), []),
    (ValueError, []),
    (lambda: KeyError("lost"), []),
    (lambda: KeyError(("a", 1)), []),
    (lambda: OSError(2, "no such file"), ["errno", "strerror", "filename"]),
    (no_file, ["errno", "strerror", "filename"]),
    (lambda: OSError(18, "cross", "a", None, "b"), ["errno", "filename", "filename2"]),
    (lambda: DeepError(5, "deep", "file"), ["errno", "strerror", "filename"]),
    (lambda: OSError("text alone"), ["errno"]),
    (undecodable, ["encoding", "object", "start", "end", "reason"]),
    (lambda: AttributeError("no"), []),
    (lambda: ImportError("no", name="x", path="y"), ["name", "path"]),
    (lambda: ModuleNotFoundError("no", name="x"), ["name"]),
    (
        lambda: SyntaxError("bad", ("file", 1, 2, "text")),
        ["msg", "filename", "lineno", "offset", "text"],
    ),
    (lambda: ZeroDivisionError("division by zero"), []),
    (lambda: TimeoutError("late"), ["errno"]),
    (lambda: ConnectionResetError(104, "reset"), ["errno", "strerror"]),
    (lambda: StopAsyncIteration("over"), []),
    (AssertionError, []),
    (lambda: ExceptionGroup("both", [ValueError(1), KeyError(2)]), ["message"]),
    (lambda: Custom(5, detail="d"), ["code", "detail"]),
    (lambda: Silent(5, "d"), ["code", "detail"]),
    (lambda: Worded("text"), []),
    (lambda: Slotted(5), ["code"]),
    (lambda: OwnReduce(5, "d"), ["code", "detail"]),
    (lambda: Data(5, "d"), ["code", "detail"]),
    (lambda: Data(code=5, detail="d"), ["code", "detail"]),
    (lambda: Frozen(5), ["code"]),
    (lambda: SerializationError("no"), []),
    (lambda: TaskCancelledError("no"), []),
    (
        lambda: ActorDiedError("no", exit=Exit(cause="asked"), actor_id="ab"),
        ["exit", "actor_id"],
    ),
]
each_error = pytest.mark.parametrize(
    ("make", "attributes"), ERRORS, ids=[type(make()).__name__ for make, _ in ERRORS]
)


def assert_same(
    error: BaseException, original: BaseException, names: list[str]
) -> None:
    """An error is as the original, also in the attributes of these names."""
    assert isinstance(error, type(original))
    assert str(error) == str(original)
    assert repr(error.args) == repr(original.args)
    assert {name: getattr(error, name) for name in names} == {
        name: getattr(original, name) for name in names
    }


@each_error
def test_error_when_it_arrives_then_of_both_classes_and_as_the_original_is(
    make: Callable[[], Exception], attributes: list[str]
) -> None:
    error = arrived(make())

    assert isinstance(error, TaskError)
    assert_same(error, make(), attributes)
    assert type(error).__name__ == f"TaskError({type(make()).__name__})"
    assert type(arrived(make())) is type(error)
    assert type(error.cause) is type(make())
    assert_same(error.cause, make(), attributes)
    assert error.where == "Model.ping"


@each_error
@pytest.mark.parametrize("way", ["raised again elsewhere", "pickled by a user"])
def test_error_when_it_travels_on_then_nothing_is_lost(
    make: Callable[[], Exception], attributes: list[str], way: str
) -> None:
    error = arrived(make())

    if way == "raised again elsewhere":
        further = arrived(error)
    else:
        further = pickle.loads(cloudpickle.dumps(error))

    assert isinstance(further, TaskError)
    assert_same(further, make(), attributes)
    assert further.where == "Model.ping"


def test_error_when_its_class_is_local_then_of_both_classes_and_with_its_notes() -> (
    None
):
    class Local(Exception):
        pass

    original = Local("text")
    original.add_note("a note")

    error = arrived(original)

    assert isinstance(error, Local)
    assert isinstance(error, TaskError)
    assert error.__notes__ == ["a note"]


def test_error_when_it_is_a_group_then_except_star_takes_it_apart() -> None:
    seen: list[type] = []

    try:
        raise arrived(ExceptionGroup("both", [ValueError(1), KeyError(2)]))
    except* ValueError as group:
        seen += map(type, group.exceptions)
    except* KeyError as group:
        seen += map(type, group.exceptions)

    assert seen == [ValueError, KeyError]


def test_error_when_each_has_a_class_of_its_own_then_few_classes_are_kept() -> None:
    for _ in range(2500):
        task_error(type("Local", (Exception,), {})("text"), "", "", "")
    gc.collect()

    kept = [c for c in TaskError.__subclasses__() if c.__name__ == "TaskError(Local)"]
    assert len(kept) < 1500


def test_error_when_its_own_attributes_are_set_at_the_caller_then_they_are() -> None:
    error = arrived(Custom(5, detail="d"))
    assert isinstance(error, Custom)

    error.code = 6

    assert error.code == 6


# Where it happened.


def test_traceback_when_shown_then_that_of_each_actor_is_in_it() -> None:
    error = arrived(ValueError("text"))
    shown = "".join(traceback.format_exception(error))
    again = "".join(traceback.format_exception(arrived(error)))

    assert "ValueError: text" in shown
    assert isinstance(error.__cause__, RemoteTraceback)
    assert shown.count("In Model.ping:") == 1
    assert again.count("In Model.ping:") >= 2


def test_traceback_when_raised_from_another_then_both_are_in_it() -> None:
    original = ValueError("outer")
    original.__cause__ = KeyError("inner")

    error = arrived(original)

    assert isinstance(error, TaskError)
    assert "KeyError: 'inner'" in error.traceback_str
    assert error.traceback_str.index("inner") < error.traceback_str.index("outer")


# Where it cannot be both.


@pytest.mark.parametrize("cls", [Sealed, SealedOtherwise, StopIteration])
def test_error_when_its_class_allows_no_second_then_a_plain_task_error_with_the_cause(
    cls: type[Exception],
) -> None:
    error = arrived(cls("text"))

    assert type(error) is TaskError
    assert type(error.cause) is cls
    assert error.cause.args == ("text",)


@pytest.mark.parametrize("error", [Immutable("text"), Wordless("text")], ids=repr)
def test_error_when_it_has_no_attributes_or_no_words_then_it_arrives_all_the_same(
    error: Exception,
) -> None:
    there = arrived(error)

    assert isinstance(there, TaskError)
    if not isinstance(error, Wordless):
        assert "text" in str(there)
    assert there.where == "Model.ping"


def test_error_when_its_args_are_a_property_then_it_keeps_its_class() -> None:
    error = arrived(ReadOnly(7))

    assert isinstance(error, ReadOnly)
    assert isinstance(error, TaskError)
    assert error.code == 7
    assert error.args == ("shown", 7)
    assert isinstance(error.cause, ReadOnly)
    assert BaseException.__str__(error) == "('made', 7)"


def test_error_when_it_holds_what_a_property_only_shows_then_it_keeps_that() -> None:
    made = Hidden("text")
    made.__dict__["detail"] = 7
    error = arrived(made)

    assert isinstance(error, Hidden)
    assert error.detail == 7


def test_error_when_it_cannot_be_pickled_then_its_cause_says_what_it_was() -> None:
    first = arrived(Unpicklable("no way out"))
    second = arrived(first)

    assert isinstance(first, TaskError)
    assert "Unpicklable: no way out" in first.traceback_str
    for said in ("Unpicklable: no way out", "Traceback", "in frame_of"):
        assert said in str(first.cause)
    assert type(second) is TaskError
    for error in (first, second):
        assert isinstance(error.cause, UnserializableException)
        assert "Unpicklable: no way out" in error.cause.summary
        assert "no way out" in str(error)


def test_error_when_its_module_is_not_here_then_a_task_error_says_what_it_was() -> None:
    module = types.ModuleType("not_to_be_found")
    cls = type("Lost", (Exception,), {"__module__": module.__name__})
    module.Lost = cls  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        _, _, kind, summary, text, where, _, payload = frame_of(cls("text"))
    finally:
        del sys.modules[module.__name__]

    error = exception_of(kind, summary, text, where, payload)

    assert type(error) is TaskError
    assert isinstance(error.cause, UnserializableException)
    assert error.cause.summary == "not_to_be_found.Lost: text"
    assert error.cause.traceback_str == text
    assert str(error) == "Model.ping raised not_to_be_found.Lost: text"


@pytest.mark.parametrize(
    "base", [KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
def test_error_when_it_means_something_to_the_caller_then_it_arrives_as_its_cause(
    base: type[BaseException],
) -> None:
    error = arrived(base("text"))

    assert type(error) is TaskError
    assert isinstance(error.cause, base)


# The other kinds of failure.


DEATH = ActorDiedError("dead", exit=Exit(cause="asked"), actor_id="ab")


@pytest.mark.parametrize(
    ("kind", "payload", "cls", "attributes"),
    [
        (CANCELLED, b"", TaskCancelledError, {}),
        (DIED, dump(DEATH), ActorDiedError, {"exit": DEATH.exit, "actor_id": "ab"}),
        (DIED, b"\x80\x05garbage", TaskError, {"where": "Model.ping"}),
    ],
    ids=["cancelled", "died", "died, which cannot be loaded"],
)
def test_error_of_when_it_is_no_error_of_the_method_then_what_happened(
    kind: int, payload: bytes, cls: type[Exception], attributes: dict[str, object]
) -> None:
    error = exception_of(kind, "dead", "", "Model.ping", payload)

    assert type(error) is cls
    assert {name: getattr(error, name) for name in attributes} == attributes


# Into a future.


@pytest.fixture
async def reply() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@pytest.mark.usefixtures("on_both_loops")
async def test_fill_when_the_value_cannot_be_loaded_then_serialization_error(
    reply: asyncio.Future[Any],
) -> None:
    fill_future(reply, (RESULT, 1, None, b"\x80\x05garbage"))

    with pytest.raises(SerializationError, match="cannot be loaded here") as caught:
        await reply
    assert caught.value.__cause__ is not None


@pytest.mark.usefixtures("on_both_loops")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("text"),
        StopIteration("text"),
        Sealed("text"),
        Immutable("text"),
        Wordless("text"),
    ],
    ids=repr,
)
async def test_fill_when_the_method_raised_then_so_does_the_future(
    reply: asyncio.Future[Any], error: Exception
) -> None:
    fill_future(reply, frame_of(error))

    with pytest.raises(TaskError):
        await reply


@pytest.mark.usefixtures("on_both_loops")
async def test_fill_when_there_is_no_payload_then_the_text(
    reply: asyncio.Future[Any],
) -> None:
    fill_future(
        reply, (FAILURE, 1, RAISED, "E: text", "Trace", "Model.ping", None, b"")
    )

    with pytest.raises(TaskError, match=r"^Model\.ping raised E: text$") as caught:
        await reply
    assert type(caught.value) is TaskError
    assert caught.value.traceback_str == "Trace"


class Interrupting:
    """What is loading when somebody presses Ctrl-C."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _interrupt, ()


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_fill_when_somebody_interrupts_it_then_answered_and_the_loop_is_told() -> None:
    loop = asyncio.new_event_loop()
    reply, behind = loop.create_future(), loop.create_future()
    answers = [
        (reply, (RESULT, 1, None, dump(Interrupting()))),
        (behind, (RESULT, 2, None, encode_value(2))),
    ]
    loop.call_soon(lambda: [fill_future(*answer) for answer in answers])

    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.close()

    assert isinstance(reply.exception(), SerializationError)
    assert behind.result() == 2


def test_fill_when_no_loop_runs_then_answered_and_interrupted() -> None:
    loop = asyncio.new_event_loop()
    reply = loop.create_future()

    with pytest.raises(KeyboardInterrupt):
        fill_future(reply, (RESULT, 1, None, dump(Interrupting())))
    loop.close()

    assert isinstance(reply.exception(), SerializationError)


async def test_load_when_a_thread_is_interrupted_then_it_was_the_value_itself() -> None:
    with pytest.raises(SerializationError, match="KeyboardInterrupt"):
        await asyncio.to_thread(decode, dump(Interrupting()))


async def test_fill_when_loading_answers_it_otherwise_then_it_stays_so(
    reply: asyncio.Future[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.meanwhile", reply.cancel)
    fill_future(reply, (RESULT, 1, None, dump(Reentrant())))

    assert reply.cancelled()


class Reentrant:
    """What cancels the wait for it while it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _call, (__name__,)


meanwhile: Callable[[], object] = int


def _call(module: str) -> object:
    return sys.modules[module].meanwhile()
