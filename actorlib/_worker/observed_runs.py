"""Tells middlewares of the calls that run in this worker, and the owner of each run.

The owner says who wants to be told (OBSERVE, or the START frame), and each call that is
to be told of has a header that says so. So calls without it pay nothing here.
"""

from __future__ import annotations

import itertools
import operator
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from actorlib._core.log import warn
from actorlib._core.middleware import Middlewares, ObservedCall, Outcome
from actorlib._core.observed_calls import SESSION_BITS, ObservedCalls
from actorlib._core.propagation import (
    OBSERVED,
    PROPAGATED,
    begin_observing,
    end_observing,
)
from actorlib._wire.messages import RAN
from actorlib._wire.serialization import decode
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from actorlib._core.engine import Engine
    from actorlib._core.middleware import Middleware, Observed
    from actorlib._core.tally import Status
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame

Copies: TypeAlias = "list[tuple[bytes, Middleware]]"
"""Middlewares that were loaded in a worker, each with how it was sent."""
_MOST_COPIES: Final = 100


class ObservedRun:
    """One run of a call's code.

    Args:
        report: Sends what the owner is told.
        method: The method, or what calls of the function are called.
        observed: What came with the call.
        told: The middlewares, and the call as they see it; None if there are none.
        run: Runs their code where the call's code runs: what ``before`` sets of context
            variables is set there, and ``after`` may put it back.
    """

    __slots__ = (
        "_began",
        "_method",
        "_observed",
        "_report",
        "_run",
        "_tokens",
        "_told",
    )

    def __init__(
        self,
        report: Callable[[Frame], None],
        method: str,
        observed: Observed,
        told: tuple[Middlewares, ObservedCall] | None,
        run: Callable[..., Any],
    ) -> None:
        self._report = report
        self._method = method
        self._observed = observed
        self._told = told
        self._run = run
        if told is not None:
            self._tokens: list[object] = run(told[0].before, told[1])
        self._began = time.monotonic()

    def end(self, error: BaseException | None, *, is_cancelled: bool = False) -> None:
        """The code has returned, or raised.

        Args:
            error: What it raised.
            is_cancelled: Whether that is as the call was cancelled.
        """
        ended = time.monotonic()
        status: Status = "ok"
        name = ""
        if is_cancelled or error is not None:
            status, name = _status_of(error, is_cancelled=is_cancelled)
        began, told = self._began, self._told
        if told is not None:
            outcome = Outcome(status, name, began, ended, 1)
            self._run(told[0].after, told[1], self._tokens, outcome)
        number, caller, made, _ = self._observed
        self._report(
            (RAN, number, self._method, caller, made, began, ended, status, name)
        )


def _status_of(
    error: BaseException | None, *, is_cancelled: bool
) -> tuple[Status, str]:
    kind = type(error)
    if (
        is_cancelled
        or kind is TaskCancelledError
        or kind.__name__ == "CancelledError"  # asyncio's, which few workers load
    ):
        return "cancelled", TaskCancelledError.__name__
    return "error", kind.__name__


class RunObserver:
    """Sees the runs of a worker, and the calls that its code makes.

    Args:
        engine: The engine of the worker.
        config: What the owner says of the worker.
        report: Sends a frame to the owner, at the latest with the answer that follows.
        middlewares: Those that the owner could pickle, each as bytes, pickled.
        copies: What was loaded here before, each with how it was sent; what is loaded
            is added.
    """

    def __init__(
        self,
        engine: Engine,
        config: ActorConfig,
        report: Callable[[Frame], None],
        middlewares: bytes,
        copies: Copies,
    ) -> None:
        self.report = report
        self._config = config
        self._is_actor = not config.runs_functions
        self._pickled = middlewares
        self._copies = copies
        self._loaded: Middlewares | None = None
        session = int.from_bytes(config.prefix[4:])
        self._calls = ObservedCalls(
            engine,
            itertools.count((session << SESSION_BITS) + 1),
            config.actor_id if self._is_actor else b"",
            self.told,
        )

    def begin(self) -> None:
        """Sees the calls that are made here, from now on."""
        if OBSERVED.name not in PROPAGATED:  # else the owner does so in this process
            begin_observing(self)
        self._calls.begin()

    def end(self) -> None:
        """Sees nothing any more but the end of what has begun."""
        self._calls.end()
        end_observing(self)

    def told(self) -> Middlewares:
        """The middlewares, which are loaded when there is something to tell."""
        if self._loaded is None:
            self._loaded = Middlewares(_load(self._pickled, self._copies), set())
        return self._loaded

    def run(
        self,
        headers: Mapping[str, Any],
        method: str,
        run: Callable[..., Any] = operator.call,
    ) -> ObservedRun:
        """Tells of a run that begins.

        Args:
            headers: Those of the call.
            method: The method, or what calls of the function are called.
            run: Runs code in the context of the call's code.
        """
        observed: Observed = headers["observed"]
        told = self.told()
        if not told.each:
            return ObservedRun(self.report, method, observed, None, run)
        number, caller, _, carrier = observed
        config, is_actor = self._config, self._is_actor
        call = ObservedCall(
            "worker",
            number,
            config.actor_id.hex() if is_actor else "",
            config.class_name if is_actor else "",
            config.name if is_actor else None,
            method,
            caller.hex(),
            is_stream="stream" in headers,
            carrier=carrier,
        )
        return ObservedRun(self.report, method, observed, (told, call), run)

    def sets_context(self, headers: Mapping[str, Any]) -> bool:
        """Whether the code of a call has to run in a context of its own."""
        return "variables" in headers or bool(self.told().each)

    def call(
        self,
        headers: Mapping[str, Any],
        name: str,
        run: Callable[..., Any] | None,
        method: Callable[..., object],
        args: list[Any] | tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> object:
        """Calls a plain method.

        Args:
            headers: Those of the call.
            name: The name of the method.
            run: Runs code in the context of the call; None for that of the thread.
            method: The method.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            BaseException: What it raised.
        """
        observed_run = self.run(headers, name, run or operator.call)
        try:
            if run is None:
                value = method(*args, **kwargs)
            else:
                value = run(method, *args, **kwargs)
        except BaseException as error:
            observed_run.end(error)
            raise
        observed_run.end(None)
        return value

    async def awaited(
        self, headers: Mapping[str, Any], name: str, work: Callable[[], Awaitable[Any]]
    ) -> object:
        """Starts an ``async def``, in the context of the task, and awaits it.

        Raises:
            BaseException: What it raised.
        """
        run = self.run(headers, name)
        try:
            value = await work()
        except BaseException as error:
            run.end(error)
            raise
        run.end(None)
        return value


def _load(pickled: bytes, copies: Copies) -> list[Middleware]:
    """Loads middlewares; one whose copy is there stays that, with all that it knows."""
    loaded: list[Middleware] = []
    free = [*copies]
    for sent in cast("list[bytes]", decode(pickled)):
        places = [place for place, (how, _) in enumerate(free) if how == sent]
        try:
            copy = free.pop(places[0])[1] if places else decode(sent)
        except Exception as error:  # noqa: BLE001  # the user's classes
            warn("a middleware cannot be loaded in a worker: %r", error)
            continue
        loaded.append(copy)
        if not places:
            copies.append((sent, copy))
    del copies[:-_MOST_COPIES]
    return loaded
