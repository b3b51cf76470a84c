"""dask.distributed: large arrays as arguments and results of an actor."""

import asyncio

from benchmarks.subjects._distributed import client_of
from benchmarks.subjects._payload import Load, Sink, moved
from benchmarks.subjects._report import arguments, report


async def _measured(load: Load) -> dict[str, float]:
    async with client_of(1) as client:
        sink = await client.submit(Sink, actor=True)

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method)(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(asyncio.run(_measured(Load(**arguments()))))
