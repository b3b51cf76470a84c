"""The colour of each subject, the same in every plot."""

from typing import Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    FORKSERVER,
    LOADED_FLOOR,
    ON_RAY,
    OURS,
    OWNER,
    POOL,
    RAY,
    SCAN,
    XOSCAR,
)

COLOURS: Final = {
    OURS: "#d1495b",
    FLOOR: "#9a9a9a",
    LOADED_FLOOR: "#6b6b6b",
    SCAN: "#c9b458",
    RAY: "#30638e",
    ON_RAY: "#7b9ebd",
    XOSCAR: "#6a994e",
    DASK: "#8f6c9f",
    POOL: "#edae49",
    FORKSERVER: "#f4d58d",
    OWNER: "#e08e45",
}
