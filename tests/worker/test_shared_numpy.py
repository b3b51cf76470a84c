"""The functions of an OpenBLAS: which there are, and how many threads they start."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._worker.template.shared_numpy import openblas_of


class Library:
    """Has the functions of an OpenBLAS under some names.

    Args:
        before: What is put before them.
        behind: What is put behind them.
        parallel: Whose threads it has: 1 for its own, 2 for those of OpenMP.
    """

    def __init__(self, before: str = "", behind: str = "", parallel: int = 1) -> None:
        self.threads = 1
        own: dict[str, Any] = {
            f"{before}openblas_get_parallel{behind}": lambda: parallel,
            f"{before}openblas_get_num_procs{behind}": lambda: 8,
            f"{before}openblas_set_num_threads{behind}": self._start,
        }
        self.__dict__.update(own)

    def _start(self, number: int) -> None:
        self.threads = number


@pytest.mark.parametrize("before", ["", "scipy_"])
@pytest.mark.parametrize("behind", ["", "64_"])
def test_openblas_when_its_names_are_longer_then_it_is_known(
    before: str, behind: str
) -> None:
    library = Library(before, behind)
    blas = openblas_of(library)

    assert blas is not None
    blas.start_threads({})
    assert library.threads == 8


def test_openblas_when_it_is_something_else_then_there_is_none() -> None:
    assert openblas_of(object()) is None


def test_openblas_when_its_threads_are_those_of_openmp_then_there_is_none() -> None:
    assert openblas_of(Library(parallel=2)) is None


OWN, DEFAULT = "OPENBLAS_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS"
GOTO, OPENMP = "GOTO_NUM_THREADS", "OMP_NUM_THREADS"


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({}, 8),
        ({OWN: "2", GOTO: "3", OPENMP: "4"}, 2),
        ({DEFAULT: "5", GOTO: "3"}, 5),
        ({OWN: "2", DEFAULT: "5"}, 2),
        ({OWN: "", DEFAULT: "5", GOTO: "3"}, 3),
        ({GOTO: "3", OPENMP: "4"}, 3),
        ({OPENMP: "4"}, 4),
        ({OPENMP: "4,2"}, 4),
        ({OPENMP: " +4 "}, 4),
        ({GOTO: "-1", OPENMP: "4"}, 4),
        ({OWN: "all"}, 8),
        ({OWN: "1", OPENMP: "4"}, 1),
        ({OWN: "99"}, 8),
    ],
)
def test_threads_when_variables_speak_then_the_first_counts(
    environ: dict[str, str], threads: int
) -> None:
    library = Library()
    blas = openblas_of(library)

    assert blas is not None
    blas.start_threads(environ)
    assert library.threads == threads
