"""Which engine a runtime on this machine has."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from actorlib._apart import Apart
from actorlib._local.crossing import CrossingEngine

if TYPE_CHECKING:
    from actorlib._local.machine import Machine
    from actorlib._runtime_options import RuntimeOptions

VARIABLE = "ACTORLIB_TIMELINE"
"""``1`` has a script write down what it does; a greater number says how much of it."""
KEPT = 100_000


def engine_for(machine: Machine, options: RuntimeOptions) -> CrossingEngine:
    """The engine on the loop that is running.

    Args:
        machine: What there is.
        options: How the runtime behaves.
    """
    is_script = isinstance(asyncio.get_running_loop(), Apart)
    kept = kept_events() if is_script else 0
    if kept:
        from actorlib._local.recording import (  # noqa: PLC0415  # few ask for it
            RecordingEngine,
        )

        return RecordingEngine(machine, options, kept)
    return CrossingEngine(machine, options)


def kept_events() -> int:
    """How many of the newest events a script keeps of what it does; 0 for none.

    Raises:
        ValueError: The variable is no number.
    """
    said = os.environ.get(VARIABLE) or "0"
    if not said.isdecimal():
        raise ValueError(
            f"{VARIABLE} takes 1, or how many of the newest events are kept, not "
            f"{said!r}"
        )
    return KEPT if said == "1" else int(said)
