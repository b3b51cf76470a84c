"""A pool whose waits block."""

from __future__ import annotations

from typing import Any, TypeVar

import actorlib

__all__ = ["ActorPool"]

A = TypeVar("A")


class ActorPool(actorlib.ActorPool[A]):
    """Spreads work over actors: each has one call at a time, and the rest waits.

    ``for value in pool.map(lambda a, v: a.double.remote(v), range(100))``; else see
    ``actorlib.ActorPool``.
    """

    def get_next(  # pyright: ignore[reportIncompatibleMethodOverride]  # pyright misses it among those by place
        self,
        timeout: float | None = None,
        ignore_if_timedout: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
    ) -> Any:
        """Gives the next result, in the order in which the values were given.

        Args:
            timeout: Seconds to wait at the most, or None.
            ignore_if_timedout: Skips this result if it does not come in time.

        Raises:
            StopIteration: No value is under way.
            GetTimeoutError: It did not come in time. It is a TimeoutError.
            Exception: What the call raised.
        """
        skips = ignore_if_timedout
        return super().get_next(timeout, ignore_if_timedout=skips).get()

    def get_next_unordered(  # pyright: ignore[reportIncompatibleMethodOverride]  # likewise
        self,
        timeout: float | None = None,
        ignore_if_timedout: bool = False,  # noqa: FBT001, FBT002  # likewise
    ) -> Any:
        """Gives whichever result comes first; else like ``get_next``."""
        skips = ignore_if_timedout
        return super().get_next_unordered(timeout, ignore_if_timedout=skips).get()
