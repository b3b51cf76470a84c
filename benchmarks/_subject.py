"""Arguments, figures, and counts of all subjects.

Imported into every measured process, so it imports little. Whatever else a subject
needs it imports by itself, late: a peer would pay for it with each process it forks.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from benchmarks._cases import MakePlan

WINDOW: Final = 1000
"""The number of unanswered calls when calls are pipelined."""


Figures: TypeAlias = dict[str, float]
"""Figures by name: seconds, bytes, and actors or calls per second."""


def main(make_plan: MakePlan, subjects: Mapping[str, Callable[..., Figures]]) -> None:
    """Runs a question, or with ``--subject NAME JSON`` one who is measured for it.

    A subject is run in an interpreter of its own, in which the question is
    ``__main__``: what it places is then sent by value, as it is from a user's program.
    """
    if sys.argv[1:2] != ["--subject"]:
        # Late, as no subject should carry what draws tables and plots.
        from benchmarks._command import conduct

        conduct(make_plan)
        return
    name, told = sys.argv[2:]
    if name not in subjects:
        sys.exit(f"there is no subject {name!r}; there are {', '.join(subjects)}")
    print(json.dumps(subjects[name](**json.loads(told))), flush=True)


def distinct(pids: Sequence[int], count: int) -> Sequence[int]:
    """The process ids, if each actor had a process of its own.

    Raises:
        RuntimeError: They shared processes, so the figures would be worth nothing.
    """
    if len(set(pids)) != count:
        raise RuntimeError(f"{count} actors answered from {len(set(pids))} processes")
    return pids


def round_trips(times: Sequence[float]) -> Figures:
    """The figures of calls made one after another, the first tenth left out."""
    warm = sorted(times[len(times) // 10 :])
    return {"p50": warm[len(warm) // 2], "p99": warm[len(warm) * 99 // 100]}


def pipelined(times: Sequence[float]) -> Figures:
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


def prefixed(prefix: str, metrics: Mapping[str, float]) -> Figures:
    """The same figures under longer names."""
    return {f"{prefix} {name}": value for name, value in metrics.items()}


def middle(times: Sequence[float]) -> float:
    """The median."""
    return sorted(times)[len(times) // 2]
