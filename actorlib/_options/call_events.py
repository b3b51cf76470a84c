"""The events of a call that users' code may consume.

``actorlib.observe`` describes them for users. ``_features/middleware`` produces them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

from actorlib._base.public import public
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from actorlib._base.outcomes import Status

Side: TypeAlias = Literal["caller", "worker"]
Observed: TypeAlias = tuple[int, bytes, float, dict[str, str]]
"""What a call carries to its worker: its number, the id of the calling actor or
nothing, the time of the call, and the carrier of the caller's side."""


@public("actorlib.observe")
@dataclass(eq=False, slots=True)
class ObservedCall:
    """A call as a middleware sees it, on one of its two sides.

    Attributes:
        side: ``"caller"`` or ``"worker"``.
        number: Its number, the same on both sides, and unique in the runtime.
        actor_id: The id in hex of the called actor; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        method: The name of the method, or of the function.
        caller_id: The id in hex of the calling actor; empty if the caller is the
            program, or a function.
        is_stream: Whether it is the call of a generator.
        carrier: Text by name that is sent from the caller's side to the worker's, such
            as a W3C trace context. Text that is added on the worker's side stays there.
    """

    side: Side
    number: int
    actor_id: str
    class_name: str
    actor_name: str | None
    method: str
    caller_id: str
    is_stream: bool
    carrier: dict[str, str]

    def __repr__(self) -> str:
        what = f"{self.class_name}.{self.method}" if self.class_name else self.method
        return f"<ObservedCall {self.number} of {what}, {self.side}>"


@public("actorlib.observe")
class Outcome(NamedTuple):
    """How a call ended, on one of its two sides.

    Attributes:
        status: ``"ok"``; ``"error"``; ``"cancelled"``, by its deadline too; or
            ``"lost"``, as the process that it was sent to ended.
        error: The name of the error's class, or empty.
        began: When its code began to run, the last time, by ``time.monotonic()``, which
            is the same in all processes of a machine. None on the caller's side if it
            never began or its worker could not report it, and in workers for calls that
            they make.
        ended: When its code ended, by the same clock, or None.
        runs: How often its code ran to its end: more than once if it was retried after
            an error. Runs that ended with their process are not counted.
    """

    status: Status
    error: str = ""
    began: float | None = None
    ended: float | None = None
    runs: int = 0


@public("actorlib.observe")
class Run(NamedTuple):
    """A run of a call's code in a worker, as the worker reported it.

    Times are those of ``time.monotonic()``.

    Attributes:
        number: The number of the call.
        actor_id: The id in hex of the actor that ran it; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        method: The name of the method, or of the function.
        caller_id: The id in hex of the calling actor; empty if the caller was the
            program, or a function.
        made: When the call was made.
        began: When its code began to run.
        ended: When its code ended.
        status: ``"ok"``, ``"error"`` or ``"cancelled"``.
        error: The name of the error's class, or empty.
        pid: The process that ran it.
        is_own: Whether the program itself made the call, and not a worker.
    """

    number: int
    actor_id: str
    class_name: str
    actor_name: str | None
    method: str
    caller_id: str
    made: float
    began: float
    ended: float
    status: Status
    error: str
    pid: int
    is_own: bool = False


@public("actorlib.observe")
class Middleware(Protocol):
    """An object that sees each call on both of its sides; see ``actorlib.observe``."""

    def before(self, call: ObservedCall) -> object:
        """Is called before a call is sent, and in its worker before its code runs.

        Args:
            call: The call. On the caller's side, entries may be added to its
                ``carrier``.

        Returns:
            Any value, which ``after`` gets as its token.
        """
        ...

    def after(self, call: ObservedCall, token: Any, outcome: Outcome) -> None:
        """Is called when a call has its answer, and in its worker when its code ended.

        It is not called where ``before`` has raised.

        Args:
            call: The same object.
            token: The value that ``before`` returned.
            outcome: How it ended.
        """
        ...


@public("actorlib.observe")
class RunListener(Protocol):
    """A middleware of the program that also sees the runs of all workers.

    A middleware is one if it has this method. A worker reports a run before it answers
    the call. Runs that ended with their process are not reported.
    """

    def ran(self, run: Run) -> None:
        """Is called for each run, on the thread of the runtime's loop.

        Args:
            run: The run of a call that the program or a worker has made.
        """
        ...


def checked_middleware(value: object) -> Middleware:
    for method in ("before", "after"):
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise TypeError(
                "a middleware is an object with the methods before(call) and "
                f"after(call, token, outcome): {value!r} has no {method}()"
                if not isinstance(value, type)
                else f"a middleware is an object: make one of the class {value!r}"
            )
    return cast("Middleware", value)
