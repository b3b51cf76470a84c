"""Calls of a sync and of an async actor from a plain script, by ``ray.get``."""

import time
from typing import Any

import actorlib.blocking as ray
from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    prefixed,
    report,
    round_trips,
)
from benchmarks.subjects.calls_actorlib import Looped, Plain


def _calls(actor: Any, traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for value in range(traffic.trips):
        begun = time.perf_counter()
        ray.get(actor.echo.remote(value))
        trips.append(time.perf_counter() - begun)
    windows: list[float] = []
    for _ in range(traffic.windows):
        begun = time.perf_counter()
        ray.get([actor.echo.remote(value) for value in range(WINDOW)])
        windows.append(time.perf_counter() - begun)
    return round_trips(trips) | pipelined(windows)


def _measured(traffic: Traffic) -> dict[str, float]:
    with ray.init():
        return prefixed("sync", _calls(Plain.remote(), traffic)) | prefixed(
            "async", _calls(Looped.remote(), traffic)
        )


if __name__ == "__main__":
    report(_measured(Traffic(**arguments())))
