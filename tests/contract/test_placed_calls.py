"""Calls in placement groups: of functions, and of actors that are inside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.callees import Callee, numbers
from helpers.callers import all_items, error_of
from helpers.kinds import CONTRACT, FEW_KINDS, OWN_ENGINES, kinds
from helpers.reused import Gate
from helpers.waiting_calls import wait_at

import actorlib
import actorlib.blocking
from actorlib.blocking.util.placement_group import (
    get_placement_group,
    remove_placement_group,
)
from actorlib.blocking.util.placement_group import placement_group as blocking_group
from actorlib.exceptions import (
    ActorPlacementGroupRemoved,
    ActorUnschedulableError,
    GetTimeoutError,
    PlacementGroupAlreadyExistsError,
    PlacementGroupRemovedError,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from helpers.actors import Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = CONTRACT


class Groups:
    """Placement groups, by either API."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: list[Any] = []

    def new(self, *bundles: dict[str, float], name: str = "") -> Any:
        make: Any = (
            blocking_group if self._api.is_blocking else actorlib.placement_group
        )
        group = make(list(bundles), name=name)
        self._made.append(group)
        return group

    async def ready(self, *bundles: dict[str, float]) -> Any:
        group = self.new(*bundles)
        assert await self._api.get(group.ready()) == group
        return group

    async def is_ready(self, group: Any, seconds: float) -> bool:
        if self._api.is_blocking:
            return await asyncio.to_thread(group.wait, seconds)
        return bool(await group.wait(seconds))

    async def remove(self, group: Any) -> None:
        self._made.remove(group)
        if self._api.is_blocking:
            await asyncio.to_thread(remove_placement_group, group)
        else:
            await actorlib.remove_placement_group(group)

    async def remove_all(self) -> None:
        for group in list(self._made):
            await self.remove(group)


@pytest_asyncio.fixture(loop_scope="module")
async def groups(api: Api, runtime: object) -> AsyncIterator[Groups]:
    """Makes groups, which are removed behind the test."""
    del runtime  # it runs
    made = Groups(api)
    yield made
    await made.remove_all()


def place() -> tuple[str | None, list[int | str]]:
    group = actorlib.get_current_placement_group()
    return None if group is None else group.id.hex(), actorlib.get_gpu_ids()


def place_of(other: Callee) -> Steps:
    group, _ = yield other.run(place)
    return group


def expect_unknown_group(request: pytest.FixtureRequest) -> None:
    reason = "on Ray the context of a function does not know its placement group"
    request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


@FEW_KINDS
async def test_callee_when_it_is_in_a_group_then_it_has_its_devices(
    api: Api,
    callee: Callee,
    groups: Groups,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine in ("ray", "client") and not callee.is_actor:
        expect_unknown_group(request)
    group = await groups.ready({"CPU": 1, "GPU": 1})
    inside = callee.new(
        placement_group=group, placement_group_bundle_index=0, num_gpus=1
    )

    name, gpus = await api.get(inside.run(place))
    assert name == group.id.hex()
    assert len(gpus) == 1
    if engine != "client":  # it passes no streams
        assert await all_items(api, inside.items(numbers, 3)) == [0, 1, 2]
    assert await api.get(callee.run(place)) == (None, [])


@FEW_KINDS
@OWN_ENGINES
async def test_callee_when_it_is_in_a_group_then_it_takes_from_its_bundle(
    api: Api, callee: Callee, groups: Groups, runtime: Any, stop: Stop
) -> None:
    def free() -> dict[str, float]:
        found: dict[str, float] = (
            actorlib.blocking.available_resources()
            if api.is_blocking
            else runtime.available_resources()
        )
        return found

    cpus = free()["CPU"]
    group = await groups.ready({"CPU": 1, "GPU": 1})
    assert free()["CPU"] == cpus - 1
    inside = callee.new(placement_group=group, num_cpus=1)
    running = inside.run(stop.place.stop_here)
    await stop.reached()

    assert free()["CPU"] == cpus - 1
    if not api.is_blocking:
        [bundle] = runtime.snapshot().groups[0].bundles
        assert bundle.available["CPU"] == 0
        assert len(bundle.actors) == callee.is_actor
    if not callee.is_actor:  # which holds its share for life
        waiting = callee.new(placement_group=group).run(len, "ab")
        stop.release()
        assert await api.get(waiting) == 2
    else:
        stop.release()
        await api.get(running)
        await api.kill(inside.actor)
    await groups.remove(group)
    assert await groups.ready({"CPU": cpus, "GPU": 2})


@FEW_KINDS
async def test_group_when_it_captures_then_children_of_its_callees_are_inside(
    api: Api,
    callee: Callee,
    groups: Groups,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine in ("ray", "client"):
        expect_unknown_group(request)
    group = await groups.ready({"CPU": 1})
    strategy = actorlib.types.PlacementGroupSchedulingStrategy(
        group, placement_group_capture_child_tasks=True
    )
    child = Callee("function", is_blocking=False)
    inside = callee.new(scheduling_strategy=strategy)
    outside = callee.new(placement_group=group)

    assert await api.get(inside.run(place_of, child)) == group.id.hex()
    if callee.is_actor:
        await api.kill(inside.actor)
    assert await api.get(outside.run(place_of, child)) is None


@FEW_KINDS
async def test_group_when_it_has_no_such_room_then_refused_at_the_call(
    api: Api, callee: Callee, groups: Groups
) -> None:
    group = await groups.ready({"CPU": 1})
    for options, message in (
        ({"num_cpus": 2, "placement_group": group}, "in its placement group"),
        (
            {"placement_group": group, "placement_group_bundle_index": 3},
            "bundle index 3",
        ),
        ({"placement_group_bundle_index": 0}, "has none"),
    ):
        with pytest.raises(ValueError, match=message):
            callee.new(**options).run(len, "ab")
    del api


@FEW_KINDS
@OWN_ENGINES  # on Ray they wait for more machines
async def test_group_when_it_can_never_be_then_calls_inside_fail(
    api: Api, callee: Callee, groups: Groups
) -> None:
    group = groups.new({"CPU": 8_000})

    error = await error_of(api, callee.new(placement_group=group).run(len, "ab"))

    expected = ActorUnschedulableError if callee.is_actor else TaskUnschedulableError
    assert type(error) is expected


@FEW_KINDS
@pytest.mark.parametrize("num_gpus", [0, 0.5])
async def test_group_when_it_is_removed_then_calls_inside_fail(
    api: Api, callee: Callee, groups: Groups, num_gpus: float
) -> None:
    gate = Gate.remote()
    group = await groups.ready({"CPU": 1, "GPU": 1})
    inside = callee.new(placement_group=group, num_gpus=num_gpus)
    refs = [inside.run(wait_at, gate, name) for name in "ab"]
    await api.get(gate.reached.remote("a"))

    await groups.remove(group)

    expected = (
        ActorPlacementGroupRemoved if callee.is_actor else TaskPlacementGroupRemoved
    )
    late = inside if callee.is_actor else callee.new(placement_group=group)
    for ref in (*refs, late.run(len, "ab")):
        assert type(await error_of(api, ref)) is expected


@FEW_KINDS
@OWN_ENGINES
async def test_group_when_it_is_removed_before_it_is_there_then_calls_inside_fail(
    api: Api, callee: Callee, groups: Groups, stop: Stop
) -> None:
    busy = callee.new(num_cpus=1).run(stop.place.stop_here)
    await stop.reached()
    group = groups.new({"CPU": 4})
    ready = group.ready()
    refs = [
        callee.new(placement_group=group, **options).run(len, "ab")
        for options in ({}, {"num_gpus": 0})
    ]

    await groups.remove(group)

    expected = (
        ActorPlacementGroupRemoved if callee.is_actor else TaskPlacementGroupRemoved
    )
    for ref in refs:
        assert type(await error_of(api, ref)) is expected
    for ref in (ready, group.ready()):
        assert isinstance(await error_of(api, ref), PlacementGroupRemovedError)
    stop.release()
    await api.get(busy)


def length_by(other: Callee) -> Steps:
    return (yield other.run(len, "ab"))


@kinds("function")
@OWN_ENGINES
async def test_group_when_nested_calls_wait_inside_then_they_share_the_bundle(
    api: Api, callee: Callee, groups: Groups
) -> None:
    group = await groups.ready({"CPU": 1, "GPU": 1})
    inner = Callee("function", is_blocking=False, placement_group=group)

    for num_gpus in (0, 0.5):
        outer = callee.new(placement_group=group, num_gpus=num_gpus)
        assert await api.get(outer.run(length_by, inner)) == 2


async def test_group_when_there_is_no_room_then_it_is_there_later(
    api: Api, groups: Groups
) -> None:
    first = await groups.ready({"GPU": 2})
    second = groups.new({"GPU": 1})

    assert not await groups.is_ready(second, 0.01)
    if api.is_blocking:
        with pytest.raises(GetTimeoutError):
            await api.get(second.ready(), limit=0.01)
    await groups.remove(first)
    assert await groups.is_ready(second, 20)
    assert await api.get(second.ready()) == second


async def test_group_when_it_has_a_name_then_it_is_found_by_it(
    api: Api, groups: Groups
) -> None:
    find: Any = get_placement_group if api.is_blocking else actorlib.get_placement_group
    group = groups.new({"CPU": 1}, name="gang")

    assert find("gang") == group
    assert await groups.is_ready(find("gang"), 20)
    assert actorlib.placement_group_table(group)["state"] == "CREATED"
    with pytest.raises(PlacementGroupAlreadyExistsError):
        groups.new({"CPU": 1}, name="gang")
