"""Deadlines: a call has so many seconds, and so has everything that it calls."""

from contextvars import ContextVar

import actorlib
from actorlib.exceptions import DeadlineExceededError

request = actorlib.propagate(ContextVar("request", default="nobody's"))


@actorlib.remote
class Search:
    """A plain method is not interrupted: it asks now and then."""

    _given_up = "nobody's"

    def look(self, shelves: int) -> str:
        """Looks through the shelves until it is done, or nobody waits any more."""
        context = actorlib.get_runtime_context()
        for shelf in range(shelves):
            if context.is_canceled():
                self._given_up = request.get()
                return f"stopped before shelf {shelf}"
        return f"looked through {shelves} shelves"

    def given_up(self) -> str:
        """Whose search was given up last."""
        return f"{self._given_up} search was given up"


@actorlib.remote
class Desk:
    """An ``async def`` method is cancelled, and the calls that it made with it."""

    def __init__(self) -> None:
        self._search = Search.remote()

    async def answer(self, shelves: int) -> str:
        """Has somebody look."""
        return await self._search.look.remote(shelves)

    async def given_up(self) -> str:
        """Whose search was given up last."""
        return await self._search.given_up.remote()


async def main() -> None:
    """A question that is answered in time, and one that is not."""
    async with actorlib.init(num_gpus=0), Desk.remote() as desk:
        print(await desk.answer.remote(1_000))
        request.set("Ada's")
        try:
            await desk.answer.options(timeout=0.5).remote(1_000_000_000)
        except DeadlineExceededError as error:
            print(error)
        print(await desk.given_up.remote())


actorlib.run(main())
