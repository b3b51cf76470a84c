"""The standard library's process pool: waves of workers to their first answers.

A worker's first answer waits until all workers are there, or the first ones would do
the work of the later ones.
"""

import importlib
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier

from benchmarks.subjects._report import Wave, arguments, distinct, report

_gate: list[Barrier] = []


def _begin(gate: Barrier, imports: Sequence[str]) -> None:
    _gate.append(gate)
    for name in imports:
        importlib.import_module(name)


def _pid() -> int:
    _gate[0].wait()
    return os.getpid()


def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    context = multiprocessing.get_context(wave.method)
    if isinstance(context, ForkServerContext):
        context.set_forkserver_preload([__spec__.name, *wave.preloads])
    else:
        for name in wave.preloads:
            importlib.import_module(name)
    for name in ("cold", "second")[: wave.waves]:
        begun = time.perf_counter()
        gate = context.Barrier(wave.size)
        with ProcessPoolExecutor(
            wave.size, context, _begin, (gate, wave.imports)
        ) as pool:
            answers = [pool.submit(_pid) for _ in range(wave.size)]
            pids = [answer.result() for answer in answers]
            metrics[name] = wave.size / (time.perf_counter() - begun)
            distinct(pids, wave.size)
    return metrics


if __name__ == "__main__":
    report(_measured(Wave(**arguments())))
