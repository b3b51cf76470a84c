"""Says of each call how often it is sent again, and until when it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId
    from actorlib._core.current_call import Deadline
    from actorlib._options.actor_options import ActorOptions
    from actorlib._owner.calls.deadlines import Clock

_FOR_THE_OWNER = frozenset({"retries", "mover"})
"""The headers that are not sent."""
Listed: TypeAlias = bool | tuple[type[Exception], ...] | None


class Retries(NamedTuple):
    """Says how often a call may be sent again, and after what.

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

    def after_error(self, error: BaseException | None) -> Retries | None:
        """What is left after the method has raised; None if the call is over.

        Args:
            error: What it raised; needed if ``depends_on_error``.
        """
        exceptions = self.exceptions
        if not isinstance(exceptions, bool):
            exceptions = isinstance(error, exceptions)
        return self._one_less() if exceptions else None

    def after_end(self, *, ran: bool) -> Retries | None:
        """What is left after the worker has ended; None if the call is lost.

        Only a call that ran pays. One that has not begun goes again at no cost, and so
        does one that is over and whose answer was lost.

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
    """Says what holds for calls of an actor; None if none is ever sent again.

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


class CallTerms(NamedTuple):
    """Holds for one call.

    Attributes:
        headers: What is sent to its worker.
        retries: How often it is sent again.
        deadline: When its time is over.
        mover: Gives another actor that may have the call if this one dies; None if no
            other may.
    """

    headers: Mapping[str, object] | None
    retries: Retries | None = None
    deadline: Deadline | None = None
    mover: Callable[[], ActorId | None] | None = None


class CallPolicy(NamedTuple):
    """Says what holds for the calls of one actor.

    Attributes:
        clock: Says whose time is over.
        where: Names one of the actor's methods, for messages.
        options: The actor's.
        ends_later: Whether a call of a method that is cancelled while it runs ends
            later, and says when, by the method's name.
        have_read: Has the worker read what it was sent, though a method runs there.
    """

    clock: Clock
    where: Callable[[str], str]
    options: ActorOptions
    ends_later: Callable[[str], bool]
    have_read: Callable[[], None]

    def terms_of(self, headers: Mapping[str, object], usual: CallTerms) -> CallTerms:
        """What holds for a call that has headers.

        Args:
            headers: What the caller says of this call alone.
            usual: What holds for a call without.
        """
        deadline = cast("Deadline | None", headers.get("deadline"))
        if _FOR_THE_OWNER.isdisjoint(headers):
            return CallTerms(headers, usual.retries, deadline)
        retries = usual.retries
        if "retries" in headers:
            times, listed = cast("tuple[int | None, Listed]", headers["retries"])
            retries = retries_of(self.options, times, listed)
        rest = {
            name: value for name, value in headers.items() if name not in _FOR_THE_OWNER
        }
        return CallTerms(rest, retries, deadline, cast("Any", headers.get("mover")))
