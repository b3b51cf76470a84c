"""Remote functions whose worker cannot be started, or whose runtime ends."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import gone, running
from helpers.calls import raised
from helpers.functions import add, halt, pid
from helpers.marks import in_memory
from helpers.turns import next_turn

import actorlib
from actorlib._core.engine import find_engine
from actorlib.exceptions import WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.actors import Stop

    from actorlib import Runtime
    from actorlib._owner.engine import LocalEngine
    from actorlib._processes.launcher import WorkerProcess

pytestmark = in_memory(num_cpus=2, num_gpus=2)


class Room:
    """Lets so many workers live at once, as a limit of open files does.

    Attributes:
        most: How many.
        refused: How many starts have failed.
    """

    def __init__(self, launch: Callable[..., WorkerProcess]) -> None:
        self.most = self.refused = 0
        self._launch = launch
        self._alive: set[WorkerProcess] = set()

    def launch(self, *args: Any, **kwargs: Any) -> WorkerProcess:
        if len(self._alive) >= self.most:
            self.refused += 1
            raise OSError(errno.ENOMEM, "no room for a worker")
        process = self._launch(*args, **kwargs)
        self._alive.add(process)
        process.exited.add_done_callback(lambda _: self._alive.discard(process))
        return process


@pytest.fixture
def room(own_runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Room:
    del own_runtime
    node = cast("LocalEngine", find_engine()).machine
    room = Room(node.launch)
    monkeypatch.setattr(node, "launch", room.launch)
    return room


def _messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records]


@pytest.mark.parametrize("resources", [{}, {"num_gpus": 1}], ids=["CPU", "GPU"])
async def test_calls_when_one_more_worker_cannot_be_started_then_another_runs_them(
    resources: Any, own_runtime: Runtime, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.most = 1
    adding = add.options(**resources)
    results = await asyncio.gather(*(adding.remote(i, 1) for i in range(20)))
    assert results == [*range(1, 21)]
    assert "no room for a worker" in own_runtime.explain(adding)
    (message,) = _messages(caplog)
    assert "no further worker can be started that runs add" in message
    assert "no room for a worker" in message


async def test_call_when_a_worker_can_be_started_again_then_it_waits_for_no_other(
    own_runtime: Runtime, room: Room, stop: Stop
) -> None:
    room.most = 1
    first = halt.remote(stop.place)
    await stop.reached()
    second = halt.remote(stop.place)
    while not room.refused:
        await next_turn()
    room.most = 2
    await stop.reached()
    assert "no room" not in own_runtime.explain(halt)
    stop.release()
    stop.release()
    await asyncio.gather(first, second)


async def test_call_when_no_worker_can_be_started_then_it_fails_with_the_reason(
    room: Room,
) -> None:
    calls = [add.remote(i) for i in range(10)]
    for call in calls:
        error = await raised(call)
        assert isinstance(error, WorkerCrashedError)
        assert "no process could be started that runs add: " in str(error)
        assert "no room for a worker" in str(error)
    assert room.refused <= 2 * len(calls)
    room.most = 1
    assert await add.remote(1) == await add.remote(1)


async def test_nested_call_when_only_its_caller_has_a_worker_then_it_fails(
    room: Room,
) -> None:
    @actorlib.remote(max_retries=0)
    def outer(depth: int) -> str:
        try:
            return actorlib.get(outer.remote(depth - 1)) if depth else "done"
        except WorkerCrashedError as error:
            return str(error)

    room.most = 1
    assert await outer.remote(0) == "done"
    assert "no room for a worker" in await outer.remote(1)
    room.most = 2
    assert await outer.remote(1) == "done"


# The end of the runtime.


@pytest.mark.process
async def test_shutdown_when_very_many_calls_wait_then_all_fail(stop: Stop) -> None:
    async with running(num_cpus=2, grace=0.1):
        first = await pid.remote()
        refs = [halt.remote(stop.place) for _ in range(10_000)]
    answers = await asyncio.gather(*refs, return_exceptions=True)
    assert {type(answer) for answer in answers} == {WorkerCrashedError}
    assert "the runtime was shut down" in str(answers[-1])
    await gone(first)
    with pytest.raises(RuntimeError, match="no runtime"):
        pid.remote()
