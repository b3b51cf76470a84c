"""What the messages say about mistakes that most people make first."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import gc
import inspect
import logging
import operator
import os
import sys
import threading
import types
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest
from helpers.program_runner import run
from helpers.rare_cases import rarely

import actorlib
from actorlib import _runtime, blocking
from actorlib._loops import main_watch
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    TaskCancelledError,
    TaskError,
    TemplateError,
    UnknownOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

T = TypeVar("T")


@actorlib.remote
class Counter:
    """Has something of each kind."""

    limit = 3

    def __init__(self) -> None:
        self.value = 0

    @property
    def size(self) -> int:
        return 1

    @cached_property
    def area(self) -> int:
        return 2

    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value

    def fail(self) -> None:
        raise ValueError("boom")

    def items(self) -> Iterator[int]:
        yield 1

    def write(self, view: memoryview) -> None:
        view[0] = 1


@actorlib.remote
class Broken:
    """Has a constructor that raises."""

    def __init__(self) -> None:
        raise ValueError("no file")


@actorlib.remote
def double(x: int) -> int:
    return 2 * x


class Box(Generic[T]):
    """Is generic."""

    def __init__(self, value: T) -> None:
        self.value = value

    def get(self) -> T:
        return self.value


@pytest.fixture
async def runtime() -> AsyncIterator[actorlib.Runtime]:
    async with actorlib.init(num_cpus=2, engine="inline") as started:
        yield started


# The runtime.


async def test_remote_when_init_was_not_awaited_then_it_says_so() -> None:
    runtime = actorlib.init(engine="inline")
    with pytest.raises(RuntimeError, match=r"init\(\) was called but not awaited"):
        Counter.remote()

    async with runtime:
        assert await Counter.remote().add.remote() == 1
    with pytest.raises(RuntimeError, match="no runtime is running"):
        Counter.remote()


def test_init_when_used_in_a_plain_with_then_it_names_async_with() -> None:
    with (
        pytest.raises(TypeError, match=r"async with.*actorlib\.blocking"),
        actorlib.init(engine="inline"),  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
    ):
        pass


def test_run_when_the_program_blocks_its_loop_then_the_line_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main_watch, "PERIOD", 0.05)
    logged: list[str] = []
    was_logged = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())
            was_logged.set()

    async def main() -> None:
        async with actorlib.init(engine="inline"):
            assert was_logged.wait(10)  # blocks the loop

    handler = Handler()
    logging.getLogger("actorlib").addHandler(handler)
    try:
        actorlib.run(main())
    finally:
        logging.getLogger("actorlib").removeHandler(handler)

    assert "has blocked its event loop" in logged[0]
    assert "was_logged.wait(10)" in logged[0]


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.EFBIG, "File too large"), "ulimit -f"),
        (RuntimeError("can't start new thread"), "pids.max"),
        (OSError(errno.EPERM, "Operation not permitted"), "seccomp"),
    ],
)
async def test_start_when_the_system_refuses_it_then_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: Exception, what: str
) -> None:
    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(_runtime, "start_engine", fail)

    with pytest.raises(TemplateError, match=what) as caught:
        await actorlib.init()
    assert caught.value.__cause__ is error


def test_run_when_uvloop_is_broken_then_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None: ...

    monkeypatch.setitem(sys.modules, "uvloop", types.ModuleType("uvloop"))
    coroutine = main()
    with pytest.raises(ImportError, match="ACTORLIB_UVLOOP=0"):
        actorlib.run(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


# Calls, classes and options: what is written, and what the error says.


async def _await(ref: Any) -> None:
    await ref


async def _do(use: Callable[[Any], Any], handle: Any) -> None:
    result = use(handle)
    if asyncio.iscoroutine(result):
        await result


MISTAKES: list[tuple[type[Exception], str, Callable[[Any], Any]]] = [
    (TypeError, r"await handle\.add\.remote\(", lambda handle: _await(handle.add)),
    (TypeError, r"await double\.remote\(", lambda _: _await(double)),
    (TypeError, "async for", lambda handle: _await(handle.items.remote())),
    *(
        (TypeError, rf"{what}.*await ref", lambda _, use=use: use(double.remote(2)))
        for what, use in {
            "ref >": lambda ref: ref > 3,
            "ref <=": lambda ref: ref <= 3,
            "ref -": lambda ref: ref - 3,
            r"\* ref": lambda ref: 3 * ref,
            "-ref": operator.neg,
        }.items()
    ),
    *(
        (AttributeError, what, operator.attrgetter(name))
        for name, what in {
            "size": r"'size' is a property of Counter.*method",
            "area": r"'area' is a property of Counter.*method",
            "limit": r"'limit' is an attribute of Counter.*method",
            "value": r"no method 'value'; an attribute .* method that returns it",
            "ad": r"no method 'ad'; did you mean 'add'\?",
        }.items()
    ),
    (
        AttributeError,
        r"@actorlib\.remote on top",
        lambda _: dataclasses.dataclass(Counter),  # type: ignore[call-overload]
    ),
    (TypeError, "not subscriptable", lambda _: Counter[int]),
    *(
        (TypeError, "handle", lambda _, other=other: actorlib.kill(other))
        for other in (Counter, Box, "Counter", None)
    ),
    (TypeError, "handle", lambda handle: actorlib.kill(handle.add)),
    (TypeError, r"cancel\(\)", lambda _: actorlib.kill(double.remote(1))),
    (TypeError, r"cancel\(\)", lambda _: blocking.kill(double.remote(1))),
    *(
        (UnknownOptionError, what, lambda _, use=use: use())
        for what, use in {
            r"Did you mean num_gpus=": lambda: Counter.options(num_gpu=1),
            r"help\(actorlib\.FunctionOptions\)": lambda: double.options(num_gpu=1),
            r"@remote\(max_calls=": lambda: double.options(max_calls=1),
            r"not an option of a method": lambda: actorlib.method(group="a"),
            r"Did you mean 'num_gpus'": lambda: blocking.init(num_gpu=1),
        }.items()
    ),
]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(("kind", "text", "use"), MISTAKES)
async def test_mistake_when_made_then_the_error_says_what_to_write(
    kind: type[Exception], text: str, use: Callable[[Any], Any]
) -> None:
    handle = Counter.remote()

    with pytest.raises(kind, match=text) as caught:
        await _do(use, handle)

    if kind is UnknownOptionError:
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ValueError)  # until 0.5
        assert len(str(caught.value)) < 200
    assert await handle.add.remote() == 1


@pytest.mark.usefixtures("runtime")
async def test_ref_when_compared_with_its_value_then_it_is_different() -> None:
    ref = double.remote(2)

    assert (ref == 4) is False
    assert await ref == 4


@pytest.mark.usefixtures("runtime")
async def test_argument_when_it_is_read_only_then_a_note_says_copy() -> None:
    with pytest.raises(TypeError) as caught:
        await Counter.remote().write.remote(memoryview(b"abc"))

    assert "copy" in caught.value.__notes__[0]


@pytest.mark.usefixtures("runtime")
async def test_constructor_when_it_raises_then_the_message_has_no_traceback() -> None:
    with pytest.raises(ActorDiedError, match="ValueError: no file") as caught:
        await Broken.remote()

    assert "Traceback" not in str(caught.value)
    assert "Traceback" in caught.value.exit.constructor
    assert isinstance(caught.value.__cause__, TaskError)


# Names.


@pytest.mark.usefixtures("runtime")
async def test_name_when_its_actor_lost_its_last_handle_then_detached_is_named() -> (
    None
):
    handle = Counter.options(name="gone").remote()
    await handle

    async def find() -> None:
        while True:
            actorlib.get_actor("gone")
            await asyncio.sleep(0)

    del handle
    gc.collect()
    with pytest.raises(ActorNotFoundError, match="lifetime='detached'"):
        await find()


@pytest.mark.usefixtures("runtime")
async def test_name_when_its_actor_was_killed_then_it_says_so() -> None:
    handle = Counter.options(name="killed").remote()
    await actorlib.kill(handle)

    with pytest.raises(ActorNotFoundError, match=r"has ended.*kill"):
        actorlib.get_actor("killed")


# Classes.


@pytest.mark.usefixtures("runtime")
async def test_class_when_it_has_type_parameters_then_it_is_itself() -> None:
    boxes: Any = actorlib.remote(Box)

    assert await boxes[int].remote(3).get.remote() == 3


@pytest.mark.usefixtures("runtime")
async def test_batch_when_it_has_no_parentheses_then_it_decorates() -> None:
    @actorlib.remote
    class Model:
        @actorlib.batch
        def predict(self, inputs: list[int]) -> list[int]:
            return [2 * x for x in inputs]

    assert await Model.remote().predict.remote(4) == 8


# Tracebacks.

_PROGRAM = """
import actorlib

@actorlib.remote
def fail():
    raise ValueError("boom")

async def main():
    async with actorlib.init(engine="inline"):
        await fail.remote()

actorlib.run(main())
"""


@pytest.mark.process
@pytest.mark.parametrize("shown", ["", *rarely("full")])
def test_traceback_when_a_program_fails_then_it_has_only_the_users_frames(
    tmp_path: Path, shown: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(_PROGRAM)

    done = run(str(script), limit=60, ACTORLIB_TRACEBACK=shown)

    files = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    has_own = any(f"actorlib{os.sep}_" in line for line in files)
    assert any("in main" in line for line in files)
    assert has_own == (shown == "full")


# Scripts of Ray.


class Sleeper:
    async def sleep(self) -> None:
        await asyncio.sleep(60)


def test_get_when_an_async_method_was_cancelled_then_ray_task_error() -> None:
    with blocking.init(engine="inline"):
        ref = blocking.remote(Sleeper).remote().sleep.remote()
        blocking.cancel(ref)

        with pytest.raises(blocking.exceptions.RayTaskError) as caught:
            blocking.get(ref)

    assert isinstance(caught.value, TaskCancelledError)


# Cancelled calls: the table in docs/how-to/failures.md.


async def _in_group(ref: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_await(ref))


async def _in_order(ref: Any) -> None:
    async for done in actorlib.as_completed([ref]):
        await done


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        (_await, TaskCancelledError),
        (_in_order, TaskCancelledError),
        (_in_group, ExceptionGroup),
        (asyncio.gather, asyncio.CancelledError),
        (asyncio.shield, asyncio.CancelledError),
        (
            lambda ref: asyncio.wait_for(ref, 60),
            TaskCancelledError
            if sys.version_info >= (3, 12)
            else asyncio.CancelledError,
        ),
    ],
)
async def test_wait_when_the_call_was_cancelled_then_the_error_of_the_table(
    wait: Callable[[Any], Any], kind: type[BaseException]
) -> None:
    ref = actorlib.remote(Sleeper).remote().sleep.remote()
    asyncio.get_running_loop().call_soon(actorlib.cancel, ref)

    with pytest.raises(kind):
        await wait(ref)
