"""What actors and functions hold of the machine, and what they know of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.lives import id_of, info_of

import actorlib
import actorlib.blocking
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture
def available(api: Api, runtime: Any) -> Callable[[], dict[str, float]]:
    """What nobody holds."""
    if api.is_blocking:
        return actorlib.blocking.available_resources
    found: Callable[[], dict[str, float]] = runtime.available_resources
    return found


def here() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return (
        context.get_job_id(),
        context.get_actor_id(),
        context.get_actor_name(),
        actorlib.get_gpu_ids(),
        context.get_assigned_resources(),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


async def test_share_when_granted_then_the_callee_knows_it(
    api: Api, engine: str, callee: Callee
) -> None:
    name = "placed" if callee.is_actor else None
    options = {"num_gpus": 0.5, **({"name": name} if name else {})}
    placed = callee.new(**options)
    job, actor, own_name, gpus, resources, mask = await api.get(placed.run(here))

    assert (own_name, gpus) == (name, [0])
    assert resources["GPU"] == 0.5
    if callee.is_actor:
        assert (actor, resources) == (id_of(placed.actor), {"GPU": 0.5})
        assert await api.get(placed.run(itself)) == placed.actor
    if engine != "inline":  # its environment is that of the program
        assert mask == "0"
    assert here()[:5] == (job, None, None, [], {})


def itself() -> Any:
    return actorlib.get_runtime_context().current_actor


async def test_share_when_actors_hold_parts_then_the_rest_is_free(
    api: Api, runtime: Any, engine: str, available: Callable[[], dict[str, float]]
) -> None:
    half = Echo.options(num_gpus=0.5, name="half").remote()
    other = Echo.options(num_gpus=0.5).remote()
    whole = Echo.options(num_gpus=1, num_cpus=1).remote()
    await api.get([actor.echo.remote(1) for actor in (half, other, whole)])

    assert (info_of(half).name, info_of(half).state) == ("half", "alive")
    if engine in ("ray", "client"):  # it does not tell which devices an actor has
        with pytest.raises(RuntimeError, match="on the local and the inline engine"):
            _ = half.share
        if runtime is not None:
            assert "is alive on the machine" in runtime.explain(half)
        return
    assert [actor.share.units for actor in (half, other, whole)] == [0.5, 0.5, 1]
    assert info_of(half).devices == info_of(other).devices == {"0": 0.5}
    assert info_of(whole).devices == {"1": 1.0}
    assert info_of(whole).resources == {"CPU": 1.0, "GPU": 1.0}
    assert available()["GPU"] == 0
    if runtime is None:
        return
    if engine == "attached":
        with pytest.raises(UnsupportedOptionError, match="has started the runtime"):
            runtime.explain(half)
        return
    placed, _, holds = runtime.explain(half).partition("\n")
    assert placed.endswith("is alive on 0.5 of GPU 0")
    assert holds.startswith(
        ("  0.5 of GPU 0, enforced by ", "  0.5 of GPU 0, not enforced")
    )


async def test_share_when_its_actor_has_ended_then_the_next_one_gets_it(
    api: Api, available: Callable[[], dict[str, float]], *, is_on_ray: bool
) -> None:
    whole = Echo.options(num_gpus=2)
    for number in range(3):
        echo = whole.remote()
        assert await api.get(echo.echo.remote(number)) == number
        del echo
    async with whole.remote():
        if not is_on_ray:
            assert available()["GPU"] == 0

    if not is_on_ray:  # it tells of free resources with a delay
        assert available()["GPU"] == 2
    await api.ready(whole.remote())


async def test_actor_when_nothing_is_free_then_it_waits_for_the_next_end(
    api: Api, runtime: Any, *, is_on_ray: bool
) -> None:
    holders = [Echo.options(num_gpus=1).remote() for _ in range(2)]
    await api.get([holder.echo.remote(1) for holder in holders])
    waiting = Echo.options(num_gpus=1).remote()
    ref = waiting.echo.remote("placed")
    assert await api.get(holders[1].echo.remote("meanwhile")) == "meanwhile"
    assert not ref.done()
    if runtime is not None and not is_on_ray:
        assert runtime.snapshot().waiting
    await api.kill(holders[0])

    assert await api.get(ref) == "placed"
