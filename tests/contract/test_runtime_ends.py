"""The end of a runtime: what becomes of its actors, refs and handles."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    IN_MEMORY,
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    limited,
    running,
)
from helpers.attached import named_owner, new_name
from helpers.callers import error_of
from helpers.kinds import OWN_ENGINES, TWO_KINDS
from helpers.marks import in_processes

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorDiedError,
    ActorHandleNotFoundError,
    SerializationError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = in_processes()


GONE = "shut down|has detached"


@pytest.fixture
def begin(
    api: Api, engine: str, request: pytest.FixtureRequest
) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """What starts a runtime of the test's own in its cell."""
    options: dict[str, Any] = {"num_cpus": 4, "num_gpus": 2, "grace": 0.1}
    if engine == "inline":
        options["engine"] = "inline"

    @asynccontextmanager
    async def begin() -> AsyncGenerator[Any]:
        if engine == "attached":
            name = new_name()
            with named_owner(name, modules=request.path.parent), limited():
                attached: AbstractAsyncContextManager[Any] = (
                    _script({"address": name})
                    if api.is_blocking
                    else actorlib.attach(name)
                )
                async with attached as runtime:
                    yield runtime
        elif api.is_blocking:
            async with _script(options) as runtime:
                yield runtime
        else:
            before, IN_MEMORY[0] = IN_MEMORY[0], engine == "memory"
            try:
                async with running(**options) as runtime:
                    yield runtime
            finally:
                IN_MEMORY[0] = before

    return begin


@asynccontextmanager
async def _script(options: dict[str, Any]) -> AsyncGenerator[None]:
    await asyncio.to_thread(actorlib.blocking.init, **options)
    try:
        yield None
    finally:
        await asyncio.to_thread(actorlib.blocking.shutdown)


def pass_gate(gate: Any) -> None:
    actorlib.get(gate.wait.remote("the place"))


@OWN_ENGINES
@pytest.mark.slow
async def test_shutdown_when_actors_are_busy_then_their_calls_fail(
    api: Api, engine: str, begin: Callable[[], Any]
) -> None:
    threads = set(threading.enumerate())
    async with begin() as runtime:
        assert actorlib.is_initialized()
        gate, plain, looped = Gate.remote(), Caller.remote(), AsyncCaller.remote()
        done = [plain.run.remote(len, "x" * number) for number in range(20)]
        busy = [
            gate.wait.remote("other place"),
            plain.run.remote(pass_gate, gate),
            plain.run.remote(len, "ab"),
            looped.call.remote(gate, "wait", "other place"),
        ]
        for place in ("the place", "other place"):
            await api.get(gate.reached.remote(place))
        holder = Echo.options(num_gpus=2).remote()
        await api.get(holder.echo.remote(1))
        busy.append(Echo.options(num_gpus=1).remote().echo.remote("never placed"))

    assert [ref.result() for ref in done] == [*range(20)]
    lost = ActorHandleNotFoundError if engine == "attached" else ActorDiedError
    for ref in busy:
        with pytest.raises(lost, match=GONE):
            ref.result()
    assert not actorlib.is_initialized()
    with pytest.raises(ActorHandleNotFoundError, match=GONE):
        gate.reached.remote()
    if runtime is not None:
        with pytest.raises(RuntimeError, match="not running"):
            runtime.snapshot()
    left = {thread.name for thread in set(threading.enumerate()) - threads}
    assert not {name for name in left if "asyncio_" not in name}


@OWN_ENGINES
@pytest.mark.slow
async def test_shutdown_when_another_runtime_follows_then_earlier_handles_are_refused(
    api: Api, engine: str, begin: Callable[[], Any]
) -> None:
    async with begin():
        old = Counter.remote()
        ref = old.add.remote()
        assert await api.get(ref) == 1
    assert ref.result() == 1
    assert repr(old).startswith("Actor(Counter, ")
    await refused(old)
    async with begin() as runtime:
        await refused(old)
        if runtime is not None and engine in ("local", "memory", "inline"):
            with pytest.raises(ValueError, match=r"shut down|another runtime"):
                runtime.explain(old)
        with pytest.raises(SerializationError, match="another runtime"):
            Echo.remote().echo.remote(old)
        assert await api.get(Counter.remote().add.remote()) == 1
    if api.is_blocking:
        actorlib.blocking.shutdown()


async def refused(old: Any) -> None:
    with pytest.raises(ActorHandleNotFoundError, match=GONE):
        old.add.remote()
    with pytest.raises(ActorHandleNotFoundError, match=GONE):
        actorlib.kill(old)
    with pytest.raises(ActorHandleNotFoundError, match=GONE):
        await old
    with pytest.raises(ActorHandleNotFoundError, match=GONE):
        async with old:
            raise AssertionError


async def start_another(*, is_blocking: bool) -> None:
    if is_blocking:
        actorlib.blocking.init()
    else:
        await actorlib.init()


def start() -> None:
    actorlib.init()


@TWO_KINDS
async def test_init_when_a_runtime_runs_then_refused_here_and_in_callees(
    api: Api, callee: Callee
) -> None:
    with pytest.raises(RuntimeError, match="already"):
        await start_another(is_blocking=api.is_blocking)

    assert isinstance(await error_of(api, callee.run(start)), RuntimeError)
    assert await api.get(callee.run(len, "ab")) == 2
