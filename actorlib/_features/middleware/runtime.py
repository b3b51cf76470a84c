"""Adds middlewares to a runtime that runs, and removes them; tells its workers.

A worker that runs reads that when it reads next: what its code calls before is not
told of.
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
from actorlib._wire.messages import OBSERVE, RAN
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._base.outcomes import Status
    from actorlib._core.engine import RuntimeEngine
    from actorlib._options.call_events import Middleware
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.engine import LocalEngine
    from actorlib._queries.queries import Parameters


class Observation:
    """Keeps the middlewares of one runtime; see ``RuntimeEngine.attached``.

    Args:
        engine: The engine of the runtime.
    """

    command: ClassVar[str] = ""
    on_ray: ClassVar[str] = (
        "on Ray calls are Ray's, and are not told of: leave it out and look at Ray's "
        "own metrics and traces, or use the local engine"
    )

    def __init__(self, engine: LocalEngine) -> None:
        self.portal = engine.portal
        self._engine = engine
        self._table = engine.actor_table
        engine.requests.others[RAN] = self._ran
        engine.at_end(self.close)
        close_in_forks(self, Observation.close)
        # Each with how it is sent to workers; empty if it is not.
        self._middlewares: list[tuple[Middleware, bytes]] = []
        self._failed: set[int] = set()
        self._told = Middlewares((), self._failed)
        self._calls = ObservedCalls(engine, itertools.count(1), b"", lambda: self._told)

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """Those that are told of calls now."""
        return self._told.each

    @on_loop
    def add(self, middleware: Middleware, *, in_workers: bool) -> None:
        """Tells a middleware of calls from now on.

        Args:
            middleware: The middleware.
            in_workers: Whether copies of it are told in workers.

        Raises:
            ValueError: It was added before.
            RuntimeError: The runtime was shut down.
        """
        self._engine.check_open()
        if any(known is middleware for known, _ in self._middlewares):
            raise ValueError(f"the middleware {middleware!r} was added before")
        pickled = _pickled(middleware) if in_workers else b""
        self._middlewares.append((middleware, pickled))
        self._tell()

    @on_loop
    def remove(self, middleware: Middleware) -> None:
        """Tells a middleware of no further calls.

        Raises:
            ValueError: It is none of these.
        """
        left = [pair for pair in self._middlewares if pair[0] is not middleware]
        if len(left) == len(self._middlewares):
            raise ValueError(
                f"{middleware!r} is none of the middlewares of this runtime"
            )
        self._middlewares = left
        self._failed.discard(id(middleware))
        self._tell()

    def close(self) -> None:
        """Tells nobody of anything from now on: the runtime ends."""
        if self._middlewares:
            self._middlewares = []
            self._calls.end()

    def _tell(self) -> None:
        """Tells workers who is told of calls now."""
        table, middlewares = self._table, self._middlewares
        self._told = Middlewares((made for made, _ in middlewares), self._failed)
        if middlewares:
            sent = dump([pickled for _, pickled in middlewares if pickled])
            self._calls.begin(self._told.counter)
            table.attach((OBSERVE, sent))
        else:
            self._calls.end()
            table.detach((OBSERVE, b""))

    def _ran(
        self,
        session: WorkerSession,
        number: int,
        method: str,
        caller: ActorId,
        made: float,
        began: float,
        ended: float,
        status: Status,
        error: str,
    ) -> None:
        """A worker has run a call."""
        supervisor = self._table.by_id.get(ActorId(session.actor))
        if supervisor is None or not self._middlewares:
            return
        record = supervisor.record
        runs = self._calls.under_way.get(number)
        if runs is not None:
            runs.append((began, ended, error))
        is_actor, process = record.is_actor, record.process
        self._told.ran(
            Run(
                number,
                record.id.hex() if is_actor else "",
                record.called.class_name if is_actor else "",
                record.options.name if is_actor else None,
                method,
                caller.hex(),
                made,
                began,
                ended,
                status,
                error,
                0 if process is None else process.pid,
                number < LINKED,
            )
        )


def metrics(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """The metrics, as text for Prometheus; with ``rows`` as values."""
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
    """A middleware as workers get it; nothing if it cannot be pickled."""
    with suppress(Exception):  # the user's code says no
        return dump(middleware)
    return b""
