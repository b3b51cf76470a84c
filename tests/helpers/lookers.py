"""Actors that look at their own process, and those that have more processes.

They are here and not in the tests because workers import their module: this one loads
little, so that they see what a worker is like, and see it soon.
"""

from __future__ import annotations

import multiprocessing
import operator
import os
import random
import sys
from typing import Any

import actorlib


@actorlib.remote
class Asker:
    """Answers from the modules of its process."""

    def ask(self, module: str, name: str) -> Any:
        """What a module has by that name."""
        return getattr(sys.modules[module], name)

    def has(self, module: str) -> bool:
        """Whether a module is loaded."""
        return module in sys.modules

    def parent(self) -> int:
        """The process that it was forked from."""
        return os.getppid()

    def draws(self) -> list[float]:
        """A random number of Python's, and one of numpy's if that is loaded."""
        numpy = sys.modules.get("numpy")
        drawn = [random.random()]
        return drawn if numpy is None else [*drawn, float(numpy.random.random())]


@actorlib.remote
class Multiplier:
    """Has processes of its own."""

    def multiply(self, way: str, values: list[int]) -> list[int]:
        """The negatives, from a pool of processes that begin in some way."""
        context = multiprocessing.get_context(way)
        with context.Pool(2) as pool:
            return pool.map(operator.neg, values)
