"""Gangs: ``group.map``, and actors that are ranks."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import Caller, Gate, end_of, living, running
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib import placement_group, remove_placement_group
from actorlib.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from helpers.actors import Lend

    from actorlib import ActorHandle, PlacementGroup, Runtime

pytestmark = in_memory(num_cpus=3, num_gpus=1)

TWO = [{"CPU": 1}, {"CPU": 1}]
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="module")
async def group(runtime: Runtime) -> AsyncIterator[PlacementGroup]:
    del runtime
    made = placement_group(TWO, name="gang")
    yield made
    await remove_placement_group(made)


def told() -> tuple[list[str | None], str | None]:
    return [os.environ.get(name) for name in NAMES], os.environ.get("MASTER_PORT")


@actorlib.remote
def square(number: int) -> int:
    return number * number


@actorlib.remote(torch=True)
def variables() -> tuple[list[str | None], str | None]:
    return told()


@actorlib.remote(torch=True, max_retries=0)
def stop(gate: ActorHandle[Any], how: str) -> str:
    """Ends this rank as it is told, or waits as in a collective."""
    rank = os.environ["RANK"]
    if how == "wait":
        actorlib.get(gate.wait.remote(rank))
    elif how == "raise":
        raise KeyError(rank)
    elif how == "die":
        actorlib.get(gate.reached.remote("0"))
        os.kill(os.getpid(), signal.SIGSEGV)
    return rank


@actorlib.remote(torch=True)
class Trainer:
    def told(self) -> tuple[list[str | None], str | None]:
        return told()

    def pid(self) -> int:
        return os.getpid()

    def wait(self, gate: ActorHandle[Any]) -> None:
        actorlib.get(gate.wait.remote())


def trainers(group: PlacementGroup, **said: Any) -> list[ActorHandle[Any]]:
    inside = Trainer.options(placement_group=group, **said)
    return [
        inside.options(placement_group_bundle_index=rank).remote()
        for rank in range(group.bundle_count)
    ]


async def test_map_when_called_then_each_bundle_has_one_call(
    group: PlacementGroup,
) -> None:
    assert await group.map(square, [3, 4]) == [9, 16]
    assert await group.map(square, (n for n in (5, 6))) == [25, 36]
    refs = [square.remote(2), square.remote(3)]
    assert await group.map(square, refs) == [16, 81]


async def test_map_when_torch_is_asked_for_then_ranks_find_what_it_reads(
    group: PlacementGroup, runtime: Runtime
) -> None:
    both = await asyncio.gather(group.map(variables), group.map(variables))

    ports = set[Any]()
    for ranks in both:
        assert [env for env, _ in ranks] == [
            ["0", "2", "0", "2", "127.0.0.1"],
            ["1", "2", "1", "2", "127.0.0.1"],
        ]
        assert len({port for _, port in ranks}) == 1
        ports |= {port for _, port in ranks}
    assert len(ports) == 2
    assert (await actorlib.remote(told).remote())[0] == [None] * len(NAMES)
    assert runtime.snapshot().groups[0].bundles[0].resources == {"CPU": 1}


async def test_map_when_the_user_says_a_variable_then_that_is_the_last_word(
    group: PlacementGroup,
) -> None:
    said = variables.options(runtime_env={"env_vars": {"LOCAL_RANK": "0"}})

    assert [env[2] for env, _ in await group.map(said)] == ["0", "0"]


async def test_map_when_one_rank_raises_then_the_others_are_ended(
    group: PlacementGroup, runtime: Runtime
) -> None:
    gate = Gate.remote()

    error = await raised(group.map(stop, [gate] * 2, ["wait", "raise"]))

    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert error.__notes__ == [
        "this was rank 1 of 2 in group 'gang': all others were ended"
    ]
    assert await group.map(square, [1, 2]) == [1, 4]  # the bundles are free again
    await everything_ended(runtime, gate)


async def test_map_when_errors_are_returned_then_by_rank(
    group: PlacementGroup, runtime: Runtime
) -> None:
    gate = Gate.remote()
    results = group.map(stop, [gate] * 2, ["wait", "raise"], on_error="return")

    ended, error = [value async for value in results]

    assert isinstance(ended, TaskCancelledError)
    assert "rank 0 was ended, as rank 1 failed" in str(ended)
    assert isinstance(error, KeyError)
    assert await group.map(square, [1, 2], return_exceptions=True) == [1, 4]
    await everything_ended(runtime, gate)


async def test_map_when_one_rank_dies_then_that_is_what_is_raised(
    group: PlacementGroup, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate.remote()

    error = await raised(group.map(stop, [gate] * 2, ["wait", "die"]))
    again = stop.options(max_retries=1, name="train")
    after = await raised(group.map(again, [gate] * 2, ["wait", "die"]))

    for died, label in ((error, "stop"), (after, "train")):
        assert isinstance(died, ActorDiedError)
        assert str(died).startswith(f"{label}, rank 1 of 2 (pid ")
        assert died.exit.signal == signal.SIGSEGV
        assert "rank 1 of 2 in group 'gang'" in died.__notes__[0]
    (again,) = [m for m in caplog.messages if "called again" in m]
    assert again.startswith("train is called again on all 2 ranks, as rank 1 failed: ")


async def test_map_when_nobody_waits_any_more_then_the_gang_is_ended(
    group: PlacementGroup, runtime: Runtime
) -> None:
    gate = Gate.remote()
    waiting = asyncio.ensure_future(wait_for(group, gate))
    await asyncio.gather(gate.reached.remote("0"), gate.reached.remote("1"))

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert await group.map(square, [1, 2]) == [1, 4]
    # What they called is cancelled, too: whoever gives up a wait opens that place.
    await asyncio.gather(gate.wait.remote("0"), gate.wait.remote("1"))
    await everything_ended(runtime, gate)


async def wait_for(group: PlacementGroup, gate: ActorHandle[Any]) -> None:
    await group.map(stop, [gate] * 2, ["wait", "wait"])


async def everything_ended(runtime: Runtime, gate: ActorHandle[Any]) -> None:
    """Waits for the ends of all ranks, and of the gate that some waited at."""
    await asyncio.gather(gate.open.remote("0"), gate.open.remote("1"))
    await actorlib.kill(gate)
    # All at once: who has ended meanwhile is forgotten.
    await asyncio.gather(*(end_of(actor.actor_id) for actor in living(runtime)))


@USES_RUNTIME
async def test_map_when_the_group_is_removed_then_it_says_so() -> None:
    made, gate = placement_group(TWO), Gate.remote()
    waiting = asyncio.ensure_future(wait_for(made, gate))
    await gate.reached.remote("0")

    await remove_placement_group(made)

    assert isinstance(await raised(waiting), ActorPlacementGroupRemoved)
    assert isinstance(
        await raised(made.map(square, [1, 2])), ActorPlacementGroupRemoved
    )


async def test_map_when_the_group_has_no_place_yet_then_none_begins(
    group: PlacementGroup, runtime: Runtime
) -> None:
    await group.ready()
    other = placement_group(TWO)
    waiting = asyncio.ensure_future(map_squares(other))
    await asyncio.wait({waiting}, timeout=1)  # on a clock that jumps
    states = {a.state for a in runtime.snapshot().actors if a.state != "dead"}
    assert states == {"pending"}
    await remove_placement_group(group)

    assert await waiting == [9, 16]
    await remove_placement_group(other)


async def map_squares(group: PlacementGroup) -> list[int]:
    return await group.map(square, [3, 4])


def twice(number: int) -> int:
    return 2 * number


@actorlib.remote
def stream() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "values", "error", "words"),
    [
        (twice, [[1, 2]], TypeError, r"remote function, made by @actorlib.remote"),
        (Trainer, [], TypeError, r"remote function"),
        (square, [], TypeError, r"missing 1 required positional argument"),
        (square, [[1, 2], [3, 4]], TypeError, r"takes .* positional argument"),
        (square, [[1, 2, 3]], ValueError, r"iterable 0 has more than 2"),
        (square.options(num_cpus=2), [[1, 2]], ValueError, r"bundle 0 has CPU=1"),
        (square.options(num_returns=2), [[1, 2]], ValueError, r"let it return a list"),
        (stream, [], ValueError, r"stream yields"),
    ],
)
async def test_map_when_it_cannot_be_meant_then_it_is_refused_at_once(
    group: PlacementGroup, function: Any, values: list[Any], error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        group.map(function, *values)


@USES_RUNTIME
async def test_map_when_bundles_differ_then_the_one_that_is_too_small_is_named() -> (
    None
):
    made = placement_group([{"CPU": 1, "GPU": 1}, {"CPU": 1}])
    with pytest.raises(ValueError, match=r"requests CPU=1, GPU=1.*bundle 1 has CPU=1"):
        made.map(square.options(num_gpus=1, num_cpus=1), [1, 2])
    await remove_placement_group(made)
    with pytest.raises(ValueError, match="at least one bundle"):
        placement_group([])


# Actors that are ranks.


async def test_actor_when_it_is_a_rank_then_its_bundle_is_its_number(
    group: PlacementGroup,
) -> None:
    first, second = trainers(group)

    answers = await asyncio.gather(first.told.remote(), second.told.remote())

    assert [env for env, _ in answers] == [
        ["0", "2", "0", "2", "127.0.0.1"],
        ["1", "2", "1", "2", "127.0.0.1"],
    ]
    assert answers[0][1] == answers[1][1]
    small = Trainer.options(placement_group=group, placement_group_bundle_index=1)
    assert "which Trainer (pid" in str(await raised(small.remote().told.remote()))
    named = small.options(torch="evaluators").remote()
    assert (await named.told.remote())[1] != answers[0][1]


@pytest.mark.parametrize("max_restarts", [0, 2])
async def test_actor_when_one_rank_dies_then_all_end_or_meet_anew(
    group: PlacementGroup, max_restarts: int
) -> None:
    first, second = trainers(group, max_restarts=max_restarts)
    gate = Gate.remote()
    before = (await first.told.remote())[1]
    stuck = first.wait.remote(gate)
    await gate.reached.remote()

    os.kill(await second.pid.remote(), signal.SIGSEGV)

    error = await raised(stuck)
    assert "rank 1 of its gang ended (Trainer (pid " in str(error)
    if not max_restarts:
        assert isinstance(error, ActorDiedError)
        assert (await raised(second.pid.remote())).exit.signal == signal.SIGSEGV
        return
    await asyncio.gather(first, second)
    answers = await asyncio.gather(first.told.remote(), second.told.remote())
    assert [env[0] for env, _ in answers] == ["0", "1"]
    assert answers[0][1] == answers[1][1] != before


async def test_actor_when_somebody_ends_it_then_the_others_go_on(
    group: PlacementGroup,
) -> None:
    first, second = trainers(group)
    await asyncio.gather(first, second)

    await actorlib.kill(second)

    assert (await first.told.remote())[0][0] == "0"


@pytest.mark.usefixtures("runtime")
async def test_rank_when_it_has_no_bundle_then_it_is_refused(
    group: PlacementGroup,
) -> None:
    with pytest.raises(ValueError, match=r"Trainer asks .* in no placement group"):
        Trainer.remote()
    with pytest.raises(ValueError, match=r"placement_group_bundle_index=, 0 to 1"):
        Trainer.options(placement_group=group).remote()
    with pytest.raises(ValueError, match=r"single call has no rank.*group\.map"):
        variables.remote()
    placed = variables.options(placement_group=group, placement_group_bundle_index=0)
    with pytest.raises(ValueError, match=r"group\.map"):
        placed.remote()
    error = await raised(Caller.remote().make.remote(Trainer))
    assert isinstance(error, ValueError)


@pytest.mark.process
@pytest.mark.asyncio(loop_scope="function")
async def test_ranks_when_they_are_processes_then_they_meet_and_end_together() -> None:
    def meet(gate: ActorHandle[Any]) -> str:
        there = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            with socket.create_server(("", there[1])) as server:
                actorlib.get(gate.open.remote("listening"))
                server.accept()[0].close()
            return "met"
        actorlib.get(gate.wait.remote("listening"))
        socket.create_connection(there).close()
        return "met"

    def die(gate: ActorHandle[Any]) -> None:
        if os.environ["RANK"] == "0":
            actorlib.get(gate.open.remote("stuck"))
            threading.Event().wait()
        actorlib.get(gate.wait.remote("stuck"))
        os._exit(3)

    async with running(num_cpus=2):
        gate, group = Gate.remote(), placement_group(TWO)
        meeting = actorlib.remote(torch=True)(meet)
        assert await group.map(meeting, [gate] * 2) == ["met", "met"]

        dying = actorlib.remote(torch=True, max_retries=0)(die)
        error = await raised(group.map(dying, [gate] * 2))
        assert isinstance(error, ActorDiedError)
        assert error.exit.code == 3
        assert str(error).startswith("die, rank 1 of 2 (pid ")
