"""A pipeline: arrays of 50 MB pass three stages within bounded memory.

The arrays are in shared memory, and the stages pass refs. The arguments are the number
of arrays and their size in megabytes.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import actorlib
from actorlib import ObjectRef, typed

COUNT, MEGABYTES = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (24, 50)
AHEAD = 2
"""The number of arrays that the first stage may have ready."""
IN_PROGRESS = 3
"""The largest number of arrays in the later stages."""

Image = npt.NDArray[np.float32]


@actorlib.remote(backpressure=AHEAD)
def read(count: int) -> Iterator[Image]:
    """The first stage: creates arrays, at most two ahead of the next stage."""
    for number in range(count):
        yield np.full(MEGABYTES * 1_000_000 // 4, number, dtype=np.float32)


class Filter:
    """The second stage: an actor that creates a new array from each."""

    @actorlib.method
    def smooth(self, image: Image) -> Image:
        """Returns the mean of each value and its neighbour."""
        smoothed = image.copy()
        smoothed[1:] += image[:-1]
        smoothed[1:] /= 2
        return smoothed


@actorlib.remote
def measure(image: Image) -> float:
    """The last stage: reduces an array to a number."""
    return float(image.mean())


async def main() -> None:
    """Passes each array through the stages, and measures the peak of memory."""
    async with actorlib.init(num_cpus=4) as runtime:
        smooth = typed(actorlib.remote(Filter).remote()).smooth

        def process(image: Any) -> ObjectRef[float]:
            smoothed: Any = smooth.remote(image)  # a ref, which arrives as its value
            return measure.remote(smoothed)

        images = read.remote(COUNT)
        results = actorlib.map_unordered(
            process, images, backpressure_size=IN_PROGRESS, progress="arrays"
        )
        means: list[float] = []
        peak = 0
        async for mean in results:
            means.append(mean)
            peak = max(peak, runtime.snapshot().object_store.live)

    total = 2 * COUNT * MEGABYTES
    bound = (AHEAD + 1 + 2 * IN_PROGRESS) * MEGABYTES
    print(f"{len(means)} arrays of {MEGABYTES} MB, the mean of all is {np.mean(means)}")
    print(f"{total} MB were created, at most {peak // 1_000_000} MB existed at once")
    print(f"bounded: {peak <= bound * 1_010_000}")


actorlib.run(main())
