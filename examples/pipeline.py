"""A pipeline: arrays of 50 MB go through three stages, and memory stays bounded.

Arrays lie in shared memory and are never copied: what goes from stage to stage is a
ref. Run with two numbers for so many arrays of so many megabytes.
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
"""Arrays that the reader may have ready before somebody takes one."""
UNDER_WAY = 3
"""Arrays that are in the later stages at the most."""

Image = npt.NDArray[np.float32]


@actorlib.remote(backpressure=AHEAD)
def read(count: int) -> Iterator[Image]:
    """The first stage: reads arrays, but not more than somebody takes."""
    for number in range(count):
        yield np.full(MEGABYTES * 1_000_000 // 4, number, dtype=np.float32)


class Filter:
    """The second stage: an actor, which makes another array of each."""

    @actorlib.method
    def smooth(self, image: Image) -> Image:
        """The mean of each value and its neighbour."""
        smoothed = image.copy()
        smoothed[1:] += image[:-1]
        smoothed[1:] /= 2
        return smoothed


@actorlib.remote
def measure(image: Image) -> float:
    """The last stage: what is left of an array is a number."""
    return float(image.mean())


async def main() -> None:
    """Passes each array on by its ref, and looks how much memory all of them take."""
    async with actorlib.init(num_cpus=4) as runtime:
        smooth = typed(actorlib.remote(Filter).remote()).smooth

        def pass_on(image: Any) -> ObjectRef[float]:
            smoothed: Any = smooth.remote(image)  # a ref, which arrives as its value
            return measure.remote(smoothed)

        images = read.remote(COUNT)
        results = actorlib.map_unordered(
            pass_on, images, backpressure_size=UNDER_WAY, progress="arrays"
        )
        means: list[float] = []
        peak = 0
        async for mean in results:
            means.append(mean)
            peak = max(peak, runtime.snapshot().object_store.live)

    made = 2 * COUNT * MEGABYTES
    bound = (AHEAD + 1 + 2 * UNDER_WAY) * MEGABYTES
    print(f"{len(means)} arrays of {MEGABYTES} MB, the mean of all is {np.mean(means)}")
    print(f"{made} MB were made, and at most {peak // 1_000_000} MB were there at once")
    print(f"bounded: {peak <= bound * 1_010_000}")


actorlib.run(main())
