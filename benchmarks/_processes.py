"""Other processes: their CPUs, their use of resources, and their end.

Where there is no ``/proc`` nothing is known and nothing done.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SETTLE = 0.3
_PATIENCE = 20.0


def memory_each(pids: Iterable[int]) -> dict[str, float]:
    """The mean proportional set size of idle processes, as the figure ``pss``.

    Empty where the kernel does not tell.
    """
    time.sleep(_SETTLE)
    sizes = [size for size in map(_pss, pids) if size is not None]
    return {"pss": sum(sizes) / len(sizes)} if sizes else {}


def memory_of(pids: Iterable[int]) -> float:
    """The proportional set size of processes together, in bytes."""
    return float(sum(size for size in map(_pss, pids) if size is not None))


def cpu_of(pids: Iterable[int]) -> float:
    """The seconds of CPU that processes have used, to the nanosecond."""
    spent = 0
    for pid in pids:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                # Unlike the times in "stat" it is not in ticks of a hundredth.
                text = (thread / "schedstat").read_text(encoding="ascii")
                spent += int(text.split()[0])
    return spent / 1e9


def children(pid: int) -> list[int]:
    """The children of a process, also those that have ended and were not reaped."""
    found: list[int] = []
    with suppress(FileNotFoundError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text("ascii").split())
    return found


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def await_end(pids: Iterable[int]) -> None:
    """Waits until none of the processes is left, but not for ever."""
    deadline = time.monotonic() + _PATIENCE
    left = [Path(f"/proc/{pid}") for pid in pids]
    while left and time.monotonic() < deadline:
        left = [entry for entry in left if entry.exists()]
        time.sleep(0.01)


def place(far: int, *, apart: bool) -> None:
    """Binds this process and another one to a CPU each, or both to the same.

    Left alone, the scheduler puts both ends of a pipe on one CPU while another is
    busy and on two while none is, and a round trip takes 15 or 60 microseconds: the
    figure would be about its mood.

    Args:
        far: The other process; all threads it has now are bound.
        apart: Whether they get two CPUs, of different cores if there are.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cpus = sorted(os.sched_getaffinity(far))
    others = [cpu for cpu in cpus if _core(cpu) != _core(cpus[0])] or cpus[1:] or cpus
    for pid, cpu in ((os.getpid(), cpus[0]), (far, others[0] if apart else cpus[0])):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cpu})


def _core(cpu: int) -> str:
    """What CPUs of one core have in common."""
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return str(cpu)


def _pss(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None
