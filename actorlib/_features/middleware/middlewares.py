"""Calls middlewares, and protects calls from their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._futures.tally import Tally
    from actorlib._options.call_events import Middleware, ObservedCall, Outcome, Run
    from actorlib._options.callee import Callee


class CallCounter(Protocol):
    """A middleware of the program that counts calls without seeing each of them."""

    def tally_of(self, callee: Callee) -> Tally | None:
        """Is called before a call of the program that returns no stream.

        Returns:
            The tally that counts this call and the next ``left`` calls of the callee;
            or None, to see this call like any other.
        """
        ...


_FAILED: Final = object()


class Middlewares:
    """Calls middlewares, and protects calls from their errors.

    ``failed`` has the ids of middlewares whose errors were logged.
    """

    def __init__(self, each: Iterable[Middleware], failed: set[int]) -> None:
        self.each = tuple(each)
        self._listeners: tuple[Any, ...] = tuple(
            one for one in self.each if callable(getattr(one, "ran", None))
        )
        self._failed = failed

    @property
    def counter(self) -> CallCounter | None:
        """The only middleware, if it counts calls."""
        alone: Any = self.each[0] if len(self.each) == 1 else None
        return alone if callable(getattr(alone, "tally_of", None)) else None

    def before(self, call: ObservedCall) -> list[object]:
        """Reports the begin of a call; returns the tokens for ``after``."""
        tokens: list[object] = []
        for middleware in self.each:
            try:
                tokens.append(middleware.before(call))
            except Exception as error:  # noqa: BLE001  # the user's code
                tokens.append(_FAILED)
                self.note(middleware, "before", error)
        return tokens

    def after(self, call: ObservedCall, tokens: list[object], outcome: Outcome) -> None:
        for middleware, token in zip(self.each, tokens, strict=True):
            if token is not _FAILED:
                try:
                    middleware.after(call, token, outcome)
                except Exception as error:  # noqa: BLE001  # the user's code
                    self.note(middleware, "after", error)

    def ran(self, run: Run) -> None:
        """Reports a run to the middlewares that have ``ran``."""
        for listener in self._listeners:
            try:
                listener.ran(run)
            except Exception as error:  # noqa: BLE001  # the user's code
                self.note(listener, "ran", error)

    def note(self, middleware: object, method: str, error: Exception) -> None:
        """Logs the first error of a middleware."""
        if id(middleware) not in self._failed:
            from actorlib._base.log import warn  # noqa: PLC0415  # loads logging

            self._failed.add(id(middleware))
            warn(
                "%s.%s() of a middleware raised %r: the call goes on, and this is "
                "logged once",
                type(middleware).__qualname__,
                method,
                error,
            )
