"""Serves the pipe to one worker until its end, and cleans up after it.

The end of a process is an awaited future and the end of file on its socket, never a
poll. After the first of them, the other is awaited with a limit: results that were
written before a crash are still read, and a process that closed its pipe and stays is
killed.

Most modules take part in the end of a worker. A module that begins to keep something
for a worker adds a step to the worker's cleanup, with its phase. So the end of a worker
costs only the steps that are necessary.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from functools import partial
from typing import TYPE_CHECKING, Protocol, final

from actorlib._base.ids import BLOCK_KIND, kind_of
from actorlib._owner.teardown import tear_down
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import SCALARS
from actorlib._wire.errors import exception_of
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._wire.messages import (
    FAILURE,
    ITEM,
    READY,
    RESULT,
    RESULT_SCALAR,
    STOP,
    Frame,
)
from actorlib._wire.worker_messages import check_frame
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._owner.actors.actor_record import RuntimeIds
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._processes.launcher import ProcessExit, WorkerProcess
    from actorlib._shm.memory import SharedMemory

_LAST_FRAMES = 1.0
"""Seconds after the end of a process for the frames that it has written."""


class AnswerSink(Protocol):
    """Receives the answers of a worker; see ``WorkerRoute``."""

    def settle(self, frame: Frame) -> None:
        """Receives the answer of a call."""
        ...

    def settle_scalar(self, number: int, value: object) -> None:
        """Receives the answer of a call, if that is a scalar."""
        ...

    def item(self, frame: Frame) -> None:
        """Receives an item of a stream."""
        ...


class CancelChildren(Protocol):
    """Cancels the calls that a call of a worker has made; see WorkerRequests."""

    def __call__(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels them, by the numbers of the session and of the call."""
        ...


class Phase(enum.IntEnum):
    """The order of the steps of a worker's cleanup."""

    ROUTES = 1
    """Nothing more is sent to the worker, and no call counts as running there."""
    ANSWERS = 2
    """Callers that wait for the worker's answers get an error."""
    REFERENCES = 3
    """The worker's references are released. After the answers, which keep the objects
    in them alive."""
    EVIDENCE = 4
    """Traces of the end in the worker's memory are read, before it is released."""
    MEMORY = 5
    """The worker's shared memory is forgotten when no process uses any of it."""
    ACTORS = 6
    """The actors that it has created end with it. Late, as other ends begin."""
    GROUPS = 7
    """The placement groups that it has created are removed. Last: they end actors."""


class Cleanup:
    """Runs the cleanup steps of a worker when it has ended."""

    __slots__ = ("_phases",)

    def __init__(self) -> None:
        self._phases: dict[Callable[[WorkerSession], object], Phase] = {}

    def add(self, phase: Phase, step: Callable[[WorkerSession], object]) -> None:
        """Adds a step; it runs once even if it is added several times.

        Args:
            phase: The phase; in one phase steps run in the order in which they were
                added.
            step: Gets the session of the worker.
        """
        self._phases[step] = phase

    def run(self, session: WorkerSession) -> None:
        """Runs all steps; see ``tear_down``."""
        steps = sorted(self._phases, key=self._phases.__getitem__)
        tear_down(session, *(partial(step, session) for step in steps))


@final
class SessionTable:
    """Numbers the sessions of one runtime, and holds what all of them share.

    Attributes:
        references: Counts which process holds what: a worker lends only what it holds
            or has made.
        numbers: The numbers of the next sessions.
        serve: Receives the request frames of a worker; WorkerRequests sets it, and
            cancel_children.
        cancel_children: Cancels the calls that a call of a worker has made.
    """

    serve: Callable[[WorkerSession, Frame], None]
    cancel_children: CancelChildren

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ids: RuntimeIds,
        references: BorrowedReferences,
        memory: SharedMemory,
    ) -> None:
        self.loop = loop
        self.ids = ids
        self.references = references
        self.memory = memory
        self.numbers = itertools.count(1)

    def give_back_references(self, session: WorkerSession) -> None:
        """Releases the references of a worker that has ended."""
        unheld = self.references.forget(session.number)
        on_unheld = self.references.on_unheld
        tear_down(session, *(partial(on_unheld, counted) for counted in unheld))


class WorkerSession:
    """Serves the pipe to one worker until its end.

    Args:
        sessions: The state that all sessions of the runtime share.
        actor: The actor of the worker.
        process: The worker.
        answers: Receives the answers of the worker.
        ready: Called when the actor is ready, with its own name.

    Attributes:
        channel: The pipe.
        number: Its number among the sessions of the runtime.
        prefix: The prefix of the ids of actors that it creates.
        cleanup: The steps at its end.
        sharing: The segments of shared memory that it and the owner know.
        cancel_children: See SessionTable.
        constructor_error: What the constructor raised, if it did.
        constructor_summary: The last line of its traceback.
        constructor_traceback: The whole traceback.
        protocol_error: The fault in the worker's frames, if any.
        when_answered: Receives the numbers of calls of a waiting worker as they are
            answered.
        complete_failure: Adds to a FAILURE what the owner knows of it; None if nothing.
        is_client: Whether it is an attached program instead of a worker.
        title: Its name for people, if it is a client.
    """

    is_client = False
    title = ""

    def __init__(
        self,
        sessions: SessionTable,
        actor: ActorId,
        process: WorkerProcess,
        answers: AnswerSink,
        ready: Callable[[str], None],
    ) -> None:
        self.actor = actor
        self.number = next(sessions.numbers)
        self.prefix = sessions.ids.prefix(self.number)
        self.constructor_error: BaseException | None = None
        self.constructor_summary = ""
        self.constructor_traceback = ""
        self.protocol_error: Exception | None = None
        self.when_answered: Callable[[int], None] | None = None
        self.complete_failure: Callable[[Frame], Frame] | None = None
        loop = self._loop = sessions.loop
        self._process = process
        self._settle = answers.settle
        self._settle_scalar = answers.settle_scalar
        self._item = answers.item
        self._references = sessions.references
        self._serve = sessions.serve
        self.cancel_children = sessions.cancel_children
        self._ready = ready
        self.cleanup = Cleanup()
        self.cleanup.add(Phase.REFERENCES, sessions.give_back_references)
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = False  # the pipe
        self._woken: asyncio.Future[None] = loop.create_future()
        self.sharing = SegmentSharing(sessions.memory, self.prefix)
        self.channel = AsyncChannel(
            loop, process.sock, self._receive, self._lost, sharing=self.sharing
        )
        self._references.enter(self.number, actor)

    def __repr__(self) -> str:
        return f"<Session {self.number} of actor {self.actor.hex()}>"

    @property
    def local_call_cells(self) -> list[int] | None:
        """The cells for the calls of a worker in this process; None for others."""
        return self._process.call_cells

    async def run(self, start: Frame, grace: float) -> ProcessExit:
        """Starts the actor and waits for the end of its process.

        Args:
            start: The START frame.
            grace: Seconds that a process which closed its pipe may stay.
        """
        self.channel.send(start)
        del start  # else 3 KiB in a dozen objects live as long as the worker
        exited, killing = self._process.exited, None
        exited.add_done_callback(self._wake)
        try:
            # One future for both: ``asyncio.wait`` keeps a dozen objects per actor.
            await self._woken
            if not exited.done():
                killing = self._loop.call_later(grace, self._process.kill)
            elif not self._has_ended:
                self._woken = self._loop.create_future()
                await asyncio.wait({self._woken}, timeout=_LAST_FRAMES)
            return await exited
        finally:
            self.channel.close()
            for timer in (self._patience, killing):
                if timer is not None:
                    timer.cancel()

    async def refuse(self, error: Exception) -> ProcessExit:
        """Ends a worker that has not been started, and waits for its end.

        Args:
            error: The reason, reported like an error of the constructor.
        """
        self.constructor_error = error
        self.constructor_summary = f"{type(error).__name__}: {error}"
        self._process.kill()
        return await self._process.exited

    def stop(self, grace: float) -> None:
        """Asks the actor to end after the calls that it was sent.

        Args:
            grace: Seconds after which it is killed.
        """
        self.channel.send((STOP,))
        if self._patience is None:
            self._patience = self._loop.call_later(grace, self._process.kill)

    def _receive(self, frames: list[Frame]) -> None:
        settle, settle_scalar = self._settle, self._settle_scalar
        try:
            for frame in frames:
                # The usual answers are checked here, all other frames by check_frame.
                if frame[0] == RESULT_SCALAR:
                    _, call, value = frame
                    if type(call) is not int or type(value) not in SCALARS:
                        check_frame(frame, self.prefix)
                    settle_scalar(call, value)
                elif frame[0] == RESULT:
                    _, call, borrowed, value = frame
                    if (
                        borrowed is not None
                        or type(value) is not bytes
                        or type(call) is not int
                    ):
                        self._check_lent(check_frame(frame, self.prefix))
                    settle(frame)
                else:
                    self._take(frame)
        except ProtocolError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001  # around a session: nothing may hang
            fault = ProtocolError(f"a frame that makes no sense came: {error!r}")
            fault.__cause__ = error
            self._break(fault)

    def _take(self, frame: Frame) -> None:
        borrowed = check_frame(frame, self.prefix)
        if borrowed:
            self._check_lent(borrowed)
        kind = frame[0]
        if kind == ITEM:
            self._item(frame)
        elif kind == FAILURE:
            if not frame[1]:
                self._constructor_failed(frame)
            elif self.complete_failure is not None:
                self._settle(self.complete_failure(frame))
            else:
                self._settle(frame)
        elif kind == READY:
            self._process.identify(frame[2])
            self._ready(frame[1])
        else:
            self._serve(self, frame)

    def _check_lent(self, borrowed: tuple[CountedId, ...]) -> None:
        """Refuses a block that the worker neither made nor was lent.

        The maker of a block is told when no process holds it. A worker that lends a
        block which it does not hold could free the memory of another.

        Raises:
            ProtocolError: It lends such a block.
        """
        for block in borrowed:
            if (
                kind_of(block) == BLOCK_KIND
                and not block.startswith(self.prefix)
                and not self._references.has(block, self.number)
            ):
                raise ProtocolError(
                    f"it lends block {block.hex()}, which it has not got"
                )

    def _constructor_failed(self, frame: Frame) -> None:
        _, _, kind, summary, text, where, _, payload = frame
        self.constructor_summary = summary
        self.constructor_traceback = text
        self.constructor_error = exception_of(kind, summary, text, where, payload)

    def _break(self, error: Exception) -> None:
        self.protocol_error = error
        self.channel.close()
        self._process.kill()
        self._end()

    def _lost(self, error: Exception | None) -> None:
        if error is not None:
            self.protocol_error = error
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._wake()

    def _wake(self, _: object = None) -> None:
        if not self._woken.done():
            self._woken.set_result(None)
