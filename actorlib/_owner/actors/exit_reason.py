"""Explains the end of an actor from what its process left behind."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from actorlib._base.stack_frames import OWN_FILES
from actorlib._base.value import dataclass
from actorlib._options.resources import format_bytes
from actorlib._owner.actors.restart_policy import Fault
from actorlib.exceptions import (
    OUT_OF_MEMORY,
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    Exit,
    OutOfMemoryError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actorlib._base.ids import ActorId
    from actorlib._enforcement.tiers import Verdict
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._processes.launcher import ProcessExit

_SIGKILL = 9
_LINES = 20
"""The maximum number of lines of a tail."""
_LINES_BEFORE = 5
"""How many of them may come from before the report of a fatal error."""
FATAL = "Fatal Python error"
"""The beginning of faulthandler's report of a fatal error."""
_THREADS = ("Current thread 0x", "Thread 0x")
"""The beginning of a thread's Python stack; 3.14 shows the stack in C, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitEvidence:
    """The facts about a process that is gone.

    Attributes:
        process: How it ended, as its parent reports.
        stop_reason: Why the owner ended it, or an empty string.
        interrupted: Why it was killed to be restarted, or an empty string.
        verdict: The reason for which a tier has ended it, if one has.
        was_ready: Whether its constructor had finished.
        constructor: The last line of the constructor's traceback, if it raised.
        traceback: The whole traceback.
        protocol: The fault in its frames, if any.
        under_way: The methods of its running calls, oldest first; None if unknown.
        log_tail: The last lines of its standard error.
        pid: Its process id, or 0.
        is_memory_short: Whether the kernel has killed for lack of memory meanwhile.
        on_devices: The users of its devices and their memory; empty if unknown.
        exceeded: The bytes of memory that it requested, if the kernel has killed it for
            more; else 0.
    """

    process: ProcessExit
    stop_reason: str = ""
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
    """Decides the cause and the reason of an actor's end.

    A requested end comes first, then what the worker could still report, then what the
    kernel reports.
    """
    cause, reason = _cause(evidence)
    process = evidence.process
    ran = () if evidence.stop_reason else evidence.under_way or ()
    return Exit(
        cause=cause,
        code=process.code,
        signal=process.signal,
        reason=reason,
        log_tail="" if evidence.stop_reason else evidence.log_tail,
        method=_find_method(ran, evidence.log_tail),
        others=max(0, len(ran) - 1),
        pid=evidence.pid,
        constructor=""
        if evidence.stop_reason or evidence.interrupted
        else evidence.traceback,
    )


def fault_of(evidence: ExitEvidence) -> Fault:
    """Decides whether the end of an actor counts against its restarts."""
    if (
        evidence.stop_reason
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
    stop_reason: str = "",
) -> BaseException:
    """Makes the error of calls and waits after the end of an actor.

    Args:
        record: The record of the actor.
        cause: What the constructor raised, or why there was no process.
        restarted: Why it is not restarted, to follow "is dead"; may be empty.
        stop_reason: Why it was ended, or an empty string.
    """
    actor = record.id.hex()
    if isinstance(cause, ActorUnschedulableError) and not record.was_evicted:
        return ActorUnschedulableError(str(cause), actor_id=actor)
    how = record.exit or Exit(cause="asked", reason=stop_reason or "it is ending")
    # What the constructor raised is the cause, which shows its traceback.
    public_exit = how if cause is None else replace(how, constructor="")
    message = f"{record.title} is dead{restarted}: {_text_of(public_exit)}"
    kind = ActorPlacementGroupRemoved if record.was_evicted else ActorDiedError
    error = ended_for(record, message, how) or kind(message, exit=how, actor_id=actor)
    if error.__cause__ is None:
        error.__cause__ = cause
    return error


@lru_cache(maxsize=8)
def _text_of(how: Exit) -> str:
    """Describes an end once for all calls that it fails; each has its own error."""
    return str(how)


def ended_for(record: ActorRecord, message: str, how: Exit) -> ActorDiedError | None:
    """Makes the error of an end that has an error of its own; else None."""
    actor = record.id.hex() if record.is_actor else ""
    if record.verdict is not None and how.cause == record.verdict.cause:
        return record.verdict.error(message, how, actor)
    if how.cause == OUT_OF_MEMORY:
        return OutOfMemoryError(message, exit=how, actor_id=actor)
    return None


def unavailable(record: ActorRecord, how: Exit, attempt: str) -> ActorUnavailableError:
    """Makes the error of a call that is lost as the actor restarts.

    Args:
        record: The record of the actor.
        how: How its last process ended.
        attempt: Describes the restart.
    """
    actor = record.id.hex()
    return ActorUnavailableError(
        f"{record.title} is restarting, {attempt}; await its handle to wait "
        "for it, or let max_task_retries send calls again. It was restarted because: "
        f"{how}",
        exit=how,
        actor_id=actor,
    )


def lost(actor: ActorId, message: str, reason: str) -> ActorDiedError:
    """Makes the error of an actor that this runtime does not have."""
    how = Exit(cause="lost", reason=reason)
    return ActorDiedError(message, exit=how, actor_id=actor.hex())


def is_out_of_memory(summary: str) -> bool:
    """Whether the last line of a traceback reports it, as CUDA and PyTorch do."""
    return "out of memory" in summary.lower()


def _describe_users(evidence: ExitEvidence) -> str:
    """Describes the users of a device after an out-of-memory error in a constructor."""
    if not (is_out_of_memory(evidence.constructor) and evidence.on_devices):
        return ""
    return f" (at the last look at its devices: {evidence.on_devices})"


def _find_method(ran: Sequence[str], log_tail: str) -> str | None:
    """Returns the method that Python's crash report names, or the oldest."""
    # A frame reads: File "/x.py", line 3 in crash
    frames = {line.rpartition(" in ")[2] for line in log_tail.splitlines()}
    named = [name for name in ran if FATAL in log_tail and name in frames]
    return next(iter([*named, *ran]), None)


def _cause(evidence: ExitEvidence) -> tuple[str, str]:  # noqa: PLR0911  # one per cause
    process = evidence.process
    if evidence.stop_reason:
        return "asked", evidence.stop_reason
    if evidence.interrupted:
        return "restarted", evidence.interrupted
    if evidence.verdict:
        return evidence.verdict.cause, evidence.verdict.reason
    if evidence.constructor:
        return (
            "failed to start",
            f"it could not be made: {evidence.constructor}{_describe_users(evidence)}",
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
            OUT_OF_MEMORY,
            f"it used more than its memory={format_bytes(evidence.exceeded)!r}, and "
            f"the kernel killed its process{when}",
        )
    if process.signal == _SIGKILL and evidence.is_memory_short:
        return (
            OUT_OF_MEMORY,
            f"the kernel killed its process{when} because memory was short; it had "
            f"{process.peak // (1 << 20)} MiB at its peak",
        )
    if process.signal is not None:
        return "crashed", f"a signal ended its process{when}"
    return "exited", f"its own code ended its {process.what}{when}"


def log_tail(lines: Sequence[str], ours: str = OWN_FILES) -> str:
    """Returns the useful last lines of a worker's standard error.

    For a fatal error: the lines before it, the error, and the innermost frames of the
    user's code. Our own frames, and threads with only these, are left out.

    Args:
        lines: The last lines.
        ours: The path prefix of our own files.
    """
    begins = [place for place, line in enumerate(lines) if line.startswith(FATAL)]
    if not begins:
        return "\n".join(list(_without_ours(lines, ours))[-_LINES:])
    begin = begins[-1]
    report = [lines[begin], *_threads(lines[begin + 1 :], ours)]
    before = _without_ours(lines[max(0, begin - _LINES_BEFORE) : begin], ours)
    return "\n".join([*before, *report][:_LINES])


def _threads(lines: Sequence[str], ours: str) -> Iterator[str]:
    """Yields the frames of the thread that failed, or of all if none is marked."""
    blocks: list[list[str]] = []
    for line in lines:
        if line.endswith("(most recent call first):"):
            blocks.append([line])
        elif blocks and line.startswith("  "):
            blocks[-1].append(line)
    threads = [block for block in blocks if block[0].startswith(_THREADS)]
    current = [block for block in threads if block[0].startswith("Current")]
    for head, *frames in current or threads:
        place = next(
            (n for n, f in enumerate(frames) if _is_ours(f, ours)), len(frames)
        )
        if place:
            yield from (head, *frames[:place])


def _without_ours(lines: Sequence[str], ours: str) -> Iterator[str]:
    """Yields lines without our frames in tracebacks: the file, and the code below."""
    is_ours = False
    for line in lines:
        if line.startswith("  File "):
            is_ours = _is_ours(line, ours)
        elif not line.startswith("    "):
            is_ours = False
        if not is_ours:
            yield line


def _is_ours(line: str, ours: str) -> bool:
    return line.startswith(f'  File "{ours}')
