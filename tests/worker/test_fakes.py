"""Workers and engines that tests use instead of the real ones behave as those do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import LIMIT, Counter, running
from helpers.engine import FakeEngine
from helpers.memory_launcher import MemoryLauncher
from helpers.scripted import ScriptedLauncher

import actorlib
from actorlib._core.engine import find_engine, set_engine
from actorlib._inline.launcher import InlineLauncher
from actorlib._options.runtime_options import RuntimeOptions
from actorlib._owner.launching import begin_launcher
from actorlib._wire.codec import FrameDecoder, decode_message, encode
from actorlib._wire.messages import READY, RESULT, RESULT_SCALAR
from actorlib._worker.template.prefork import warm_up_frames
from actorlib.exceptions import ActorNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from actorlib._core.engine import Engine
    from actorlib._processes.launcher import Launcher, WorkerProcess
    from actorlib._wire.messages import Frame

LAUNCHERS: dict[str, Callable[[], Launcher]] = {
    "processes": lambda: begin_launcher(RuntimeOptions(preload=())),
    "inline": lambda: InlineLauncher(asyncio.get_running_loop(), RuntimeOptions()),
    "memory": lambda: MemoryLauncher(asyncio.get_running_loop(), RuntimeOptions()),
    "scripted": lambda: ScriptedLauncher(asyncio.get_running_loop(), {}),
}


@pytest.fixture(
    params=[pytest.param("processes", marks=pytest.mark.process), *[*LAUNCHERS][1:]]
)
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    launcher = LAUNCHERS[request.param]()
    await launcher.start()
    yield launcher
    await launcher.aclose()


def start_of(launcher: Launcher) -> bytes:
    """What a worker is sent first."""
    [(kind, config, *rest)] = decode_message(warm_up_frames()[0])
    is_inline = isinstance(launcher, InlineLauncher)
    return cast("bytes", encode((kind, {**config, "is_inline": is_inline}, *rest)))


class Owner:
    """The owner's end of the pipe of a worker."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._sock = worker.sock
        self._sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._decoder = FrameDecoder()

    async def send(self, *frames: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, b"".join(frames))

    async def receive(self) -> list[Frame]:
        """The next frames; none at the end of the pipe."""
        receiving = asyncio.get_running_loop().sock_recv(self._sock, 1 << 16)
        data = await asyncio.wait_for(receiving, LIMIT)
        return self._decoder.feed(data) if data else []


async def test_worker_when_told_to_stop_then_it_has_answered_and_ends(
    launcher: Launcher,
) -> None:
    worker = launcher.launch("Model", has_devices=False)
    owner = Owner(worker)
    _, call, _, stop = warm_up_frames()

    await owner.send(start_of(launcher))
    [ready] = await owner.receive()
    await owner.send(call)
    [answer] = await owner.receive()
    await owner.send(stop)

    how = await asyncio.wait_for(asyncio.shield(worker.exited), LIMIT)
    assert ready[0] == READY
    assert (answer[0] in (RESULT, RESULT_SCALAR), answer[1]) == (True, 1)
    assert (how.code, how.signal) in [(0, None), (None, None)]
    worker.sock.close()


@pytest.mark.parametrize("ended_by", ["kill", "aclose"])
async def test_worker_when_it_is_ended_then_its_pipe_and_its_future_say_so(
    launcher: Launcher, ended_by: str
) -> None:
    workers = [launcher.launch("Model", has_devices=False) for _ in range(2)]
    owners = [Owner(worker) for worker in workers]
    for owner in owners:
        await owner.send(start_of(launcher))
        assert [frame[0] for frame in await owner.receive()] == [READY]

    if ended_by == "kill":
        for worker in workers * 2:  # once more is harmless
            worker.kill()
    else:
        await launcher.aclose()

    for worker, owner in zip(workers, owners, strict=True):
        await asyncio.wait_for(asyncio.shield(worker.exited), LIMIT)
        assert await owner.receive() == []
        worker.sock.close()


@pytest.fixture(params=["memory", "fake"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    if request.param == "memory":
        async with running(num_cpus=4):
            yield cast("Engine", find_engine())
        return
    fake = FakeEngine()
    set_engine(fake)
    yield fake
    set_engine(None)


@pytest.mark.memory
async def test_engine_when_actors_are_made_then_they_are_found_by_their_names(
    engine: Engine,
) -> None:
    first, second = Counter.options(name="a").remote(0), Counter.remote(0)
    same = Counter.options(name="a", get_if_exists=True).remote(0)

    assert await first is first
    assert actorlib.get_actor("a") == first == same != second
    assert engine.names() == [("default", "a")]
    with pytest.raises(ActorNotFoundError, match="'b'"):
        engine.find("b", None)
    assert len(engine.loads([])) == 0


@pytest.mark.memory
async def test_engine_when_calls_are_made_then_their_refs_are_open_until_they_end(
    engine: Engine,
) -> None:
    actor: Any = Counter.remote(0)

    ref, other = actor.add.remote(), actor.add.remote()
    assert (ref.done(), other.done()) == (False, False)
    ref.cancel()
    assert ref.cancelled()
    assert await engine.put("value") == "value"
    await actorlib.kill(actor)
    assert other.done() or isinstance(engine, FakeEngine)
