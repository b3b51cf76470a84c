"""The number of replicas follows the load, within its limits."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Place, end_of, running
from helpers.calls import raised
from helpers.marks import in_memory

import actorlib
from actorlib import Replicas

if TYPE_CHECKING:
    from helpers.actors import Stop

pytestmark = in_memory(num_cpus=64, grace=0.5)


@actorlib.remote(max_concurrency=1)
class Model:
    """Runs one call at a time; fails where a file says so."""

    def __init__(self, refusing: str = "") -> None:
        if refusing and Path(refusing).exists():
            raise LookupError("no weights")

    async def pause(self, seconds: float = 1.0) -> str:
        await asyncio.sleep(seconds)
        return actorlib.get_runtime_context().actor_id or ""

    async def check(self) -> None: ...

    async def leave(self) -> None:
        os._exit(3)


def states(replicas: Replicas[Any]) -> list[str]:
    return sorted(each.state for each in replicas.stats())


async def until(holds: Any) -> None:
    """Lets the loop, whose clock jumps, go on until something holds."""
    while not holds():  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.05)


@pytest.mark.usefixtures("runtime")
async def test_number_when_calls_wait_then_it_grows_and_shrinks_when_idle() -> None:
    async with Replicas(Model, min=1, max=3, idle=4) as models:
        calls = []
        while states(models) != ["alive"] * 3:
            calls.append(models.pause.remote(0.5))
            await asyncio.sleep(0.05)
        assert sorted(each.slot for each in models.stats()) == [0, 1, 2]
        calls += [models.pause.remote(0.5) for _ in range(6)]
        assert len(set(await asyncio.gather(*calls))) == 3

        await until(lambda: states(models) == ["alive"])
        assert await models.pause.remote()


@pytest.mark.usefixtures("runtime")
async def test_number_when_idle_then_no_timer_runs() -> None:
    async with Replicas(Model, max=2, idle=1) as models:
        autoscaler = models._autoscaler
        assert autoscaler is not None
        await asyncio.gather(*(models.pause.remote(1) for _ in range(4)))
        await until(lambda: autoscaler._timer is None)
        assert (len(models), states(models)) == (1, ["alive"])


@pytest.mark.usefixtures("runtime")
async def test_number_when_it_shrinks_then_running_calls_are_finished() -> None:
    async with Replicas(Model, max=2, idle=1) as models:
        short = [models.pause.remote(0.5) for _ in range(6)]
        await until(lambda: states(models) == ["alive"] * 2)
        await asyncio.gather(*short)
        # Both run a call, and one of them is longer than the idle time.
        calls = [models.pause.remote(5), models.pause.remote(0.1)]
        await calls[1]
        await until(lambda: len(models) == 1)
        assert await calls[0]
        await until(lambda: states(models) == ["alive"])


@pytest.mark.usefixtures("runtime")
async def test_number_when_calls_are_of_threads_then_it_grows_too() -> None:
    async with Replicas(Model, max=2) as models:

        def call() -> list[str]:
            refs = [models.pause.remote(0.2) for _ in range(6)]
            return [ref.get(timeout=60) for ref in refs]

        calls = asyncio.create_task(asyncio.to_thread(call))
        await until(lambda: len(models) == 2)
        await calls


@pytest.mark.usefixtures("runtime")
async def test_number_when_scaled_and_replaced_then_within_its_limits() -> None:
    async with Replicas(Model, min=1, max=4, idle=10, health="check") as models:
        await models.scale(3)
        assert (len(models), states(models)) == (3, ["alive"] * 3)
        for number in (0, 5):
            with pytest.raises(ValueError, match="min=1 and max=4"):
                await models.scale(number)
        before = [each.handle for each in models.stats()]
        busy = [models.pause.remote(2) for _ in range(9)]
        await models.replace()
        after = [each for each in models.stats() if each.state != "leaving"]
        assert not {each.handle for each in after} & set(before)
        assert {0, 1, 2} <= {each.slot for each in after}
        await asyncio.gather(*busy)
        await until(lambda: len(models) == 1)


async def test_number_when_there_is_no_room_then_said_once_and_calls_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with running(num_cpus=2) as runtime:
        other = Model.options(num_cpus=1).remote()
        await other
        cls = Model.options(num_cpus=1)
        async with Replicas(cls, max=4) as models:
            calls = [models.pause.remote(1) for _ in range(6)]
            await asyncio.gather(*calls)
            assert (len(models), states(models)) == (1, ["alive"])
            [record] = caplog.records
            for words in (
                "calls of Model wait for more than 0.1 s",
                "cannot be placed now. Calls go on in the present replicas (1)",
                "or set max=1. Model requests CPU=1",
            ):
                assert words in record.getMessage()
            assert [actor.state for actor in actorlib.list_actors()].count(
                "pending"
            ) == 0
            assert not runtime.snapshot().waiting

            calls = [models.pause.remote(1) for _ in range(6)]
            await actorlib.kill(other)
            await until(lambda: states(models) == ["alive"] * 2)
            await asyncio.gather(*calls)


@pytest.mark.usefixtures("runtime")
async def test_number_when_in_a_placement_group_then_no_larger_than_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    group = actorlib.placement_group([{"CPU": 2}])
    await group.ready()
    async with Replicas(
        Model.options(num_cpus=1, placement_group=group), max=4
    ) as models:
        calls = []
        while not caplog.records:
            calls.append(models.pause.remote(0.5))
            await asyncio.sleep(0.05)
        assert (len(models), states(models)) == (2, ["alive"] * 2)
        assert "set max=2. Model" in caplog.records[0].getMessage()
        await asyncio.gather(*calls)
    await actorlib.remove_placement_group(group)


@pytest.mark.usefixtures("runtime")
async def test_number_when_a_further_one_cannot_be_made_then_the_others_go_on(
    tmp_path: Path,
) -> None:
    refusing = tmp_path / "refusing"
    async with Replicas(Model, max=2, args=(str(refusing),)) as models:
        refusing.touch()
        calls = [models.pause.remote(1) for _ in range(6)]
        await until(lambda: len(models) == 2)
        assert len(set(await asyncio.gather(*calls))) == 1

        refusing.unlink()
        calls = [models.pause.remote(1) for _ in range(40)]
        await until(lambda: states(models) == ["alive"] * 2)
        for call in calls:
            call.cancel()


@pytest.mark.usefixtures("runtime")
async def test_replica_when_it_dies_while_another_starts_then_calls_go_on() -> None:
    async with Replicas(Model, max=2) as models:
        calls = [models.pause.remote(1) for _ in range(4)]
        await until(lambda: len(models) == 2)
        first = models.stats()[0].handle
        await actorlib.kill(first)
        await end_of(first)
        assert await models.pause.remote(0)
        await raised(calls[0])
        await asyncio.gather(*calls[1:])


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_closed_or_gone_then_nothing_is_made_any_more() -> None:
    models = await Replicas(Model, max=4)
    calls = [models.pause.remote(1) for _ in range(8)]
    await models.aclose()
    await asyncio.gather(*calls)
    assert models.stats() == []

    models = await Replicas(Model, max=4)
    calls = [models.pause.remote(1) for _ in range(8)]
    ends = [end_of(each.handle) for each in models.stats()]
    del models
    gc.collect()
    await asyncio.gather(*calls, *ends)


@pytest.mark.usefixtures("runtime")
async def test_number_when_one_cannot_be_made_and_is_not_needed_then_it_is_not_tried(
    tmp_path: Path,
) -> None:
    refusing = tmp_path / "refusing"
    async with Replicas(Model, max=2, idle=2, args=(str(refusing),)) as models:
        refusing.touch()
        calls = [models.pause.remote(0.2) for _ in range(6)]
        await until(lambda: len(models) == 2)
        await asyncio.gather(*calls)
        await until(lambda: len(models) == 1)

        refusing.unlink()
        await asyncio.sleep(8)  # the loop jumps over it
        assert (len(models), states(models)) == (1, ["alive"])


@pytest.mark.process
@pytest.mark.asyncio(loop_scope="function")
async def test_number_when_the_folder_of_a_further_one_is_gone_then_said_once(
    tmp_path: Path, stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    cls = Caller.options(runtime_env={"working_dir": str(folder)})
    async with running(), Replicas(cls, max=2) as models:
        held = models.run.remote(Place.stop_here, stop.place)
        await stop.reached()
        folder.rmdir()
        behind = models.run.remote(len, "ab")
        await until(lambda: caplog.records)
        stop.release()
        await held

        assert (await behind, len(models)) == (2, 1)
        [record] = caplog.records
        assert f"there is no directory {folder}" in record.getMessage()
