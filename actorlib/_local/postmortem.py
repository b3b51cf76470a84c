"""Why an actor is gone: what its process left behind, put in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actorlib.exceptions import Exit

if TYPE_CHECKING:
    from actorlib._local.launcher import ProcessExit

_SIGKILL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What is known when a process is gone.

    Attributes:
        process: How it ended, as its parent saw it.
        asked: Why it was ended by us, or the empty string if it was not.
        was_ready: Whether its constructor had finished.
        constructor: The last line of the constructor's traceback, if it raised.
        protocol: What was wrong with its frames, if anything.
        method: The method that was running, or None.
        log_tail: The last lines of its standard error.
        pid: Its process id, or 0.
        is_memory_short: Whether the kernel has killed for lack of memory meanwhile.
    """

    process: ProcessExit
    asked: str = ""
    was_ready: bool = False
    constructor: str = ""
    protocol: str = ""
    method: str | None = None
    log_tail: str = ""
    pid: int = 0
    is_memory_short: bool = False


def exit_of(remains: Remains) -> Exit:
    """Decides what ended an actor.

    What was asked for comes first, then what the worker could still say, then what
    the kernel says.
    """
    cause, reason = _cause(remains)
    process = remains.process
    return Exit(
        cause=cause,
        code=process.code,
        signal=process.signal,
        reason=reason,
        log_tail="" if remains.asked else remains.log_tail,
        method=None if remains.asked else remains.method,
        pid=remains.pid,
    )


def _cause(remains: Remains) -> tuple[str, str]:  # noqa: PLR0911  # one per cause
    process = remains.process
    if remains.asked:
        return "asked", remains.asked
    if remains.constructor:
        return (
            "failed to start",
            f"it could not be made: {remains.constructor}",
        )
    if process.trouble:
        cause = "lost" if remains.pid else "failed to start"
        return cause, process.trouble
    if remains.protocol:
        return "crashed", f"its process broke the protocol: {remains.protocol}"
    when = "" if remains.was_ready else " before it was ready"
    if process.signal == _SIGKILL and remains.is_memory_short:
        return (
            "out of memory",
            f"the kernel killed its process{when} because memory was short; it had "
            f"{process.peak // (1 << 20)} MiB at its peak",
        )
    if process.signal is not None:
        return "crashed", f"a signal ended its process{when}"
    return "exited", f"its own code ended its process{when}"
