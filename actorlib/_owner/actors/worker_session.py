"""Session of one worker: the pipe to it, from its first frame to its end.

The end of a process is an awaited future and the end of file on its socket, never a
poll. Whichever comes first, the other is waited for, with a limit: results that were
written before a crash are still read, and a process that closed its pipe and stays is
killed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from actorlib._base.ids import BLOCK_KIND, kind_of
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import SCALARS
from actorlib._wire.errors import exception_of
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
    from actorlib._owner.objects.refcount import RefCount
    from actorlib._owner.teardown import Cleanup
    from actorlib._processes.launcher import ProcessExit, WorkerProcess
    from actorlib._wire.fd_passing import SegmentSharing

_LAST_FRAMES = 1.0


class WorkerSession:
    """Serves the pipe to one worker, and sees its end.

    Args:
        loop: The owner's loop.
        actor: Whose it is.
        number: Its number among the sessions of the runtime.
        prefix: How the ids of actors that it makes begin.
        process: The worker.
        settle: Gets the answers of calls.
        settle_scalar: Gets the number and the answer of a call, if that is a scalar.
        item: Gets the items of streams.
        sharing: The segments of shared memory that it and the owner know.
        refcount: Who holds what: a worker lends only what it holds or has made.
        serve: Gets the frames with which the worker asks for something.
        ready: Called when the actor is there, with what it calls itself.
        cleanup: Lets go of what is kept for the worker.

    Attributes:
        actor: Whose it is.
        channel: The pipe.
        number: Its number.
        prefix: How the ids of actors that it makes begin.
        cleanup: Lets go of what is kept for the worker, when it is gone.
        sharing: The segments of shared memory that it and the owner know.
        constructor_error: What the constructor raised, if it did.
        constructor_summary: The last line of its traceback.
        constructor_traceback: All of it.
        protocol_error: What was wrong with the worker's frames, if anything.
        when_answered: Told of the calls of a worker that waits, as they are answered.
        is_client: Whether it is no worker, but a program that is attached.
        title: What people call it, if it is a client.
    """

    is_client = False
    title = ""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        actor: ActorId,
        number: int,
        prefix: bytes,
        process: WorkerProcess,
        settle: Callable[[Frame], None],
        settle_scalar: Callable[[int, object], None],
        item: Callable[[Frame], None],
        sharing: SegmentSharing,
        refcount: RefCount,
        serve: Callable[[WorkerSession, Frame], None],
        ready: Callable[[str], None],
        cleanup: Cleanup[WorkerSession],
    ) -> None:
        self.actor = actor
        self.number = number
        self.prefix = prefix
        self.constructor_error: BaseException | None = None
        self.constructor_summary = ""
        self.constructor_traceback = ""
        self.protocol_error: Exception | None = None
        self.when_answered: Callable[[int], None] | None = None
        self._loop = loop
        self._process = process
        self._settle = settle
        self._settle_scalar = settle_scalar
        self._item = item
        self._refcount = refcount
        self._serve = serve
        self._ready = ready
        self.cleanup = cleanup
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = False  # the pipe
        self._woken: asyncio.Future[None] = loop.create_future()
        self.sharing = sharing
        self.channel = AsyncChannel(
            loop, process.sock, self._receive, self._lost, sharing=sharing
        )

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
        del start  # else 3 KiB, in a dozen objects for the collector, live on with it
        exited, killing = self._process.exited, None
        exited.add_done_callback(self._wake)
        try:
            # One future for both: ``asyncio.wait`` keeps another dozen for each actor.
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
        """Ends a worker that has not been started, and waits for that.

        Args:
            error: Why there is to be no actor; told as what its constructor raises is.
        """
        self.constructor_error = error
        self.constructor_summary = f"{type(error).__name__}: {error}"
        self._process.kill()
        return await self._process.exited

    def stop(self, grace: float) -> None:
        """Asks the actor to leave behind what it was sent.

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
                # The usual answers are looked at here, and everything else at length.
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
            trouble = ProtocolError(f"a frame that makes no sense came: {error!r}")
            trouble.__cause__ = error
            self._break(trouble)

    def _take(self, frame: Frame) -> None:
        lent = check_frame(frame, self.prefix)
        if lent:
            self._check_lent(lent)
        kind = frame[0]
        if kind == ITEM:
            self._item(frame)
        elif kind == FAILURE:
            if frame[1]:
                self._settle(frame)
            else:
                self._constructor_failed(frame)
        elif kind == READY:
            self._process.identify(frame[2])
            self._ready(frame[1])
        else:
            self._serve(self, frame)

    def _check_lent(self, borrowed: tuple[CountedId, ...]) -> None:
        """Refuses a block that is none of the worker's.

        Whoever made a block is told when nobody holds it: a worker that speaks of one
        that it was never lent would have another's memory taken away.

        Raises:
            ProtocolError: It lends one.
        """
        for counted in borrowed:
            if (
                kind_of(counted) == BLOCK_KIND
                and not counted.startswith(self.prefix)
                and not self._refcount.has(counted, self.number)
            ):
                raise ProtocolError(
                    f"it lends block {counted.hex()}, which it has not got"
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
