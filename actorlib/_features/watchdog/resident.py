"""Decides whether a worker has more of the host's memory than its actor requested.

The resident memory of the worker and of all its descendants counts. That is cheap to
read, but too much: shared pages, as in forks of one template, are counted for each
process. So before a report the kernel's proportional size is read, which divides shared
pages among their users. It is expensive, as the kernel walks over every page: it is
read once each time that an actor grows over its request, and the shared part at that
time is subtracted from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actorlib._base.process_stat import ProcessStat

_IN_A_ROW = 2


class Resident(NamedTuple):
    """The host's memory of a worker and all its descendants."""

    nbytes: int
    pids: tuple[int, ...]


class Watched(NamedTuple):
    """The watch of one worker's memory.

    Attributes:
        overs: The number of looks in a row with an excess.
        shared: Counted bytes that other processes share.
        is_told: Whether the excess was reported.
    """

    overs: int = 0
    shared: int = 0
    is_told: bool = False


def tallied(
    processes: Iterable[ProcessStat], workers: Collection[int], page: int
) -> dict[int, Resident]:
    """Adds up the memory of each worker and its descendants.

    A worker leads a session. A process outside of it is found by its parents, and
    belongs to the nearest worker above it.

    Returns:
        The memory of each worker that exists.
    """
    by_pid = {process.pid: process for process in processes}
    owners: dict[int, int] = {}
    families: dict[int, list[ProcessStat]] = {}
    for process in by_pid.values():
        owner = _owner(process, by_pid, workers, owners)
        if owner:
            families.setdefault(owner, []).append(process)
    return {
        worker: Resident(
            page * sum(each.pages for each in its), tuple(each.pid for each in its)
        )
        for worker, its in families.items()
        if worker in by_pid
    }


def _owner(
    process: ProcessStat,
    by_pid: Mapping[int, ProcessStat],
    workers: Collection[int],
    owners: dict[int, int],
) -> int:
    """Returns the process id of the worker that a process belongs to, or 0."""
    visited: list[int] = []
    each: ProcessStat | None = process
    owner = 0
    while each is not None and each.pid not in visited:
        if each.pid in workers:
            owner = each.pid
        elif each.session in workers:
            owner = each.session
        else:
            owner = owners.get(each.pid, -1)
        if owner >= 0:
            break
        owner = 0
        visited.append(each.pid)
        each = by_pid.get(each.parent)
    owners.update(dict.fromkeys(visited, owner))
    return owner


def judge(watched: Watched, asked: int, used: int) -> tuple[Watched, bool]:
    """Decides whether the proportional size of a worker has to be read.

    Returns:
        The watch after this look, and whether to read the size and call ``confirm``.
    """
    overs = watched.overs + 1 if used - watched.shared > asked else 0
    is_due = overs >= _IN_A_ROW and not watched.is_told
    return watched._replace(overs=overs), is_due


def confirm(
    watched: Watched, asked: int, used: int, proportional: int | None
) -> Watched:
    """Decides whether to report an excess, from the proportional size.

    Args:
        watched: The watch before this look.
        asked: Bytes that the actor requested.
        used: Resident bytes.
        proportional: The proportional size in bytes; None if unknown: then nothing is
            subtracted.

    Returns:
        The watch after this look: ``is_told`` if the excess is to be reported.
    """
    real = used if proportional is None else min(used, proportional)
    if real > asked:
        return watched._replace(is_told=True)
    return watched._replace(overs=0, shared=used - real)


def proportional_of(rollup: str) -> int | None:
    """Parses ``/proc/<pid>/smaps_rollup``: the proportional size in bytes, or None.

    https://docs.kernel.org/filesystems/proc.html
    """
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        number = rest.partition("kB")[0].strip()
        if name == "Pss" and number.isdecimal():
            return int(number) * 1024
    return None
