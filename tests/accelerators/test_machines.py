"""Each recorded machine, and what every family makes of it.

A file in ``data/`` is a machine, as ``RecordedHost`` and ``nvidia_machine`` read it.
Its table ``expected`` has an entry for each family that finds something there or says
why not. All others must find nothing. An entry has:

* ``devices``: the fields of each device that are set. ``each`` has those that all have.
  The peers ``"others"`` are all other devices.
* ``rejected``: the name, the reason and perhaps the model of each candidate.
* ``reason`` and ``outer``: as in ``Detection``.
* ``cases``: the same machine in other circumstances.

A case is described by:

* ``set``: variables of the owner. ``machine``: entries that replace those of the file;
  of a table, single ones, and a path that is false is not there.
* ``form``: how masks are to be written. ``declare``: how many devices are declared.
* ``grant``: the ids of the devices of a lease. For the family ``all``, with the family.

And its result by:

* fields of the devices that may be granted: a list with the value of each, or the value
  that all have; false for None.
* ``reason``: a part of it; without it there is none. ``outer``: the ids if it is left
  out. ``rejected``: as above, and not compared if it is left out.
* ``changes``: the variables of a process with the lease; false for a removed one.
  ``told``: the ids that the user is told.
* ``error``: the message with which the runtime does not start.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from helpers.host import MACHINES, read_machine
from helpers.nvml import FakeNvml, nvidia_machine

from actorlib._options.kinds import UNITS
from actorlib.accelerators import (
    Device,
    Lease,
    Share,
    accelerator_ids,
    discover,
    environment,
    families,
    inventory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actorlib.accelerators import Detection, Inventory

NAMES = sorted(path.stem for path in MACHINES.glob("*.toml"))
FAMILIES = {family.family: family for family in families()}
FIELDS = [field.name for field in fields(Device)]
KEYS = {
    *("set", "machine", "form", "declare", "grant"),
    *("reason", "outer", "rejected", "changes", "told", "error", "written"),
    *FIELDS,
}


def cases() -> Iterator[Any]:
    """The cases of all machines."""
    for name in NAMES:
        for family, expected in read_machine(name).get("expected", {}).items():
            for case in expected.get("cases", ()):
                title = f"{name}-{family}-{case}".replace("'", "")
                yield pytest.param(name, family, case, id=title[:90])


def changed(name: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recorded machine with other entries."""
    machine = dict(read_machine(name))
    for key, value in changes.items():
        if isinstance(value, dict):
            table = {**machine.get(key, {}), **value}
            machine[key] = {
                path: text for path, text in table.items() if text is not False
            }
        else:
            machine[key] = value
    return machine


def plain(value: object) -> Any:
    """A value as a file has it."""
    if value is None:
        return False
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def described(detection: Detection) -> dict[str, Any]:
    """What is set of a detection, as a file has it."""
    keys = {device.key for device in detection.devices}
    devices: list[dict[str, Any]] = []
    for device in detection.devices:
        row = {name: plain(getattr(device, name)) for name in FIELDS}
        if device.peers and device.peers == frozenset(keys - {device.key}):
            row["peers"] = "others"
        del row["family"], row["kind"], row["index"]
        devices.append({name: value for name, value in row.items() if value})
    entry = {
        "devices": devices,
        "rejected": [
            [one.name, one.why, *filter(None, [one.model])]
            for one in detection.rejected
        ],
        "reason": detection.reason,
        "outer": plain(detection.outer),
    }
    return {
        name: value
        for name, value in entry.items()
        if value or (value == [] and name == "outer")
    }


@pytest.mark.parametrize("name", NAMES)
def test_machine_when_it_is_searched_then_each_family_finds_what_is_expected(
    name: str,
) -> None:
    expected: dict[str, Any] = {}
    for family, entry in read_machine(name).get("expected", {}).items():
        known = {key: entry[key] for key in entry.keys() - {"each", "cases"}}
        if "devices" in entry:
            each = entry.get("each", {})
            known["devices"] = [{**each, **row} for row in entry["devices"]]
        expected |= {family: known} if known else {}

    found = discover(nvidia_machine(name))

    assert [detection.family for detection in found] == list(FAMILIES)
    entries = {detection.family: described(detection) for detection in found}
    assert {name: entry for name, entry in entries.items() if entry} == expected
    for detection in found:
        places = [device.index for device in detection.devices]
        assert places == list(range(len(places)))


@pytest.mark.parametrize(("name", "family", "case"), list(cases()))
def test_machine_when_circumstances_differ_then_the_result_is_as_expected(
    name: str, family: str, case: Mapping[str, Any]
) -> None:
    assert case.keys() <= KEYS
    asked = list(FAMILIES.values()) if family == "all" else [FAMILIES[family]]
    machine = changed(name, case.get("machine", {}))
    host = nvidia_machine(machine, environ=case.get("set"))
    declared = {asked[0].kind.name: case.get("declare")}

    found = discover(host, asked)

    if family != "all":
        check_detection(found[0], case)
    if not machine.get("nvml_absent"):
        nvml = host.sdk("pynvml")
        assert isinstance(nvml, FakeNvml)
        assert nvml.open == 0
    if "error" in case:
        with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below
            inventory(found, declared, asked, case.get("form"))
        assert str(caught.value) == case["error"]
        return
    known = inventory(found, declared, asked, case.get("form"))
    check_devices(known, case)
    if "grant" in case:
        check_lease(known, case, host.environ)


def check_detection(detection: Detection, case: Mapping[str, Any]) -> None:
    """Compares what the family says."""
    reason = case.get("reason", "")
    assert reason in detection.reason
    assert bool(reason) == bool(detection.reason)
    is_masked = "set" in case and "id" in case and "declare" not in case
    expected = case.get("outer", case["id"] if is_masked else None)
    if expected is not None:
        assert plain(detection.outer) == expected
    if "rejected" in case:
        assert described(detection)["rejected"] == case["rejected"]


def check_devices(known: Inventory, case: Mapping[str, Any]) -> None:
    """Compares the devices that may be granted."""
    devices = [device for listed in known.devices.values() for device in listed]
    for name in case.keys() & {*FIELDS, "written"}:
        values = [plain(getattr(device, name)) for device in devices]
        expected = case[name]
        if not isinstance(expected, list):
            assert values
            expected = [expected] * len(values)
        assert values == expected, name


def check_lease(
    known: Inventory, case: Mapping[str, Any], environ: Mapping[str, str]
) -> None:
    """Compares what a process with the lease is shown, and what the user is told."""
    names = {
        name: device
        for listed in known.devices.values()
        for device in listed
        for name in (device.id, f"{device.family} {device.id}")
    }
    held = tuple(Share(names[name], UNITS) for name in case["grant"])
    lease = Lease(amounts={}, shares=held)

    changes = environment(lease, known, hide=True, environ=environ)

    assert {name: plain(value) for name, value in changes.items()} == case["changes"]
    if "told" in case:
        told = accelerator_ids(lease, known).values()
        assert [name for names in told for name in names] == case["told"]
