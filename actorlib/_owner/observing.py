"""Adds middlewares to a runtime that runs, and removes them; tells its workers.

Workers that start are told by the START frame, and the others by OBSERVE. A worker
reads that when it reads next: what its code calls before is not told of.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._core.middleware import Middlewares, Run
from actorlib._core.observed_calls import ObservedCalls
from actorlib._wire.messages import LINKED
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._core.engine import Engine
    from actorlib._core.ids import ActorId
    from actorlib._core.middleware import Middleware
    from actorlib._core.outcomes import Status
    from actorlib._owner.actor_record import ActorRecord
    from actorlib._owner.actor_table import ActorTable


class Observation:
    """Keeps the middlewares of one runtime.

    Args:
        engine: The engine of the runtime.
        table: Its actors.
    """

    def __init__(self, engine: Engine, table: ActorTable) -> None:
        self._table = table
        # Each with how it is sent to workers; empty if it is not.
        self._middlewares: list[tuple[Middleware, bytes]] = []
        self._failed: set[int] = set()
        self._told = Middlewares((), self._failed)
        self._calls = ObservedCalls(engine, itertools.count(1), b"", lambda: self._told)

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """Those that are told of calls now."""
        return self._told.each

    def add(self, middleware: Middleware, *, in_workers: bool) -> None:
        """Tells a middleware of calls from now on.

        Args:
            middleware: The middleware.
            in_workers: Whether copies of it are told in workers.

        Raises:
            ValueError: It was added before.
        """
        if any(known is middleware for known, _ in self._middlewares):
            raise ValueError(f"the middleware {middleware!r} was added before")
        pickled = _pickled(middleware) if in_workers else b""
        self._middlewares.append((middleware, pickled))
        self._tell()

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
        sent = b""
        if middlewares:
            sent = dump([pickled for _, pickled in middlewares if pickled])
            self._calls.begin(self._told.counter)
        else:
            self._calls.end()
        table.observe(sent, self._ran if middlewares else None)

    def _ran(
        self,
        record: ActorRecord,
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


def _pickled(middleware: Any) -> bytes:
    """A middleware as workers get it; nothing if it cannot be pickled."""
    with suppress(Exception):  # the user's code says no
        return dump(middleware)
    return b""
