"""What holds for each call of one actor: how often it is sent again, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from actorlib._owner.restart_policy import Retries, retries_of
from actorlib._wire.call_headers import late_error
from actorlib._wire.serialization import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.current_call import Deadline
    from actorlib._owner.deadlines import Clock, Timed
    from actorlib.exceptions import DeadlineExceededError

Listed: TypeAlias = bool | tuple[type[Exception], ...] | None


class Term(NamedTuple):
    """What holds for one call.

    Attributes:
        told: What its worker is told of it.
        retries: How often it is sent again.
        deadline: When its time is over.
    """

    told: Mapping[str, object] | None
    retries: Retries | None
    deadline: Deadline | None


class CancelMade(Protocol):
    """Cancels what a call of a worker has made; see Relay."""

    def __call__(self, session: int, asking: int, *, by_force: bool = False) -> None:
        """Cancels what a call has made, by the numbers of its session and its own."""
        ...


class CallPolicy:
    """What holds for the calls of one actor.

    Args:
        clock: Says whose time is over.
        where: Names one of the actor's methods, for messages.
        options: The actor's.
        ends_later: Whether a call of a method that is cancelled while it runs ends
            later, and says when, by the method's name.
        cancel_made: Cancels what a call of the actor has made, by the number of the
            session and its own.

    Attributes:
        clock: See above.
        where: See above.
        ends_later: See above.
        usual: How often a call is sent again of which nothing is said.
        cancel_made: See above.
    """

    def __init__(
        self,
        clock: Clock,
        where: Callable[[str], str],
        options: ActorOptions,
        ends_later: Callable[[str], bool],
        cancel_made: CancelMade,
    ) -> None:
        self.clock = clock
        self.ends_later = ends_later
        self.usual = retries_of(options)
        self.cancel_made = cancel_made
        self.where = where
        self._options = options

    def of(self, told: Mapping[str, object]) -> Term:
        """What holds for a call of which something is said."""
        deadline = cast("Deadline | None", told.get("deadline"))
        if "retries" not in told:
            return Term(told, self.usual, deadline)
        times, listed = cast("tuple[int | None, Listed]", told["retries"])
        rest = {name: value for name, value in told.items() if name != "retries"}
        return Term(rest, retries_of(self._options, times, listed), deadline)

    def late(self, timed: Timed) -> DeadlineExceededError:
        """The error of a call whose time is over."""
        return late_error(self.where(timed.method), timed.deadline)


class FunctionCallPolicy(CallPolicy):
    """What holds for the calls of a worker of functions.

    Whoever sends them knows until when, and how often.
    """

    def of(self, told: Mapping[str, object]) -> Term:
        """What holds for a call of which something is said."""
        return Term(told, None, None)


def opened(told: dict[str, Any]) -> dict[str, Any]:
    """What a worker said of a call, with the classes of exceptions loaded.

    Raises:
        Exception: Whatever loading them raised.
    """
    times, listed = told.get("retries", (None, None))
    if not isinstance(listed, bytes):
        return told
    return {**told, "retries": (times, decode(listed))}
