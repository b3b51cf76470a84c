"""Bytes of a GPU's memory, asked for by actors, functions and groups.

The machine is a recorded one: an A100 of 40 GiB and two RTX 4090 of 23.99 GiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import running
from helpers.machines import Pretend, gpus, ids, looking, refused

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib.accelerators import types
from actorlib.exceptions import ActorDiedError, TaskUnschedulableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime
    from actorlib.types import ActorInfo


pytestmark = pytest.mark.memory

GIB = 2**30
CARD = 24564 * 2**20


@pytest_asyncio.fixture
async def mixed(pretend: Pretend) -> AsyncIterator[Runtime]:
    pretend("nvidia_mixed")
    async with running(num_gpus=None) as runtime:
        yield runtime


def info_of(runtime: Runtime, actor: Any) -> ActorInfo:
    (info,) = (
        i
        for i in runtime.snapshot().actors
        if i.actor_id == pin_of(actor).actor_id.hex()
    )
    return info


async def test_actor_when_it_asks_bytes_then_as_much_of_the_card_that_it_gets(
    mixed: Runtime,
) -> None:
    wide, small = (looking(gpu_memory=words).remote() for words in ("30GiB", "12GiB"))

    assert [await actor.gpu_ids.remote() for actor in (wide, small)] == [[0], [1]]
    assert await wide.assigned.remote() == {"GPU": 0.75}
    assert await small.assigned.remote() == {"GPU": 0.5003}
    assert mixed.available_resources()["GPU"] == pytest.approx(3 - 0.75 - 0.5003)
    info = info_of(mixed, small)
    assert info.resources == {"gpu_memory": 12 * GIB}
    assert info.devices == {"1": 0.5003}
    assert info.device_nbytes == {"1": CARD * 5003 // 10_000}
    assert "0.5003 (12 GiB) of GPU 1" in mixed.explain(small)
    assert "0.75 (30 GiB) of GPU 0" in mixed.explain(wide)


async def test_actor_when_it_waits_for_bytes_then_told_in_both(mixed: Runtime) -> None:
    holder = looking(gpu_memory="30GiB").remote()
    waiting = looking(gpu_memory="35GiB").remote()
    ref = waiting.gpu_ids.remote()
    assert await holder.gpu_ids.remote() == [0]

    said = mixed.explain(waiting)
    assert "requests GPU=0.875 (gpu_memory=35 GiB); the largest free slice is" in said
    assert "GPU=0.25 (10 GiB) on device 0" in said
    assert "Held: GPU=0.75 by Looking" in said
    snapshot = mixed.snapshot()
    assert snapshot.waiting == ("Looking: GPU=0.875 (gpu_memory=35 GiB)",)
    assert snapshot.demands[0].resources == {"GPU": 0.875, "gpu_memory": 35 * GIB}
    await actorlib.kill(holder)
    assert await ref == [0]


async def test_class_when_explained_then_each_card_in_both(mixed: Runtime) -> None:
    told = mixed.explain(looking(gpu_memory="30GiB")).splitlines()

    assert told == [
        "Looking requests GPU=0.75 (gpu_memory=30 GiB); it would go to GPU 0, and hold "
        "0.75 of it",
        "  GPU 0 (NVIDIA A100-PCIE-40GB): 1 (40 GiB) free, chosen",
        "  GPU 1 (NVIDIA GeForce RTX 4090): 1 (23.99 GiB) free, too small",
        "  GPU 2 (NVIDIA GeForce RTX 4090): 1 (23.99 GiB) free, too small",
    ]


@pytest.mark.usefixtures("mixed")
async def test_actor_when_no_card_is_so_large_then_refused_with_what_there_is() -> None:
    assert await refused(looking(gpu_memory="100GB").remote()) == (
        "Looking requests gpu_memory=93.13 GiB; the largest GPU here has 40 GiB (0: "
        "NVIDIA A100-PCIE-40GB). Ask for at most that."
    )
    said = await refused(
        looking(gpu_memory="24GiB", accelerator_type="RTX-4090").remote()
    )
    assert "the largest GPU of those has 23.98 GiB (1: NVIDIA GeForce RTX 4090)" in said


async def test_function_when_it_asks_bytes_then_its_calls_hold_them(
    mixed: Runtime,
) -> None:
    @actorlib.remote(gpu_memory="30GiB")
    def where() -> tuple[list[int | str], dict[str, float]]:
        context = actorlib.get_runtime_context()
        return actorlib.get_gpu_ids(), context.get_assigned_resources()

    assert await where.remote() == ([0], {"GPU": 0.75})
    small: Any = where.options(gpu_memory="6GiB", device=2)
    assert await small.remote() == ([2], {"GPU": 0.2502})
    groups = {group.resources for group in mixed.snapshot().worker_groups}
    assert groups <= {
        "GPU=0.75 (gpu_memory=30 GiB)",
        "GPU=0.2502 (gpu_memory=6 GiB)",
    }
    with pytest.raises(TaskUnschedulableError, match="largest GPU here has 40 GiB"):
        await where.options(gpu_memory="41GiB").remote()


async def test_group_when_bundles_are_in_bytes_then_lent_and_shown_in_both(
    mixed: Runtime,
) -> None:
    bundles: Any = [{"gpu_memory": "12GiB"}, {"gpu_memory": "30GiB", "CPU": 1}]
    group = await actorlib.placement_group(bundles, strategy="SPREAD").ready()
    inside = looking(gpu_memory="10GiB", placement_group=group)
    members = [
        inside.options(placement_group_bundle_index=index).remote() for index in (0, 1)
    ]

    assert [await member.gpu_ids.remote() for member in members] == [[1], [0]]
    (row,) = mixed.snapshot().groups
    assert [bundle.devices for bundle in row.bundles] == [{"1": 0.5003}, {"0": 0.75}]
    assert [bundle.device_nbytes for bundle in row.bundles] == [
        {"1": CARD * 5003 // 10_000},
        {"0": 30 * GIB},
    ]
    assert row.bundles[1].available == {"CPU": 1, "GPU": 0.5}
    assert "on 0.5003 (12 GiB) of GPU 1; 0.75 (30 GiB) of GPU 0" in mixed.explain(group)
    said = await refused(
        looking(
            num_gpus=0.9, placement_group=group, placement_group_bundle_index=0
        ).remote()
    )
    assert "bundle 0 has 0.5003 (12 GiB) of GPU 1: ask for less" in said
    await actorlib.remove_placement_group(group)


@pytest.mark.usefixtures("mixed")
async def test_group_when_a_bundle_is_too_small_then_refused_where_it_is_asked() -> (
    None
):
    bundles: Any = [{"gpu_memory": "12GiB"}]
    group = actorlib.placement_group(bundles)
    with pytest.raises(
        ValueError, match=r"requests gpu_memory=20 GiB.*gpu_memory=12 GiB"
    ):
        looking(gpu_memory="20GiB", placement_group=group).remote()
    await actorlib.remove_placement_group(group)
    wrong: Any = [{"GPU": 2, "gpu_memory": "12GiB"}]
    with pytest.raises(ValueError, match=r"bundles\[0\].*num_gpus=2"):
        actorlib.placement_group(wrong)


async def test_declared_when_devices_are_logical_then_they_have_that_memory() -> None:
    async with running(num_gpus=2, device_memory={"GPU": "24GiB"}) as runtime:
        actor = looking(gpu_memory="6GiB").remote()

        assert await actor.assigned.remote() == {"GPU": 0.25}
        assert info_of(runtime, actor).device_nbytes == {"0": 6 * GIB}
        said = await refused(looking(gpu_memory="25GiB").remote())
        assert "the largest GPU here has 24 GiB (0: logical)" in said


async def test_declared_when_nothing_is_said_then_refused_with_the_way_out() -> None:
    async with running(num_gpus=1) as runtime:
        said = await refused(looking(gpu_memory="6GiB").remote())
        whole = looking(num_gpus=1).remote()

        assert "the memory of 0: logical is unknown. Say what it is with init(" in said
        await whole
        assert info_of(runtime, whole).device_nbytes == {"0": None}


# GPUs of a type.


async def test_type_when_one_waits_for_its_type_then_it_holds_nobody_of_another_up(
    mixed: Runtime,
) -> None:
    a100 = gpus(accelerator_type="A100")
    holder = a100.remote()
    waiting = a100.remote()
    ref = waiting.gpu_ids.remote()
    others = [gpus(accelerator_type="RTX-4090").remote(), gpus().remote()]

    assert await ids(holder, *others) == [[0], [1], [2]]
    assert not ref.done()
    assert "of type A100" in mixed.explain(waiting)
    await actorlib.kill(holder)
    assert await ref == [0]


async def test_the_type_is_a_resource_of_which_a_thousandth_is_held(
    mixed: Runtime,
) -> None:
    there = mixed.cluster_resources()
    named = {name: n for name, n in there.items() if name.startswith("accelerator")}
    assert named == {
        "accelerator_type:A100": 1,
        "accelerator_type:GeForce-RTX-4090": 1,
    }
    actor = gpus(0.5, accelerator_type="geforce rtx 4090").remote()
    held = {"GPU": 0.5, "accelerator_type:GeForce-RTX-4090": 0.001}
    assert await actor.assigned.remote() == held
    assert await ids(actor) == [[1]]
    # Without a number it is a wish for the machine, and no device is held.
    alone = looking(accelerator_type=types.NVIDIA_A100).remote()
    assert await alone.assigned.remote() == {"accelerator_type:A100": 0.001}
    assert await ids(alone) == [[]]
    assert (await alone.environ.remote())["CUDA_VISIBLE_DEVICES"] == ""
    assert mixed.available_resources()["accelerator_type:A100"] == 0.999


@pytest.mark.usefixtures("mixed")
async def test_type_when_it_is_not_here_then_refused_with_what_is() -> None:
    for number in (0, 1):
        said = await refused(gpus(number, accelerator_type="A10").remote())
        assert "accelerator_type='A10'" in said
        assert "1 of A100, 2 of GeForce-RTX-4090" in said
        assert "Did you mean 'A100'?" in said


@pytest.mark.usefixtures("mixed")
async def test_type_when_there_are_fewer_than_asked_then_refused() -> None:
    said = await refused(gpus(2, accelerator_type="A100").remote())
    assert "GPU=2 of type A100" in said
    assert "leaves 0: NVIDIA A100-PCIE-40GB" in said


@pytest.mark.usefixtures("mixed")
async def test_type_when_it_is_of_another_kind_then_refused() -> None:
    asked = looking(resources={"TPU": 1}, accelerator_type="A100").remote()
    assert "a type of GPU" in await refused(asked)


async def test_type_when_init_is_to_wait_then_so_does_an_unknown_one(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mixed")
    async with running(num_gpus=None, infeasible="wait") as runtime:
        waiting = gpus(accelerator_type="H200").remote()
        near = gpus(0.5, near=waiting).remote()
        ref = waiting.gpu_ids.remote()

        assert await ids(gpus(accelerator_type="A100").remote()) == [[0]]
        assert not ref.done()
        assert "H200" in runtime.explain(waiting)
        assert runtime.snapshot().waiting == (
            "Looking: GPU=1, accelerator_type:H200=0.001",
        )
        await actorlib.kill(waiting)
        with pytest.raises(ActorDiedError):
            await ref
        assert "is dead" in await refused(near)
