"""What a process is shown and reads again is what its lease holds, for every family.

A worker is an owner in its turn: on the same machine, with the variables that it was
given, its own probe has to find the devices of its lease and no others.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING

import pytest
from helpers.host import MACHINES, read_machine
from helpers.nvml import nvidia_machine

from actorlib._options.kinds import UNITS
from actorlib.accelerators import (
    Lease,
    Share,
    discover,
    environment,
    families,
    inventory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from helpers.host import RecordedHost

    from actorlib.accelerators import Accelerator, Device, Inventory

NAMES = sorted(path.stem for path in MACHINES.glob("*.toml"))
FAMILIES = {family.family: family for family in families()}
CARDS = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
WHEREVER = frozenset({"ascend", "intel", "tenstorrent"})
"""Families whose masks have no order: a process counts devices by their numbers."""


def owners() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Each machine with devices, its family, and what owners set there."""
    for name in NAMES:
        for family, expected in read_machine(name).get("expected", {}).items():
            if family in FAMILIES and FAMILIES[family].visible_env:
                yield name, family, {}
                for case in expected.get("cases", ()):
                    is_noset = any(
                        "NOSET" in variable for variable in case.get("set", {})
                    )
                    if {"set", "id"} <= case.keys() and case["id"] and not is_noset:
                        yield name, family, case["set"]


@functools.cache
def machine(name: str) -> RecordedHost:
    return nvidia_machine(name)


def look(name: str, environ: Mapping[str, str], family: Accelerator) -> Inventory:
    """What a process with exactly these variables finds on a machine."""
    host = copy.copy(machine(name))
    host._environ = dict(environ)
    return inventory(discover(host, [family]), {}, [family])


def child(
    held: Sequence[Device], known: Inventory, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a process that holds these devices."""
    shares = tuple(Share(device, UNITS) for device in held)
    lease = Lease(amounts={}, shares=shares)
    changes = environment(lease, known, hide=True, environ=environ)
    every = {**environ, **changes}
    return {name: value for name, value in every.items() if value is not None}


def leases(devices: Sequence[Device]) -> Iterator[Sequence[Device]]:
    """No device, the first, the last, the last two, and all that one may hold."""
    # A mask of CUDA's is of one kind: MIG instances, or whole cards.
    alike = [d for d in devices if bool(d.parent) is bool(devices[-1].parent)]
    yield from ((), devices[:1], devices[-1:], alike[-2:], alike)


def what(devices: Sequence[Device]) -> list[tuple[object, ...]]:
    """What tells devices from each other, whatever they are called."""
    told = [(d.family, d.source, d.pci, d.uuid, d.memory, d.written) for d in devices]
    is_unordered = any(device.family in WHEREVER for device in devices)
    return sorted(told, key=str) if is_unordered else told


@pytest.mark.parametrize(("name", "family", "environ"), list(owners()), ids=str)
def test_environment_when_it_is_read_again_then_it_selects_the_lease(
    name: str, family: str, environ: Mapping[str, str]
) -> None:
    environ = {**machine(name).environ, **environ}
    asked = FAMILIES[family]
    known = look(name, environ, asked)
    granted = known.by_family.get(family, ())
    for held in leases(granted):
        shown = child(held, known, environ)
        again = look(name, shown, asked)
        mine = again.by_family.get(family, ())
        assert what(mine) == what(held)
        if family == "amd" and held:
            # PyTorch refuses a longer list in HIP's layer than in ROCr's.
            layers = [shown[f"{layer}_VISIBLE_DEVICES"] for layer in ("HIP", "ROCR")]
            assert layers[0].count(",") <= layers[1].count(",")

    if granted:  # the last worker held all, and has a worker in its turn
        nested = child(mine[-1:], again, shown)
        last = look(name, nested, asked).by_family.get(family, ())
        assert what(last) == what(mine[-1:])
