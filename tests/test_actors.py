"""Actors, and where their classes are defined."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Echo, Gate, Keeper, end_of, living, running
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory
from helpers.program_runner import printed_by
from helpers.rare_cases import rarely

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from actorlib import Runtime

pytestmark = in_memory(preload=[__name__])

# Without the runtime that the others share, and without its loop.
alone = pytest.mark.asyncio(loop_scope="function")

ROOT = Path(actorlib.__file__).parents[1]


@alone
@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are newer")
async def test_loop_when_its_tasks_are_eager_then_actors_are_as_elsewhere() -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    async with running():
        echo = Echo.remote()
        assert await echo.echo.remote(1) == 1
        refs = [echo.echo.remote(number) for number in range(100)]
        assert await asyncio.gather(*refs) == list(range(100))
        failed = echo.fail.remote(ValueError("bad"))
        await asyncio.wait([failed])
        never = Keeper.remote(failed)
        with pytest.raises(ActorDiedError):
            await never
        await actorlib.kill(echo)
        with pytest.raises(ActorDiedError):
            await echo.echo.remote(1)


@alone
async def test_a_class_decorated_before_the_runtime_serves_several() -> None:
    @actorlib.remote
    class Early:
        def answer(self) -> int:
            return 42

    for _ in range(2):
        async with running():
            assert await Early.remote().answer.remote() == 42
    with pytest.raises(RuntimeError, match=r"actorlib\.init\(\)"):
        Early.remote()


async def test_ids_stay_unique_under_equal_seeds(runtime: Runtime) -> None:
    handles = []
    for _ in range(4):
        random.seed(1)
        handles.append(Caller.remote())

    def make() -> Any:
        random.seed(1)
        return Echo.remote()

    handles += [await handle.run.remote(make) for handle in handles[:]]
    ids = {actor.actor_id for actor in living(runtime)}
    assert len(ids) == len(handles) == 8


# Where a class is defined.


SCRIPT = """
import asyncio
import json
import os

import actorlib

FACTOR = 3


class Base:
    unit = "m"

    def scaled(self, x):
        return FACTOR * x


class Item:
    def __init__(self, value):
        self.value = value


@actorlib.remote
class Main(Base):
    made = 0

    def __init__(self, depth=0):
        self.depth = depth

    def ask(self):
        return Main.unit, self.scaled(2), self.depth, type(self).__module__

    def child(self):
        return actorlib.get(Main.remote(self.depth + 1).ask.remote())

    def item(self, item):
        return Item(item.value + 1), isinstance(item, Item)

    def pid(self):
        return os.getpid()


async def main():
    start_method = os.environ["START_METHOD"]
    async with actorlib.init(num_cpus=1, num_gpus=0, start_method=start_method):
        actor = Main.remote()
        item, known = await actor.item.remote(Item(1))
        print(json.dumps([
            await actor.ask.remote(),
            await actor.child.remote(),
            item.value,
            isinstance(item, Item),
            known,
            await actor.pid.remote() != os.getpid(),
        ]))


asyncio.run(main())
"""


@alone
@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["template", *rarely("spawn")])
@pytest.mark.parametrize("form", ["script", *rarely("module", "command", "stdin")])
async def test_a_class_of_the_program_itself(
    tmp_path: Path, start_method: str, form: str
) -> None:
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")
    words = {
        "script": ["program.py"],
        "module": ["-m", "program"],
        "command": ["-c", SCRIPT],
        "stdin": ["-"],
    }
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *words[form]],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "START_METHOD": start_method,
        },
        cwd=tmp_path,
        input=SCRIPT if form == "stdin" else None,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == [
        ["m", 6, 0, "__main__"],
        ["m", 6, 1, "__main__"],
        2,
        True,
        True,
        True,
    ]


MODULE = """
import actorlib

LOADED = []


@actorlib.remote
class Found:
    limit = 7

    def ask(self):
        LOADED.append(1)
        return Found.limit, __name__, len(LOADED)

    def child(self):
        return actorlib.get(Found.remote().ask.remote())

    class Nested:
        pass


class Outer:
    @actorlib.remote
    class Inner:
        def ask(self):
            return Outer.__name__


Other = Found.options(num_cpus=1)
"""


@pytest.mark.process
@alone
async def test_a_class_of_a_module_is_found_where_the_owner_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acting_module.py").write_text(textwrap.dedent(MODULE), "utf-8")
    async with running() as runtime:
        # After the start, so it is the owner's path now that counts.
        monkeypatch.syspath_prepend(tmp_path)
        import acting_module  # type: ignore[import-not-found]  # noqa: PLC0415

        monkeypatch.delitem(sys.modules, "acting_module")
        monkeypatch.setitem(sys.modules, "acting_module", acting_module)
        found = acting_module.Found.remote()
        assert await found.ask.remote() == (7, "acting_module", 1)
        assert await found.child.remote() == (7, "acting_module", 1)
        assert await acting_module.Outer.Inner.remote().ask.remote() == "Outer"
        other = acting_module.Other.remote()
        assert await other.ask.remote() == (7, "acting_module", 1)
        assert runtime.available_resources()["CPU"] == 3
    assert acting_module.LOADED == []


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_breakpoint_when_in_another_process_then_refused_or_delegated() -> None:
    @actorlib.remote
    def stops() -> None:
        breakpoint()

    caller = Caller.remote()
    for stopped in (caller.run.remote(breakpoint), stops.remote()):
        with pytest.raises(RuntimeError, match=r'no terminal.*engine="inline"'):
            await stopped

    env: Any = {"env_vars": {"PYTHONBREAKPOINT": "os.getpid"}}
    caller = Caller.options(runtime_env=env).remote()
    pid = await caller.run.remote(os.getpid)
    assert await caller.run.remote(breakpoint) == pid


# Threads and loops.


@USES_RUNTIME
async def test_threads_when_they_drop_handles_then_the_actors_end() -> None:
    caller = Caller.options(max_concurrency=3).remote()

    def use(echo: Any) -> Any:
        return actorlib.get([echo.echo.remote(1)])

    for _ in range(5):
        echo = Echo.remote()
        ended = end_of(echo)
        refs = [caller.run.remote(use, echo) for _ in range(3)]
        assert await asyncio.gather(*refs) == [[1], [1], [1]]
        del echo
        await ended


@USES_RUNTIME
async def test_coroutines_when_more_than_the_recursion_limit_then_all_run() -> None:
    count = 4 * sys.getrecursionlimit()
    gate = actorlib.remote(max_concurrency=count + 2)(Gate.__wrapped__).remote()
    refs = [gate.wait.remote() for _ in range(count)]
    await gate.reached.remote()
    await gate.open.remote()

    assert await asyncio.gather(*refs) == [""] * count


def _begin_at_once(loop: Any, work: Any, *, context: Any = None, **_: Any) -> Any:
    # As asyncio's own, which in 3.13.0 refuses options that newer uvloops give it.
    new_task: Any = asyncio.Task
    return new_task(work, loop=loop, context=context, eager_start=True)


@actorlib.remote(max_concurrency=2)
class Eager:
    """Its loop begins a task where it is made."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_task_factory(_begin_at_once)

    async def echo(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise LookupError("at once")

    async def count(self, number: int) -> Any:
        for value in range(number):
            yield value


@USES_RUNTIME
@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are newer")
@pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers")
async def test_async_actor_when_its_tasks_are_eager_then_calls_are_answered() -> None:
    actor = Eager.remote()
    refs = [actor.echo.remote(number) for number in range(2_000)]

    assert await asyncio.gather(*refs) == list(range(2_000))
    assert isinstance(await raised(actor.fail.remote()), LookupError)
    assert [await item async for item in actor.count.remote(9)] == list(range(9))
    unwanted = actor.echo.remote(1)
    unwanted.cancel()
    assert await actor.echo.remote(2) == 2


GATHERING = """
import asyncio
import actorlib

@actorlib.remote
class Echo:
    def both(self, **given):
        return given

async def main():
    async with actorlib.init(num_cpus=1):
        echo = await Echo.remote()

        async def gather():
            print(await asyncio.gather(echo.both.remote(a=1), echo.both.remote(a=2)))

        await asyncio.to_thread(lambda: asyncio.run(gather()))

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.slow
@alone
async def test_loop_when_it_first_gathers_calls_with_keywords_then_they_come() -> None:
    # In a process of its own: once a loop elsewhere is known, it is so for good.
    printed = await asyncio.to_thread(printed_by, GATHERING)
    assert printed == "[{'a': 1}, {'a': 2}]"
