from __future__ import annotations

import os
import pickle
import signal
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from helpers.actors import AsyncCaller, Caller, Echo, Gate, end_of, running
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib import placement_group, remove_placement_group
from actorlib.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnschedulableError,
    GetTimeoutError,
    PlacementGroupAlreadyExistsError,
    PlacementGroupNotFoundError,
    PlacementGroupRemovedError,
    PlacementGroupUnschedulableError,
)
from actorlib.types import PlacementGroupSchedulingStrategy as Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from helpers.actors import Lend

    from actorlib import PlacementGroup, Runtime

pytestmark = in_memory(num_cpus=4, num_gpus=2)

CALLERS = [Caller, AsyncCaller]


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime
        left = [row["placement_group_id"] for row in table().values()]
        for group in [made for made in MADE if made.id.hex() in left]:
            await remove_placement_group(group)
        MADE.clear()
        assert table() == {}
    assert runtime.available_resources() == runtime.cluster_resources()


MADE: list[PlacementGroup] = []


def group_of(*bundles: dict[str, float], **options: Any) -> PlacementGroup:
    made = placement_group(list(bundles), **options)
    MADE.append(made)
    return made


def table() -> dict[str, Any]:
    return actorlib.placement_group_table()


def look() -> Any:
    """What an actor sees of its share; run inside of one."""
    context = actorlib.get_runtime_context()
    return (
        context.get_accelerator_ids()["GPU"],
        os.environ["CUDA_VISIBLE_DEVICES"],
        context.get_assigned_resources(),
        context.get_placement_group_id(),
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def inside(
    group: PlacementGroup, index: int = -1, cls: Any = Caller, **asked: Any
) -> Any:
    return cls.options(
        placement_group=group, placement_group_bundle_index=index, **asked
    )


@USES_RUNTIME
async def test_ready_resolves_when_members_have_used_up_all() -> None:
    group = group_of({"GPU": 1})
    await inside(group, num_gpus=1).remote()

    assert await group.ready() == group


async def test_a_group_that_finds_no_room_is_pending_until_it_does(
    runtime: Runtime,
) -> None:
    holder = Caller.options(num_gpus=2).remote()
    group = group_of({"GPU": 1}, {"GPU": 1}, strategy="STRICT_SPREAD")
    member = inside(group, 0, num_gpus=1).remote()

    assert await group.wait(0) is False
    assert actorlib.placement_group_table(group)["state"] == "PENDING"
    with pytest.raises(GetTimeoutError):
        await holder.run.remote(lambda: actorlib.get(group.ready(), timeout=0))
    assert "free is GPU=0 of 2" in runtime.explain(group)
    assert runtime.explain(member).startswith("Caller waits for its group")

    await actorlib.kill(holder)
    assert await group.ready() == group
    assert actorlib.placement_group_table(group)["state"] == "CREATED"
    await member


@USES_RUNTIME
@pytest.mark.parametrize("index", [2, 3, -2])
async def test_a_bundle_that_is_not_there_is_refused(index: int) -> None:
    group = group_of({"CPU": 1}, {"CPU": 1})

    with pytest.raises(ValueError, match=f"bundle index {index} is invalid"):
        inside(group, index).remote()
    with pytest.raises(ValueError, match=f"bundle index {index} is invalid"):
        Echo.options(scheduling_strategy=Strategy(group, index)).remote()


@USES_RUNTIME
async def test_the_strategy_and_the_options_mean_the_same() -> None:
    group = group_of({"GPU": 0.5}, {"GPU": 1}, strategy="STRICT_SPREAD")
    named = Caller.options(num_gpus=0.25, scheduling_strategy=Strategy(group, 0))

    seen = await named.remote().run.remote(look)
    same = await inside(group, 0, num_gpus=0.25).remote().run.remote(look)

    assert seen == same == (["1"], "1", {"GPU": 0.25}, group.id.hex())


@USES_RUNTIME
async def test_an_actor_that_fits_no_bundle_is_refused() -> None:
    group = group_of({"GPU": 0.5}, {"GPU": 1})

    with pytest.raises(ValueError, match=r"bundle 0 has GPU=0\.5"):
        inside(group, 0, num_gpus=1).remote()
    with pytest.raises(ValueError, match=r"its bundles have GPU=0\.5; GPU=1"):
        inside(group, num_gpus=1, num_cpus=1).remote()
    await inside(group, num_gpus=1).remote()


@USES_RUNTIME
async def test_a_group_named_twice_is_refused() -> None:
    group = group_of({"CPU": 1})

    with pytest.raises(ValueError, match="give one of the two"):
        Echo.options(placement_group=group, scheduling_strategy=Strategy(group))


@USES_RUNTIME
@pytest.mark.parametrize(
    "bundles",
    [
        {"CPU": 1},
        None,
        [],
        [{}],
        [{"CPU": 1}, {}],
        [{"CPU": 0, "GPU": 0}],
        [["CPU"]],
        ["CPU"],
        [{1: 1}],
        [{"CPU": "1"}],
        [{"CPU": True}],
        [{"CPU": -1}],
        [{"GPU": 1.5}],
        [{"TPU": 0.5}],
    ],
    ids=repr,
)
async def test_bundles_that_are_none_are_refused(bundles: Any) -> None:
    with pytest.raises(ValueError, match="bundles"):
        placement_group(bundles)


@USES_RUNTIME
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "most"},
        {"strategy": None},
        {"lifetime": "non_detached"},
        {"lifetime": 1},
        {"name": 1},
    ],
    ids=repr,
)
async def test_options_that_are_none_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} takes"):
        placement_group([{"CPU": 1}], **options)


@USES_RUNTIME
async def test_zero_beside_other_amounts_is_allowed() -> None:
    group = group_of({"CPU": 1, "GPU": 0})

    assert await group.ready() == group
    assert group.bundle_specs == [{"CPU": 1, "GPU": 0}]


@USES_RUNTIME
async def test_a_group_is_a_value() -> None:
    group, other = group_of({"CPU": 1}, {"GPU": 1}), group_of({"CPU": 1})
    caller = Caller.remote()

    assert group.bundle_specs == [{"CPU": 1}, {"GPU": 1}]
    assert group.bundle_count == 2
    assert pickle.loads(pickle.dumps(group)) == group != other
    assert len({group, pickle.loads(pickle.dumps(group)), other}) == 2
    assert await caller.run.remote(lambda given: given, group) == group
    assert await caller.run.remote(lambda given: given, group.ready()) == group
    assert repr(group) == f"PlacementGroup({group.id.hex()})"


@USES_RUNTIME
async def test_ready_when_its_ref_is_sent_then_another_actor_can_wait_for_it() -> None:
    holder = Echo.options(num_gpus=1).remote()
    await holder
    group = group_of({"GPU": 2})
    waiting = Caller.remote().run.remote(actorlib.get, [group.ready()])

    await actorlib.kill(holder)

    assert await waiting == [group]


async def test_the_table_has_state_and_strategy(runtime: Runtime) -> None:
    group = group_of({"CPU": 1}, strategy="SPREAD", name="t")
    await group.ready()
    node = actorlib.get_runtime_context().get_node_id()

    row = {
        "placement_group_id": group.id.hex(),
        "name": "t",
        "bundles": {0: {"CPU": 1.0}},
        "bundles_to_node_id": {0: node},
        "strategy": "SPREAD",
        "state": "CREATED",
        "stats": {
            "end_to_end_creation_latency_ms": 0.0,
            "scheduling_latency_ms": 0.0,
            "scheduling_attempt": 1,
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": "FINISHED",
        },
    }
    assert actorlib.placement_group_table(group) == row
    assert table() == {group.id.hex(): row}
    await remove_placement_group(group)
    assert actorlib.placement_group_table(group)["state"] == "REMOVED"
    assert runtime.snapshot().groups == ()


async def test_the_snapshot_shows_who_is_inside(runtime: Runtime) -> None:
    group = group_of({"GPU": 0.5}, {"GPU": 1, "CPU": 1}, name="s")
    member = inside(group, 1, num_gpus=0.5).remote()
    await member

    (info,) = runtime.snapshot().groups
    (actor,) = [a for a in runtime.snapshot().actors if a.state == "alive"]

    assert (info.name, info.strategy, info.state) == ("s", "PACK", "CREATED")
    assert [bundle.actors for bundle in info.bundles] == [(), (actor.actor_id,)]
    assert info.bundles[1].available == {"GPU": 0.5, "CPU": 1}
    assert [bundle.devices for bundle in info.bundles] == [{"1": 0.5}, {"0": 1}]
    assert actor.placement_group == group.id.hex()
    assert runtime.explain(group) == (
        "group 's' is reserved; its bundles are on 0.5 of GPU 1; 1 of GPU 0"
    )


@USES_RUNTIME
async def test_a_name_finds_its_group_until_it_is_removed() -> None:
    group = group_of({"CPU": 1}, name="g")
    caller = Caller.remote()

    assert actorlib.get_placement_group("g") == group
    assert await caller.run.remote(actorlib.get_placement_group, "g") == group
    with pytest.raises(PlacementGroupAlreadyExistsError):
        placement_group([{"CPU": 1}], name="g")
    taken = caller.run.remote(placement_group, [{"CPU": 1}], "PACK", "g")
    assert isinstance(await raised(taken), ValueError)
    await remove_placement_group(group)
    with pytest.raises(PlacementGroupNotFoundError, match="no placement group"):
        actorlib.get_placement_group("g")


@USES_RUNTIME
@pytest.mark.parametrize("name", ["nobody", "", None])
async def test_an_unknown_or_empty_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"name|called"):
        actorlib.get_placement_group(name)


def children(**options: Any) -> list[str | None]:
    """The groups of an actor and of a child that it makes; run inside of one."""
    child = Caller.options(**options).remote()
    seen = actorlib.get(child.run.remote(look))
    own = actorlib.get_current_placement_group()
    return [own and own.id.hex(), seen[3]]


@USES_RUNTIME
async def test_children_go_into_a_group_that_captures() -> None:
    group = group_of({"GPU": 1, "CPU": 2})
    name = group.id.hex()
    captures = inside(group, placement_group_capture_child_tasks=True).remote()
    plain = inside(group).remote()

    assert actorlib.get_current_placement_group() is None
    assert await captures.run.remote(children) == [name, name]
    assert await plain.run.remote(children) == [name, None]

    def opted_out() -> Any:
        return children(placement_group=None)

    def nested() -> Any:
        child = Caller.options(num_cpus=1).remote()
        return actorlib.get(child.run.remote(children))

    assert await captures.run.remote(opted_out) == [name, None]
    assert await captures.run.remote(nested) == [name, name]


@pytest.mark.parametrize("cls", CALLERS)
async def test_a_group_ends_with_the_actor_that_made_it(
    runtime: Runtime, cls: Any
) -> None:
    maker = cls.remote()
    bundles = [{"GPU": 1}]
    group = await maker.run.remote(placement_group, bundles)
    stays = await maker.run.remote(placement_group, bundles, "PACK", "d", "detached")
    MADE.append(stays)
    member = inside(group, num_gpus=1).remote()
    await member
    await stays.ready()

    await actorlib.kill(maker)

    error = await raised(member.run.remote(look))
    assert isinstance(error, ActorPlacementGroupRemoved)
    assert "the actor that made it ended" in str(error)
    await end_of(member)
    assert list(table()) == [stays.id.hex()]
    assert runtime.available_resources()["GPU"] == 1


@USES_RUNTIME
async def test_member_when_it_restarts_then_it_has_the_bundles_share_again() -> None:
    group = group_of({"GPU": 1}, {"GPU": 1})
    member = inside(group, 1, num_gpus=1, max_restarts=1).remote()
    before = await member.run.remote(look)
    waiting = inside(group, 1, num_gpus=1).remote()

    dying = member.run.remote(die)
    assert await raised(dying)
    await member

    assert await member.run.remote(look) == before
    await actorlib.kill(member)
    assert await waiting.run.remote(look) == before


async def test_remove_when_actors_are_inside_then_they_die_and_say_so(
    runtime: Runtime,
) -> None:
    group = group_of({"GPU": 1}, {"CPU": 1})
    member = inside(group, num_gpus=1, cls=Gate, max_restarts=-1).remote()
    waiting = inside(group, num_gpus=0.5).remote()
    running_call = member.wait.remote()
    await member.reached.remote()

    gone = remove_placement_group(group)
    assert runtime.available_resources()["GPU"] == 1  # its process is not gone yet
    await gone

    assert runtime.available_resources()["GPU"] == 2
    late = inside(group).remote()
    for ref in (running_call, waiting.run.remote(look), late.run.remote(look)):
        error = await raised(ref)
        assert type(error) is ActorPlacementGroupRemoved
        assert isinstance(error, ActorDiedError)
        assert "placement group was removed" in str(error)
    assert isinstance(await raised(group.ready()), PlacementGroupRemovedError)
    await remove_placement_group(group)


@pytest.mark.parametrize("cls", CALLERS)
async def test_actor_when_it_makes_and_removes_a_group_then_as_the_owner_does(
    runtime: Runtime, cls: Any
) -> None:
    def use() -> Any:
        group = placement_group([{"GPU": 1}])
        member = inside(group, num_gpus=1).remote()
        seen = actorlib.get(member.run.remote(look))
        state = actorlib.placement_group_table(group)["state"]
        actorlib.get(cast("Any", remove_placement_group(group)))
        return seen[0], actorlib.get_placement_group, state, table()

    async def use_async() -> Any:
        group = placement_group([{"GPU": 1}])
        member = inside(group, num_gpus=1).remote()
        await group.ready()
        seen = await member.run.remote(look)
        state = actorlib.placement_group_table(group)["state"]
        assert await group.wait(1)
        await remove_placement_group(group)
        return seen[0], actorlib.get_placement_group, state, table()

    caller = cls.remote()
    used = await caller.run.remote(use if cls is Caller else use_async)

    assert used == (["0"], actorlib.get_placement_group, "CREATED", {})
    assert runtime.available_resources()["GPU"] == 2


@pytest.mark.parametrize(
    ("bundles", "strategy", "says"),
    [
        ([{"licence": 1}], "PACK", "this machine has licence=0"),
        ([{"GPU": 0.5}] * 3, "STRICT_SPREAD", "too few"),
    ],
)
async def test_group_when_it_can_never_be_then_it_fails_at_once_with_the_reason(
    runtime: Runtime, bundles: Any, strategy: str, says: str
) -> None:
    group = group_of(*bundles, strategy=strategy)
    member = inside(group).remote()

    for ref in (group.ready(), group.wait(5)):
        error = await raised(ref)
        assert isinstance(error, PlacementGroupUnschedulableError)
        assert says in str(error)
    assert isinstance(await raised(member), ActorUnschedulableError)
    assert actorlib.placement_group_table(group)["state"] == "INFEASIBLE"
    assert says in runtime.explain(group)


@USES_RUNTIME
@pytest.mark.parametrize("value", [1, "g", object()])
async def test_options_when_it_is_no_group_then_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="placement_group takes"):
        Echo.options(placement_group=value)
    with pytest.raises(ValueError, match="scheduling_strategy takes"):
        Echo.options(scheduling_strategy=value)
    with pytest.raises(ValueError, match="needs a group"):
        Echo.options(placement_group=None, placement_group_bundle_index=0)
    with pytest.raises(ValueError, match="a result of placement_group"):
        remove_placement_group(value)
    with pytest.raises(TypeError, match="whole number"):
        Echo.options(placement_group_bundle_index="0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="True or False"):
        Echo.options(placement_group_capture_child_tasks=1)  # type: ignore[arg-type]


@pytest.mark.asyncio(loop_scope="function")
async def test_infeasible_when_it_may_wait_then_it_waits_and_delays_nobody() -> None:
    async with running(num_gpus=1, infeasible="wait") as runtime:
        group = placement_group([{"GPU": 2}])

        assert await group.wait(0) is False
        assert "this machine has GPU=1" in runtime.explain(group)
        await Echo.options(num_gpus=1).remote()


@pytest.mark.asyncio(loop_scope="function")
async def test_shutdown_when_somebody_waits_for_a_group_then_told() -> None:
    async with running(num_gpus=1):
        await Echo.options(num_gpus=1).remote()
        holder = Echo.options(num_gpus=1).remote()
        await holder
        group = placement_group([{"GPU": 1}])
        ready = group.ready()

    assert "shut down" in str(await raised(ready))
    with pytest.raises(RuntimeError, match="no runtime"):
        group.ready()
