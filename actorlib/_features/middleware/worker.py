"""Calls middlewares for the runs in this worker, and reports each run to the owner.

The owner sends the middlewares. Each call to be reported has a header for it,
so calls without the header cost nothing here.
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
"""Middlewares that were loaded in a worker, each with its pickle."""
_MOST_COPIES: Final = 100


def attach(engine: Any, config: ActorConfig) -> RunObserver:
    """Attaches middlewares to the engine of a worker; see ``_worker/features.py``."""
    return RunObserver(engine, config, engine.gather)


@final
class RunObserver:
    """Observes the runs of a worker, and the calls of its code.

    Args:
        report: Sends a frame to the owner, at the latest with the next answer.
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

    def switch(self, events: Any, middlewares: bytes) -> None:
        """Replaces the middlewares. Calls that have begun end with the earlier ones.

        Args:
            events: The events of the worker.
            middlewares: A pickled list of the pickled middlewares; empty for none.
        """
        if self._pickled:
            self._calls.end()
        self._pickled, self._loaded = middlewares, None
        if middlewares:
            self._calls.begin()
        events.observer = self if middlewares else None

    @property
    def sets_context(self) -> bool:
        """Whether there are middlewares here, which may set context variables."""
        return bool(self._middlewares.each)

    @property
    def _middlewares(self) -> Middlewares:
        """The middlewares, loaded on first use."""
        if self._loaded is None:
            self._loaded = Middlewares(_load(self._pickled, self._copies), set())
        return self._loaded

    def started(
        self, name: str, headers: Mapping[str, Any], context: Context | None
    ) -> Callable[[Status, str, float, float], None] | None:
        """Reports the begin of a run.

        Args:
            name: The method, or the function after its number.
            headers: The headers of the call.
            context: The context of its code; None for that of the thread.

        Returns:
            Reports the end of the run; None if the call is not observed.
        """
        if "observed" not in headers:
            return None
        observed: Observed = headers["observed"]
        number, caller, created, _ = observed
        method = name.rpartition(":")[2]
        middlewares = self._middlewares
        run = operator.call if context is None else context.run
        call: ObservedCall | None = None
        tokens: list[object] = []
        if middlewares.each:
            call = self._call(observed, method, is_stream="stream" in headers)
            # Context variables are set where the call's code runs, and ``after`` may
            # restore them.
            tokens = run(middlewares.before, call)

        def finished(status: Status, error: str, began: float, ended: float) -> None:
            if call is not None:
                outcome = Outcome(status, error, began, ended, 1)
                run(middlewares.after, call, tokens, outcome)
            self._report(
                (RAN, number, method, caller, created, began, ended, status, error)
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
    """Loads middlewares; reuses an earlier copy, which keeps its state."""
    loaded: list[Middleware] = []
    free = [*copies]
    for data in cast("list[bytes]", decode(pickled)):
        places = [place for place, (earlier, _) in enumerate(free) if earlier == data]
        try:
            copy = free.pop(places[0])[1] if places else decode(data)
        except Exception as error:  # noqa: BLE001  # the user's classes
            warn("a middleware cannot be loaded in a worker: %r", error)
            continue
        loaded.append(copy)
        if not places:
            copies.append((data, copy))
    del copies[:-_MOST_COPIES]
    return loaded
