"""Counts calls by their outcome, without a separate callback for each.

One tally counts many calls. It takes the place of the first waiter of each ref, which
the ref wakes when it is filled. A done callback, which the loop has to run, takes
longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._base.outcomes import status_of_ref

if TYPE_CHECKING:
    import asyncio

    from actorlib._base.outcomes import Status


@final
class Tally:
    """Counts calls by their outcome.

    Attributes:
        ok: The number of calls that have a value.
        others: The number of calls with another outcome, by outcome.
        left: The number of further calls to count before its counter is consulted
            again; see CallCounter.
    """

    __slots__ = ("left", "ok", "others")

    def __init__(self) -> None:
        self.left = 0
        self.ok = 0
        self.others: dict[Status, int] = {"error": 0, "cancelled": 0, "lost": 0}

    def outcomes(self) -> dict[Status, int]:
        return {"ok": self.ok, **self.others}

    def add(self, status: Status) -> None:
        """Counts a call whose outcome the caller has found."""
        if status == "ok":
            self.ok += 1
        else:
            self.others[status] += 1

    def count(self, ref: asyncio.Future[Any]) -> None:
        """Counts a call whose ref is done; may be a done callback."""
        self.add(status_of_ref(ref)[0])

    def done(self) -> bool:
        """Returns False, so that the ref wakes it like any other waiter."""
        return False

    def set_result(self, _: None) -> None:
        self.ok += 1

    def refuse(self) -> None:
        self.others["error"] += 1


@final
class TalliedWait:
    """Counts one call whose ref a task waits for, and ends that wait.

    If the ref is dropped before it is done, this object is dropped with it. Then its
    call was cancelled.

    Attributes:
        waiter: The wait to end when the ref is done; None after a cancelled wait.
    """

    __slots__ = ("_tally", "waiter")

    def __init__(self, tally: Tally, waiter: Any) -> None:
        self._tally: Tally | None = tally
        self.waiter = waiter

    def done(self) -> bool:
        return self._tally is None

    def set_result(self, _: None) -> None:
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.ok += 1
        self._wake()

    def count(self, ref: asyncio.Future[Any]) -> None:
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.count(ref)
        self._wake()

    def _wake(self) -> None:
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __del__(self) -> None:
        if self._tally is not None:
            self._tally.others["cancelled"] += 1
