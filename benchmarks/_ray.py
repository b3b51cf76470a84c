"""Code for the subjects of Ray: a cluster that ends, and the better of two ways.

Ray's own advice is to ask for many refs with one ``ray.get`` and not in a loop; where
the program is asyncio its refs can be awaited. Both are measured and the better figure
is kept. The dashboard is off, as is the copying of workers' output: both cost.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from benchmarks._subject import Figures
from benchmarks._traffic import Traffic, awaited, got


@contextmanager
def cluster(**options: Any) -> Generator[None]:
    """A cluster of this machine that is stopped again."""
    ray.init(include_dashboard=False, log_to_driver=False, **options)
    try:
        yield
    finally:
        ray.shutdown()


def calls(call: Callable[[int], Any], traffic: Traffic) -> Figures:
    """The figures of calls, by ``ray.get`` or by ``await``."""
    return better(
        got(call, ray.get, ray.get, traffic), asyncio.run(awaited(call, traffic))
    )


def better(one: Mapping[str, float], other: Mapping[str, float]) -> Figures:
    """Of each figure the better one: of rates the higher, of times the lower."""
    choose = {"rate": max}
    return {name: choose.get(name, min)(one[name], other[name]) for name in one}
