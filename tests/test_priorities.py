"""Priorities of the actors, functions and groups that wait for resources."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.functions import halt
from helpers.marks import USES_RUNTIME, in_memory

import actorlib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.actors import Stop

    from actorlib import Runtime

pytestmark = [*in_memory(num_cpus=1, num_gpus=1, preload=[__name__]), USES_RUNTIME]

ran: list[str] = []
"""What has run, in order: workers in memory share the module."""


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@actorlib.remote(num_gpus=1)
class Model:
    """Ends when its only call is over, as nothing keeps its handle."""

    def run(self, name: str) -> None:
        ran.append(name)


@actorlib.remote
def note(name: str) -> None:
    ran.append(name)


@actorlib.remote
class Maker:
    """Makes actors, and calls functions, of several priorities."""

    async def make(self, priorities: Sequence[int]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in priorities:
                new = Model.options(priority=each).remote
                tasks.create_task(awaited(new().run.remote(f"made {each}")))

    async def call(self, priorities: Sequence[int]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for each in priorities:
                ref = note.options(priority=each, num_gpus=1).remote(f"called {each}")
                tasks.create_task(awaited(ref))

    async def answer(self) -> None:
        """Answers behind all that was requested before."""


async def awaited(ref: Any) -> None:
    await ref


async def placed_in_turn(stop: Stop) -> Any:
    """An actor that has the GPU until the test lets it go."""
    ref = halt.options(num_gpus=1).remote(stop.place)
    await stop.reached()
    return ref


async def test_actors_when_they_wait_then_the_highest_priority_is_first(
    runtime: Runtime, stop: Stop
) -> None:
    first = await placed_in_turn(stop)
    requests = [("low", -1), ("a", 0), ("high", 5), ("b", 0)]
    handles = {n: Model.options(priority=p, name=n).remote() for n, p in requests}
    refs = [handle.run.remote(name) for name, handle in handles.items()]

    assert runtime.snapshot().waiting == (
        "Model 'high': GPU=1, priority 5",
        "Model 'a': GPU=1",
        "Model 'b': GPU=1",
        "Model 'low': GPU=1, priority -1",
    )
    ahead = "Ahead of it in the queue: Model 'high' (GPU=1, priority 5)"
    assert runtime.explain(handles["a"]).endswith(ahead)
    assert runtime.explain(handles["low"]).endswith(f"{ahead} and 2 more")
    assert "Ahead" not in runtime.explain(handles["high"])
    assert "Ahead" not in runtime.explain(Model.options(priority=6))
    assert ahead in runtime.explain(Model.options(priority=5))
    handles.clear()
    stop.release()
    await asyncio.gather(first, *refs)
    assert ran == ["high", "a", "b", "low"]


@pytest.mark.parametrize("options", [{}, {"num_gpus": 1}], ids=["CPU", "GPU"])
async def test_functions_when_they_wait_then_the_highest_priority_is_first(
    options: dict[str, Any], stop: Stop
) -> None:
    first = halt.options(**options).remote(stop.place)
    await stop.reached()
    refs = [
        note.options(priority=priority, **options).remote(name)
        for name, priority in [("low", -1), ("usual", 0), ("high", 5)]
        for _ in range(3)
    ]
    stop.release()
    await asyncio.gather(first, *refs)

    assert ran == ["high"] * 3 + ["usual"] * 3 + ["low"] * 3


@pytest.mark.parametrize("method", ["make", "call"])
async def test_requests_of_a_worker_when_they_wait_then_by_their_priorities(
    method: str, runtime: Runtime, stop: Stop
) -> None:
    first = await placed_in_turn(stop)
    maker = Maker.remote()
    made = getattr(maker, method).remote([0, 3, -2, 2])
    await maker.answer.remote()
    assert len(runtime.snapshot().waiting) == 4
    late = Model.options(priority=9).remote()
    last = late.run.remote("late")
    before = runtime.explain(late)
    del late
    stop.release()
    await asyncio.gather(first, made, last)

    assert before.endswith("(GPU=1, priority 3, for running work) and 3 more")
    word = {"make": "made", "call": "called"}[method]
    assert ran == [*(f"{word} {each}" for each in (3, 2, 0, -2)), "late"]


async def test_group_when_it_has_a_priority_then_it_is_reserved_by_it(
    runtime: Runtime, stop: Stop
) -> None:
    first = await placed_in_turn(stop)
    low = Model.remote().run.remote("low")
    group = actorlib.placement_group([{"GPU": 1}], name="g", priority=1)
    assert runtime.snapshot().waiting[0] == "group 'g': GPU=1, priority 1"
    inside = Model.options(placement_group=group)
    members = [
        inside.options(priority=priority).remote().run.remote(f"member {priority}")
        for priority in (0, 2, 1)
    ]
    stop.release()
    await asyncio.gather(first, *members)
    assert ran == ["member 2", "member 1", "member 0"]
    await actorlib.remove_placement_group(group)
    await low


@pytest.mark.parametrize("priority", [True, "5", 2**20 + 1])
async def test_group_when_its_priority_is_wrong_then_refused(priority: Any) -> None:
    with pytest.raises(ValueError, match="priority takes a whole number"):
        actorlib.placement_group([{"GPU": 1}], priority=priority)
