"""Retries and deadlines of the calls of one actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId
    from actorlib._core.current_call import Deadline
    from actorlib._options.actor_options import ActorOptions

_FOR_THE_OWNER = frozenset({"retries", "mover"})
"""The headers that are not sent."""
Listed: TypeAlias = bool | tuple[type[Exception], ...] | None


class Retries(NamedTuple):
    """How often a call may be sent again, and after which failures.

    Attributes:
        times: The number of retries; -1 for any number.
        exceptions: Which exceptions of the method are retried: all, none or these.
    """

    times: int
    exceptions: bool | tuple[type[Exception], ...] = False

    @property
    def depends_on_error(self) -> bool:
        """Whether the exception itself has to be loaded for the decision."""
        return bool(self.times) and not isinstance(self.exceptions, bool)

    def after_error(self, error: BaseException | None) -> Retries | None:
        """Returns what is left after the method has raised; None if the call is over.

        Args:
            error: The exception; needed if ``depends_on_error``.
        """
        exceptions = self.exceptions
        if not isinstance(exceptions, bool):
            exceptions = isinstance(error, exceptions)
        return self._one_less() if exceptions else None

    def after_end(self, *, ran: bool) -> Retries | None:
        """Returns what is left after the worker has ended; None if the call is lost.

        Only a call that ran costs a retry. A call that has not begun is sent again for
        free, and so is one that is over and whose answer was lost.

        Args:
            ran: Whether it ran when the worker ended.
        """
        return self._one_less() if ran else self

    def _one_less(self) -> Retries | None:
        if not self.times:
            return None
        return self._replace(times=self.times - 1) if self.times > 0 else self


def retries_of(
    options: ActorOptions,
    times: int | None = None,
    exceptions: bool | tuple[type[Exception], ...] | None = None,  # noqa: FBT001  # an option
) -> Retries | None:
    """Returns the retries of an actor's calls; None if none is ever sent again.

    A call that may be retried has to be kept until it is answered. So nothing is kept
    if the actor cannot be restarted and exceptions are not retried.

    Args:
        options: The options of the actor.
        times: The number that the call or its method sets; None for the actor's.
        exceptions: The exceptions that the call or its method sets; None for the
            actor's.
    """
    times = options.max_task_retries if times is None else times
    exceptions = options.retried if exceptions is None else exceptions
    if not times or not (options.max_restarts or exceptions):
        return None
    return Retries(times, exceptions)


class CallTerms(NamedTuple):
    """The headers, retries and deadline of one call.

    Attributes:
        headers: The headers that are sent to the worker.
        retries: How often it may be sent again.
        deadline: The time after which it is stopped.
        mover: Returns another actor that may get the call if this one dies; None if
            none may.
    """

    headers: Mapping[str, object] | None
    retries: Retries | None = None
    deadline: Deadline | None = None
    mover: Callable[[], ActorId | None] | None = None


def terms_of(
    headers: Mapping[str, object], usual: CallTerms, options: ActorOptions
) -> CallTerms:
    """Splits the headers of a call into retries, deadline and the rest.

    Args:
        headers: The headers that the caller sets for this call.
        usual: The terms of a call without headers.
        options: The options of the actor.
    """
    deadline = cast("Deadline | None", headers.get("deadline"))
    if _FOR_THE_OWNER.isdisjoint(headers):
        return CallTerms(headers, usual.retries, deadline)
    retries = usual.retries
    if "retries" in headers:
        times, listed = cast("tuple[int | None, Listed]", headers["retries"])
        retries = retries_of(options, times, listed)
    rest = {
        name: value for name, value in headers.items() if name not in _FOR_THE_OWNER
    }
    return CallTerms(rest, retries, deadline, cast("Any", headers.get("mover")))
