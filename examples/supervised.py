"""An actor that crashes: what the caller is told, and how to start it again."""

import os
from typing import Any

import actorlib
from actorlib.exceptions import ActorDiedError


@actorlib.remote
class Fragile:
    """Works until it is asked for too much."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt

    def work(self) -> str:
        """Crashes at the first attempt, leaves at the second, then works."""
        if self._attempt == 1:
            os.abort()
        if self._attempt == 2:
            raise SystemExit(3)
        return f"done at attempt {self._attempt}"

    def fail(self) -> None:
        """Raises: that is an answer like any other, and the actor lives on."""
        raise ValueError("no such thing")


async def supervised(attempts: int) -> actorlib.ActorHandle[Any]:
    """Starts the actor anew, with its share of the machine free again, until it works.

    Raises:
        RuntimeError: It died every time.
    """
    for attempt in range(1, attempts + 1):
        actor = Fragile.remote(attempt)
        try:
            print(await actor.work.remote())
        except ActorDiedError as error:
            how = error.exit
            print(how.cause, how.signal or how.code, how.method)
        else:
            return actor
    raise RuntimeError(f"it died {attempts} times")


async def main() -> None:
    """Supervises, and shows an exception beside a death."""
    async with actorlib.init(log_to_driver=False):
        actor = await supervised(attempts=3)
        try:
            await actor.fail.remote()
        except ValueError as error:
            print(f"it raised: {error}")


actorlib.run(main())
