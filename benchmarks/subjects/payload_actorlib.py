"""Large arrays as arguments and results of an actor."""

from typing import Any

import actorlib
from benchmarks.subjects._payload import Load, Sink, moved
from benchmarks.subjects._report import arguments, report


async def _measured(load: Load) -> dict[str, float]:
    options: Any = {"share_above": load.above} if load.above else {}
    async with actorlib.init(object_store_memory=8 << 30, **options):
        sink = actorlib.remote(Sink).remote()

        async def call(method: str, *given: object) -> object:
            return await getattr(sink, method).remote(*given)

        return await moved(call, load)


if __name__ == "__main__":
    report(actorlib.run(_measured(Load(**arguments()))))
