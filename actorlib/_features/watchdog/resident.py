"""Judges whether a worker has more of the host's memory than its actor asked for.

What is counted is what is resident, of the worker and of all that it has started. That
is cheap to ask, and too much: pages that processes share, as forks of one template do,
are counted for each of them. So before somebody is told, the kernel is asked for the
proportional size, which divides such pages among those who have them. It is dear, as
the kernel walks over every page: it is asked once for each time that an actor grows
over what it asked for, and what was shared by then is taken off from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actorlib._base.process_stat import ProcessStat

_IN_A_ROW = 2


class Resident(NamedTuple):
    """What a worker and all that it has started have of the host's memory.

    Attributes:
        nbytes: Bytes that are resident.
        pids: The processes.
    """

    nbytes: int
    pids: tuple[int, ...]


class Watched(NamedTuple):
    """What is known of one worker's memory.

    Attributes:
        overs: How many looks in a row found too much.
        shared: Bytes that are counted and are others', too.
        is_told: Whether somebody was told.
    """

    overs: int = 0
    shared: int = 0
    is_told: bool = False


def tallied(
    processes: Iterable[ProcessStat], workers: Collection[int], page: int
) -> dict[int, Resident]:
    """Adds up what each worker has, with all that it has started.

    A worker leads a session of its own. What has left that is known by its parents, and
    belongs to the nearest worker above it.

    Args:
        processes: Those of the machine.
        workers: The process ids of the workers.
        page: Bytes of a page of memory.

    Returns:
        What each has that is there.
    """
    known = {process.pid: process for process in processes}
    owners: dict[int, int] = {}
    found: dict[int, list[ProcessStat]] = {}
    for process in known.values():
        owner = _owner(process, known, workers, owners)
        if owner:
            found.setdefault(owner, []).append(process)
    return {
        worker: Resident(
            page * sum(each.pages for each in its), tuple(each.pid for each in its)
        )
        for worker, its in found.items()
        if worker in known
    }


def _owner(
    process: ProcessStat,
    known: Mapping[int, ProcessStat],
    workers: Collection[int],
    owners: dict[int, int],
) -> int:
    """Finds the worker that a process is of, by its process id; 0 if it is of none."""
    passed: list[int] = []
    each: ProcessStat | None = process
    owner = 0
    while each is not None and each.pid not in passed:
        if each.pid in workers:
            owner = each.pid
        elif each.session in workers:
            owner = each.session
        else:
            owner = owners.get(each.pid, -1)
        if owner >= 0:
            break
        owner = 0
        passed.append(each.pid)
        each = known.get(each.parent)
    owners.update(dict.fromkeys(passed, owner))
    return owner


def judge(watched: Watched, asked: int, used: int) -> tuple[Watched, bool]:
    """Decides whether the proportional size of a worker has to be asked for.

    Args:
        watched: What was known.
        asked: Bytes that the actor asked for.
        used: Bytes that are resident.

    Returns:
        What is known now, and whether to ask, and then to call ``confirm``.
    """
    overs = watched.overs + 1 if used - watched.shared > asked else 0
    is_due = overs >= _IN_A_ROW and not watched.is_told
    return watched._replace(overs=overs), is_due


def confirm(
    watched: Watched, asked: int, used: int, proportional: int | None
) -> Watched:
    """Decides whether somebody has to be told, now that more is known.

    Args:
        watched: What was known.
        asked: Bytes that the actor asked for.
        used: Bytes that are resident.
        proportional: Those without what is others' of shared pages; None where the
            kernel does not say, and then nothing is taken off.

    Returns:
        What is known now: ``is_told`` if it is to be told.
    """
    real = used if proportional is None else min(used, proportional)
    if real > asked:
        return watched._replace(is_told=True)
    return watched._replace(overs=0, shared=used - real)


def proportional_of(rollup: str) -> int | None:
    """Reads ``/proc/<pid>/smaps_rollup``: the proportional size in bytes, or None.

    https://docs.kernel.org/filesystems/proc.html
    """
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        number = rest.partition("kB")[0].strip()
        if name == "Pss" and number.isdecimal():
            return int(number) * 1024
    return None
