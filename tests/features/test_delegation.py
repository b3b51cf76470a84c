"""Which part of the cgroup tree a program may use, and why none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.cgroups import OWNER, Group, Kernel
from helpers.host import RecordedHost

from actorlib._features.cgroup.delegation import (
    ROOT,
    Delegation,
    find_delegation,
    ours,
    own_origin,
)

if TYPE_CHECKING:
    from actorlib.accelerators import Host

FREE = {"memory": "", "cpu": ""}


def kernel(
    path: str = "/app",
    *,
    parents: dict[int, int] | None = None,
    own: str = "",
    **base: object,
) -> Kernel:
    """A kernel whose program is in a cgroup like this."""
    made = Kernel(path, Group(**{"procs": [OWNER], **base}))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # fields of a group
    made.parents |= parents or {}
    made.own = own or made.own
    return made


def moved() -> Kernel:
    """One in which room was made before: the program is in a leaf of its own."""
    made = kernel(procs=[], enabled={"memory", "cpu"}, own="/app/actorlib-100-7-owner")
    made.groups[f"{ROOT}{made.own}"] = Group(procs=[OWNER])
    return made


@pytest.mark.parametrize(
    ("here", "base", "is_root"),
    [
        pytest.param(kernel(), f"{ROOT}/app", False, id="own"),
        pytest.param(kernel("/"), ROOT, False, id="root of a container"),
        pytest.param(
            kernel(procs=[OWNER, 101, 102], parents={101: OWNER, 102: 101}),
            f"{ROOT}/app",
            False,
            id="with children, which are ours to move",
        ),
        pytest.param(
            kernel("/", kind=None, procs=[1, 2, OWNER], parents={1: 0, 2: 0}),
            ROOT,
            True,
            id="root of the machine, where nobody is in the way",
        ),
        pytest.param(moved(), f"{ROOT}/app", False, id="room was made before"),
    ],
)
def test_delegation_when_the_cgroup_may_be_written_then_it_is_the_base(
    here: Kernel, base: str, *, is_root: bool
) -> None:
    assert find_delegation(here) == Delegation(base, FREE, is_root=is_root)


@pytest.mark.parametrize(
    ("here", "controller", "words"),
    [
        (
            kernel(procs=[50, OWNER], parents={50: 1, OWNER: 50}),
            "memory",
            ["pid 50 (p50)", "Delegate=yes"],
        ),
        # A process of another pid namespace.
        (kernel(procs=[0, OWNER]), "cpu", ["pid 0 (unknown)"]),
        # In a worker's leaf, whose limits are not left.
        (
            kernel(
                "/app/actorlib-50-7-abc-1",
                procs=[50, OWNER],
                parents={50: 1, OWNER: 50},
            ),
            "memory",
            ["pid 50"],
        ),
        (
            kernel(controllers=("memory", "pids")),
            "cpu",
            ["the cpu controller was not delegated", "memory pids"],
        ),
        *(
            (kernel(closed={name}), "memory", ["may not be written", "systemd-run"])
            for name in ("", "cgroup.procs", "cgroup.subtree_control")
        ),
        *(
            (kernel(kind=kind), "memory", [kind])
            for kind in ("threaded", "domain threaded", "domain invalid")
        ),
        *(
            (kernel(own=path), "memory", ["cannot be seen here"])
            for path in ("/../other", "/not/there")
        ),
        (
            RecordedHost(files={"/proc/self/cgroup": "4:memory:/x\n0::/\n"}),
            "memory",
            ["v2 is not mounted"],
        ),
        (
            RecordedHost(
                files={
                    f"{ROOT}/cgroup.controllers": "",
                    "/proc/self/cgroup": "4:memory:/x\n",
                }
            ),
            "cpu",
            ["names no cgroup"],
        ),
        (RecordedHost(system="darwin"), "cpu", ["only Linux has cgroups"]),
    ],
)
def test_delegation_when_there_is_none_then_it_says_why_and_what_to_do(
    here: Host, controller: str, words: list[str]
) -> None:
    fault = find_delegation(here).faults[controller]
    for each in words:
        assert each in fault


def test_delegation_when_one_controller_is_missing_then_the_other_is_there() -> None:
    here = kernel(controllers=("memory", "pids"))
    assert not find_delegation(here).faults["memory"]


def test_ours_when_a_process_has_just_ended_then_it_is_in_nobodys_way() -> None:
    here = kernel(procs=[OWNER, 999])
    assert ours(here, here.base, OWNER) == ([OWNER, 999], [])


def test_origin_when_a_process_is_gone_then_it_is_none() -> None:
    assert own_origin(Kernel()) == (OWNER, 7)
    assert own_origin(Kernel(), "999") == (0, 0)
