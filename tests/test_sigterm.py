"""An actor that gets SIGTERM while it runs calls."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

import actorlib
from actorlib.exceptions import ActorDiedError

pytestmark = [
    pytest.mark.usefixtures("runtime"),
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
]


@actorlib.remote
class Looped:
    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def pid(self) -> int:
        return os.getpid()

    async def wait(self) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        await self.go_on.wait()
        return "whole"

    async def finish(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.go_on.set)


@actorlib.remote(max_concurrency=3)
class Threaded:
    def __init__(self) -> None:
        self.go_on = threading.Event()

    def pid(self) -> int:
        return os.getpid()

    def wait(self) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        self.go_on.wait()
        return "whole"

    def finish(self, seconds: float) -> None:
        threading.Timer(seconds, self.go_on.set).start()


@pytest.mark.parametrize("kind", [Looped, Threaded])
async def test_actor_when_it_gets_sigterm_then_running_calls_end_first(
    kind: Any,
) -> None:
    actor = kind.remote()
    await actor.finish.remote(0.2)

    assert await actor.wait.remote() == "whole"

    with pytest.raises(ActorDiedError) as caught:
        await actor.pid.remote()
    assert caught.value.exit.signal == signal.SIGTERM


@pytest.mark.parametrize("kind", [Looped, Threaded])
async def test_actor_when_it_gets_sigterm_twice_then_it_ends_at_once(
    kind: Any,
) -> None:
    actor = kind.remote()
    pid = await actor.pid.remote()
    waiting = actor.wait.remote()
    while not waiting.done():
        os.kill(pid, signal.SIGTERM)
        await asyncio.wait([waiting], timeout=0.1)

    with pytest.raises(ActorDiedError):
        await waiting
