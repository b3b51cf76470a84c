"""Runs the loop of an actor's own thread, and plain code on it, until its end."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, TypeVar

from actorlib._core.engine import ActorExit
from actorlib._futures.object_ref import mark_seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actorlib._worker.executors.group_loops import MethodLoop
    from actorlib._worker.requests.async_client import AsyncOwnerClient

T = TypeVar("T")


class ActorLoop:
    """Runs the loop of the thread that the actor's object belongs to.

    Args:
        client: The engine of the worker.
        main: The loop, and the context of plain code: what that sets is there in all
            that runs later.

    Attributes:
        client: As given, like main.
        loop: The loop.
        has_ended: Whether the actor has ended.
    """

    def __init__(self, client: AsyncOwnerClient, main: MethodLoop) -> None:
        self.client = client
        self.main = main
        self.loop = main.loop
        self._context = main.context
        self._ending: tuple[BaseException | None] | None = None
        # An ``async def`` that begins or ends the actor's life.
        self._awaited_task: asyncio.Task[object] | None = None

    @property
    def has_ended(self) -> bool:
        return self._ending is not None

    def call(self, work: Callable[[], T]) -> T:
        """Calls plain code on the loop, which runs meanwhile; gives what that gives.

        Raises:
            BaseException: What it raised.
        """
        gave: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            self.client.inbox.begin_blocking()
            try:
                value = self._called(work)
            except BaseException as error:  # noqa: BLE001  # it is raised below
                raised.append(error)
            else:
                gave.append(value)
            finally:
                self.client.inbox.end_blocking()
                self.loop.stop()

        self.loop.call_soon(run, context=self._context)
        while not (gave or raised):
            self.loop.run_forever()
        if raised:
            raise raised.pop()
        return gave.pop()

    def _called(self, work: Callable[[], T]) -> T:
        raised: BaseException | None = None
        try:
            return work()
        except BaseException as error:
            raised = error
            raise
        finally:
            self.client.leave_if_fork(raised)
            del raised  # its traceback holds this frame

    def run_to_end(self, work: Callable[[], object]) -> None:
        """Calls plain code on the loop, and awaits what it gives if it can be."""
        value = self.call(work)
        if not inspect.iscoroutine(value):
            return
        # In this context, so that later calls see the variables that it sets.
        task = self.loop.create_task(value, context=self._context)
        self._awaited_task = task
        try:
            self.run_until_done(task)
        finally:
            self._awaited_task = None

    def run(self) -> None:
        """Runs the calls until the end.

        Raises:
            BaseException: What ended the actor.
        """
        while self._ending is None:
            try:
                self.loop.run_forever()
            except ActorExit:  # out of a task of the user's own: it leaves by and by
                continue
            except BaseException as error:  # noqa: BLE001  # likewise; it is raised below
                self.break_actor(error)
        [ending] = self._ending
        if ending is not None:
            raise ending

    def run_until_done(self, work: Awaitable[T]) -> T:
        """Runs the loop until something is done, whoever stops the loop meanwhile."""
        # What ends the actor stops the loop from another thread, perhaps only now.
        future = asyncio.ensure_future(work, loop=self.loop)
        future.add_done_callback(lambda _: self.loop.stop())
        try:
            while not future.done():
                self.loop.run_forever()
        finally:
            if future.done():
                mark_seen(future)  # what it raised may have come out of the loop
        return future.result()

    def end(self, error: BaseException | None) -> None:
        """Ends the actor, with an error or without, from any thread."""
        if self._ending is None:
            self._ending = (error,)
            task = self._awaited_task  # another thread may clear it
            if task is not None:  # the constructor may wait for long
                self.loop.call_soon_threadsafe(task.cancel)
            self.loop.call_soon_threadsafe(self.loop.stop)

    def break_actor(self, error: BaseException) -> None:
        """Ends the actor and closes the pipe at once, from any thread.

        So the owner notices even if a thread is busy.
        """
        self.client.inbox.do(self.client.channel.close)
        self.end(error)
