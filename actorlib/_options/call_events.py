"""The events of a call that users' code may consume: what it is given, and when.

``actorlib.observe`` explains them to users. ``_features/middleware`` produces them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from actorlib._base.public import public
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from actorlib._base.outcomes import Status

Side: TypeAlias = Literal["caller", "worker"]
Observed: TypeAlias = tuple[int, bytes, float, dict[str, str]]
"""What crosses with a call: its number, the id of the actor that makes it or nothing,
when it was made, and what the caller's side has added."""


@public("actorlib.observe")
@dataclass(eq=False, slots=True)
class ObservedCall:
    """A call as a middleware sees it, on one of its two sides.

    Attributes:
        side: ``"caller"`` or ``"worker"``.
        number: The same on both sides, and of no other call of the runtime.
        actor_id: The id in hex of the actor that it is for; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        method: The name of the method, or what calls of the function are called.
        caller_id: The id in hex of the actor that makes it; empty if that is the
            program, or a function.
        is_stream: Whether it gives items.
        carrier: Text by name that crosses from the caller's side to the worker's, such
            as a W3C trace context. What is added on the worker's side stays there.
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
        status: ``"ok"``; ``"error"``; ``"cancelled"``, also by its deadline; or
            ``"lost"``, as the process that it was sent to ended.
        error: The name of the error's class, if there was one.
        began: When its code began to run, the last time, by ``time.monotonic()``, which
            the processes of a machine share. None on the caller's side if it never
            began, or if its worker did not come to say so; in workers, of calls that
            they make.
        ended: When its code ended, likewise.
        runs: How often its code ran to its end: more than once if it was retried after
            an error. Runs that died with their process are not counted.
    """

    status: Status
    error: str = ""
    began: float | None = None
    ended: float | None = None
    runs: int = 0


@public("actorlib.observe")
class Run(NamedTuple):
    """A run of a call's code in a worker, as that has told its program.

    Attributes:
        number: That of the call.
        actor_id: The id in hex of the actor that ran it; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        method: The name of the method, or what calls of the function are called.
        caller_id: The id in hex of the actor that made the call; empty if that was the
            program, or a function.
        made: When the call was made, by ``time.monotonic()``.
        began: When its code began to run, likewise.
        ended: When that ended, likewise.
        status: ``"ok"``, ``"error"`` or ``"cancelled"``.
        error: The name of the error's class, if there was one.
        pid: The process that ran it.
        is_own: Whether the program itself made the call, and no worker.
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
    """What is told of each call, on both of its sides; see ``actorlib.observe``."""

    def before(self, call: ObservedCall) -> object:
        """Is called before a call leaves, or before its code runs.

        Args:
            call: The call. On the caller's side its ``carrier`` may be added to.

        Returns:
            Whatever ``after`` is to get.
        """
        ...

    def after(self, call: ObservedCall, token: Any, outcome: Outcome) -> None:
        """Is called when a call has its answer, or when its code has run.

        Not where ``before`` has raised.

        Args:
            call: The same object.
            token: What ``before`` returned.
            outcome: How it ended.
        """
        ...


@public("actorlib.observe")
class RunListener(Protocol):
    """A middleware of the program that is also told what ran, in every worker.

    A middleware is one if it has this method. A worker tells of a run before it answers
    the call; what died with its process is not told of.
    """

    def ran(self, run: Run) -> None:
        """Is called on the thread of the runtime's loop, for each run.

        Args:
            run: What ran: calls of the program, and those that workers make.
        """
        ...


def checked_middleware(value: object) -> Middleware:
    """Gives a middleware.

    Raises:
        TypeError: It is none.
    """
    made: Any = value
    for method in ("before", "after"):
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise TypeError(
                "a middleware is an object with the methods before(call) and "
                f"after(call, token, outcome): {value!r} has no {method}()"
                if not isinstance(value, type)
                else f"a middleware is an object: make one of the class {value!r}"
            )
    middleware: Middleware = made
    return middleware
