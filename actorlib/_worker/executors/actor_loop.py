"""Runs the loop of an actor's own thread, and plain code on it, to the end."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, TypeVar

from actorlib._core.engine import ActorExit
from actorlib._futures.object_ref import mark_seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextvars import Context

    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.concurrency_groups import Gate
    from actorlib._worker.requests.async_client import AsyncOwnerClient

T = TypeVar("T")


class MethodLoop:
    """A loop and the calls that run on it.

    Args:
        is_shared: Whether another thread than the loop's reads the pipe.

    Attributes:
        call_soon: Schedules a callback from the thread that reads the pipe.
        context: The context of its plain methods. Two threads cannot enter one context.
        tasks: The calls of ``async def`` methods that run on it, by number.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: Context, *, is_shared: bool
    ) -> None:
        self.loop = loop
        self.call_soon = loop.call_soon_threadsafe if is_shared else loop.call_soon
        self.context = context
        self.tasks: dict[int, tuple[asyncio.Task[None], Frame, Gate]] = {}


class ActorLoop:
    """Runs the loop of the thread that the actor's object belongs to.

    Attributes:
        main: The loop, and the context of plain code. Variables that plain code sets
            are visible to all later code.
    """

    def __init__(self, client: AsyncOwnerClient, main: MethodLoop) -> None:
        self.client = client
        self.main = main
        self.loop = main.loop
        self._context = main.context
        self._ending: tuple[BaseException | None] | None = None
        # An ``async def`` that starts or ends the actor.
        self._awaited_task: asyncio.Task[object] | None = None

    @property
    def has_ended(self) -> bool:
        return self._ending is not None

    def call(self, work: Callable[[], T]) -> T:
        """Calls plain code on the running loop; returns its value."""
        values: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            self.client.inbox.begin_blocking()
            try:
                value = self._call_here(work)
            except BaseException as error:  # noqa: BLE001  # it is raised below
                errors.append(error)
            else:
                values.append(value)
            finally:
                self.client.inbox.end_blocking()
                self.loop.stop()

        self.loop.call_soon(run, context=self._context)
        while not (values or errors):
            self.loop.run_forever()
        if errors:
            raise errors.pop()
        return values.pop()

    def _call_here(self, work: Callable[[], T]) -> T:
        caught: BaseException | None = None
        try:
            return work()
        except BaseException as error:
            caught = error
            raise
        finally:
            self.client.leave_if_fork(caught)
            del caught  # its traceback holds this frame

    def run_to_end(self, work: Callable[[], object]) -> None:
        """Calls plain code on the loop, and awaits its value if that is a coroutine."""
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
        """Runs the loop until the actor ends; raises the reason of the end, if any."""
        while self._ending is None:
            try:
                self.loop.run_forever()
            except (
                ActorExit
            ):  # out of a task of the user's code; the actor leaves later
                continue
            except BaseException as error:  # noqa: BLE001  # it is raised below
                self.break_actor(error)
        [ending] = self._ending
        if ending is not None:
            raise ending

    def run_until_done(self, work: Awaitable[T]) -> T:
        """Runs the loop until an awaitable is done, even if it is stopped meanwhile."""
        # The end of the actor stops the loop from another thread, perhaps only now.
        future = asyncio.ensure_future(work, loop=self.loop)
        future.add_done_callback(lambda _: self.loop.stop())
        try:
            while not future.done():
                self.loop.run_forever()
        finally:
            if future.done():
                mark_seen(future)  # its error may have come out of the loop
        return future.result()

    def end(self, error: BaseException | None) -> None:
        """Ends the actor, with or without an error, from any thread."""
        if self._ending is None:
            self._ending = (error,)
            task = self._awaited_task  # another thread may clear it
            if task is not None:  # the constructor may take long
                self.loop.call_soon_threadsafe(task.cancel)
            self.loop.call_soon_threadsafe(self.loop.stop)

    def break_actor(self, error: BaseException) -> None:
        """Ends the actor and closes the pipe at once, from any thread.

        The owner then notices even if a thread is busy.
        """
        self.client.inbox.do(self.client.channel.close)
        self.end(error)
