"""The time of a whole program, from its start to its end: ``{"program": NAME}``."""

import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.subjects._report import arguments, report


def _time_of(program: str) -> float:
    command = [sys.executable, "-m", f"benchmarks.subjects.{program}"]
    # A file, not a pipe: a daemon that a peer leaves behind would keep a pipe open.
    with tempfile.TemporaryFile("w+") as err:
        begun = time.perf_counter()
        code = subprocess.call(command, stdout=subprocess.DEVNULL, stderr=err)
        took = time.perf_counter() - begun
        err.seek(0)
        if code != 0:
            sys.exit(f"{err.read()}{program} ended with code {code}")
    return took


def _measured(*, program: str, times: int) -> dict[str, float]:
    return {"time": statistics.median(_time_of(program) for _ in range(times))}


if __name__ == "__main__":
    report(_measured(**arguments()))
