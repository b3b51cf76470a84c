"""Tells middlewares of the calls that run in this worker, and the owner of each run.

The owner says who wants to be told (OBSERVE, or the START frame), and each call that is
to be told of has a header that says so. So calls without it pay nothing here.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.engine import Engine
    from actorlib._core.middleware import Middleware, Observed
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib._worker.call_run import CallRun

Copies: TypeAlias = "list[tuple[bytes, Middleware]]"
"""Middlewares that were loaded in a worker, each with how it was sent."""
_MOST_COPIES: Final = 100


@final
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
        self._report = report
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
            self._middlewares,
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

    @property
    def has_middlewares(self) -> bool:
        """Whether any middleware has a copy here."""
        return bool(self._middlewares().each)

    def _middlewares(self) -> Middlewares:
        """Gives the middlewares, which are loaded when there is something to tell."""
        if self._loaded is None:
            self._loaded = Middlewares(_load(self._pickled, self._copies), set())
        return self._loaded

    def started(self, run: CallRun) -> Callable[[CallRun], None] | None:
        """Tells of a run that begins; gives what tells of its end.

        None if the call is not to be told of.
        """
        observed: Observed | None = (run.headers or {}).get("observed")
        if observed is None:
            return None
        method = run.name.rpartition(":")[2]  # a function has its number before it
        middlewares = self._middlewares()
        if not middlewares.each:
            return ObservedRun(self._report, method, observed).finished
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
            is_stream=run.is_stream,
            carrier=carrier,
        )
        tokens = run.in_context()(middlewares.before, call)
        under_way = middlewares, call, tokens
        return ObservedRun(self._report, method, observed, under_way).finished


@final
class ObservedRun:
    """A run that was told of, and has not ended.

    Args:
        report: Sends what the owner is told.
        method: The method, or what calls of the function are called.
        observed: What came with the call.
        under_way: The middlewares, the call as they see it, and their tokens. What
            ``before`` sets of context variables is set where the call's code runs, and
            ``after`` may put it back. Default: None, where there are no middlewares.
    """

    __slots__ = ("_method", "_observed", "_report", "_under_way")

    def __init__(
        self,
        report: Callable[[Frame], None],
        method: str,
        observed: Observed,
        under_way: tuple[Middlewares, ObservedCall, list[object]] | None = None,
    ) -> None:
        self._report = report
        self._method = method
        self._observed = observed
        self._under_way = under_way

    def finished(self, run: CallRun) -> None:
        """Tells of the end."""
        began, ended, status, error = run.began, run.ended, run.status, run.error
        if self._under_way is not None:
            middlewares, call, tokens = self._under_way
            outcome = Outcome(status, error, began, ended, 1)
            run.in_context()(middlewares.after, call, tokens, outcome)
        number, caller, made, _ = self._observed
        self._report(
            (RAN, number, self._method, caller, made, began, ended, status, error)
        )


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
