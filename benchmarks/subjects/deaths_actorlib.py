"""An actor is killed from outside while many wait for it: until the last is told."""

import actorlib
from actorlib.exceptions import ActorDiedError
from benchmarks.subjects._deaths import Silent, told
from benchmarks.subjects._report import arguments, middle, report


async def _measured(callers: int, times: int) -> dict[str, float]:
    silent = actorlib.remote(max_concurrency=1000)(Silent)
    async with actorlib.init():
        return {
            "time": middle(
                [
                    await told(silent.remote(), callers, ActorDiedError)
                    for _ in range(times)
                ]
            )
        }


if __name__ == "__main__":
    report(actorlib.run(_measured(**arguments())))
