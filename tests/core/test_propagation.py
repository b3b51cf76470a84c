"""Context variables that travel with calls."""

from __future__ import annotations

import asyncio
import copyreg
import pickle
import subprocess
import sys
import threading
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # it ships none
import pytest
from helpers.actors import LIMIT, AsyncCaller, Caller, Gate, end_of

import actorlib
from actorlib._core import propagation
from actorlib.exceptions import SerializationError, TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib import ActorHandle, Runtime


request_id: ContextVar[Any] = actorlib.propagate(ContextVar("request_id"))
depth: ContextVar[int] = actorlib.propagate(ContextVar("depth", default=7))
private: ContextVar[str] = ContextVar("private")

process = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture
def marked() -> Iterator[None]:
    """Forgets what a test marks."""
    known = dict(propagation.PROPAGATED)
    yield
    propagation.PROPAGATED.clear()
    propagation.PROPAGATED.update(known)


class Reader:
    """Tells what the variables hold."""

    def read(self) -> tuple[Any, int]:
        """Both."""
        return request_id.get(None), depth.get()

    def set_and_read(self, value: str) -> Any:
        """Sets one and reads it."""
        request_id.set(value)
        return request_id.get()

    def start(self) -> Any:
        """What a thread with the context of the method reads."""
        told: list[Any] = []
        context = copy_context()
        thread = threading.Thread(
            target=lambda: told.append(context.run(request_id.get, None))
        )
        thread.start()
        thread.join()
        return told[0]


class LoopedReader(Reader):
    """The same, with an event loop."""

    async def read(self) -> tuple[Any, int]:  # type: ignore[override]
        """Both, in a task."""
        return await asyncio.create_task(_read())


async def _read() -> tuple[Any, int]:
    return request_id.get(None), depth.get()


KINDS = {
    "serial": actorlib.remote(Reader),
    "threaded": actorlib.remote(max_concurrency=2)(Reader),
    "looped": actorlib.remote(LoopedReader),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


class TestCalls:
    """With real processes."""

    pytestmark = process

    async def test_variable_when_calls_are_looked_at_then_each_says_its_own(
        self, runtime: Runtime
    ) -> None:
        gate = Gate.remote()
        request_id.set({"id": "r1"})
        ref = AsyncCaller.remote().call.remote(gate, "wait")
        await gate.reached.remote()

        told = {call.method: call.variables for call in runtime.calls()}

        assert told == {"call": {"request_id": {"id": "r1"}}, "wait": told["call"]}
        await gate.open.remote()
        await ref

    @each_kind
    async def test_variable_when_set_then_the_methods_of_these_calls_have_it_alone(
        self, kind: Any
    ) -> None:
        reader = kind.remote()
        request_id.set("r1")
        depth.set(8)

        assert await reader.read.remote() == ("r1", 8)
        assert await reader.start.remote() == "r1"
        assert await reader.set_and_read.remote("theirs") == "theirs"
        assert await reader.read.remote() == ("r1", 8)
        assert request_id.get() == "r1"
        clean = asyncio.create_task(_ask(reader), context=Context())
        assert await clean == (None, 7)
        depth.set(7)

    async def test_variable_when_its_value_cannot_be_sent_then_refused_at_remote(
        self,
    ) -> None:
        reader = KINDS["serial"].remote()
        request_id.set(threading.Lock())

        with pytest.raises(TypeError, match="'request_id', a lock,") as caught:
            reader.read.remote()

        assert isinstance(caught.value, SerializationError)
        request_id.set("r1")
        assert await reader.read.remote() == ("r1", 7)
        caller = AsyncCaller.remote()
        with pytest.raises(TaskError, match="'request_id', a lock,"):
            await caller.run.remote(_set_lock_and_ask, reader)

    @pytest.mark.parametrize("kind", [Caller, AsyncCaller])
    async def test_variable_when_it_cannot_be_loaded_then_handles_sent_with_it_go_back(
        self, kind: Any
    ) -> None:
        caller, back = kind.remote(), KINDS["serial"].remote()
        await asyncio.gather(caller, back)
        request_id.set(Unloadable())
        with pytest.raises(TypeError, match="'request_id' cannot be loaded here"):
            await caller.run.remote(_ask, back)
        request_id.set("r1")
        assert (await back.read.remote())[0] == "r1"

        ended = end_of(back)
        del back

        async with asyncio.timeout(LIMIT):
            await ended


async def _ask(reader: Any) -> Any:
    return await reader.read.remote()


async def _set_lock_and_ask(handle: ActorHandle[Any]) -> Any:
    request_id.set(threading.Lock())
    return await handle.read.remote()


def _refuse() -> None:
    raise RuntimeError("not here")


class Unloadable:
    """Pickles, and does not load."""

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, ()


# The parts.


@pytest.mark.process
def test_propagate_when_marked_then_it_gives_the_variable_back() -> None:
    assert isinstance(request_id, ContextVar)
    assert actorlib.propagate(request_id) is request_id


@pytest.mark.process
@pytest.mark.parametrize("wrong", [None, "request_id", 1])
def test_propagate_when_it_is_no_variable_then_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"propagate\(\) takes a contextvars"):
        actorlib.propagate(wrong)


@pytest.mark.process
@pytest.mark.usefixtures("marked")
def test_propagate_when_another_module_has_that_name_then_refused() -> None:
    other: dict[str, Any] = {"__name__": "other", "ContextVar": ContextVar}
    code = "import actorlib; actorlib.propagate(ContextVar('request_id'))"

    with pytest.raises(ValueError, match=r"test_propagation has already marked"):
        exec(code, other)  # a module of another name


@pytest.mark.process
@pytest.mark.usefixtures("marked")
def test_propagate_when_its_module_is_loaded_again_then_the_new_one_counts() -> None:
    new = actorlib.propagate(ContextVar[Any]("request_id"))

    assert pickle.loads(pickle.dumps(new)) is new


@pytest.mark.process
@pytest.mark.usefixtures("marked")
def test_enter_when_nobody_has_it_yet_then_who_marks_it_later_has_the_value() -> None:
    def inside() -> Any:
        propagation.set_values({"later": 5})
        assert propagation.current_values()["later"] == 5
        return actorlib.propagate(ContextVar[Any]("later")).get()

    assert copy_context().run(inside) == 5


@pytest.mark.process
def test_pickle_when_marked_then_by_name() -> None:
    assert pickle.loads(pickle.dumps(request_id)) is request_id
    assert cloudpickle.loads(cloudpickle.dumps(depth)) is depth


@pytest.mark.process
@pytest.mark.usefixtures("marked")
def test_pickle_when_it_arrives_where_nobody_has_it_then_it_keeps_its_default() -> None:
    propagation.PROPAGATED["depth"] = propagation.PropagatedVariable(depth, "__main__")
    data = cloudpickle.dumps(depth)
    del propagation.PROPAGATED["depth"]

    arrived = cloudpickle.loads(data)

    assert arrived is not depth
    assert (arrived.name, arrived.get()) == ("depth", 7)


@pytest.mark.process
def test_pickle_when_it_is_not_marked_then_refused_with_what_to_do() -> None:
    assert ContextVar in copyreg.dispatch_table
    with pytest.raises(TypeError, match=r"'private'.*actorlib\.propagate"):
        cloudpickle.dumps(private)


SCRIPT = """
import asyncio
from contextvars import ContextVar
import actorlib

name = actorlib.propagate(ContextVar("name", default="nobody"))

@actorlib.remote
class Greeter:
    def greet(self):
        return f"hello {name.get()}"

async def main():
    async with actorlib.init(num_cpus=1, num_gpus=0):
        greeter = Greeter.remote()
        print(await greeter.greet.remote())
        name.set("you")
        print(await greeter.greet.remote())

asyncio.run(main())
"""


@pytest.mark.process
def test_variable_when_of_a_script_then_its_classes_travel(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(actorlib.__file__).parents[1],
        env={"PYTHONPATH": str(Path(actorlib.__file__).parents[1])},
        timeout=30,
    )

    assert (done.stdout, done.stderr) == ("hello nobody\nhello you\n", "")
