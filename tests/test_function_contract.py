"""What every engine promises of remote functions: the same tests for each of them.

What belongs to processes (deaths, variables, large values in shared memory) has tests
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    shared,
    shared_in_memory,
)
from helpers.attached import shared_by_attaching
from helpers.calls import raised
from helpers.functions import add, fail, group_of

import actorlib
from actorlib.exceptions import (
    DeadlineExceededError,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import Literal

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]
    Engine = Literal["local", "memory", "inline", "attached"]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

SOON = 0.05


ATTACHED = pytest.param("attached", marks=pytest.mark.thorough)


@pytest.fixture(scope="module", params=["local", "memory", "inline", ATTACHED])
def engine(request: pytest.FixtureRequest) -> Engine:
    return cast("Engine", request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend(engine: Engine) -> AsyncIterator[Lend]:
    if engine == "memory":
        async with shared_in_memory(num_cpus=2, num_gpus=2) as lend:
            yield lend
        return
    if engine == "attached":
        async with shared_by_attaching(num_cpus=2) as lend:
            yield lend
        return
    async with shared(engine=engine, num_cpus=2, num_gpus=2) as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime


@actorlib.remote
def until_canceled(path: Path | None = None) -> None:
    """Looks whether anybody still waits."""
    context = actorlib.get_runtime_context()
    try:
        while not context.is_canceled():
            pass
    finally:
        if path is not None:
            path.write_text("left")


@actorlib.remote
def left() -> float | None:
    return actorlib.get_runtime_context().time_left()


async def idle() -> None:
    """Waits until no call holds a CPU."""
    await actorlib.remote(num_cpus=2)(lambda: None).remote()


def after(function: Any, *args: Any) -> Any:
    """What a function gives that another one calls."""
    return actorlib.get(function.remote(*args))


async def after_later(function: Any, *args: Any) -> Any:
    """The same, from an ``async def``."""
    return await function.remote(*args)


call = actorlib.remote(after)


# Calls.


async def test_call_when_functions_call_functions_then_none_hangs() -> None:
    assert await call.remote(call, call, call, add, 1) == 1


@pytest.mark.parametrize(
    ("caller", "ask"),
    [(Caller, after), (AsyncCaller, after_later)],
    ids=["sync", "async"],
)
async def test_actors_call_functions_and_functions_actors(
    caller: Any, ask: Any
) -> None:
    assert await caller.remote().run.remote(ask, add, 3) == 3
    counter = Counter.remote()
    assert await actorlib.remote(lambda c: c.add.remote(2).get()).remote(counter) == 2


async def test_call_when_its_process_ends_then_it_is_told() -> None:
    error = await raised(fail.options(max_retries=0).remote(SystemExit(3)))
    assert type(error) is WorkerCrashedError


# Deadlines.


async def late(ref: Any) -> DeadlineExceededError:
    with pytest.raises(DeadlineExceededError) as caught:
        await ref
    return caught.value


async def test_map_when_in_chunks_then_in_order_and_each_chunk_has_its_time() -> None:
    assert [v async for v in add.map(range(5), chunksize=2)] == [0, 1, 2, 3, 4]
    late = until_canceled.options(timeout=SOON).map([None] * 2, chunksize=2)
    with pytest.raises(DeadlineExceededError):
        await anext(late)
    await idle()
    assert [v async for v in add.map([1, 2], [3, 4], chunksize=2)] == [4, 6]


# The end.


async def test_max_calls_when_reached_then_another_worker(
    runtime: Runtime, engine: Engine
) -> None:
    @actorlib.remote(max_calls=1)
    def here() -> str:
        return actorlib.get_runtime_context().get_worker_id()

    assert len({await here.remote() for _ in range(3)}) == 3
    if engine != "attached":  # the owner is asked later, and may know of no group
        assert group_of(runtime).running == 0
