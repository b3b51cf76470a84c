"""Deadlines: a call and the calls that it makes stop after a number of seconds."""

from contextvars import ContextVar

import actorlib
from actorlib.exceptions import DeadlineExceededError

request = actorlib.propagate(ContextVar("request", default="no"))


@actorlib.remote
class Search:
    """Has a plain method, which is not interrupted: it checks for cancellation."""

    _cancelled = "no"

    def look(self, shelves: int) -> str:
        """Searches the shelves until it is done or cancelled."""
        context = actorlib.get_runtime_context()
        for shelf in range(shelves):
            if context.is_canceled():
                self._cancelled = request.get()
                return f"stopped before shelf {shelf}"
        return f"searched {shelves} shelves"

    def cancelled(self) -> str:
        """Describes the last cancelled request."""
        return f"{self._cancelled} request was cancelled"


@actorlib.remote
class Desk:
    """Has an ``async def`` method, which is cancelled together with its calls."""

    def __init__(self) -> None:
        self._search = Search.remote()

    async def answer(self, shelves: int) -> str:
        """Forwards the request to the search."""
        return await self._search.look.remote(shelves)

    async def cancelled(self) -> str:
        """Describes the last cancelled request."""
        return await self._search.cancelled.remote()


async def main() -> None:
    """Makes a request that finishes in time, and one that does not."""
    async with actorlib.init(num_gpus=0), Desk.remote() as desk:
        print(await desk.answer.remote(1_000))
        request.set("Ada's")
        try:
            await desk.answer.options(timeout=0.5).remote(1_000_000_000)
        except DeadlineExceededError as error:
            print(error)
        print(await desk.cancelled.remote())


actorlib.run(main())
