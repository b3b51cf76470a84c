"""The functions of an OpenBLAS: which there are, and how many threads they start."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._worker.shared_numpy import openblas_of


class Library:
    """Has the functions of an OpenBLAS under some names.

    Args:
        before: What is put before those that are for everybody.
        behind: What is put behind them.
        parallel: Whose threads it has: 1 for its own, 2 for those of OpenMP.
        said: What its variables say, by the order in which they count.
    """

    def __init__(
        self,
        before: str = "",
        behind: str = "",
        parallel: int = 1,
        said: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.threads = 1
        self.has_read = False
        own: dict[str, Any] = {
            "openblas_read_env": self._read,
            "openblas_num_threads_env": lambda: said[0] * self.has_read,
            "openblas_goto_num_threads_env": lambda: said[1] * self.has_read,
            "openblas_omp_num_threads_env": lambda: said[2] * self.has_read,
            f"{before}openblas_get_parallel{behind}": lambda: parallel,
            f"{before}openblas_get_num_procs{behind}": lambda: 8,
            f"{before}openblas_set_num_threads{behind}": self._start,
        }
        self.__dict__.update(own)

    def _read(self) -> None:
        self.has_read = True

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
    blas.start_threads()
    assert library.threads == 8


def test_openblas_when_it_is_something_else_then_there_is_none() -> None:
    assert openblas_of(object()) is None


def test_openblas_when_its_threads_are_those_of_openmp_then_there_is_none() -> None:
    assert openblas_of(Library(parallel=2)) is None


def test_openblas_when_it_cannot_read_anew_then_there_is_none() -> None:
    library = Library()
    del library.__dict__["openblas_read_env"]
    assert openblas_of(library) is None


@pytest.mark.parametrize(
    ("said", "threads"),
    [
        ((0, 0, 0), 8),
        ((2, 3, 4), 2),
        ((0, 3, 4), 3),
        ((0, 0, 4), 4),
        ((0, -1, 4), 4),
        ((1, 0, 4), 1),
        ((99, 0, 0), 8),
    ],
)
def test_threads_when_variables_speak_then_the_first_counts(
    said: tuple[int, int, int], threads: int
) -> None:
    library = Library(said=said)
    blas = openblas_of(library)

    assert blas is not None
    blas.start_threads()
    assert library.threads == threads
