"""``ActorPool`` with blocking waits."""

from __future__ import annotations

from typing import Any, TypeVar

import actorlib

__all__ = ["ActorPool"]

A = TypeVar("A")


class ActorPool(actorlib.ActorPool[A]):
    """Distributes values over actors, one call per actor at a time.

    ``for value in pool.map(lambda a, v: a.double.remote(v), range(100))``. See
    ``actorlib.ActorPool``.
    """

    def get_next(  # pyright: ignore[reportIncompatibleMethodOverride]  # it blocks
        self,
        timeout: float | None = None,
        ignore_if_timedout: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
    ) -> Any:
        """Returns the next result, in the order of the values.

        Args:
            timeout: Seconds to wait, or None.
            ignore_if_timedout: Skips this result if it is not ready in time.

        Raises:
            StopIteration: There is no further value.
            GetTimeoutError: It was not ready in time. It is a TimeoutError.
            Exception: The error of the call.
        """
        skips = ignore_if_timedout
        return super().get_next(timeout, ignore_if_timedout=skips).get()

    def get_next_unordered(  # pyright: ignore[reportIncompatibleMethodOverride]  # it blocks
        self,
        timeout: float | None = None,
        ignore_if_timedout: bool = False,  # noqa: FBT001, FBT002  # as above
    ) -> Any:
        """Returns the first result that is ready; see ``get_next``."""
        skips = ignore_if_timedout
        return super().get_next_unordered(timeout, ignore_if_timedout=skips).get()
