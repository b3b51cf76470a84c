"""Arguments in, figures out; what every subject counts alike.

Imported into every measured process, so it imports little.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

WINDOW: Final = 1000
"""How many calls are under way at once when calls are pipelined."""


class Wave(NamedTuple):
    """What a subject of placement is told.

    Attributes:
        size: How many actors there are in a wave.
        waves: How many waves, 1 or 2.
        method: How processes are started, in the words of the subject.
        imports: What each actor imports when it is built.
        preload: Whether that was imported before, where all actors come from.
    """

    size: int
    waves: int = 2
    method: str = ""
    imports: Sequence[str] = ()
    preload: bool = False

    @property
    def preloads(self) -> list[str]:
        """What is imported before."""
        return list(self.imports) if self.preload else []


class Traffic(NamedTuple):
    """What a subject of calls is told.

    Attributes:
        trips: How many calls are made one after another.
        windows: How many windows of calls are sent.
        method: How, in the words of the subject.
        apart: Whether both ends have a CPU each, or share one.
        workers: How many processes run the calls, where there may be several.
    """

    trips: int
    windows: int
    method: str = ""
    apart: bool = True
    workers: int = 1


def arguments() -> dict[str, Any]:
    """What this process was told."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def report(metrics: Mapping[str, float]) -> None:
    """Tells the figures to who started this process."""
    print(json.dumps(dict(metrics)), flush=True)


def distinct(pids: Sequence[int], count: int) -> Sequence[int]:
    """The process ids, if each actor had a process of its own.

    Raises:
        RuntimeError: They shared processes, so the figures would be worth nothing.
    """
    if len(set(pids)) != count:
        raise RuntimeError(f"{count} actors answered from {len(set(pids))} processes")
    return pids


def round_trips(times: Sequence[float]) -> dict[str, float]:
    """The figures of calls made one after another, the first tenth left out."""
    warm = sorted(times[len(times) // 10 :])
    return {"p50": warm[len(warm) // 2], "p99": warm[len(warm) * 99 // 100]}


def pipelined(times: Sequence[float]) -> dict[str, float]:
    """The figure of windows of calls, the first fifth left out."""
    warm = times[len(times) // 5 :]
    return {"rate": WINDOW * len(warm) / sum(warm)}


def at_once(answers: Sequence[object], size: int, took: float) -> float:
    """Calls a second of those made at once, if all were answered in their order.

    Raises:
        RuntimeError: Answers were lost, or came in another order.
    """
    if list(answers) != list(range(size)):
        raise RuntimeError(f"{size} calls gave {len(answers)} answers, or disorder")
    return size / took


def prefixed(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The same figures under longer names."""
    return {f"{prefix} {name}": value for name, value in metrics.items()}


def middle(times: Sequence[float]) -> float:
    """The median."""
    return sorted(times)[len(times) // 2]
