"""Clients of a runtime: programs that are attached to it, each with a session.

A client uses the protocol of workers and is cleaned up like one. But it runs no actor,
and it is not a child of this process: it gets no calls, and the end of its session does
not end the process.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NoReturn, final

from actorlib._loops.fork_copies import close_in_forks
from actorlib._owner.actors.worker_session import WorkerSession
from actorlib._rows.snapshot import ClientInfo
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.messages import START
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._processes.launcher import ProcessExit
    from actorlib._wire.messages import Frame


@final
class ClientProcess:
    """The process of a client, which the owner has not started and may not end.

    It implements WorkerProcess; the methods for launched processes do nothing.

    Args:
        loop: The owner's loop.
        sock: The connection to it.
        pid: Its process id; 0 if unknown.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, pid: int
    ) -> None:
        self.sock = sock
        self.pid = pid
        self.delay = ""
        self.call_cells: list[int] | None = None
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()

    def identify(self, pid: int) -> None:
        """Does nothing: the system has reported the id."""

    def kill(self) -> None:
        """Does nothing: the program is the user's."""

    def rename(self, name: str | Callable[[], str]) -> None:
        """Does nothing: a client keeps its own output."""

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Does nothing: a client keeps its own output."""

    def show(self, text: str) -> None:
        """Does nothing."""


@final
class ClientSession(WorkerSession):
    """Serves the pipe to one client.

    The session ends with the pipe: the process may go on, detached.
    """

    is_client = True
    when_over: Callable[[ClientSession], None]

    def _end(self) -> None:
        super()._end()
        self.when_over(self)


class Clients:
    """Keeps the clients of one runtime."""

    def __init__(self, table: ActorTable, context: RuntimeContext) -> None:
        self._table = table
        self._context = context
        self._sessions: dict[ClientSession, ClientInfo] = {}

    def admit(self, sock: socket.socket, pid: int, program: str) -> None:
        """Admits a client.

        Args:
            sock: The connection, with no unread data; closed at its end.
            pid: Its process.
            program: The name of its program, for people.
        """
        table = self._table
        session = ClientSession(
            table.sessions,
            table.ids.new_id(),  # of no actor
            ClientProcess(table.loop, sock, pid),
            _NoAnswers(),
            _refuse_name,
        )
        session.when_over = self._over
        session.title = f"client (pid {pid})" if pid else "client"
        self._sessions[session] = ClientInfo(
            pid=pid, program=program, attached_at=time.time()
        )
        close_in_forks(session.channel, AsyncChannel.close_in_fork)
        table.object_store.enter(session, sock)
        config = self._config(session)
        session.channel.send((START, vars(config), b"", None, b""))

    def infos(self) -> tuple[ClientInfo, ...]:
        return tuple(self._sessions.values())

    def title(self, number: int) -> str | None:
        """Returns the title of a client by the number of its session, or None."""
        return next((s.title for s in self._sessions if s.number == number), None)

    async def part(self, patience: float) -> None:
        """Closes the connections, which notifies the clients of the runtime's end.

        This comes before actors end: otherwise a client would report their end as the
        reason of its errors. The cleanup of clients follows in ``close``. Cancelled:
        all connections are closed.

        Args:
            patience: Seconds that clients may take to read their last answers.
        """
        channels = [session.channel for session in self._sessions]
        unsent = [
            asyncio.ensure_future(channel.drain())
            for channel in channels
            if channel.unsent
        ]
        try:
            if unsent:
                await asyncio.wait(unsent, timeout=patience)
        finally:
            for channel in channels:
                channel.close()  # which ends the waits too

    def close(self) -> None:
        """Closes all connections, and cleans up after the clients."""
        for session in [*self._sessions]:
            if self._table.loop.is_closed():
                session.channel.close_in_fork()
            else:
                session.channel.close()
            self._over(session)

    def _over(self, session: ClientSession) -> None:
        if self._sessions.pop(session, None) is not None:
            session.cleanup.run(session)

    def _config(self, session: ClientSession) -> ActorConfig:
        context = self._context
        return ActorConfig(
            actor_id=session.actor,
            class_name="",
            namespace=context.namespace,
            prefix=session.prefix,
            node_id=context.node_id,
            limits={},
            groups={},
            environment={},
            features={},
            path=[],
            runtime_env=dict(context.runtime_env),
            resources={},
            accelerator_ids={kind: [] for kind in context.accelerator_ids},
        )


class _NoAnswers:
    """Refuses answers of a client, which gets no calls; see AnswerSink."""

    def settle(self, frame: Frame) -> NoReturn:
        self.settle_scalar(frame[1], None)

    def settle_scalar(self, number: int, value: object) -> NoReturn:
        del value
        raise ProtocolError(f"a client answers call {number}, but it gets no calls")

    item = settle


def _refuse_name(name: str) -> NoReturn:
    raise ProtocolError(f"a client reports that it is the actor {name!r}")
