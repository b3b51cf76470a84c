"""Reads what the kernel says of a process, and names what has a process.

https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

_LONGEST = 4096
"""More bytes than the file has: about fifty numbers and a short name."""
_EXITING = 0x4
"""The flag of a process that has begun to end (``PF_EXITING`` of Linux's sched.h)."""


class HasPid(Protocol):
    """A worker, whose process id may be known later than itself."""

    @property
    def pid(self) -> int:
        """The process id, or 0 while it is unknown."""
        ...


class ProcessStat(NamedTuple):
    """What the kernel says of a process.

    Attributes:
        pid: Its process id.
        name: What its program is called.
        state: A letter: ``R`` runs, ``S`` sleeps, ``D`` waits for a device or a disk,
            ``T`` and ``t`` are stopped, ``Z`` and ``X`` have ended.
        parent: Its parent's process id.
        group: Its process group.
        session: Its session.
        flags: The kernel's flags of it.
        ticks: CPU time of all its threads, in ticks of the kernel's clock.
        began: When it began, in such ticks.
        pages: Pages of memory that are resident.
        words: The addresses between which its command line lies; zeros where the
            kernel does not say.
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
        """Whether it has ended and is still there to be reaped."""
        return self.state in ("Z", "X")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in ("T", "t")

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or has begun to and closes its files."""
        return self.has_ended or bool(self.flags & _EXITING)


def parse_stat(text: str) -> ProcessStat | None:
    """Parses ``/proc/<pid>/stat``; None if it makes no sense.

    Args:
        text: What the file says.
    """
    # The name is in brackets, and may hold brackets and blanks itself.
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
    """Reads the kernel's facts of a process; None if it is gone, or unknown.

    Args:
        pid: Its process id, or ``self``.
    """
    try:
        # Without buffers and a decoder, which take half of the time.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  # no pathlib in the template
            return parse_stat(file.read(_LONGEST).decode("utf-8", "replace"))
    except OSError:
        return None
