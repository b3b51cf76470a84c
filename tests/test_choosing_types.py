from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from helpers.actors import running
from helpers.machines import Pretend, gpus, ids, looking, refused

import actorlib
from actorlib.accelerators import types
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime

pytestmark = pytest.mark.memory


@pytest_asyncio.fixture
async def mixed(pretend: Pretend) -> AsyncIterator[Runtime]:
    """One A100 and two RTX 4090."""
    pretend("nvidia_mixed")
    async with running(num_gpus=None) as runtime:
        yield runtime


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
