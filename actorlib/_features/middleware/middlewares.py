"""Tells middlewares of calls, and keeps calls from what those raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._futures.tally import Tally
    from actorlib._options.call_events import Middleware, ObservedCall, Outcome, Run
    from actorlib._options.callee import Callee


class CallCounter(Protocol):
    """A middleware of the program that need not see each call, but has to count it."""

    def tally_of(self, callee: Callee) -> Tally | None:
        """Is asked before a call of the program is made, if that gives no stream.

        Args:
            callee: What is called.

        Returns:
            What counts it, and as many further calls of the callee as its ``left``
            says; or None, to be told of this call as of any.
        """
        ...


_FAILED: Final = object()


class Middlewares:
    """Tells middlewares of calls, and keeps calls from what those raise.

    Args:
        each: The middlewares.
        failed: Those of which it was logged that they raise, by their ids.

    Attributes:
        each: The same.
    """

    def __init__(self, each: Iterable[Middleware], failed: set[int]) -> None:
        self.each = tuple(each)
        self._listeners: tuple[Any, ...] = tuple(
            one for one in self.each if callable(getattr(one, "ran", None))
        )
        self._failed = failed

    @property
    def counter(self) -> CallCounter | None:
        """The only one that there is, if it has calls counted."""
        alone: Any = self.each[0] if len(self.each) == 1 else None
        return alone if callable(getattr(alone, "tally_of", None)) else None

    def before(self, call: ObservedCall) -> list[object]:
        """Tells of a call that begins; gives what ``after`` takes."""
        tokens: list[object] = []
        for middleware in self.each:
            try:
                tokens.append(middleware.before(call))
            except Exception as error:  # noqa: BLE001  # the user's code
                tokens.append(_FAILED)
                self.note(middleware, "before", error)
        return tokens

    def after(self, call: ObservedCall, tokens: list[object], outcome: Outcome) -> None:
        """Tells of a call that is over."""
        for middleware, token in zip(self.each, tokens, strict=True):
            if token is not _FAILED:
                try:
                    middleware.after(call, token, outcome)
                except Exception as error:  # noqa: BLE001  # likewise
                    self.note(middleware, "after", error)

    def ran(self, run: Run) -> None:
        """Tells those who listen of a run."""
        for listener in self._listeners:
            try:
                listener.ran(run)
            except Exception as error:  # noqa: BLE001  # likewise
                self.note(listener, "ran", error)

    def note(self, middleware: object, method: str, error: Exception) -> None:
        """Logs that a middleware has raised, the first time that it does."""
        if id(middleware) not in self._failed:
            from actorlib._base.log import warn  # noqa: PLC0415  # loads logging

            self._failed.add(id(middleware))
            warn(
                "%s.%s() of a middleware raised %r: the call goes on, and this is said "
                "once",
                type(middleware).__qualname__,
                method,
                error,
            )
