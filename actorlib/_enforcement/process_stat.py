"""Reads what the kernel says of a process, and names what has a process.

https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


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
        parent: Its parent's process id.
        group: Its process group.
        session: Its session.
        began: When it began, in ticks of the kernel's clock.
        pages: Pages of memory that are resident.
    """

    pid: int
    name: str
    parent: int
    group: int
    session: int
    began: int
    pages: int


def read_stat(text: str) -> ProcessStat | None:
    """Reads ``/proc/<pid>/stat``; None if it makes no sense.

    Args:
        text: What the file says.
    """
    # The name is in brackets, and may hold brackets and blanks itself.
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split(maxsplit=22)
    numbers = [pid, *fields[1:4], *fields[19:20], *fields[21:22]]
    if len(numbers) < 6 or not all(number.isdecimal() for number in numbers):
        return None
    own, parent, group, session, began, pages = map(int, numbers)
    return ProcessStat(own, name, parent, group, session, began, pages)
