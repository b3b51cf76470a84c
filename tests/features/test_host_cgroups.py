"""Workers are held to the host's memory and CPUs that they asked for."""

from __future__ import annotations

import re

import pytest
from helpers.cgroups import BEGAN, OWNER, Group, Kernel, KernelFiles

from actorlib._features.cgroup.host_cgroups import HostCgroups, limits_of
from actorlib._options.resources import CPU, MEMORY
from actorlib.accelerators.host import oom_kills
from actorlib.exceptions import EnforcementRefused

GIB = 1 << 30


def _opened(kernel: Kernel) -> HostCgroups:
    cgroups = HostCgroups(kernel, KernelFiles(kernel))
    cgroups.open()
    return cgroups


def _join(kernel: Kernel, cgroups: HostCgroups, number: int, **amounts: int) -> str:
    """Plans a worker's leaf and does what the worker does; gives the leaf."""
    files = cgroups.plan(number, amounts)
    assert files
    acts, pid = KernelFiles(kernel), 200 + number
    leaf = next(iter(files)).rpartition("/")[0]
    acts.make(leaf)
    kernel.parents[pid] = OWNER
    for path, text in files.items():
        acts.write(path, str(pid) if path.endswith("cgroup.procs") else text)
    return leaf


@pytest.mark.parametrize(
    ("amounts", "limits"),
    [
        ({}, {}),
        ({MEMORY: 2 * GIB}, {"memory.max": "2147483648", "memory.oom.group": "1"}),
        ({CPU: 15_000}, {"cpu.max": "150000 100000"}),
        ({CPU: 1}, {"cpu.max": "1000 100000"}),  # the kernel takes no less
        ({"GPU": 5_000}, {}),
    ],
)
def test_limits_of_amounts(amounts: dict[str, int], limits: dict[str, str]) -> None:
    assert limits_of(amounts) == limits


@pytest.mark.parametrize(
    ("events", "count"),
    [("low 0\noom 3\noom_kill 2\noom_group_kill 1\n", 2), ("oom 1\n", 0), ("", 0)],
)
def test_oom_kills_in_events(events: str, count: int) -> None:
    assert oom_kills(events) == count


def test_open_when_the_owner_is_in_the_way_then_it_and_its_own_move() -> None:
    kernel = Kernel(base=Group(procs=[101, OWNER, 102]))
    kernel.parents |= {101: OWNER, 102: 101}
    _opened(kernel)
    base = kernel.groups[kernel.base]
    leaf = kernel.groups[f"{kernel.base}/actorlib-{OWNER}-{BEGAN}-owner"]
    assert base.enabled == {"memory", "cpu"}
    assert (base.procs, sorted(leaf.procs)) == ([], [OWNER, 101, 102])
    assert not leaf.values  # no limits


def test_open_when_a_process_forks_meanwhile_then_its_child_moves_too() -> None:
    kernel = Kernel(base=Group(procs=[OWNER, 101]))
    kernel.parents[101] = OWNER
    left = [102, 103]

    def fork(moved: int) -> None:
        if moved != OWNER and left:
            kernel.parents[left[0]] = 101
            kernel.groups[kernel.base].procs.append(left.pop())

    kernel.parents |= {102: 101, 103: 101}
    kernel.on_move = fork
    _opened(kernel)
    assert kernel.groups[kernel.base].procs == []
    assert kernel.groups[kernel.base].enabled == {"memory", "cpu"}


def test_open_when_a_process_forks_for_ever_then_it_is_refused() -> None:
    kernel = Kernel(base=Group(procs=[OWNER]))
    pids = iter(range(200, 10_000))

    def fork(_: int) -> None:
        pid = next(pids)
        kernel.parents[pid] = OWNER
        kernel.groups[kernel.base].procs.append(pid)

    kernel.on_move = fork
    with pytest.raises(EnforcementRefused, match="busy"):
        _opened(kernel)


def test_open_when_one_controller_was_delegated_then_that_is_enabled() -> None:
    kernel = Kernel(base=Group(("memory", "pids"), procs=[OWNER]))
    cgroups = _opened(kernel)
    assert kernel.groups[kernel.base].enabled == {"memory"}
    assert not cgroups.fault({MEMORY: GIB})
    assert "cpu controller" in cgroups.fault({MEMORY: GIB, CPU: 10_000})


def test_open_at_the_root_of_the_machine_then_nobody_moves() -> None:
    kernel = Kernel("/", Group(kind=None, procs=[1, OWNER]))
    kernel.parents[1] = 0
    _opened(kernel)
    assert kernel.groups[kernel.base].procs == [1, OWNER]


def test_open_when_nothing_was_delegated_then_nothing_is_touched() -> None:
    kernel = Kernel(base=Group(procs=[OWNER], closed={""}))
    _opened(kernel)
    assert kernel.groups[kernel.base].procs == [OWNER]


def test_open_when_an_owner_was_killed_then_its_leaves_are_removed() -> None:
    kernel = Kernel(base=Group(procs=[OWNER]))
    kernel.parents |= {60: 1, 70: 1}
    kernel.began[60] = 9  # another process with the number of a dead owner
    base = kernel.base
    gone = [f"{base}/actorlib-50-7-abc-1", f"{base}/actorlib-60-7-abc-2"]
    there = [
        f"{base}/actorlib-70-7-abc-1",  # its owner lives
        f"{base}/actorlib-50-7-owner",  # somebody is in it
        f"{base}/actorlib-other",  # none of ours
    ]
    for path in [*gone, *there, f"{gone[0]}/below"]:
        kernel.groups[path] = Group()
    kernel.groups[there[1]].procs = [70]
    _opened(kernel)
    assert not kernel.groups.keys() & {*gone, f"{gone[0]}/below"}
    assert kernel.groups.keys() >= {*there}


async def test_worker_when_it_has_joined_then_its_leaf_limits_it() -> None:
    kernel = Kernel()
    leaf = _join(kernel, _opened(kernel), 1, memory=GIB, CPU=5_000)
    assert re.fullmatch(rf"{kernel.base}/actorlib-100-7-\w+-1", leaf)
    assert kernel.groups[leaf].procs == [201]
    assert kernel.groups[leaf].values == {
        "memory.max": str(GIB),
        "memory.oom.group": "1",
        "cpu.max": "50000 100000",
    }


def test_worker_when_it_asks_for_nothing_then_it_has_no_leaf() -> None:
    assert _opened(Kernel()).plan(1, {"GPU": 5_000}) is None


async def test_worker_when_it_is_gone_then_its_leaf_is() -> None:
    kernel = Kernel()
    cgroups = _opened(kernel)
    leaf = _join(kernel, cgroups, 1, memory=GIB)
    kernel.groups[f"{leaf}/below"] = Group()  # of its own making
    kernel.groups[leaf].dies_late = True
    assert cgroups.remove(1) == 0
    await cgroups.aclose()
    assert leaf not in kernel.groups


async def test_worker_when_it_never_joined_then_its_end_is_no_trouble() -> None:
    cgroups = _opened(Kernel())
    assert cgroups.plan(1, {MEMORY: GIB})
    cgroups.remove(1)
    cgroups.remove(2)  # it has no leaf
    await cgroups.aclose()


async def test_worker_when_the_kernel_killed_in_its_leaf_then_it_says_so_once() -> None:
    kernel = Kernel()
    cgroups = _opened(kernel)
    kernel.groups[_join(kernel, cgroups, 1, memory=GIB)].oom_kills = 1
    assert [cgroups.remove(1), cgroups.remove(1)] == [GIB, 0]
    await cgroups.aclose()


async def test_end_of_the_runtime_when_workers_are_left_then_no_leaf_is() -> None:
    kernel = Kernel()
    cgroups = _opened(kernel)
    for number in (1, 2):
        _join(kernel, cgroups, number, CPU=10_000)
    await cgroups.aclose()
    assert [path for path in kernel.groups if path.startswith(f"{kernel.base}/")] == [
        f"{kernel.base}/actorlib-{OWNER}-{BEGAN}-owner"
    ]


def test_next_runtime_of_one_process_then_leaves_have_other_names() -> None:
    kernel = Kernel()
    first = _opened(kernel).plan(1, {CPU: 1})
    kernel.own = f"/app/actorlib-{OWNER}-{BEGAN}-owner"
    second = _opened(kernel).plan(1, {CPU: 1})
    assert first
    assert second
    assert first.keys() & second.keys() == set()
