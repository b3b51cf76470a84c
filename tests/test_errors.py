"""Exceptions on their way to whoever made the call, and what cannot travel."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import pickle
import subprocess
import sys
import threading
import traceback
import types
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from helpers.actors import AsyncCaller, Caller, Echo, Keeper, living
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    SerializationError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from actorlib import Runtime

pytestmark = [*in_memory(), USES_RUNTIME]


def call(function: Callable[..., object], *args: object) -> object:
    return function(*args)


CALLERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: Caller.remote().run.remote,
    "async": lambda: AsyncCaller.remote().run.remote,
    "function": lambda: actorlib.remote(call).remote,
}


@pytest.fixture(params=CALLERS)
def run(runtime: Runtime, request: pytest.FixtureRequest) -> Any:
    """Runs a function in a method of an actor, or in a remote function."""
    del runtime
    return CALLERS[request.param]()


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def raising_new(make: Callable[..., BaseException], *args: Any) -> Callable[[], None]:
    """As ``raising``; the error is made there."""

    def function() -> None:
        raise make(*args)

    return function


def raising_in(make: Callable[..., BaseException], part: Any) -> Callable[[], None]:
    """As ``raising_new``, with a part that is made there."""

    def function() -> None:
        raise make(part())

    return function


# Exceptions with something of their own.


class CodedError(Exception):
    """Its constructor takes something else than its args."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


def local_coded() -> None:
    class LocalCodedError(Exception):
        def __init__(self, code: int, *, reason: str) -> None:
            super().__init__(f"{code}: {reason}")
            self.code = code
            self.reason = reason

        def __str__(self) -> str:
            return f"<{self.code}>"

    raise LocalCodedError(4, reason="how")


def without_args() -> None:
    class NoArgsError(Exception):
        def __init__(self, a: int, b: int) -> None:
            self.sum = a + b

        def __str__(self) -> str:
            return f"sum {self.sum}"

    raise NoArgsError(1, b=2)


def derived() -> None:
    class BaseProblemError(LookupError):
        pass

    class ProblemError(BaseProblemError):
        pass

    raise ProblemError("which", 2)


def reduced() -> None:
    class ReducedError(Exception):
        def __init__(self, left: int, right: int) -> None:
            super().__init__("reduced")
            self.left, self.right = left, right

        def __reduce__(self) -> Any:
            return type(self), (self.left, self.right)

    raise ReducedError(1, 2)


def noted() -> None:
    error = ValueError("x")
    error.add_note("a hint for the reader")
    raise error


def no_module() -> None:
    import nowhere_to_be_found  # noqa: F401, PLC0415


def recurse() -> None:
    recurse()


async def fail_in_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fail())


async def _fail() -> None:
    raise ValueError("inside")


async def time_out() -> None:
    async with asyncio.timeout(0.001):
        await asyncio.Event().wait()


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class EmptyError(Exception):
    """A list of faults that has none, so it is false."""

    def __len__(self) -> int:
        return 0


class ForwardingError(Exception):
    """It has whatever attribute is asked for, or says so in its own way."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Speechless:
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise MuteError


class FinalError(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("final")


class AbsolutelyFinalError(Exception):
    def __init_subclass__(cls) -> None:
        raise RuntimeError("final")


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class PickyError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("args", "code"):
            raise AttributeError(name)
        super().__setattr__(name, value)


class Case(NamedTuple):
    """What a call raises, and what its caller gets.

    Attributes:
        raises: The function that is called.
        kind: The class of the error, besides TaskError.
        attributes: Attributes of the error.
        text: Its text, if that is not the text of what was raised.
    """

    raises: Callable[[], object]
    kind: type[BaseException]
    attributes: dict[str, object]
    text: str | None = None


CASES = {
    **{
        repr(error): Case(raising(error), type(error), {"args": error.args}, str(error))
        for error in (
            ValueError(),
            ValueError("a", 2),
            KeyError("key"),
            ZeroDivisionError("division by zero"),
            TimeoutError("late"),
            StopAsyncIteration("over"),
            MemoryError("none left"),
            RuntimeError(("a", "tuple")),
            ValueError("half of a pair: \ud800"),
            UserWarning("\udcff"),
        )
    },
    "errno": Case(raising(OSError(32, "Broken pipe")), BrokenPipeError, {"errno": 32}),
    "file": Case(
        lambda: Path("/nowhere/at/all").read_bytes(),
        FileNotFoundError,
        {"errno": 2, "filename": "/nowhere/at/all"},
    ),
    "unicode": Case(
        b"\xff".decode,
        UnicodeDecodeError,
        {"object": b"\xff", "start": 0, "encoding": "utf-8"},
    ),
    "json": Case(lambda: json.loads("{"), json.JSONDecodeError, {"pos": 1, "doc": "{"}),
    "syntax": Case(
        lambda: compile("a b", "<there>", "exec"),
        SyntaxError,
        {"filename": "<there>", "lineno": 1},
    ),
    "process": Case(
        raising(subprocess.CalledProcessError(3, ["cmd"], output=b"out")),
        subprocess.CalledProcessError,
        {"returncode": 3, "output": b"out"},
    ),
    "module": Case(no_module, ModuleNotFoundError, {"name": "nowhere_to_be_found"}),
    "notes": Case(noted, ValueError, {"__notes__": ["a hint for the reader"]}),
    "derived": Case(derived, LookupError, {"args": ("which", 2)}),
    "keywords": Case(
        raising_new(partial(CodedError, reason="why"), 3),
        CodedError,
        {"code": 3, "reason": "why"},
        "3: why",
    ),
    "local": Case(local_coded, Exception, {"code": 4, "reason": "how"}, "<4>"),
    "no args": Case(without_args, Exception, {"sum": 3}, "sum 3"),
    "reduced": Case(reduced, Exception, {"left": 1, "right": 2}, "reduced"),
    "large": Case(
        raising(ValueError("x" * 1_000_000, bytes(1_000_000))),
        ValueError,
        {"args": ("x" * 1_000_000, bytes(1_000_000))},
    ),
    "recursion": Case(recurse, RecursionError, {}),
}


async def test_exception_when_raised_then_the_caller_gets_its_class_and_contents(
    run: Any,
) -> None:
    for name, case in CASES.items():
        error = await raised(run(case.raises))
        for kind in (case.kind, TaskError, ActorlibError):
            assert isinstance(error, kind), name
        assert type(error).__name__ == f"TaskError({type(error.cause).__name__})"
        assert str(error) == (str(error.cause) if case.text is None else case.text)
        for source in (error, error.cause):
            for attribute, value in case.attributes.items():
                assert getattr(source, attribute) == value, name
        str(error.__cause__).encode()
        assert await run(len, "ab") == 2, name
    assert "a hint for the reader" in (await raised(run(noted))).traceback_str


async def test_exception_when_it_cannot_be_derived_from_then_it_is_the_cause(
    run: Any,
) -> None:
    for kind in (FinalError, AbsolutelyFinalError, FrozenError, PickyError):
        error = await raised(run(raising_new(kind, 3)))
        assert isinstance(error, TaskError)
        assert type(error.cause) is kind
        assert error.cause.args == (3,)
        assert f"{kind.__name__}: 3" in error.traceback_str
        assert await run(len, "ab") == 2


async def test_stop_iteration_when_raised_then_it_is_the_cause_of_a_task_error() -> (
    None
):
    error = await raised(Caller.remote().run.remote(next, iter(())))

    assert type(error) is TaskError
    assert type(error.cause) is StopIteration


async def test_exception_group_when_raised_then_it_can_be_split(run: Any) -> None:
    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    error = await raised(run(raising(group)))

    assert isinstance(error, ExceptionGroup)
    seen, rest = error.split(ValueError)
    assert [str(one) for one in seen.exceptions] == ["a"]
    assert [type(one) for one in rest.exceptions] == [KeyError]
    handled = []
    try:
        raise error
    except* ValueError:
        handled.append("value")
    except* KeyError:
        handled.append("key")
    assert handled == ["value", "key"]


async def test_coroutine_when_it_fails_by_asyncio_then_the_error_is_the_same() -> None:
    caller = AsyncCaller.remote()
    group = await raised(caller.run.remote(fail_in_task_group))
    late = await raised(caller.run.remote(time_out))

    assert isinstance(group, ExceptionGroup)
    assert isinstance(group.exceptions[0], ValueError)
    assert isinstance(late, TimeoutError)
    assert isinstance(late, TaskError)


async def test_exception_when_it_cannot_be_printed_then_it_arrives(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Mute:
        def __init__(self) -> None:
            raise MuteError

    assert isinstance(await raised(run(raising(MuteError()))), MuteError)
    error = await raised(actorlib.remote(Mute).remote())
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "failed to start"
    assert "bug in actorlib" not in caplog.text


async def test_exception_when_its_parts_fail_then_it_arrives_as_far_as_it_can(
    run: Any,
) -> None:
    class Unready:
        def __init__(self) -> None:
            raise ValueError(Speechless())

    for make in (ForwardingError, EmptyError):
        assert isinstance(await raised(run(raising_new(make, "text"))), make)
    error = await raised(run(raising_in(ValueError, Speechless)))
    assert isinstance(error, TaskError)
    assert "in function" in error.traceback_str
    assert isinstance(await raised(run(Speechless)), SerializationError)
    assert isinstance(await raised(run(lambda: {Speechless(): 1})), SerializationError)
    error = await raised(actorlib.remote(Unready).remote())
    assert error.exit.cause == "failed to start"
    assert await run(len, "ab") == 2


async def test_exception_when_it_is_false_then_it_is_not_lost_on_its_way() -> None:
    class Empty:
        def __init__(self) -> None:
            raise EmptyError("text")

    inner, outer = Caller.remote(), Caller.remote()
    error = await raised(outer.call.remote(inner, "run", raising(EmptyError("text"))))
    assert isinstance(error, EmptyError)
    assert type(error.cause) is EmptyError
    error = await raised(actorlib.remote(Empty).remote())
    assert isinstance(error.__cause__, EmptyError)


async def test_exception_when_it_cannot_be_sent_then_it_arrives_as_its_text(
    run: Any,
) -> None:
    def function() -> None:
        error = ValueError("the reason")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    error = await raised(run(function))
    assert isinstance(error, TaskError)
    assert "ValueError: the reason" in str(error)
    assert "in function" in error.traceback_str
    assert await run(len, "ab") == 2


# Where it was raised.


async def test_traceback_when_a_call_raises_then_it_has_the_users_frames(
    run: Any,
) -> None:
    def deep() -> None:
        raise ValueError("boom at the bottom")

    def outer() -> None:
        try:
            {}["missing"]
        except KeyError:
            deep()

    error = await raised(run(outer))
    printed = "".join(traceback.format_exception(error))
    for shown in (str(error.__cause__), printed):
        for text in ("Traceback", "in outer", "in deep", "boom at the bottom", "(pid "):
            assert text in shown
        assert "KeyError: 'missing'" in shown
    assert "TaskError(ValueError): boom" in printed
    assert f"{__name__}.py" in error.traceback_str
    # Our own frames tell a user nothing.
    assert "_worker" not in error.traceback_str


class Plain:
    def fail(self) -> None:
        raise KeyError("the real one")


class Named(Plain):
    def __repr__(self) -> str:
        return "Named(seven)"

    async def fail_later(self) -> None:
        raise KeyError("the real one")


class Unspeakable(Named):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("cls", "method", "where"),
    [
        (Plain, "fail", "Plain.fail"),
        (Named, "fail", "Named(seven).fail"),
        (Named, "fail_later", "Named(seven).fail_later"),
        (Unspeakable, "fail", "Unspeakable.fail"),
        (Unspeakable, "fail_later", "Unspeakable.fail_later"),
    ],
)
async def test_error_when_a_method_raises_then_the_actor_is_named_by_its_repr(
    runtime: Runtime, cls: type, method: str, where: str
) -> None:
    actor: Any = actorlib.remote(cls).remote()

    error = await raised(getattr(actor, method).remote())

    assert isinstance(error, KeyError)
    assert error.where == f"{where} (pid {living(runtime)[0].pid})"
    assert error.where in str(error.__cause__)


@pytest.mark.parametrize("first", [Caller, AsyncCaller])
@pytest.mark.parametrize("second", [Caller, AsyncCaller])
async def test_error_when_it_crosses_actors_then_it_shows_each_and_its_root(
    first: Any, second: Any
) -> None:
    a, b, c = first.remote(), second.remote(), first.remote()
    failing = raising(FileNotFoundError(2, "at the root"))

    error = await raised(a.call.remote(b, "call", c, "run", failing))

    assert isinstance(error, FileNotFoundError)
    assert type(error).__name__ == "TaskError(FileNotFoundError)"
    assert error.errno == 2
    for actor in (a, b, c):
        assert f"(pid {await actor.run.remote(os.getpid)})" in str(error.__cause__)
    assert error.traceback_str.rstrip().endswith("at the root")
    assert "in function" in error.traceback_str


def caught(echo: Any) -> Exception:
    try:
        actorlib.get(echo.fail.remote(LookupError("first", 2)))
    except LookupError as error:
        return error
    raise AssertionError


def rethrown(echo: Any) -> None:
    try:
        actorlib.get(echo.fail.remote(LookupError("first", 2)))
    except LookupError as error:
        raise ZeroDivisionError("second") from error


async def test_task_error_when_returned_pickled_or_rethrown_then_it_is_complete() -> (
    None
):
    echo, caller = Echo.remote(), Caller.remote()

    returned = await caller.run.remote(caught, echo)
    again = await echo.echo.remote(returned)

    assert returned.where.startswith("Echo.fail ")
    assert "LookupError" in returned.traceback_str
    for error in (returned, again, pickle.loads(pickle.dumps(returned))):
        assert isinstance(error, LookupError)
        assert type(error).__name__ == "TaskError(LookupError)"
        assert error.args == ("first", 2)
        assert error.traceback_str == returned.traceback_str
    error = await raised(caller.run.remote(rethrown, echo))
    assert isinstance(error, ZeroDivisionError)
    assert not isinstance(error, LookupError)
    assert "LookupError: ('first', 2)" in error.traceback_str
    assert "direct cause" in error.traceback_str


async def test_error_when_nobody_looks_at_it_then_it_is_reported_once() -> None:
    reports: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    echo = Echo.remote()
    unseen = echo.fail.remote(ValueError("unseen"))
    seen = echo.fail.remote(ValueError("seen"))
    assert await echo.echo.remote(1) == 1
    await raised(seen)
    del unseen, seen
    gc.collect()
    loop.set_exception_handler(None)
    assert [str(report["exception"]) for report in reports] == ["unseen"]
    assert "Echo.fail" in repr(reports[0]["future"])


# What is not an Exception.


class SignalError(BaseException):
    """What a framework may raise to get past ``except Exception``."""


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}], ids=repr)
async def test_base_exception_when_raised_then_it_fails_that_call_only(
    caller_class: Any, options: dict[str, Any]
) -> None:
    caller = caller_class.options(**options).remote()
    pid = await caller.run.remote(os.getpid)
    own = SignalError("stop")
    group = BaseExceptionGroup("group", [SystemExit(1)])
    for given in (own, KeyboardInterrupt(), GeneratorExit(), group):
        before = caller.run.remote(len, "a")
        failed = caller.run.remote(raising(given))
        after = caller.run.remote(os.getpid)
        assert (await before, await after) == (1, pid)
        error = await raised(failed)
        assert isinstance(error, TaskError)
        assert type(error.cause).__name__ == type(given).__name__
        # The rest would close the caller's generator, or end the caller's loop.
        assert (type(error) is TaskError) == (given is not own)


class Yielding:
    def plain(self) -> Iterator[int]:
        yield 1
        raise SignalError("stop")


class BothWays(Yielding):
    async def beside(self) -> AsyncIterator[int]:
        yield 1
        raise SignalError("stop")


async def test_base_exception_when_of_a_stream_or_function_then_it_fails_alone() -> (
    None
):
    plain: Any = actorlib.remote(Yielding).remote()
    both: Any = actorlib.remote(BothWays).remote()
    for stream in (plain.plain.remote(), both.plain.remote(), both.beside.remote()):
        assert await (await anext(stream)) == 1
        error = await raised(await anext(stream))
        assert isinstance(error, TaskError)
        assert error.args == ("stop",)
    for actor in (plain, both):
        assert await actor.__ray_ready__.remote()
    function = actorlib.remote(call)
    error = await raised(function.remote(raising(SignalError("stop"))))
    assert isinstance(error, TaskError)
    assert error.args == ("stop",)
    assert await function.remote(len, "ab") == 2


async def test_base_exception_when_a_constructor_raises_it_then_the_actor_fails() -> (
    None
):
    class Leaving:
        def __init__(self) -> None:
            raise SystemExit(4)

    error = await raised(actorlib.remote(Leaving).remote())
    assert isinstance(error, ActorDiedError)
    assert "SystemExit: 4" in str(error)


async def test_cancelled_error_when_a_method_raises_it_then_it_fails_that_call() -> (
    None
):
    class Cancelling:
        def cancel(self) -> None:
            raise asyncio.CancelledError

    class Both(Cancelling):
        async def cancel_later(self) -> None:
            raise asyncio.CancelledError

        async def cancel_inside(self) -> None:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task

    actor: Any = None
    for cls in (Cancelling, Both):
        actor = actorlib.remote(cls).remote()
        error = await raised(actor.cancel.remote())
        assert type(error) is TaskError
        assert isinstance(error.cause, asyncio.CancelledError)
    for method in (actor.cancel_later, actor.cancel_inside):
        assert isinstance(await raised(method.remote()), TaskCancelledError)
    assert await actor.__ray_ready__.remote()


# What cannot be sent.


class Stubborn:
    def __reduce__(self) -> Any:
        raise RuntimeError("I stay")


def deep_list() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


async def test_argument_when_it_cannot_be_sent_then_refused_and_named() -> None:
    echo = Echo.remote()
    pending = echo.echo.remote(1)
    for value, text in (
        (threading.Lock(), "a lock"),
        ([threading.Lock()], r"list\[0\], a lock"),
        ((x for x in ()), "generator"),
        (Stubborn(), r"Stubborn.*I stay"),
        (deep_list(), "recursion"),
    ):
        with pytest.raises(SerializationError, match=rf"argument 2 of .*both.*{text}"):
            echo.both.remote(pending, value)
        with pytest.raises(TypeError, match=rf"argument key= of .*both.*{text}"):
            echo.both.remote(1, key=value)
    assert await echo.echo.remote(2) == 2


async def test_argument_when_an_actor_cannot_send_it_then_refused_there(
    run: Any,
) -> None:
    def send_lock(handle: Any) -> str:
        try:
            handle.echo.remote(threading.Lock())
        except TypeError as error:
            return str(error)
        return "sent"

    assert "argument 1 of" in await run(send_lock, Echo.remote())


async def test_definition_when_it_cannot_be_sent_then_refused_and_nothing_is_made(
    runtime: Runtime,
) -> None:
    lock = threading.Lock()

    def use() -> None:
        lock.acquire()

    class Using:
        def use(self) -> None:
            lock.acquire()

    class Guarded:
        guard = lock

    with pytest.raises(TypeError, match=r"argument 1 of Keeper.*lock"):
        Keeper.remote(threading.Lock())
    with pytest.raises(TypeError, match=r"class Using cannot be sent.*lock"):
        actorlib.remote(Using).remote()
    with pytest.raises(SerializationError, match=r"Guarded\.guard, a lock"):
        actorlib.remote(Guarded).remote()
    with pytest.raises(SerializationError, match="use -> lock, a lock"):
        actorlib.remote(use).remote()
    assert living(runtime) == []


def locked() -> dict[str, Any]:
    return {"cfg": {"conn": [threading.Lock()]}}


def locked_items() -> Any:
    yield locked()


async def test_result_when_it_cannot_be_sent_then_the_error_says_what_in_it(
    run: Any,
) -> None:
    errors = [
        await raised(run(locked)),
        await raised(await anext(actorlib.remote(locked_items).remote())),
    ]
    with pytest.raises(SerializationError) as caught:
        actorlib.put(locked())
    for error in (*errors, caught.value):
        assert isinstance(error, SerializationError)
        assert "dict['cfg']['conn'][0], a lock: cannot pickle" in str(error)
    assert "returned a dict" in str(errors[0])
    assert await run(len, "ab") == 2


# What cannot be loaded; see test_unloadable.py, too.


def fail() -> None:
    raise ValueError("it fails")


def fail_with(value: object) -> None:
    raise LookupError(value)


def call_with_failed(echo: Any) -> list[str]:
    ref = actorlib.remote(fail).remote()
    try:
        actorlib.get(echo.both.remote(1, key=ref))
    except ValueError as error:
        return list(error.__notes__)
    return []


async def test_ref_when_it_failed_then_the_error_says_whose_argument_it_was(
    run: Any,
) -> None:
    echo, failing = Echo.remote(), Caller.remote()
    ref = failing.run.remote(fail)
    for refused, where in (
        (echo.echo.remote(ref), "argument 1 of Echo.echo"),
        (echo.both.remote(1, key=ref), "argument key= of Echo.both"),
        (actorlib.remote(fail_with).remote(ref), "argument 1 of fail_with"),
    ):
        error = await raised(refused)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)
        assert error.where.startswith("Caller.run")
        assert error.__notes__ == [f"its ref was {where}"]
    assert not hasattr(await raised(ref), "__notes__")
    notes = await run(call_with_failed, echo)
    assert notes == ["its ref was argument key= of Echo.both"]


@pytest.fixture
def lost_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module that this process has and that workers do not find."""
    (tmp_path / "lost_module.py").write_text(
        "import actorlib\n"
        "class Thing: pass\n"
        "@actorlib.remote\n"
        "class Actor:\n"
        "    def ping(self): return 1\n",
        encoding="utf-8",
    )
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        module = importlib.import_module("lost_module")
    yield module
    del sys.modules["lost_module"]


@pytest.mark.process
async def test_value_when_its_module_is_missing_there_then_the_error_names_it(
    lost_module: Any,
) -> None:
    for actor in (Caller.remote(), AsyncCaller.remote()):
        error = await raised(actor.run.remote(print, lost_module.Thing()))
        assert isinstance(error, ModuleNotFoundError)
        assert isinstance(error, TaskError)
        assert "lost_module" in str(error)
        assert await actor.run.remote(len, "ab") == 2
    lost = lost_module.Actor.remote()
    for ref in (lost, lost.ping.remote(), Keeper.remote(lost_module.Thing())):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ModuleNotFoundError)
        assert "lost_module" in str(error)


class Referring:
    """Pickles as an instance of a class that is looked up by its module's name."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __reduce__(self) -> Any:
        return _find, (self._cls.__module__, self._cls.__qualname__)


def _find(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)()


def _made_in_the_worker(name: str, *bases: type) -> type:
    """A class of a module that only this process has."""
    module = types.ModuleType("made_in_the_worker")
    made = type(name, bases, {"__module__": "made_in_the_worker"})
    setattr(module, name, made)
    sys.modules["made_in_the_worker"] = module
    return made


def raise_foreign() -> None:
    raise _made_in_the_worker("Foreign", Exception)("from far away")


def return_foreign() -> Any:
    return Referring(_made_in_the_worker("Thing"))


@pytest.mark.process
@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
async def test_value_when_its_module_is_missing_here_then_the_error_names_it(
    caller_class: Any,
) -> None:
    caller = caller_class.remote()
    error = await raised(caller.run.remote(raise_foreign))
    assert isinstance(error, TaskError)
    assert "Foreign: from far away" in str(error)
    error = await raised(caller.run.remote(return_foreign))
    assert isinstance(error, SerializationError)
    assert "made_in_the_worker" in str(error)
    assert await caller.run.remote(len, "ab") == 2
