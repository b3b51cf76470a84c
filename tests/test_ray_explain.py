"""What a runtime on a cluster tells of its calls, and of what waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Caller, Stop
from helpers.calls import raised
from helpers.on_ray import NEEDS_CLIENT, NEEDS_RAY
from helpers.reused import Echo, Gate

import actorlib
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib import Runtime


pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_RAY,
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture(
    scope="module",
    params=["ray_cluster", pytest.param("ray_client", marks=NEEDS_CLIENT)],
)
def address(request: pytest.FixtureRequest) -> str:
    return cast("str", request.getfixturevalue(request.param))


@actorlib.remote
class Source:
    """Yields for ever."""

    def items(self) -> Iterator[int]:
        yield 1


async def test_calls_without_an_answer_say_what_they_wait_for(
    runtime: Runtime,
) -> None:
    """What was answered is not kept, as on the local engine."""
    assert runtime.calls() == []
    with pytest.raises(UnsupportedOptionError, match="ray list objects"):
        runtime.objects()
    caller, echo, gate = Caller.remote(), Echo.remote(), Gate.remote()
    await asyncio.gather(caller, echo, gate)
    with Stop() as stop:
        running_call = caller.run.remote(stop.place.stop_here)
        await stop.reached()
        refs = [running_call, echo.echo.remote(running_call), echo.pid.remote()]
        refs += [gate.wait.remote("a")]
        waits = Echo.options(resources={"far": 4}).remote()
        holds = Echo.options(resources={"far": 4}).remote()
        unplaced = holds.echo.remote(1), waits.echo.remote(1)

        told = [(call.class_name, call.method, call.state) for call in runtime.calls()]
        assert told == [
            ("Caller", "run", "sent"),
            ("Echo", "echo", "pending_arguments"),
            ("Echo", "pid", "pending_arguments"),
            ("Gate", "wait", "sent"),
            ("Echo", "echo", "pending_actor"),
            ("Echo", "echo", "pending_actor"),
        ]
        await gate.open.remote("a")
        stop.release()
    await asyncio.gather(*refs)
    del waits, holds, unplaced


async def test_explain_when_an_actor_lives_then_it_says_where(runtime: Runtime) -> None:
    echo = await Echo.options(num_gpus=0.5).remote()
    pid = await echo.pid.remote()

    told = runtime.explain(echo)

    assert told.startswith("Echo is alive on the machine ")
    assert f"in the process {pid}" in told
    assert "get_gpu_ids()" in told


async def test_explain_when_an_actor_waits_then_it_says_what_there_is(
    runtime: Runtime,
) -> None:
    holder = await Echo.options(resources={"far": 4}).remote()
    waiting = Echo.options(resources={"far": 3}).remote()

    told = runtime.explain(waiting)

    assert told.startswith("Echo is ")
    assert "requests far=3" in told
    assert "Ray does not report" in told
    assert "CPU=" in told
    assert "far=" in told
    del holder


async def test_explain_when_an_actor_is_dead_then_it_says_how(runtime: Runtime) -> None:
    echo = Echo.remote()
    await echo.pid.remote()
    await actorlib.kill(echo)
    await raised(echo.pid.remote())
    never = Echo.options(num_gpus=64).remote()

    assert runtime.explain(echo).startswith("Echo is dead: ")
    assert "was never made: Echo requests GPU=64" in runtime.explain(never)


async def test_explain_when_given_a_class_then_it_says_where_it_could_go(
    runtime: Runtime,
) -> None:
    near = cast("Any", Echo).options(num_gpus=1)
    nowhere = cast("Any", Echo).options(num_gpus=64)

    assert "Echo requests GPU=1" in runtime.explain(near)
    assert "have" in runtime.explain(nowhere)
    assert "GPU=64" in runtime.explain(nowhere)


async def test_explain_when_given_a_group_then_it_says_where_its_bundles_are(
    runtime: Runtime,
) -> None:
    first = actorlib.placement_group([{"far": 4}], name="first")
    await first.ready()
    second = actorlib.placement_group([{"far": 1}], name="second")

    reserved, waiting = runtime.explain(first), runtime.explain(second)
    await asyncio.gather(*map(actorlib.remove_placement_group, (first, second)))

    assert reserved.startswith("the placement group first is reserved: far=4 on ")
    assert waiting.startswith(
        "the placement group second waits and requests far=1, PACK"
    )
    assert "Ray says" in waiting
    assert "was removed" in runtime.explain(first)
