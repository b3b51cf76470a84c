"""The standard library: a pool's only worker is killed while many wait for it."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from benchmarks.subjects._report import arguments, middle, report


def _never() -> None:
    signal.pause()


def _told(callers: int) -> float:
    ends: list[float] = []

    def told(future: Future[None]) -> None:
        if isinstance(future.exception(), BrokenProcessPool):
            ends.append(time.perf_counter())

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pid = pool.submit(os.getpid).result()
        calls = [pool.submit(_never) for _ in range(callers)]
        for call in calls:
            call.add_done_callback(told)
        begun = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        wait(calls)
    if len(ends) != callers:
        raise RuntimeError(f"{len(ends)} of {callers} were told")
    return max(ends) - begun


def _measured(callers: int, times: int) -> dict[str, float]:
    return {"time": middle([_told(callers) for _ in range(times)])}


if __name__ == "__main__":
    report(_measured(**arguments()))
