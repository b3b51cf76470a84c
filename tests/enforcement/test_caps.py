"""Libraries keep to the CPUs of a lease, and to what the user said."""

from __future__ import annotations

import pytest

from actorlib._enforcement.caps import thread_caps
from actorlib._options.kinds import UNITS


@pytest.mark.parametrize(
    ("units", "threads"),
    [
        (1, "1"),
        (UNITS // 2, "1"),
        (UNITS, "1"),
        (UNITS * 5 // 2, "2"),
        (8 * UNITS, "8"),
    ],
)
def test_thread_caps_when_cpus_are_held_then_is_their_whole_number(
    units: int, threads: str
) -> None:
    caps = thread_caps(units, {})
    assert set(caps.values()) == {threads}
    assert caps.keys() >= {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    }


def test_thread_caps_when_no_cpus_are_held_then_nothing_is_capped() -> None:
    assert thread_caps(0, {}) == {}


def test_thread_caps_when_the_user_set_one_then_it_is_left_alone() -> None:
    caps = thread_caps(2 * UNITS, {"MKL_NUM_THREADS": "7"})
    assert "MKL_NUM_THREADS" not in caps
    assert caps["OMP_NUM_THREADS"] == "2"


def test_thread_caps_when_the_user_set_openmp_then_what_follows_it_is_left_alone() -> (
    None
):
    caps = thread_caps(2 * UNITS, {"OMP_NUM_THREADS": "7"})
    assert caps.keys().isdisjoint({"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    assert caps["NUMBA_NUM_THREADS"] == "2"
