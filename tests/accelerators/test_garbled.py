"""Drivers that tell nonsense, and files that go while they are looked at.

Whatever is wrong with one card's files must not cost the others: no family may raise,
and what it finds has to be fit to be granted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from helpers.host import MACHINES, RecordedHost, read_machine
from helpers.nvml import nvidia_machine
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators import families

if TYPE_CHECKING:
    from actorlib.accelerators import Host

NAMES = sorted(path.stem for path in MACHINES.glob("*.toml"))
NONSENSE = (
    "",
    "\n",
    "-1",
    "0",
    "1",
    "4095",
    "99999999",
    "9" * 5000,
    "0x",
    "a b c",
    "GPU-,",
    "../\0",
    "\N{REPLACEMENT CHARACTER}" * 4,
    "\N{ARABIC-INDIC DIGIT THREE}",
)


@st.composite
def damaged(draw: st.DrawFn) -> Host:
    """A recorded machine of which some files are not as they were."""
    name = draw(st.sampled_from(NAMES))
    told = read_machine(name)
    files, links = (dict[str, Any](told.get(table, {})) for table in ("files", "links"))
    devices = dict.fromkeys(told.get("open", ()), True)
    devices |= dict.fromkeys(told.get("shut", ()), False)
    listed = list(told.get("folders", ()))
    paths = st.sampled_from(sorted({**files, **devices, **links}) or ["/dev/none"])
    harm = st.sampled_from(("gone", "going", "all", "part", "end"))
    for path in draw(st.lists(paths, max_size=6)):
        nonsense = draw(st.sampled_from(NONSENSE))
        match draw(harm):
            case "gone" | "going" as how:
                for table in (files, devices, links):
                    table.pop(path, None)
                # What is just going was there when its folder was listed.
                listed += [path] if how == "going" else []
            case _ if path in devices:
                devices[path] = False
            case "all":
                (files if path in files else links)[path] = nonsense
            case "part" if path in files:
                files[path] = nonsense.join(re.split(r"\d+", files[path], maxsplit=1))
            case _ if path in files:
                files[path] = files[path][: len(files[path]) // 2]
            case _:
                links[path] = f"/sys/{nonsense}"
    return RecordedHost(
        environ=told.get("environ"),
        files=files,
        devices=devices,
        links=links,
        folders=listed,
        commands=told.get("commands"),
        sdks=nvidia_machine(name)._sdks,
        system=told.get("system", "linux"),
        architecture=told.get("architecture", "x86_64"),
    )


@given(host=damaged())
def test_detect_when_files_are_damaged_then_nobody_raises_and_the_rest_is_fit(
    host: Host,
) -> None:
    for family in families():
        found = family.detect(host)

        devices = found.devices
        assert [device.index for device in devices] == list(range(len(devices)))
        ids = {device.id for device in devices}
        assert len(ids) == len(devices)
        assert all(ids)
        assert all(_is_fit(device.type) for device in devices)
        shown = family.formed(devices, None)
        written = {device.written for device in shown}
        assert len(written) == len(devices)
        family.environment(shown, host.environ, shown)


def _is_fit(kind: str | None) -> bool:
    """Whether a type can be asked for: a plain word, or None for unknown."""
    return kind is None or bool(re.fullmatch(r"[A-Za-z][\w.+()/-]+", kind, re.ASCII))
