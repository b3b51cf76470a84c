"""Ends what is left of a runtime whose template was killed.

The kernel ends the workers with it, and the owner their process groups. What has left
those, or was forked so lately that nobody has said so, is known by its mark alone.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from actorlib._wire.control import MARK

_ROUNDS = 8
"""How often it is looked, as what is killed may have forked before."""


def sweep(runtime: str) -> None:
    """Kills every process that carries a runtime's mark, where the system shows them.

    Args:
        runtime: The mark; of a runtime without a template, or that one goes too.
    """
    start = f"{MARK}={runtime}:".encode()
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if _has_variable(pid, start)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _processes() -> list[int]:
    with suppress(OSError):
        names = [path.name for path in Path("/proc").iterdir()]
        return [int(name) for name in names if name.isdecimal()]
    return []


def _has_variable(pid: int, start: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it is gone, or somebody else's
        return False
    return any(variable.startswith(start) for variable in environment.split(b"\0"))
