"""An actor that computes with NumPy, and looks at what it has of it.

It is here and not in the tests because workers import its module: this one imports
nothing of NumPy's until it is told to.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import warnings
from typing import Any

import actorlib


@actorlib.remote
class Computer:
    """Imports NumPy when it is told to."""

    def has(self) -> tuple[bool, bool]:
        """Whether NumPy is in its modules, and whether a BLAS is in its memory."""
        with open("/proc/self/maps") as maps:  # noqa: PTH123  # little is imported
            return "numpy" in sys.modules, "openblas" in maps.read()

    def threads(self, variables: dict[str, str]) -> tuple[int, int, int]:
        """How many there are: says the BLAS, before and after it has computed."""
        os.environ.update(variables)
        np: Any = importlib.import_module("numpy")  # behind the variables

        with open("/proc/self/maps") as maps:  # noqa: PTH123
            path = next(line for line in maps if "openblas" in line).split()[-1]
        blas: Any = ctypes.CDLL(path)
        before = len(os.listdir("/proc/self/task"))  # noqa: PTH208
        ones = np.ones((500, 500))
        assert (ones @ ones == 500).all()
        after = len(os.listdir("/proc/self/task"))  # noqa: PTH208
        for name in (
            "scipy_openblas_get_num_threads64_",
            "openblas_get_num_threads64_",
        ):
            if hasattr(blas, name):
                return getattr(blas, name)(), before, after
        return -1, before, after

    def compute(self, number: int) -> float:
        """What comes out of some linear algebra."""
        np: Any = importlib.import_module("numpy")

        values = np.arange(300 * 300, dtype=np.float64).reshape(300, 300) % 7
        values += np.eye(300) * number
        return float(np.linalg.solve(values, values.sum(axis=0)).sum())

    def warnings(self) -> list[str]:
        """What is said when NumPy is imported."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            importlib.import_module("numpy")
        return [str(warning.message) for warning in caught]

    def evaluate(self, source: str) -> Any:
        """What an expression gives here."""
        return eval(source)  # of this file
