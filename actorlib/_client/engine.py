"""Implements the operations of an engine in a program that is attached to a runtime.

It is the engine of a worker with an event loop, on the loop of the program. Questions
that only the owner can answer are sent to it, or refused. When the program leaves, only
the actors that it has created end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast, final

from actorlib._client.connection import PATIENCE, connect
from actorlib._core.engine import Engine, FeatureT, Refusal, RuntimeEngine, override
from actorlib._futures.runtime_portal import RuntimePortal
from actorlib._loops.forking import detach_loop
from actorlib._loops.loop_thread import block
from actorlib._options.shares import ActorShare
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.messages import FAILURE, ITEM, LIST, RESULT
from actorlib._worker.requests.async_client import AsyncOwnerClient
from actorlib._worker.requests.client import OwnerClient
from actorlib.exceptions import (
    ActorHandleNotFoundError,
    RuntimeLostError,
    RuntimeUnreachableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId
    from actorlib._client.connection import Connection
    from actorlib._core.engine import ActorSpec, HandlePin
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.callee import Callee
    from actorlib._rows.snapshot import CallInfo, Snapshot
    from actorlib._wire.messages import Frame

_LAST_FRAMES = 5.0
"""Seconds that the owner gets to read the last frames before this process leaves."""

_OWNERS = {
    "all_calls": ("all_calls()", "actorlib calls"),
    "objects": ("objects()", "actorlib objects"),
    "drain": ("drain()", ""),
    "explain": ("explain()", "actorlib ps"),
    "survey": ("explain()", "actorlib ps"),
    "explain_group": ("explain()", "actorlib ps"),
}
"""The operations of the owner's program only: the name that users call, and the command
that shows the same in a shell, if there is one."""


@final
class AttachedEngine(AsyncOwnerClient, RuntimeEngine):
    """The engine of an attached program; see RuntimeEngine. Created on its loop.

    ``namespace`` is the default for the names of actors; None for the runtime's.
    """

    def __init__(
        self, connection: Connection, name: str, namespace: str | None
    ) -> None:
        loop = asyncio.get_running_loop()
        pipe, start, pid = connection
        config = start.config
        if namespace is not None:
            config = replace(config, namespace=namespace)
        start = replace(start, config=config)
        self._runtime = f"runtime {name!r}" + (f" (pid {pid})" if pid else "")
        self._pid = pid
        self.refusals: Mapping[str, Refusal] = {
            **super().refusals,
            **refusals_of_client(self._runtime, pid),
        }
        self._lost: Exception | None = None
        self._is_closed = False
        super().__init__(start, loop, pipe)
        self._portal = RuntimePortal(loop)
        self.channel = AsyncChannel(
            loop,
            pipe.sock,
            self._receive,
            self._pipe_lost,
            sharing=pipe.sharing,
            decoder=pipe.decoder,
        )
        self.inbox.receive = self._take
        self.inbox.begin()

    def _receive(self, frames: list[Frame]) -> None:
        if self.inbox.sources:
            self.inbox.read_links()  # its frames are older than those of the pipe
        self._take(frames)

    def _take(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame[0] in (RESULT, FAILURE):
                self.settle(frame)
            elif frame[0] == ITEM:
                self.item(frame)
            else:
                self._take(self.take_other(frame))

    def _pipe_lost(self, error: Exception | None) -> None:
        why = "has ended" if error is None else f"has sent an invalid frame: {error}"
        self._lose(
            RuntimeLostError(
                f"the {self._runtime}, which this process is attached to, {why}. "
                "Behind the block, actorlib.attach() finds it again once it runs"
            )
        )

    def _lose(self, error: Exception) -> None:
        self._lost = error
        self.fail_all(error)

    def check_parent(self) -> None:
        """Refuses operations that are no longer possible; see OwnerClient.

        Raises:
            ActorHandleNotFoundError: This process has detached, or is a fork.
            RuntimeLostError: The runtime has ended.
        """
        if self._lost is not None:
            raise self._lost
        if self._is_in_fork:
            raise ActorHandleNotFoundError(
                f"this process is a fork of one that is attached to the "
                f"{self._runtime}: attach here, too, by actorlib.attach()"
            )

    # The operations in which a client differs from a worker.

    def create(self, spec: ActorSpec) -> ActorId:
        """Creates an actor, which ends with this process; see Engine."""
        return super().create(self._in_namespace(spec))

    @override
    def obtain(self, spec: ActorSpec) -> HandlePin:
        return super().obtain(self._in_namespace(spec))

    @override
    def find(self, name: str, namespace: str | None) -> HandlePin:
        return super().find(name, namespace or self._config.namespace)

    def _in_namespace(self, spec: ActorSpec) -> ActorSpec:
        options = spec.options
        if options.name is None or options.namespace is not None:
            return spec
        updated = options.updated({"namespace": self._config.namespace})
        return replace(spec, options=updated)

    @override
    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        if threading.get_ident() != self.inbox.thread:
            self._portal.hide_refs()
        return super().call(callee, args, kwargs)

    def stop(self, call: int, *, recursive: bool = True) -> bool:
        """Cancels a call whose end is awaited; see OwnerClient.

        The refs of programs are cancelled at that end, like tasks; see ObjectRef.
        """
        is_awaited = super().stop(call, recursive=recursive)
        if is_awaited:
            self._results.stopped.add(call)
        return is_awaited

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread until a ref is done, except the loop's; see ResultOwner."""
        block(
            ref,
            timeout,
            "get() would block the event loop that the answer comes through: await "
            "the ref instead",
        )

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks until the owner has answered a short request.

        Raises RuntimeUnreachableError if the owner does not answer.
        """
        with contextlib.suppress(EOFError):
            if self.inbox.read(ref.done, PATIENCE, ref):
                return
        self.check_parent()
        raise RuntimeUnreachableError(
            f"the {self._runtime} has not answered within {PATIENCE:g} s: its event "
            "loop is blocked, or it is stopped. "
            + (f"actorlib ps --pid {self._pid} shows where" if self._pid else "")
        )

    @override
    def share(self, actor: ActorId) -> ActorShare:
        actor_id = actor.hex()
        shares = (info.share for info in self.actors() if info.actor_id == actor_id)
        return next(shares, ActorShare())

    interface = Engine.interface  # both refuse: a program is not an actor
    leave = Engine.leave

    # Further operations of a runtime; see RuntimeEngine.

    def snapshot(self) -> Snapshot:
        return cast("Snapshot", self.ask_and_wait(LIST, "snapshot"))

    def calls(self) -> list[CallInfo]:
        return cast("list[CallInfo]", self.ask_and_wait(LIST, "calls"))

    @override
    def attached(self, feature: type[FeatureT], api_name: str) -> NoReturn:
        called = api_name.removeprefix("runtime.")
        why = _refusal(self._runtime, self._pid, called, feature.command)
        raise UnsupportedOptionError(why)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def aclose(self) -> None:
        """Detaches: the actors that this process has created and not detached end.

        The owner first reads all frames that were sent. Cancelled: this process has
        detached.
        """
        if self._is_closed or self._is_in_fork:
            return
        self._is_closed = True
        try:
            if self.channel.is_open:
                self.outgoing_links.flush()
                async with asyncio.timeout(_LAST_FRAMES):
                    await self.channel.drain()
        except TimeoutError:
            pass  # the owner reads nothing
        finally:
            self._detach()
            if "outgoing_links" in vars(self):
                self.outgoing_links.close()
            self.channel.close()
            self.inbox.finish()
            self.memory.close()

    def abandon(self) -> Callable[[], None]:
        """Detaches when the loop is closed."""
        if not (self._is_closed or self._is_in_fork):
            self._is_closed = True
            self._detach()
            OwnerClient.close_in_fork(self)
            self.memory.close()
        return lambda: None

    def _detach(self) -> None:
        if self._lost is None:
            self._lose(
                ActorHandleNotFoundError(
                    f"this process has detached from the {self._runtime}: attach "
                    "again, and get the actor there"
                )
            )

    def close_in_fork(self) -> None:
        """Refuses all operations from now on: the connection is the parent's."""
        # Not like a worker, whose forks exit when they return to the loop.
        OwnerClient.close_in_fork(self)
        detach_loop(self.loop)


def refusals_of_client(runtime: str, pid: int) -> dict[str, Refusal]:
    """Creates the refusals of the operations that only the owner's program has."""
    return {
        name: Refusal(_refusal(runtime, pid, *names)) for name, names in _OWNERS.items()
    }


def _refusal(runtime: str, pid: int, operation: str, command: str) -> str:
    shell = f", and {command} --pid {pid} in a shell" if command else ""
    return (
        f"{operation} is for the program that has started the {runtime}, and this one "
        f"is a client of it: call it there{shell}"
    )


async def attach(name: str, namespace: str | None) -> AttachedEngine:
    """Attaches this process to the runtime with a name; see AttachedEngine.

    Raises:
        RuntimeNotFoundError: This user has no runtime with that name.
        RuntimeUnreachableError: It does not answer, or does not admit this process.
        CancelledError: The attachment was cancelled; its connection is closed.
    """
    connecting = asyncio.get_running_loop().run_in_executor(None, connect, name)
    try:
        connection = await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_drop)
        raise
    try:
        return AttachedEngine(connection, name, namespace)
    except BaseException:
        connection.close()
        raise


def _drop(connecting: asyncio.Future[Connection]) -> None:
    """Closes a connection of a cancelled attachment, if there is one."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
