"""Counts calls by how they ended, without a look at each of them.

One tally is for many calls. The ref of each wakes it as it is filled, in the place of
its first waiter: a done callback, which the loop has to run, takes longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._base.outcomes import status_of_ref

if TYPE_CHECKING:
    import asyncio

    from actorlib._base.outcomes import Status


@final
class Tally:
    """Counts calls by how they ended.

    Attributes:
        ok: How many have a value.
        others: How many ended otherwise, by how.
        left: How many calls it counts before its counter is asked again; see
            CallCounter.
    """

    __slots__ = ("left", "ok", "others")

    def __init__(self) -> None:
        self.left = 0
        self.ok = 0
        self.others: dict[Status, int] = {"error": 0, "cancelled": 0, "lost": 0}

    def outcomes(self) -> dict[Status, int]:
        """How many ended how."""
        return {"ok": self.ok, **self.others}

    def add(self, status: Status) -> None:
        """Counts a call of which somebody else knows how it ended."""
        if status == "ok":
            self.ok += 1
        else:
            self.others[status] += 1

    def count(self, ref: asyncio.Future[Any]) -> None:
        """Counts a call whose ref is done; may be a done callback."""
        self.add(status_of_ref(ref)[0])

    def done(self) -> bool:
        """That it wants to be woken, as one that waits for a ref says."""
        return False

    def set_result(self, _: None) -> None:
        """Counts a call whose ref has got its value."""
        self.ok += 1

    def refuse(self) -> None:
        """Counts a call that cannot be made."""
        self.others["error"] += 1


@final
class TalliedWait:
    """Counts one call, whose ref somebody waits for, and ends that wait.

    A ref that goes undone, as nobody holds it any more, takes this with it: then its
    call was cancelled.

    Args:
        tally: Counts the call.
        waiter: What is ended when the ref is done.

    Attributes:
        waiter: The same, or another one; None after a wait that was cancelled.
    """

    __slots__ = ("_tally", "waiter")

    def __init__(self, tally: Tally, waiter: Any) -> None:
        self._tally: Tally | None = tally
        self.waiter = waiter

    def done(self) -> bool:
        """Whether the call was counted."""
        return self._tally is None

    def set_result(self, _: None) -> None:
        """Counts a call whose ref has got its value."""
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.ok += 1
        self._wake()

    def count(self, ref: asyncio.Future[Any]) -> None:
        """Counts a call whose ref is done without a value."""
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
