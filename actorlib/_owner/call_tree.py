"""Call tree of workers: calls without an answer, and which call made each."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Made(Protocol):
    """Is a call that a worker has asked for.

    Attributes:
        asking: The number that the call which made it has in that worker, or 0.
    """

    asking: int


M = TypeVar("M", bound=Made)


class CallTree(Generic[M]):
    """Keeps the calls of all workers, by the number of the session and their own."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int], M] = {}
        self._made: dict[tuple[int, int], set[int]] = {}

    def __len__(self) -> int:
        """Counts the calls without an answer."""
        return len(self._asked)

    def put(self, session: int, call: int, asked: M) -> None:
        """Takes a call, or what has changed about it."""
        self._asked[session, call] = asked
        asking = asked.asking
        if asking:
            made = self._made.get((session, asking))
            if made is None:
                self._made[session, asking] = {call}
            else:
                made.add(call)

    def get(self, session: int, call: int) -> M | None:
        """Finds a call that has no answer; None if it has one."""
        return self._asked.get((session, call))

    def pop(self, session: int, call: int) -> M | None:
        """Removes a call that is answered or not wanted; None if it was before."""
        asked = self._asked.pop((session, call), None)
        if asked is not None and asked.asking:
            key = session, asked.asking
            made = self._made[key]
            made.discard(call)
            if not made:
                del self._made[key]
        return asked

    def made(self, session: int, asking: int) -> list[int]:
        """Lists the calls that a call has made, in order."""
        return sorted(self._made.get((session, asking), ()))

    def of(self, session: int) -> list[int]:
        """Lists the calls of a worker that have no answer."""
        return [call for holder, call in self._asked if holder == session]
