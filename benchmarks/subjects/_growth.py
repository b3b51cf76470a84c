"""What a runtime holds when nobody uses it: memory, objects, descriptors, processes.

Where the system does not tell a figure, that figure is missing.
"""

import asyncio
import ctypes
import gc
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import actorlib
from benchmarks.subjects._processes import children

_PATIENCE = 30.0
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Heap(ctypes.Structure):
    """What glibc says of its heap; see mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


async def at_rest(runtime: actorlib.Runtime) -> dict[str, float]:
    """The figures of a runtime whose actors were dropped, once all are gone.

    Raises:
        RuntimeError: An actor, or a process of one, is still there long afterwards.
    """
    (template,) = children(os.getpid())
    deadline = time.monotonic() + _PATIENCE
    # The spare is there at rest, and shares pages with the template, whose own they
    # would be without it.
    while (left := _living(runtime)) or not _has_spare_alone(template):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{_PATIENCE:.0f} s after they were dropped {left} actors are left, "
                f"and below the template {list(map(_name, children(template)))}"
            )
        await asyncio.sleep(0.01)
    gc.collect()
    figures = {
        "objects": float(len(gc.get_objects())),
        "blocks": float(sys.getallocatedblocks()),
        "processes": float(len(children(os.getpid())) + len(children(template))),
    }
    figures |= heap()
    for name, pid in (("owner", os.getpid()), ("template", template)):
        figures |= {f"{name} {key}": value for key, value in of_process(pid).items()}
    return figures


def _living(runtime: actorlib.Runtime) -> int:
    return sum(actor.state != "dead" for actor in runtime.snapshot().actors)


def _has_spare_alone(template: int) -> bool:
    """Whether its one child is a spare, which is called as the template is."""
    return [_name(pid) for pid in children(template)] == [_name(template)]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    return ""


def of_process(pid: int) -> dict[str, float]:
    """A process's memory that it shares with nobody, and its open descriptors."""
    figures: dict[str, float] = {}
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        sizes = {line.split()[0]: line.split()[1] for line in lines[1:]}
        own = int(sizes["Private_Clean:"]) + int(sizes["Private_Dirty:"])
        figures["memory"] = own * 1024.0
    with suppress(OSError):
        figures["descriptors"] = float(len(list(Path(f"/proc/{pid}/fd").iterdir())))
    return figures


def heap() -> dict[str, float]:
    """The bytes that C code has asked for and not given back, as the figure ``heap``.

    Unlike the memory of the process this does not depend on where in it they lie.
    """
    try:
        ask: Any = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return {}
    ask.restype = _Heap
    found = ask()
    return {"heap": float(found.uordblks + found.hblkhd)}
