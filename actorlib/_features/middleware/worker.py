"""Tells middlewares of the calls that run in this worker, and the owner of each run.

The owner sends the middlewares (OBSERVE), and each call that is to be told of has a
header that says so. So calls without it pay nothing here.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

from actorlib._base.ids import LINKED
from actorlib._base.log import warn
from actorlib._features.middleware.middlewares import Middlewares
from actorlib._features.middleware.observed_calls import ObservedCalls
from actorlib._options.call_events import ObservedCall, Outcome
from actorlib._wire.messages import RAN
from actorlib._wire.serialization import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from actorlib._base.outcomes import Status
    from actorlib._core.engine import Engine
    from actorlib._options.call_events import Middleware, Observed
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame

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
    """

    def __init__(
        self,
        engine: Engine,
        config: ActorConfig,
        report: Callable[[Frame], None],
    ) -> None:
        self._report = report
        self._config = config
        self._is_actor = not config.runs_functions
        self._pickled = b""
        self._copies: Copies = []
        self._loaded: Middlewares | None = None
        session = int.from_bytes(config.prefix[4:])
        self._calls = ObservedCalls(
            engine,
            itertools.count(session * LINKED + 1),
            config.actor_id if self._is_actor else b"",
            lambda: self._middlewares,
        )

    def switch(self, middlewares: bytes) -> bool:
        """Tells these middlewares from now on, and of the end of what has begun others.

        Args:
            middlewares: Those that the owner could pickle, each as bytes, pickled;
                empty for none.

        Returns:
            Whether calls are told of.
        """
        if self._pickled:
            self._calls.end()
        self._pickled, self._loaded = middlewares, None
        if middlewares:
            self._calls.begin()
        return bool(middlewares)

    @property
    def sets_context(self) -> bool:
        """Whether any middleware has a copy here, which may set context variables."""
        return bool(self._middlewares.each)

    @property
    def _middlewares(self) -> Middlewares:
        """The middlewares, which are loaded when there is something to tell."""
        if self._loaded is None:
            self._loaded = Middlewares(_load(self._pickled, self._copies), set())
        return self._loaded

    def started(
        self, name: str, headers: Mapping[str, Any], context: Context | None
    ) -> Callable[[Status, str, float, float], None] | None:
        """Tells of a run that begins.

        Args:
            name: The method, or the function with its number before it.
            headers: The headers of the call.
            context: What its code runs in; None for the context of the thread.

        Returns:
            What tells of its end; None if the call is not to be told of.
        """
        if "observed" not in headers:
            return None
        observed: Observed = headers["observed"]
        number, caller, made, _ = observed
        method = name.rpartition(":")[2]
        middlewares = self._middlewares
        run = operator.call if context is None else context.run
        call: ObservedCall | None = None
        tokens: list[object] = []
        if middlewares.each:
            call = self._call(observed, method, is_stream="stream" in headers)
            # What this sets of context variables is set where the call's code runs, and
            # ``after`` may put it back.
            tokens = run(middlewares.before, call)

        def finished(status: Status, error: str, began: float, ended: float) -> None:
            if call is not None:
                outcome = Outcome(status, error, began, ended, 1)
                run(middlewares.after, call, tokens, outcome)
            self._report(
                (RAN, number, method, caller, made, began, ended, status, error)
            )

        return finished

    def _call(
        self, observed: Observed, method: str, *, is_stream: bool
    ) -> ObservedCall:
        number, caller, _, carrier = observed
        config, is_actor = self._config, self._is_actor
        return ObservedCall(
            "worker",
            number,
            config.actor_id.hex() if is_actor else "",
            config.class_name if is_actor else "",
            config.name if is_actor else None,
            method,
            caller.hex(),
            is_stream=is_stream,
            carrier=carrier,
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
