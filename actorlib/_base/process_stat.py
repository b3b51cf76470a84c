"""Reads the kernel's facts about a process.

https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

_LONGEST = 4096
"""More bytes than the file has: about fifty numbers and a short name."""
_EXITING = 0x4
"""The flag of a process that has begun to end (``PF_EXITING`` in Linux's sched.h)."""


class HasPid(Protocol):
    """A worker. Its process id may become known after its creation."""

    @property
    def pid(self) -> int:
        """The process id, or 0 while it is unknown."""
        ...


class ProcessStat(NamedTuple):
    """The kernel's facts about a process.

    Attributes:
        state: A letter: ``R`` runs, ``S`` sleeps, ``D`` waits for a device or a disk,
            ``T`` and ``t`` are stopped, ``Z`` and ``X`` have ended.
        ticks: CPU time of all its threads, in ticks of the kernel's clock.
        began: Its start time, in such ticks.
        pages: Pages of memory that are resident.
        words: The start and end address of its command line; zeros if the kernel does
            not report them.
    """

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    flags: int
    ticks: int
    began: int
    pages: int
    words: tuple[int, int] = (0, 0)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and waits to be reaped."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or has begun to end and closes its files."""
        return self.has_ended or bool(self.flags & _EXITING)


def parse_stat(text: str) -> ProcessStat | None:
    """Parses the text of ``/proc/<pid>/stat``; None if it is malformed."""
    # The name is in brackets, and may contain brackets and blanks.
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    state, *rest = tail.split() or ("",)
    try:
        parent, group, session, _, _, flags = map(int, rest[:6])
        return ProcessStat(
            pid=int(pid),
            name=name,
            state=state,
            parent=parent,
            group=group,
            session=session,
            flags=flags,
            ticks=int(rest[10]) + int(rest[11]),
            began=int(rest[18]),
            pages=int(rest[20]),
            words=(int(rest[44]), int(rest[45])) if len(rest) > 45 else (0, 0),
        )
    except (ValueError, IndexError):
        return None


def read_stat(pid: int | str) -> ProcessStat | None:
    """Reads the kernel's facts about a process; None if there is no such process."""
    try:
        # Buffers and a decoder would take as long as the rest.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  # no pathlib in the template
            return parse_stat(file.read(_LONGEST).decode("utf-8", "replace"))
    except OSError:
        return None
