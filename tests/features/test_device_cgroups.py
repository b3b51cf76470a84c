"""NVIDIA's driver holds workers to their memory of devices by their cgroups."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from helpers.cgroups import (
    BEGAN,
    CARDS,
    OWNER,
    Group,
    KernelFiles,
    LimitingMachine,
)
from helpers.host import GIB
from helpers.nvml import OLD_DRIVER, Card, FakeNvml

from actorlib._features.cgroup import host_cgroups
from actorlib._features.cgroup.device_cgroups import clear_now, device_cgroup_fault
from actorlib._features.cgroup.host_cgroups import HostCgroups
from actorlib._options.kinds import UNITS
from actorlib.accelerators import Device, Share
from actorlib.exceptions import EnforcementRefused

A, B = CARDS


class Machine:
    """That machine, and what a runtime has there."""

    def __init__(self, driver: str = "615.71.05", base: Group | None = None) -> None:
        self.there = LimitingMachine(driver, base)
        self.kernel, self.limits = self.there.kernel, self.there.limits
        self.nvml = self.there.nvml
        self.cgroups = HostCgroups(self.kernel, KernelFiles(self.kernel))
        self.ended: asyncio.Future[object] = asyncio.Future()

    async def limit(self, number: int, *shares: Share) -> str:
        """Does what comes before a worker begins; gives its leaf."""
        self.cgroups.open()
        await self.cgroups.limit_devices(number, shares, self.ended)
        files = self.cgroups.plan(number, {})
        assert files
        [path] = files
        return path.rpartition("/")[0]

    @property
    def leaves(self) -> set[str]:
        return self.there.leaves


def of(uuid: str, units: int = UNITS // 2) -> Share:
    index = int(uuid == B)
    return Share(
        Device(
            family="nvidia",
            kind="GPU",
            index=index,
            id=str(index),
            uuid=uuid,
            memory=80 * GIB,
        ),
        units,
    )


# Whether it can be had.


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"base": Group((), procs=[OWNER])}, ""),  # no controller is needed
        (
            {"user": 1000},
            "the driver lets only root limit the memory of devices, and this is user "
            "1000",
        ),
        (
            {"nvml": ModuleType("pynvml")},
            "this nvidia-ml-py has no nvmlDeviceSetMemoryLimits_v1: 13.615.71 has",
        ),
        ({"base": Group(procs=[OWNER], closed={"cgroup.procs"})}, "not be written"),
        (
            {"driver": OLD_DRIVER},
            f"the driver is {OLD_DRIVER}, and limits memory by cgroup from 615 on",
        ),
        (
            {"driver": "unknown"},
            "the driver is unknown, and limits memory by cgroup from 615 on",
        ),
        (
            {"nvml": FakeNvml(broken="DRIVER_NOT_LOADED")},
            "NVML does not say which driver this is: Driver Not Loaded",
        ),
    ],
)
async def test_fault_when_something_is_missing_then_it_says_which(
    changes: dict[str, Any], why: str
) -> None:
    rest = {name: changes[name] for name in changes.keys() & {"driver", "base"}}
    machine = Machine(**rest)
    machine.kernel.user = changes.get("user", 0)
    machine.kernel.sdks["pynvml"] = changes.get("nvml", machine.nvml)

    fault = device_cgroup_fault(machine.kernel)

    assert (why in fault) if why else not fault
    assert machine.nvml.open == 0


# Workers.


async def test_worker_when_it_is_gone_then_nothing_is_kept_and_its_leaf_is_gone() -> (
    None
):
    machine = Machine()
    leaf = await machine.limit(1, of(A), of(B, UNITS // 4))
    limits = {(A, leaf): (40 * GIB, 40 * GIB), (B, leaf): (20 * GIB, 20 * GIB)}
    assert machine.limits.set == limits

    machine.cgroups.remove(1)
    await machine.cgroups.aclose()

    assert (machine.leaves, machine.limits.set) == (set(), {})
    assert machine.nvml.open == 0
    assert not machine.limits.leaked


async def test_worker_when_one_follows_on_the_same_share_then_it_gets_all_of_it() -> (
    None
):
    machine = Machine()
    await machine.limit(1, of(A))
    await machine.limit(2, of(A))

    for number in range(3, 6):
        machine.cgroups.remove(number - 2)
        await machine.limit(number, of(A))

    assert [soft for *_, soft, _ in machine.limits.calls] == [40 * GIB] * 2 + [
        0,
        40 * GIB,
    ] * 3
    await machine.cgroups.aclose()


async def test_worker_when_the_driver_refuses_then_it_must_not_begin() -> None:
    machine = Machine()
    machine.limits.is_root = False

    with pytest.raises(
        EnforcementRefused,
        match=r"memory of GPU 0 cannot be limited for .*-1-devices: "
        "Insufficient Permissions",
    ):
        await machine.limit(1, of(A))

    machine.limits.is_root = True
    machine.cgroups.remove(1)
    await machine.cgroups.aclose()
    assert machine.leaves == set()


@pytest.mark.parametrize(
    ("trouble", "why"),
    [("UNKNOWN", "Unknown Error"), ("DRIVER_NOT_LOADED", "Driver Not Loaded")],
)
async def test_worker_when_one_was_refused_then_the_next_may_begin(
    trouble: str, why: str
) -> None:
    machine = Machine()
    if trouble == "UNKNOWN":
        machine.limits.troubles.append(trouble)
    else:
        machine.kernel.sdks["pynvml"] = FakeNvml(broken=trouble)
    with pytest.raises(EnforcementRefused, match=why):
        await machine.limit(1, of(A))

    machine.kernel.sdks["pynvml"] = machine.nvml
    assert await machine.limit(2, of(A))
    await machine.cgroups.aclose()
    assert machine.leaves == set()


@pytest.mark.memory
async def test_worker_when_nvml_hangs_then_it_must_not_begin() -> None:
    machine = Machine()
    machine.limits.going_on.clear()
    with pytest.raises(EnforcementRefused, match="not answered for 10 s"):
        await machine.limit(1, of(A))

    machine.limits.going_on.set()
    machine.cgroups.remove(1)
    await machine.cgroups.aclose()
    assert (machine.leaves, machine.limits.set) == (set(), {})


async def test_worker_when_it_ends_meanwhile_then_nobody_waits_for_nvml() -> None:
    machine = Machine()
    machine.limits.going_on.clear()
    limiting = asyncio.ensure_future(machine.limit(1, of(A)))
    await asyncio.to_thread(machine.limits.asked.wait)

    machine.ended.set_result(None)
    await limiting

    machine.limits.going_on.set()
    machine.cgroups.remove(1)
    await machine.cgroups.aclose()
    assert (machine.leaves, machine.limits.set) == (set(), {})


async def test_end_when_the_driver_keeps_memory_then_the_leaf_stays_and_it_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()
    leaf = await machine.limit(1, of(A))
    machine.limits.troubles.append("GPU_IS_LOST")

    await machine.cgroups.aclose()

    assert leaf in machine.kernel.groups
    assert f"the cgroup {leaf} stays" in caplog.text
    assert "GPU is lost" in caplog.text


async def test_start_when_an_owner_was_killed_then_what_was_kept_is_free() -> None:
    machine = Machine()
    gone = f"{machine.kernel.base}/actorlib-50-7-abc-1-devices"
    there = f"{machine.kernel.base}/actorlib-{OWNER}-{BEGAN}-abc-1-devices"
    machine.kernel.groups |= {gone: Group(), there: Group()}
    machine.limits.set = {(A, gone): (80 * GIB, 80 * GIB), (B, there): (GIB, GIB)}

    await machine.limit(1, of(A))
    await machine.cgroups.aclose()

    assert machine.leaves == {there.rpartition("/")[2]}
    assert machine.limits.set == {(B, there): (GIB, GIB)}
    assert not machine.limits.leaked


async def test_abandoned_when_workers_are_left_then_no_leaf_is() -> None:
    machine = Machine()
    await machine.limit(1, of(A))
    machine.cgroups.remove(1)
    await machine.limit(2, of(A))
    assert machine.cgroups.plan(3, {"memory": GIB})
    machine.kernel.groups[machine.cgroups._leaves[3].path] = Group()

    remove = machine.cgroups.abandon()
    await asyncio.to_thread(remove)

    assert (machine.leaves, machine.limits.set) == (set(), {})
    assert not machine.limits.leaked


async def test_abandoned_when_nvml_hangs_then_it_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_cgroups, "_PATIENCE", 0.01)
    machine = Machine()
    leaf = await machine.limit(1, of(A))
    machine.limits.going_on.clear()

    await asyncio.to_thread(machine.cgroups.abandon())

    assert leaf in machine.kernel.groups
    assert "NVML has not answered for 0.01 s" in caplog.text
    machine.limits.going_on.set()


async def test_clear_when_a_card_is_in_parts_then_the_others_are_cleared() -> None:
    machine = Machine()
    machine.kernel.sdks["pynvml"] = FakeNvml(
        Card(uuid=A, mig=True), Card(uuid=B), limits=machine.limits
    )
    machine.kernel.groups["/g"] = Group()
    machine.limits.set = {(B, "/g"): (GIB, GIB)}

    assert clear_now(machine.kernel, {"/g": (), "/gone": ()}, 5.0) == ""
    assert machine.limits.set == {}
