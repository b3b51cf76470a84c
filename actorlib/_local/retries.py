"""Which calls are sent again: after the actor's death, or what the method raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from actorlib._options import ActorOptions


class Retries(NamedTuple):
    """How often a call may be sent again, and after what.

    Attributes:
        times: How often; -1 always.
        exceptions: Which exceptions of the method are retried: all, none or these.
    """

    times: int
    exceptions: bool | tuple[type[Exception], ...] = False

    @property
    def depends_on_error(self) -> bool:
        """Whether the exception itself has to be looked at."""
        return bool(self.times) and not isinstance(self.exceptions, bool)

    @property
    def one_less(self) -> Retries:
        """What is left after one more time; -1 stays what it is."""
        return self._replace(times=self.times - 1) if self.times > 0 else self


def retries_of(
    options: ActorOptions,
    times: int | None = None,
    exceptions: bool | tuple[type[Exception], ...] | None = None,  # noqa: FBT001  # an option
) -> Retries | None:
    """What holds for calls of an actor; None if none is ever sent again.

    What is retried has to be kept until it is answered, so nothing is kept if the actor
    can neither be restarted nor exceptions are retried.

    Args:
        options: The actor's.
        times: What was said of the call itself, or of its method; None for nothing.
        exceptions: Likewise.
    """
    times = options.max_task_retries if times is None else times
    exceptions = options.retried if exceptions is None else exceptions
    if not times or not (options.max_restarts or exceptions):
        return None
    return Retries(times, exceptions)


def is_retried(retries: Retries, error: BaseException | None) -> bool:
    """Whether a call is sent again after what its method raised.

    Args:
        retries: What is left of its retries.
        error: What it raised; needed if ``depends_on_error``.
    """
    if not retries.times:
        return False
    if isinstance(retries.exceptions, bool):
        return retries.exceptions
    return isinstance(error, retries.exceptions)
