"""Reasons of exits: what a process left behind, put in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actorlib._base.value import dataclass
from actorlib._options.resources import format_bytes
from actorlib._owner.actors.restart_policy import Fault
from actorlib._owner.observation.log_tail import FATAL
from actorlib.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    Exit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._enforcement.tiers import Verdict
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._processes.launcher import ProcessExit

_SIGKILL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEvidence:
    """Holds what is known when a process is gone.

    Attributes:
        process: How it ended, as its parent saw it.
        asked: Why it was ended by us, or the empty string if it was not.
        interrupted: Why it was killed to be restarted, or the empty string.
        verdict: The reason for which a tier has ended it, if one has.
        was_ready: Whether its constructor had finished.
        constructor: The last line of the constructor's traceback, if it raised.
        traceback: All of it.
        protocol: What was wrong with its frames, if anything.
        under_way: The methods of the calls that were under way, oldest first; None if
            that is not known.
        log_tail: The last lines of its standard error.
        pid: Its process id, or 0.
        is_memory_short: Whether the kernel has killed for lack of memory meanwhile.
        on_devices: Who had how much of its devices, or the empty string if unknown.
        exceeded: Bytes of memory that it asked for, if the kernel has killed it for
            more; else 0.
    """

    process: ProcessExit
    asked: str = ""
    interrupted: str = ""
    verdict: Verdict | None = None
    was_ready: bool = False
    constructor: str = ""
    traceback: str = ""
    protocol: str = ""
    under_way: Sequence[str] | None = None
    log_tail: str = ""
    pid: int = 0
    is_memory_short: bool = False
    on_devices: str = ""
    exceeded: int = 0


def exit_of(evidence: ExitEvidence) -> Exit:
    """Decides what ended an actor.

    What was asked for comes first, then what the worker could still say, then what
    the kernel says.
    """
    cause, reason = _cause(evidence)
    process = evidence.process
    ran = () if evidence.asked else evidence.under_way or ()
    return Exit(
        cause=cause,
        code=process.code,
        signal=process.signal,
        reason=reason,
        log_tail="" if evidence.asked else evidence.log_tail,
        method=_blamed(ran, evidence.log_tail),
        others=max(0, len(ran) - 1),
        pid=evidence.pid,
        constructor=""
        if evidence.asked or evidence.interrupted
        else evidence.traceback,
    )


def fault_of(evidence: ExitEvidence) -> Fault:
    """Decides whether the end of an actor counts against its restarts."""
    if (
        evidence.asked
        or evidence.interrupted
        or evidence.verdict
        or evidence.constructor
    ):
        return Fault.OWN
    if evidence.process.is_lost:
        return Fault.LOST
    return Fault.UNLAUNCHED if evidence.process.error else Fault.OWN


def died(
    record: ActorRecord,
    cause: BaseException | None,
    restarted: str,
    asked: str = "",
) -> BaseException:
    """Makes the error of whoever asks something of an actor after its end.

    Args:
        record: What is known of the actor.
        cause: What the constructor raised, or else why there was no process.
        restarted: What is to be said of its restarts, or the empty string.
        asked: Why it was ended, or the empty string.
    """
    actor = record.id.hex()
    if isinstance(cause, ActorUnschedulableError) and not record.was_evicted:
        return ActorUnschedulableError(str(cause), actor_id=actor)
    how = record.exit or Exit(cause="asked", reason=asked or "it is ending")
    # What the constructor raised is the cause, which shows its traceback.
    shown = how if cause is None else replace(how, constructor="")
    message = f"{record.title} is dead{restarted}: {shown}"
    if record.verdict is not None and how.cause == record.verdict.cause:
        return record.verdict.error(message, how, actor)
    kind = ActorPlacementGroupRemoved if record.was_evicted else ActorDiedError
    error = kind(message, exit=how, actor_id=actor)
    error.__cause__ = cause
    return error


def unavailable(record: ActorRecord, how: Exit, attempt: str) -> ActorUnavailableError:
    """Makes the error of a call that is lost as the actor restarts.

    Args:
        record: What is known of the actor.
        how: How its last process ended.
        attempt: Which restart it is.
    """
    actor = record.id.hex()
    return ActorUnavailableError(
        f"{record.title} is restarting, {attempt}; await its handle to wait "
        "for it, or let max_task_retries send calls again. It was restarted because: "
        f"{how}",
        exit=how,
        actor_id=actor,
    )


def is_out_of_memory(summary: str) -> bool:
    """Whether the last line of a traceback says so, as CUDA's and PyTorch's do."""
    return "out of memory" in summary.lower()


def _crowded(evidence: ExitEvidence) -> str:
    """Says who has a device on which there was not enough memory, for PyTorch & co."""
    if not (is_out_of_memory(evidence.constructor) and evidence.on_devices):
        return ""
    return f" (at the last look at its devices: {evidence.on_devices})"


def _blamed(ran: Sequence[str], log_tail: str) -> str | None:
    """Picks the method in which Python says it was, or the oldest."""
    # A frame reads: File "/x.py", line 3 in crash
    seen = {line.rpartition(" in ")[2] for line in log_tail.splitlines()}
    named = [name for name in ran if FATAL in log_tail and name in seen]
    return next(iter([*named, *ran]), None)


def _cause(evidence: ExitEvidence) -> tuple[str, str]:  # noqa: PLR0911  # one per cause
    process = evidence.process
    if evidence.asked:
        return "asked", evidence.asked
    if evidence.interrupted:
        return "restarted", evidence.interrupted
    if evidence.verdict:
        return evidence.verdict.cause, evidence.verdict.reason
    if evidence.constructor:
        return (
            "failed to start",
            f"it could not be made: {evidence.constructor}{_crowded(evidence)}",
        )
    if process.error:
        cause = "lost" if evidence.was_ready else "failed to start"
        return cause, process.error
    if process.fault:
        return "crashed", process.fault
    if evidence.protocol:
        return "crashed", f"its process broke the protocol: {evidence.protocol}"
    when = " while idle" if evidence.under_way == () else ""
    when = when if evidence.was_ready else " before it was ready"
    if process.signal == _SIGKILL and evidence.exceeded:
        return (
            "out of memory",
            f"it used more than its memory={format_bytes(evidence.exceeded)!r}, and "
            f"the kernel killed its process{when}",
        )
    if process.signal == _SIGKILL and evidence.is_memory_short:
        return (
            "out of memory",
            f"the kernel killed its process{when} because memory was short; it had "
            f"{process.peak // (1 << 20)} MiB at its peak",
        )
    if process.signal is not None:
        return "crashed", f"a signal ended its process{when}"
    return "exited", f"its own code ended its {process.what}{when}"
