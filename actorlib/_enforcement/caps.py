"""Limits the threads of libraries to the CPUs of a lease, by environment variables.

A library that starts one thread per core of the machine in each of ten actors makes all
ten slow. Libraries read these variables when they are loaded, so the variables must be
in the environment of the process before the user's code is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._options.kinds import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPENMP = "OMP_NUM_THREADS"

# These fall back on OMP_NUM_THREADS, so a user's value of that applies to them.
_LIKE_OPENMP = (
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

# These have separate pools, by default with one thread per core.
_ALONE = (
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


def thread_caps(lease_cpu_units: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that limit the libraries of a process to its CPUs.

    Args:
        lease_cpu_units: Its CPUs, in units; 0 if it requested none: then nothing is
            limited.
        environ: The environment of the process. Variables that are set there are kept.

    Returns:
        Values by name: the share in whole CPUs, and at least one thread.
    """
    if not lease_cpu_units:
        return {}
    threads = str(max(1, lease_cpu_units // UNITS))
    followers = () if _OPENMP in environ else (_OPENMP, *_LIKE_OPENMP)
    names = (*followers, *_ALONE)
    return {name: threads for name in names if name not in environ}
