"""Actors that share a GPU are held to their memory of it by the driver, by cgroup."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.cgroups import CARDS, Group, KernelFiles, LimitingMachine
from helpers.host import GIB
from helpers.nvml import OLD_DRIVER
from helpers.scripted import scripted

import actorlib
from actorlib._features.cgroup import host_cgroups
from actorlib._owner import machine
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    EnforcementRefused,
)

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.memory

HALF = 40 * GIB, 40 * GIB
NOTHING = 0, (1 << 64) - 1


@actorlib.remote(num_gpus=0.5, enforcement="cgroup", device="0")
class Model:
    def work(self) -> None: ...


@actorlib.remote(num_gpus=0.5, enforcement="cgroup", device="0")
def compute() -> None: ...


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LimitingMachine]:
    """Makes the machine of the runtime."""

    def make(**said: Any) -> LimitingMachine:
        there = LimitingMachine(**said)
        monkeypatch.setattr(machine, "Host", lambda: there.kernel)
        files = KernelFiles(there.kernel)
        monkeypatch.setattr(host_cgroups, "CgroupFiles", lambda: files)
        return there

    return make


def sets(there: LimitingMachine) -> list[tuple[int, int]]:
    """The limits of the first card that were set, in order."""
    return [tuple(both) for card, _, *both in there.limits.calls if card == CARDS[0]]  # type: ignore[misc]


async def test_actor_when_it_asks_by_name_then_it_begins_behind_its_limit(
    make: Callable[..., LimitingMachine],
) -> None:
    there = make()
    there.limits.going_on.clear()
    async with scripted({}) as launcher:
        model = Model.options(memory="2GiB").remote()
        await asyncio.to_thread(there.limits.asked.wait)
        [worker] = launcher.workers
        assert worker.frames == []

        there.limits.going_on.set()
        await model

        assert sets(there) == [HALF]
        assert worker.config.features["cgroup"]
        [leaf] = {path.rpartition("/")[0] for path in worker.config.features["cgroup"]}
        assert there.limits.set == {(CARDS[0], leaf): HALF}
        assert [
            path.removeprefix(leaf) for path in worker.config.features["cgroup"]
        ] == [
            "/memory.max",
            "/memory.oom.group",
            "/cgroup.procs",
        ]
        [share] = model.share.devices
        assert (share.enforced_by, share.not_stronger_because) == ("cgroup", "")
    assert (there.leaves, there.limits.set) == (set(), {})
    assert there.nvml.open == 0


async def test_function_when_it_asks_by_name_then_its_worker_is_limited(
    make: Callable[..., LimitingMachine],
) -> None:
    there = make()
    async with scripted({}) as launcher:
        await compute.remote()
        assert sets(there)[0] == HALF
        assert launcher.workers[-1].config.features["cgroup"]
    assert there.limits.set == {}


async def test_runtime_when_it_says_it_then_shares_have_it_and_whole_cards_need_none(
    make: Callable[..., LimitingMachine],
) -> None:
    there = make()
    async with scripted({}, enforcement="cgroup"):
        whole = await Model.options(enforcement=None, num_gpus=1).remote()
        assert whole.share.enforced_by == "off"
        other = Model.options(enforcement=None, num_gpus=None, gpu_memory="10GiB")
        part = await other.options(device="1").remote()
        assert part.share.enforced_by == "cgroup"
        assert [soft for *_, soft, _ in there.limits.calls] == [10 * GIB]


async def test_actor_when_the_driver_refuses_then_it_is_dead_and_never_began(
    make: Callable[..., LimitingMachine],
) -> None:
    there = make()
    there.limits.is_root = False
    async with scripted({}) as launcher:
        with pytest.raises(ActorDiedError, match="Insufficient Permissions") as caught:
            await Model.remote()
        assert launcher.workers[-1].frames == []
    assert caught.value.exit.cause == "failed to start"
    assert isinstance(caught.value.__cause__, EnforcementRefused)


async def test_actor_when_it_is_killed_while_nvml_hangs_then_it_is_dead_at_once(
    make: Callable[..., LimitingMachine],
) -> None:
    there = make()
    there.limits.going_on.clear()
    async with scripted({}):
        model = Model.remote()
        await asyncio.to_thread(there.limits.asked.wait)
        before = asyncio.get_running_loop().time()
        await actorlib.kill(model)
        assert asyncio.get_running_loop().time() - before < 1
        there.limits.going_on.set()
    assert (there.leaves, there.limits.set) == (set(), {})


async def test_actor_when_it_cannot_be_had_then_it_is_refused_with_the_reason(
    make: Callable[..., LimitingMachine],
) -> None:
    make(driver=OLD_DRIVER)
    said = f"the driver is {OLD_DRIVER}, and limits memory by cgroup from 615 on"
    async with scripted({}):
        with pytest.raises(ActorUnschedulableError, match=said):
            await Model.remote()
        usual = await Model.options(enforcement="auto").remote()
        assert f"cgroup: {said}" in usual.share.not_stronger_because


async def test_runtime_when_nothing_can_be_had_then_it_is_refused_with_the_reasons(
    make: Callable[..., LimitingMachine],
) -> None:
    make(driver=OLD_DRIVER, base=Group((), procs=[100]))
    with pytest.raises(
        EnforcementRefused, match=r"devices: the driver is .*; the host's memory and"
    ):
        async with scripted({}, enforcement="cgroup"):
            pass
