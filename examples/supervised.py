"""An actor that crashes: the error of the caller, and a new actor in its place."""

import os
from typing import Any

import actorlib
from actorlib.exceptions import ActorDiedError


@actorlib.remote
class Fragile:
    """Crashes at its first two attempts."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt

    def work(self) -> str:
        """Crashes at the first attempt, exits at the second, then works."""
        if self._attempt == 1:
            os.abort()
        if self._attempt == 2:
            raise SystemExit(3)
        return f"done at attempt {self._attempt}"

    def fail(self) -> None:
        """Raises an exception, which the actor survives."""
        raise ValueError("no such thing")


async def supervised(attempts: int) -> actorlib.ActorHandle[Any]:
    """Creates the actor again until it works.

    Raises:
        RuntimeError: It died at every attempt.
    """
    for attempt in range(1, attempts + 1):
        actor = Fragile.remote(attempt)
        try:
            print(await actor.work.remote())
        except ActorDiedError as error:
            end = error.exit
            print(end.cause, end.signal or end.code, end.method)
        else:
            return actor
    raise RuntimeError(f"it died {attempts} times")


async def main() -> None:
    """Shows two deaths of an actor, and an exception."""
    async with actorlib.init(log_to_driver=False):
        actor = await supervised(attempts=3)
        try:
            await actor.fail.remote()
        except ValueError as error:
            print(f"it raised: {error}")


actorlib.run(main())
