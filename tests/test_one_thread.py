"""An actor with an event loop on the main thread of its process: signals, and its end.

Which thread runs a method on every engine is in ``contract/test_method_threads.py``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, end_of
from helpers.marks import in_processes

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    *in_processes(),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


@actorlib.remote
class Mixed:
    """Runs functions in a plain method, and has an event loop."""

    def run(self, function: Any, *args: Any) -> Any:
        return function(*args)

    async def idle(self) -> None:
        """Gives it the loop."""


async def test_get_when_a_signal_handler_raises_then_the_wait_ends() -> None:
    def ask(gate: Any) -> str:
        def ring(*_: object) -> None:
            raise InterruptedError("rang")

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            actorlib.get(gate.wait.remote())
        except InterruptedError as error:
            return str(error)
        finally:
            signal.signal(signal.SIGALRM, before)
        return "nothing"

    assert await Mixed.remote().run.remote(ask, Gate.remote()) == "rang"


# The end of the actor, and signals while it is idle.


@actorlib.remote
class Leaves:
    """Notes signals, leaves in a task of its own, and cleans up."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self._signals.put_nowait(number)

    def pid(self) -> int:
        return os.getpid()

    async def next_signal(self) -> int:
        return await self._signals.get()

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        actorlib.exit_actor()

    async def __ray_shutdown__(self) -> None:
        await asyncio.sleep(0)
        with open(self._path, "a") as file:  # noqa: ASYNC230, PTH123  # in the actor
            file.write("cleaned up")


async def test_actor_when_idle_then_it_handles_signals_and_a_task_may_leave(
    tmp_path: Path,
) -> None:
    path = tmp_path / "note"
    actor = Leaves.remote(str(path))
    end = end_of(actor)
    pid = await actor.pid.remote()
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signalled = actor.next_signal.remote()
        os.kill(pid, number)
        assert await signalled == number

    await actor.begin.remote()
    await end

    assert path.read_text() == "cleaned up"


@actorlib.remote
class Endless:
    """A plain generator without an end, with a state that other methods read."""

    def __init__(self) -> None:
        self.number = 0
        self.turns = 0
        self.task = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def count(self, path: str) -> Iterator[int]:
        try:
            while True:
                self.number += 1
                yield self.number
        finally:
            with open(path, "a") as file:  # noqa: PTH123  # in the actor
                file.write("closed")

    async def state(self) -> tuple[int, int]:
        return self.number, self.turns


async def test_stream_when_endless_and_unread_then_the_loop_and_the_end_go_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "note"
    async with Endless.remote() as actor:
        items = actor.count.options(detach=True).remote(str(path))
        await anext(items)
        del items
        number, turns = await actor.state.remote()
        while True:
            later, turned = await actor.state.remote()
            if later > number + 100 and turned > turns:
                break

    assert path.read_text() == "closed"


async def test_function_when_a_thread_and_the_loop_call_it_first_then_both_run() -> (
    None
):
    @actorlib.remote
    def echo(number: int) -> int:
        return number

    @actorlib.remote
    class Both:
        async def call(self) -> list[int]:
            refs: list[Any] = []
            # The loop stands still until the thread has ended.
            thread = threading.Thread(target=lambda: refs.append(echo.remote(1)))
            thread.start()
            thread.join()
            refs.append(echo.remote(2))
            return [await ref for ref in refs]

    assert await Both.remote().call.remote() == [1, 2]
