"""Which part of the cgroup tree a program may use, and why none."""

from __future__ import annotations

import pytest
from helpers.cgroups import OWNER, Group, Kernel
from helpers.host import RecordedHost

from actorlib._features.cgroups.delegation import (
    ROOT,
    Delegation,
    find_delegation,
    ours,
    own_origin,
)


def test_delegation_when_the_own_cgroup_may_be_written_then_it_is_the_base() -> None:
    assert find_delegation(Kernel()) == Delegation(
        f"{ROOT}/app", {"memory": "", "cpu": ""}
    )


def test_delegation_at_the_root_of_a_container_then_that_is_the_base() -> None:
    kernel = Kernel("/", Group(procs=[OWNER]))
    assert find_delegation(kernel) == Delegation(ROOT, {"memory": "", "cpu": ""})


def test_delegation_when_a_child_is_there_too_then_it_is_ours_to_move() -> None:
    kernel = Kernel(base=Group(procs=[OWNER, 101, 102]))
    kernel.parents |= {101: OWNER, 102: 101}
    assert not any(find_delegation(kernel).faults.values())


def test_delegation_when_a_shell_is_there_too_then_it_is_named_with_a_way_out() -> None:
    kernel = Kernel(base=Group(procs=[50, OWNER]))
    kernel.parents |= {50: 1, OWNER: 50}
    fault = find_delegation(kernel).faults["memory"]
    assert "pid 50 (p50)" in fault
    assert "Delegate=yes" in fault


def test_delegation_when_a_process_is_of_outside_then_it_is_in_the_way() -> None:
    kernel = Kernel(base=Group(procs=[0, OWNER]))  # 0: another pid namespace
    assert "pid 0 (unknown)" in find_delegation(kernel).faults["cpu"]


def test_delegation_at_the_root_of_the_machine_then_nobody_is_in_the_way() -> None:
    kernel = Kernel("/", Group(kind=None, procs=[1, 2, OWNER]))
    kernel.parents |= {1: 0, 2: 0}
    assert find_delegation(kernel) == Delegation(
        ROOT, {"memory": "", "cpu": ""}, is_root=True
    )


def test_delegation_when_room_was_made_before_then_the_base_is_above() -> None:
    kernel = Kernel(base=Group(enabled={"memory", "cpu"}))
    kernel.own = "/app/actorlib-100-7-owner"
    kernel.groups[f"{ROOT}{kernel.own}"] = Group(procs=[OWNER])
    assert find_delegation(kernel) == Delegation(
        f"{ROOT}/app", {"memory": "", "cpu": ""}
    )


def test_delegation_inside_of_a_workers_leaf_then_its_limits_are_not_left() -> None:
    kernel = Kernel("/app/actorlib-50-7-abc-1", Group(procs=[50, OWNER]))
    kernel.parents |= {50: 1, OWNER: 50}
    assert "pid 50" in find_delegation(kernel).faults["memory"]


def test_delegation_when_one_controller_is_there_then_the_other_is_named() -> None:
    kernel = Kernel(base=Group(("memory", "pids"), procs=[OWNER]))
    faults = find_delegation(kernel).faults
    assert not faults["memory"]
    assert "the cpu controller was not delegated" in faults["cpu"]
    assert "memory pids" in faults["cpu"]


@pytest.mark.parametrize("closed", ["", "cgroup.procs", "cgroup.subtree_control"])
def test_delegation_when_it_may_not_be_written_then_it_was_not_delegated(
    closed: str,
) -> None:
    kernel = Kernel(base=Group(procs=[OWNER], closed={closed}))
    fault = find_delegation(kernel).faults["memory"]
    assert "may not be written" in fault
    assert "systemd-run" in fault


@pytest.mark.parametrize("kind", ["threaded", "domain threaded", "domain invalid"])
def test_delegation_when_the_cgroup_is_threaded_then_memory_has_no_limits(
    kind: str,
) -> None:
    kernel = Kernel(base=Group(procs=[OWNER], kind=kind))
    assert kind in find_delegation(kernel).faults["memory"]


@pytest.mark.parametrize("path", ["/../other", "/not/there"])
def test_delegation_when_the_cgroup_cannot_be_seen_then_it_says_so(path: str) -> None:
    kernel = Kernel()
    kernel.own = path
    assert "cannot be seen here" in find_delegation(kernel).faults["memory"]


def test_delegation_when_cgroups_are_of_version_1_then_it_says_so() -> None:
    host = RecordedHost(files={"/proc/self/cgroup": "4:memory:/x\n0::/\n"})
    assert "v2 is not mounted" in find_delegation(host).faults["memory"]


def test_delegation_when_there_is_no_line_for_version_2_then_it_says_so() -> None:
    files = {f"{ROOT}/cgroup.controllers": "", "/proc/self/cgroup": "4:memory:/x\n"}
    assert "names no cgroup" in find_delegation(RecordedHost(files=files)).faults["cpu"]


def test_delegation_when_it_is_no_linux_then_it_says_so() -> None:
    host = RecordedHost(system="darwin")
    assert find_delegation(host).faults["cpu"] == "only Linux has cgroups"


def test_ours_when_a_process_has_just_ended_then_it_is_in_nobodys_way() -> None:
    kernel = Kernel(base=Group(procs=[OWNER, 999]))
    assert ours(kernel, kernel.base, OWNER) == ([OWNER, 999], [])


def test_origin_when_a_process_is_gone_then_it_is_none() -> None:
    assert own_origin(Kernel()) == (OWNER, 7)
    assert own_origin(Kernel(), "999") == (0, 0)
