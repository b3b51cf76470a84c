from __future__ import annotations

import asyncio
import builtins
import gc
import importlib
import os
import pickle
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Keeper,
    end_of,
    living,
)
from helpers.calls import raised

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorlibError,
    ActorUnschedulableError,
    ProtocolError,
    SerializationError,
    TaskCancelledError,
    TaskError,
    TemplateError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from actorlib import Runtime

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(params=[Caller, AsyncCaller])
def caller(runtime: Runtime, request: pytest.FixtureRequest) -> Any:
    """An actor that runs functions, by a plain method or by an ``async def`` one."""
    del runtime
    return request.param.remote()


@pytest.fixture
def lost_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that this process has and that workers do not find."""
    (tmp_path / "lost_module.py").write_text(
        "import actorlib\n"
        "class Thing:\n"
        "    def __init__(self, value=0): self.value = value\n"
        "class LostError(Exception): pass\n"
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


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


# The user's own exceptions.


async def test_an_exception_fails_that_call_only(caller: Any) -> None:
    before = caller.run.remote(lambda: 1)
    failed = caller.run.remote(raising(ValueError("boom")))
    after = caller.run.remote(lambda: 2)
    assert (await before, await after) == (1, 2)
    assert isinstance(await raised(failed), ValueError)
    assert await caller.run.remote(lambda: 3) == 3


class SignalError(BaseException):  # no error, to Python
    """What a user's framework may raise to get past ``except Exception``."""


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}], ids=repr)
async def test_what_is_no_exception_fails_that_call_only(
    caller_class: Any, options: dict[str, Any]
) -> None:
    caller = caller_class.options(**options).remote()
    pid = await caller.run.remote(os.getpid)
    itself = SignalError("stop")
    group = BaseExceptionGroup("group", [SystemExit(1)])
    for given in (itself, KeyboardInterrupt(), GeneratorExit(), group):
        before = caller.run.remote(lambda: 1)
        failed = caller.run.remote(raising(given))
        after = caller.run.remote(os.getpid)
        assert (await before, await after) == (1, pid)
        error = await raised(failed)
        assert isinstance(error, TaskError)
        assert type(error.cause).__name__ == type(given).__name__
        # The rest would close the caller's generator, or end the caller's loop.
        assert (type(error) is TaskError) == (given is not itself)


async def test_what_is_no_exception_fails_that_function_only() -> None:
    @actorlib.remote
    def call(function: Callable[[], object]) -> object:
        return function()

    error = await raised(call.remote(raising(SignalError("stop"))))
    assert isinstance(error, TaskError)
    assert error.args == ("stop",)
    assert await call.remote(lambda: 1) == 1


async def test_what_is_no_exception_ends_that_stream_only() -> None:
    class Yielding:
        def plain(self) -> Iterator[int]:
            yield 1
            raise SignalError("stop")

        def one(self) -> int:
            return 1

    @actorlib.remote
    class BothWays(Yielding):
        async def beside(self) -> AsyncIterator[int]:
            yield 1
            raise SignalError("stop")

    plain, both = actorlib.remote(Yielding).remote(), BothWays.remote()
    for stream in (plain.plain.remote(), both.plain.remote(), both.beside.remote()):
        assert await (await anext(stream)) == 1
        error = await raised(await anext(stream))
        assert isinstance(error, TaskError)
        assert error.args == ("stop",)
    assert (await plain.one.remote(), await both.one.remote()) == (1, 1)


async def test_state_changed_before_the_exception_stays() -> None:
    @actorlib.remote
    class Half:
        def __init__(self) -> None:
            self._steps: list[str] = []

        def step(self) -> None:
            self._steps.append("first")
            raise RuntimeError("between")

        def steps(self) -> list[str]:
            return self._steps

    half = Half.remote()
    await raised(half.step.remote())
    assert await half.steps.remote() == ["first"]


async def test_it_is_of_the_user_s_class_and_a_task_error(caller: Any) -> None:
    class BaseProblemError(LookupError):
        pass

    class ProblemError(BaseProblemError):
        pass

    error = await raised(caller.run.remote(raising(ProblemError("which", 2))))
    for kind in (ProblemError, BaseProblemError, LookupError, TaskError, ActorlibError):
        assert isinstance(error, kind)
    assert type(error).__name__ == "TaskError(ProblemError)"
    assert error.args == ("which", 2)
    assert str(error) == str(ProblemError("which", 2))
    assert type(error.cause) is ProblemError
    assert error.cause.args == ("which", 2)


@pytest.mark.parametrize(
    "cause",
    [
        ValueError(),
        ValueError("text"),
        ValueError("a", 2),
        KeyError("key"),
        ZeroDivisionError("division by zero"),
        AssertionError("no"),
        NotImplementedError("later"),
        TimeoutError("late"),
        StopAsyncIteration("over"),
        EOFError("end"),
        BrokenPipeError(32, "Broken pipe"),
        ConnectionResetError("reset"),
        MemoryError("none left"),
        RuntimeError(("a", "tuple")),
    ],
    ids=repr,
)
async def test_builtin_exceptions_arrive_as_themselves(cause: Exception) -> None:
    echo = Echo.remote()
    error = await raised(echo.fail.remote(cause))
    assert isinstance(error, type(cause))
    assert isinstance(error, TaskError)
    assert error.args == cause.args
    assert str(error) == str(cause)
    assert await echo.echo.remote(1) == 1


async def test_the_remote_traceback_is_the_cause(caller: Any) -> None:
    def deep() -> None:
        raise ValueError("boom at the bottom")

    def outer() -> None:
        deep()

    error = await raised(caller.run.remote(outer))
    shown = str(error.__cause__)
    for text in ("Traceback", "in outer", "in deep", "boom at the bottom", "(pid "):
        assert text in shown
    assert "in deep" in error.traceback_str
    assert f"{__name__}.py" in error.traceback_str
    # Our own frames tell a user nothing.
    assert "_worker" not in error.traceback_str


async def test_what_is_raised_shows_the_remote_traceback_when_printed(
    caller: Any,
) -> None:
    import traceback  # noqa: PLC0415

    error = await raised(caller.run.remote(raising(ValueError("boom"))))
    shown = "".join(traceback.format_exception(error))
    assert "TaskError(ValueError): boom" in shown
    assert "in function" in shown


async def test_the_actor_is_named_by_its_own_repr(runtime: Runtime) -> None:
    @actorlib.remote
    class Plain:
        def fail(self) -> None:
            raise ValueError("x")

    @actorlib.remote
    class Named:
        def __repr__(self) -> str:
            return "Named(seven)"

        def fail(self) -> None:
            raise ValueError("x")

        async def fail_later(self) -> None:
            raise ValueError("x")

    plain, named = Plain.remote(), Named.remote()
    error = await raised(plain.fail.remote())
    pids = {actor.class_name: actor.pid for actor in living(runtime)}
    assert error.where == f"Plain.fail (pid {pids['Plain']})"
    for method in ("fail", "fail_later"):
        error = await raised(getattr(named, method).remote())
        assert error.where == f"Named(seven).{method} (pid {pids['Named']})"
        assert error.where in str(error.__cause__)


async def test_an_error_in_repr_does_not_hide_the_other() -> None:
    @actorlib.remote
    class Unspeakable:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

        def fail(self) -> None:
            raise KeyError("the real one")

        async def fail_later(self) -> None:
            raise KeyError("the real one")

    actor = Unspeakable.remote()
    for method in ("fail", "fail_later"):
        error = await raised(getattr(actor, method).remote())
        assert isinstance(error, KeyError)
        assert error.where.startswith(f"Unspeakable.{method} ")


@pytest.mark.parametrize("first", [Caller, AsyncCaller])
@pytest.mark.parametrize("second", [Caller, AsyncCaller])
async def test_a_nested_failure_shows_both_hops(first: Any, second: Any) -> None:
    class ProblemError(Exception):
        pass

    a, b = first.remote(), second.remote()
    error = await raised(a.call.remote(b, "run", raising(ProblemError("at the root"))))
    assert isinstance(error, ProblemError)
    assert type(error).__name__ == "TaskError(ProblemError)"
    assert error.args == ("at the root",)
    pids = [
        await actor.run.remote(lambda: __import__("os").getpid()) for actor in (a, b)
    ]
    for pid in pids:
        assert f"(pid {pid})" in str(error.__cause__)
    assert error.traceback_str.rstrip().endswith("at the root")
    assert "in function" in error.traceback_str


async def test_three_hops() -> None:
    a, b, c = Caller.remote(), AsyncCaller.remote(), Caller.remote()
    error = await raised(
        a.call.remote(b, "call", c, "run", raising(OSError(2, "none")))
    )
    assert isinstance(error, FileNotFoundError)
    assert error.errno == 2
    assert type(error).__name__ == "TaskError(FileNotFoundError)"


# Exceptions with something of their own.


class CodedError(Exception):
    """Its constructor takes something else than its args."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


async def test_an_exception_with_a_constructor_of_its_own(caller: Any) -> None:
    class LocalCodedError(Exception):
        def __init__(self, code: int, *, reason: str) -> None:
            super().__init__(f"{code}: {reason}")
            self.code = code
            self.reason = reason

        def __str__(self) -> str:
            return f"<{self.code}>"

    def importable() -> None:
        raise CodedError(3, reason="why")

    def local() -> None:
        raise LocalCodedError(4, reason="how")

    error = await raised(caller.run.remote(importable))
    assert isinstance(error, CodedError)
    assert isinstance(error.cause, CodedError)
    assert (error.code, error.reason, str(error)) == (3, "why", "3: why")
    error = await raised(caller.run.remote(local))
    assert isinstance(error, LocalCodedError)
    assert (error.code, error.reason, str(error)) == (4, "how", "<4>")


async def test_an_exception_whose_args_are_not_its_constructor_s(caller: Any) -> None:
    class NoArgsError(Exception):
        def __init__(self, a: int, b: int) -> None:
            self.sum = a + b

        def __str__(self) -> str:
            return f"sum {self.sum}"

    def function() -> None:
        raise NoArgsError(1, b=2)

    error = await raised(caller.run.remote(function))
    assert isinstance(error, NoArgsError)
    assert str(error) == "sum 3"


async def test_an_exception_that_says_how_it_is_pickled(caller: Any) -> None:
    class ReducedError(Exception):
        def __init__(self, left: int, right: int) -> None:
            super().__init__("reduced")
            self.left, self.right = left, right

        def __reduce__(self) -> Any:
            return type(self), (self.left, self.right)

    def function() -> None:
        raise ReducedError(1, 2)

    error = await raised(caller.run.remote(function))
    assert isinstance(error, ReducedError)
    assert (error.left, error.right) == (1, 2)


async def test_what_builtin_exceptions_keep_in_c_is_kept(caller: Any) -> None:
    def no_file() -> None:
        open("/nowhere/at/all")  # noqa: PTH123, SIM115

    def no_text() -> None:
        b"\xff".decode()

    def no_json() -> None:
        import json  # noqa: PLC0415

        json.loads("{")

    def no_code() -> None:
        compile("a b", "<there>", "exec")

    def no_process() -> None:
        import subprocess  # noqa: PLC0415

        raise subprocess.CalledProcessError(3, ["cmd"], output=b"out")

    error = await raised(caller.run.remote(no_file))
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.filename) == (2, "/nowhere/at/all")
    error = await raised(caller.run.remote(no_text))
    assert isinstance(error, UnicodeDecodeError)
    assert (error.object, error.start, error.encoding) == (b"\xff", 0, "utf-8")
    error = await raised(caller.run.remote(no_json))
    assert isinstance(error, ValueError)
    assert (error.pos, error.doc) == (1, "{")
    error = await raised(caller.run.remote(no_code))
    assert isinstance(error, SyntaxError)
    assert (error.filename, error.lineno) == ("<there>", 1)
    error = await raised(caller.run.remote(no_process))
    assert (error.returncode, error.output) == (3, b"out")


async def test_the_name_of_a_missing_module_is_kept(caller: Any) -> None:
    def no_module() -> None:
        import nowhere_to_be_found  # noqa: F401, PLC0415

    error = await raised(caller.run.remote(no_module))
    assert isinstance(error, ModuleNotFoundError)
    assert error.name == "nowhere_to_be_found"


async def test_notes_are_kept(caller: Any) -> None:
    def function() -> None:
        error = ValueError("x")
        error.add_note("a hint for the reader")
        raise error

    error = await raised(caller.run.remote(function))
    assert error.__notes__ == ["a hint for the reader"]
    assert "a hint for the reader" in error.traceback_str


async def test_an_exception_that_forbids_subclasses(caller: Any) -> None:
    class FinalError(Exception):
        def __init_subclass__(cls) -> None:
            raise TypeError("final")

    error = await raised(caller.run.remote(raising(FinalError("x"))))
    assert type(error) is TaskError
    assert type(error.cause) is FinalError
    assert error.cause.args == ("x",)
    assert "FinalError: x" in str(error)


async def test_an_exception_that_forbids_subclasses_in_other_words(
    caller: Any,
) -> None:
    class FinalError(Exception):
        def __init_subclass__(cls) -> None:
            raise RuntimeError("final")

    error = await raised(caller.run.remote(raising(FinalError("x"))))
    assert type(error) is TaskError
    assert type(error.cause) is FinalError
    assert await caller.run.remote(lambda: 1) == 1


async def test_an_exception_that_refuses_attributes_arrives(caller: Any) -> None:
    @dataclass(frozen=True)
    class FrozenError(Exception):
        code: int

    class PickyError(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            if name not in ("args", "code"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    def frozen() -> None:
        raise FrozenError(3)

    error = await raised(caller.run.remote(frozen))
    assert isinstance(error, TaskError)
    assert "FrozenError: 3" in error.traceback_str
    assert error.cause == FrozenError(3)
    error = await raised(caller.run.remote(raising(PickyError(3))))
    assert isinstance(error, TaskError)
    assert type(error.cause) is PickyError
    assert await caller.run.remote(lambda: 1) == 1


async def test_stop_iteration_arrives_as_a_plain_task_error() -> None:
    @actorlib.remote
    class Stopping:
        def stop(self) -> None:
            next(iter(()))

    error = await raised(Stopping.remote().stop.remote())
    assert type(error) is TaskError
    assert type(error.cause) is StopIteration


async def test_an_exception_group_can_be_split(caller: Any) -> None:
    def function() -> None:
        raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])

    error = await raised(caller.run.remote(function))
    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [ValueError, KeyError]
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


async def test_a_task_group_in_a_method_fails_as_a_group() -> None:
    @actorlib.remote
    class Grouping:
        async def run(self) -> None:
            async def fail() -> None:
                raise ValueError("inside")

            async with asyncio.TaskGroup() as group:
                group.create_task(fail())

    error = await raised(Grouping.remote().run.remote())
    assert isinstance(error, ExceptionGroup)
    assert isinstance(error.exceptions[0], ValueError)


async def test_a_recursion_without_end_is_an_error_like_others(caller: Any) -> None:
    def recurse() -> None:
        def deeper() -> None:
            deeper()

        deeper()

    assert isinstance(await raised(caller.run.remote(recurse)), RecursionError)
    assert await caller.run.remote(lambda: 1) == 1


async def test_an_exception_that_cannot_be_printed_arrives(caller: Any) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    error = await raised(caller.run.remote(raising(MuteError())))
    assert isinstance(error, MuteError)


@pytest.mark.parametrize("text", ["half of a pair: \ud800", "\udcff"])
async def test_a_message_that_is_no_utf8_arrives(caller: Any, text: str) -> None:
    def fail() -> None:
        raise ValueError(text)

    @actorlib.remote
    def fail_alone() -> None:
        raise ValueError(text)

    for ref in (caller.run.remote(fail), fail_alone.remote()):
        error = await raised(ref)
        assert isinstance(error, ValueError)
        assert error.args == (text,)
        str(error.__cause__).encode()
    assert await caller.run.remote(len, text) == len(text)


async def test_a_constructor_s_exception_that_cannot_be_printed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @actorlib.remote
    class Mute:
        def __init__(self) -> None:
            class SilentError(Exception):
                def __str__(self) -> str:
                    raise RuntimeError("no words")

            raise SilentError

    mute = Mute.remote()
    error = await raised(mute)
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "failed to start"
    assert "bug in actorlib" not in caplog.text


async def test_a_large_exception_arrives(caller: Any) -> None:
    def function() -> None:
        raise ValueError("x" * 1_000_000, bytearray(1_000_000))

    error = await raised(caller.run.remote(function))
    assert isinstance(error, ValueError)
    assert [len(part) for part in error.args] == [1_000_000, 1_000_000]


async def test_an_exception_may_carry_a_handle(caller: Any) -> None:
    counter = Counter.remote()

    def function(handle: Any) -> None:
        raise LookupError(handle)

    error = await raised(caller.run.remote(function, counter))
    assert error.args == (counter,)
    assert await error.args[0].add.remote() == 1


async def test_a_class_method_s_exception_in_the_constructor_is_the_cause() -> None:
    @actorlib.remote
    class Failing:
        def __init__(self) -> None:
            raise ValueError("not like this")

        def ping(self) -> None: ...

    failing = Failing.remote()
    for ref in (failing, failing.ping.remote()):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ValueError)
        assert "ValueError: not like this" in str(error)
        assert error.exit.cause == "failed to start"


# What is no Exception.


@pytest.mark.parametrize("actor_class", [Caller, AsyncCaller])
async def test_system_exit_ends_the_actor(actor_class: Any) -> None:
    actor = actor_class.remote()
    await actor
    end = end_of(actor)
    running_call = actor.run.remote(raising(SystemExit(3)))
    queued = actor.run.remote(lambda: 1)
    for ref in (running_call, queued):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert error.exit.cause == "exited"
        assert error.exit.code == 3
    await end
    assert isinstance(await raised(actor.run.remote(lambda: 1)), ActorDiedError)


async def test_a_base_exception_in_a_constructor() -> None:
    @actorlib.remote
    class Leaving:
        def __init__(self) -> None:
            raise SystemExit(4)

    error = await raised(Leaving.remote())
    assert isinstance(error, ActorDiedError)
    assert "SystemExit: 4" in str(error)


async def test_a_cancelled_error_of_the_user_s_own_fails_that_call() -> None:
    @actorlib.remote
    class Cancelling:
        async def cancel(self) -> None:
            raise asyncio.CancelledError

        async def cancel_inside(self) -> None:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task

        def ping(self) -> int:
            return 1

    actor = Cancelling.remote()
    for method in (actor.cancel, actor.cancel_inside):
        assert isinstance(await raised(method.remote()), TaskCancelledError)
    assert await actor.ping.remote() == 1


async def test_a_cancelled_error_of_a_plain_method_fails_that_call() -> None:
    class Cancelling:
        def cancel(self) -> None:
            raise asyncio.CancelledError

    class Both(Cancelling):
        async def other(self) -> None: ...

    for plain in (Cancelling, Both):
        actor = actorlib.remote(plain).remote()
        error = await raised(actor.cancel.remote())
        assert type(error) is TaskError
        assert isinstance(error.cause, asyncio.CancelledError)


# What cannot be sent.


async def test_an_argument_that_cannot_be_sent_is_named() -> None:
    echo = Echo.remote()
    with pytest.raises(TypeError, match=r"argument 2 of .*both.*lock") as caught:
        echo.both.remote(1, threading.Lock())
    assert isinstance(caught.value, SerializationError)
    with pytest.raises(TypeError, match=r"argument key= of .*both.*lock"):
        echo.both.remote(1, key=[threading.Lock()])
    with pytest.raises(TypeError, match="generator"):
        echo.echo.remote(x for x in ())
    assert await echo.echo.remote(1) == 1


async def test_a_constructor_s_argument_that_cannot_be_sent(
    runtime: Runtime,
) -> None:
    with pytest.raises(TypeError, match=r"argument 1 of Keeper.*lock"):
        Keeper.remote(threading.Lock())
    assert living(runtime) == []


async def test_a_class_that_cannot_be_sent(runtime: Runtime) -> None:
    lock = threading.Lock()

    @actorlib.remote
    class Locked:
        def use(self) -> None:
            lock.acquire()

    with pytest.raises(TypeError, match=r"class Locked cannot be sent.*lock"):
        Locked.remote()
    assert living(runtime) == []


async def test_an_argument_that_raises_when_it_is_pickled() -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise RuntimeError("I stay")

    echo = Echo.remote()
    with pytest.raises(SerializationError, match=r"Stubborn.*I stay"):
        echo.echo.remote(Stubborn())
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SerializationError, match="recursion"):
        echo.echo.remote(deep)
    assert await echo.echo.remote(1) == 1


def locked() -> dict[str, Any]:
    return {"cfg": {"conn": [threading.Lock()]}}


def locked_items() -> Any:
    yield locked()


PATH = "dict['cfg']['conn'][0], a lock: cannot pickle"


async def test_a_result_or_an_item_that_cannot_be_sent_says_what_in_it() -> None:
    for actor in (Caller.remote(), AsyncCaller.remote()):
        error = await raised(actor.run.remote(locked))
        assert isinstance(error, SerializationError)
        assert PATH in str(error)
    error = await raised(actorlib.remote(locked).remote())
    assert isinstance(error, SerializationError)
    assert PATH in str(error)
    items = actorlib.remote(locked_items).remote()
    error = await raised(await anext(items))
    assert isinstance(error, SerializationError)
    assert PATH in str(error)
    with pytest.raises(SerializationError) as caught:
        actorlib.put(locked())
    assert PATH in str(caught.value)


async def test_a_function_that_cannot_be_sent_says_what_it_uses() -> None:
    lock = threading.Lock()

    def use() -> None:
        lock.acquire()

    with pytest.raises(SerializationError, match="use -> lock, a lock"):
        actorlib.remote(use).remote()

    class Locked:
        guard = lock

    with pytest.raises(SerializationError, match=r"Locked\.guard, a lock"):
        actorlib.remote(Locked).remote()


def call_with_failed(echo: Any, failing: Any) -> list[str]:
    ref = failing.run.remote(fail)
    try:
        echo.both.remote(1, key=ref).get()
    except ValueError as error:
        return list(error.__notes__)
    return []


def fail() -> None:
    raise ValueError("it fails")


def fail_with(value: object) -> None:
    raise LookupError(value)


async def test_a_ref_that_failed_says_of_which_call_it_was_an_argument(
    caller: Any,
) -> None:
    echo, failing = Echo.remote(), Caller.remote()
    ref = failing.run.remote(fail)
    for call, where in (
        (echo.echo.remote(ref), "argument 1 of Echo.echo"),
        (echo.both.remote(1, key=ref), "argument key= of Echo.both"),
        (actorlib.remote(fail_with).remote(ref), "argument 1 of fail_with"),
    ):
        error = await raised(call)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)
        assert error.where.startswith("Caller.run")
        assert error.__notes__ == [f"its ref was {where}"]
    assert not hasattr(await raised(ref), "__notes__")
    told = await caller.run.remote(call_with_failed, echo, failing)
    assert told == ["its ref was argument key= of Echo.both"]


async def test_inside_an_actor_too(caller: Any) -> None:
    def function(handle: Any) -> str:
        try:
            handle.echo.remote(threading.Lock())
        except TypeError as error:
            return str(error)
        return "sent"

    assert "argument 1 of" in await caller.run.remote(function, Echo.remote())


async def test_an_argument_behind_a_slow_one_is_refused_at_the_call() -> None:
    echo = Echo.remote()
    value = echo.echo.remote(1)
    with pytest.raises(TypeError, match="lock"):
        echo.both.remote(value, threading.Lock())
    assert await echo.echo.remote(2) == 2


async def test_a_result_that_cannot_be_sent_fails_its_call(caller: Any) -> None:
    error = await raised(caller.run.remote(lambda: [threading.Lock()]))
    assert isinstance(error, TypeError)
    assert isinstance(error, TaskError)
    assert "returned a list" in str(error)
    assert "lock" in str(error)
    assert await caller.run.remote(lambda: 1) == 1


async def test_an_exception_that_cannot_be_sent_arrives_as_its_text(
    caller: Any,
) -> None:
    def function() -> None:
        error = ValueError("the reason")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    error = await raised(caller.run.remote(function))
    assert isinstance(error, TaskError)
    assert "ValueError: the reason" in str(error)
    assert "in function" in error.traceback_str
    assert await caller.run.remote(lambda: 1) == 1


@pytest.mark.process
async def test_an_exception_that_cannot_be_loaded_here_arrives_as_its_text(
    caller: Any,
) -> None:
    def function() -> None:
        import types  # noqa: PLC0415

        module = types.ModuleType("made_in_the_worker")
        error_class = type(
            "Foreign", (Exception,), {"__module__": "made_in_the_worker"}
        )
        module.Foreign = error_class  # type: ignore[attr-defined]
        sys.modules["made_in_the_worker"] = module
        raise error_class("from far away")

    error = await raised(caller.run.remote(function))
    assert isinstance(error, TaskError)
    assert "Foreign: from far away" in str(error)
    assert await caller.run.remote(lambda: 1) == 1


@pytest.mark.process
async def test_a_result_whose_module_is_missing_here(caller: Any) -> None:
    def function() -> Any:
        import types  # noqa: PLC0415

        module = types.ModuleType("made_in_the_worker")
        module.Thing = type("Thing", (), {"__module__": "made_in_the_worker"})  # type: ignore[attr-defined]
        sys.modules["made_in_the_worker"] = module
        # By reference, as an instance of a file's class is pickled.
        return Referring(module.Thing)

    error = await raised(caller.run.remote(function))
    assert isinstance(error, SerializationError)
    assert "made_in_the_worker" in str(error)
    assert await caller.run.remote(lambda: 1) == 1


class Referring:
    """Pickles as an instance of a class that is looked up by its module's name."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __reduce__(self) -> Any:
        return _found, (self._cls.__module__, self._cls.__qualname__)


def _found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)()


@pytest.mark.process
async def test_an_argument_whose_module_is_missing_there(
    lost_module: Any,
) -> None:
    for actor in (Caller.remote(), AsyncCaller.remote()):
        error = await raised(actor.run.remote(print, lost_module.Thing(3)))
        assert isinstance(error, ModuleNotFoundError)
        assert isinstance(error, TaskError)
        assert "lost_module" in str(error)
        assert await actor.run.remote(lambda: 1) == 1


@pytest.mark.process
async def test_a_class_whose_module_is_missing_there(lost_module: Any) -> None:
    lost = lost_module.Actor.remote()
    for ref in (lost, lost.ping.remote()):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ModuleNotFoundError)
        assert "lost_module" in str(error)


@pytest.mark.process
async def test_a_constructor_s_argument_whose_module_is_missing(
    lost_module: Any,
) -> None:
    error = await raised(Keeper.remote(lost_module.Thing()))
    assert isinstance(error, ActorDiedError)
    assert isinstance(error.__cause__, ModuleNotFoundError)
    assert "lost_module" in str(error)


async def test_an_argument_that_raises_when_it_is_loaded_fails_its_call() -> None:
    class Fragile:
        def __setstate__(self, state: Any) -> None:
            raise ValueError("broke on the way")

        def __getstate__(self) -> Any:
            return 1

    for actor in (Caller.remote(), AsyncCaller.remote()):
        error = await raised(actor.run.remote(print, Fragile()))
        assert isinstance(error, ValueError)
        assert "broke on the way" in str(error)
        assert await actor.run.remote(lambda: 1) == 1


async def test_a_result_that_raises_when_it_is_loaded_fails_its_call(
    caller: Any,
) -> None:
    class Fragile:
        def __setstate__(self, state: Any) -> None:
            raise ValueError("broke on the way")

        def __getstate__(self) -> Any:
            return 1

    error = await raised(caller.run.remote(lambda: Fragile()))  # noqa: PLW0108
    assert isinstance(error, SerializationError)
    assert "broke on the way" in str(error)
    assert await caller.run.remote(lambda: 1) == 1


# How errors behave.


async def test_an_error_nobody_looked_at_is_reported_once() -> None:
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


async def test_every_error_has_one_base() -> None:
    for kind in (
        ActorError,
        ActorDiedError,
        ActorUnschedulableError,
        ProtocolError,
        SerializationError,
        TaskCancelledError,
        TaskError,
        TemplateError,
    ):
        assert issubclass(kind, ActorlibError)
    assert issubclass(ActorDiedError, ActorError)
    assert issubclass(ActorUnschedulableError, ActorError)
    assert issubclass(SerializationError, TypeError)


async def test_a_get_that_times_out_is_a_timeout_error_of_ours() -> None:
    class Plain:
        def kinds(self, gate: Any) -> list[str]:
            try:
                actorlib.get(gate.wait.remote(), timeout=0.01)
            except TimeoutError as error:
                return [kind.__name__ for kind in type(error).__mro__]
            return []

    class Both(Plain):
        async def other(self) -> None: ...

    gate = Gate.remote()
    for cls in (Plain, Both):
        assert "ActorlibError" in await actorlib.remote(cls).remote().kinds.remote(gate)


async def test_a_task_error_pickles_again() -> None:
    class ProblemError(Exception):
        pass

    echo, caller = Echo.remote(), Caller.remote()

    def caught(handle: Any) -> Exception:
        try:
            actorlib.get(handle.fail.remote(ProblemError("first", 2)))
        except ProblemError as error:
            return error
        raise AssertionError

    def rethrown(handle: Any) -> None:
        try:
            actorlib.get(handle.fail.remote(ProblemError("first", 2)))
        except ProblemError as error:
            raise LookupError("second") from error

    returned = await caller.run.remote(caught, echo)
    assert isinstance(returned, ProblemError)
    assert isinstance(returned, TaskError)
    assert returned.args == ("first", 2)
    assert returned.where.startswith("Echo.fail ")
    assert "ProblemError" in returned.traceback_str
    # There and back again, as an argument too.
    again = await echo.echo.remote(returned)
    assert (type(again).__name__, again.args) == (
        "TaskError(ProblemError)",
        ("first", 2),
    )
    assert again.traceback_str == returned.traceback_str
    error = await raised(caller.run.remote(rethrown, echo))
    assert isinstance(error, LookupError)
    assert not isinstance(error, ProblemError)
    assert "ProblemError: ('first', 2)" in error.traceback_str


async def test_our_own_errors_pickle(caller: Any) -> None:
    builtin = await raised(caller.run.remote(raising(KeyError("k"))))
    loaded = pickle.loads(pickle.dumps(builtin))
    assert isinstance(loaded, KeyError)
    assert isinstance(loaded, TaskError)
    assert loaded.args == ("k",)
    assert loaded.traceback_str == builtin.traceback_str
    await actorlib.kill(caller)
    died = await raised(caller.run.remote(print))
    loaded = pickle.loads(pickle.dumps(died))
    assert isinstance(loaded, ActorDiedError)
    assert (str(loaded), loaded.exit, loaded.actor_id) == (
        str(died),
        died.exit,
        died.actor_id,
    )


async def test_an_actor_sees_the_death_of_another() -> None:
    echo = Echo.remote()
    await actorlib.kill(echo)
    for caller in (Caller.remote(), AsyncCaller.remote()):
        error = await raised(caller.call.remote(echo, "echo", 1))
        assert isinstance(error, ActorDiedError)
        assert error.exit.cause == "asked"
        assert await caller.run.remote(lambda: 1) == 1


async def test_the_cause_of_a_cause_keeps_its_text(caller: Any) -> None:
    def function() -> None:
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("because") from error

    error = await raised(caller.run.remote(function))
    assert isinstance(error, ValueError)
    assert "KeyError: 'missing'" in error.traceback_str
    assert "direct cause" in str(error.__cause__)


async def test_a_timeout_in_a_method_is_the_method_s_failure() -> None:
    @actorlib.remote
    class Slow:
        async def wait(self) -> None:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()

    error = await raised(Slow.remote().wait.remote())
    assert isinstance(error, builtins.TimeoutError)
    assert isinstance(error, TaskError)


async def test_a_class_that_is_abused_raises_in_the_caller() -> None:
    counter = Counter.remote()
    with pytest.raises(AttributeError):
        counter.ad  # noqa: B018
    with pytest.raises(TypeError):
        counter.add.remote(1, 2)
    with pytest.raises(TypeError, match="handle"):
        await actorlib.kill(counter.add)  # type: ignore[arg-type]
    ref = counter.add.remote()
    with pytest.raises(TypeError, match="cancel"):
        await actorlib.kill(ref)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="kill"):
        actorlib.cancel(counter)  # type: ignore[arg-type]
    assert await ref == 1
