"""Adds middlewares to a running runtime and removes them; informs its workers.

A running worker reads the change when it next reads its pipe: earlier calls of its code
are not reported.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from actorlib._base.ids import LINKED, ActorId
from actorlib._features.middleware.middlewares import Middlewares
from actorlib._features.middleware.observed_calls import ObservedCalls
from actorlib._futures.runtime_portal import on_loop
from actorlib._loops.fork_copies import close_in_forks
from actorlib._options.call_events import Run
from actorlib._queries.queries import Asked
from actorlib._wire.messages import FEATURE, RAN
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._base.outcomes import Status
    from actorlib._core.engine import RuntimeEngine
    from actorlib._options.call_events import Middleware
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.engine import LocalEngine
    from actorlib._queries.queries import Parameters

_NAME = "middleware"
"""The name of this folder: see ``_worker/features.py``."""


class Observation:
    """The middlewares of one runtime; see ``RuntimeEngine.attached``."""

    command: ClassVar[str] = ""
    on_ray: ClassVar[str] = (
        "on Ray calls are Ray's, and middlewares do not see them: leave it out and use "
        "Ray's own metrics and traces, or use the local engine"
    )

    def __init__(self, engine: LocalEngine) -> None:
        self.portal = engine.portal
        self._engine = engine
        self._table = engine.actor_table
        engine.requests.others[RAN] = self._ran
        engine.at_end(self.close)
        close_in_forks(self, Observation.close)
        # Each with its pickle for workers; empty if they do not get it.
        self._middlewares: list[tuple[Middleware, bytes]] = []
        self._failed: set[int] = set()
        self._active = Middlewares((), self._failed)
        self._calls = ObservedCalls(
            engine, itertools.count(1), b"", lambda: self._active
        )

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        return self._active.each

    @on_loop
    def add(self, middleware: Middleware, *, in_workers: bool) -> None:
        """Adds a middleware: it sees calls from now on.

        Args:
            middleware: The middleware.
            in_workers: Whether workers get copies of it.

        Raises:
            ValueError: It was added before.
            RuntimeError: The runtime was shut down.
        """
        self._engine.check_open()
        if any(one is middleware for one, _ in self._middlewares):
            raise ValueError(f"the middleware {middleware!r} was added before")
        pickled = _pickled(middleware) if in_workers else b""
        self._middlewares.append((middleware, pickled))
        self._update()

    @on_loop
    def remove(self, middleware: Middleware) -> None:
        """Removes a middleware: it sees no further calls.

        Raises:
            ValueError: It was not added.
        """
        others = [pair for pair in self._middlewares if pair[0] is not middleware]
        if len(others) == len(self._middlewares):
            raise ValueError(
                f"{middleware!r} is none of the middlewares of this runtime"
            )
        self._middlewares = others
        self._failed.discard(id(middleware))
        self._update()

    def close(self) -> None:
        """Stops observing calls: the runtime ends."""
        if self._middlewares:
            self._middlewares = []
            self._calls.end()

    def _update(self) -> None:
        """Applies the current middlewares here, and sends them to workers."""
        table, middlewares = self._table, self._middlewares
        self._active = Middlewares((one for one, _ in middlewares), self._failed)
        if middlewares:
            pickles = dump([pickled for _, pickled in middlewares if pickled])
            self._calls.begin(self._active.counter)
            table.attach((FEATURE, _NAME, pickles))
        else:
            self._calls.end()
            table.detach((FEATURE, _NAME, b""))

    def _ran(
        self,
        session: WorkerSession,
        number: int,
        method: str,
        caller: ActorId,
        created: float,
        began: float,
        ended: float,
        status: Status,
        error: str,
    ) -> None:
        """Handles the report of a worker that has run a call."""
        supervisor = self._table.by_id.get(ActorId(session.actor))
        if supervisor is None or not self._middlewares:
            return
        record = supervisor.record
        runs = self._calls.under_way.get(number)
        if runs is not None:
            runs.append((began, ended, error))
        is_actor, process = record.is_actor, record.process
        self._active.ran(
            Run(
                number,
                record.id.hex() if is_actor else "",
                record.called.class_name if is_actor else "",
                record.options.name if is_actor else None,
                method,
                caller.hex(),
                created,
                began,
                ended,
                status,
                error,
                0 if process is None else process.pid,
                number < LINKED,
            )
        )


def metrics(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Returns the metrics as text for Prometheus, or as values with ``rows``."""
    name = "metrics_rows" if parameters.flag("rows") else "metrics_text"
    for middleware in engine.attached(Observation, "actorlib metrics").middlewares:
        write = getattr(middleware, name, None)
        if callable(write):
            return Asked(engine.snapshot, write)
    raise ValueError(
        "this runtime counts nothing: give it metrics, by actorlib.init(middleware="
        "[actorlib.observe.prometheus()]) or runtime.add_middleware(...); it takes "
        "pip install 'actorlib[metrics]'"
    )


def _pickled(middleware: Any) -> bytes:
    """Pickles a middleware for workers; empty if it cannot be pickled."""
    with suppress(Exception):  # the user's code
        return dump(middleware)
    return b""
