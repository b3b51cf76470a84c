"""Runs calls of ``async def`` functions in a worker, many at once on its event loop.

The functions are the methods of a stand-in for an actor's object, so ``AsyncExecutor``
runs their calls like those of an actor. The owner sends as many calls as may run at
once. No call lends its CPUs while it awaits a result: the worker holds them for all.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any

from actorlib._core.current_call import running
from actorlib._core.engine import set_engine
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import READY
from actorlib._worker.executors.async_executor import AsyncExecutor
from actorlib._worker.executors.invoke import FunctionWorker, label_of
from actorlib._worker.requests.async_client import AsyncOwnerClient
from actorlib._worker.startup import enter_directory

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._wire.messages import Frame
    from actorlib._worker.startup import Start


def serve(start: Start, pipe: BlockingChannel, loop: asyncio.AbstractEventLoop) -> None:
    """Runs a worker of ``async def`` functions from its start to its end.

    The loop is a new one, and runs on this thread.
    """
    enter_directory(start)
    client = _AsyncFunctionClient(start, loop, pipe)
    set_engine(client)
    executor = _AsyncFunctionExecutor(client, start, loop)
    functions = _Functions()
    client.functions = vars(functions)
    with executor.reading():
        executor.set_instance(functions)
        client.post((READY, "", os.getpid()))
        if not start.config.is_inline:
            client.inbox.take_interrupts()
        executor.actor_loop.run()


class _Functions:
    """The functions of a worker, as its attributes, by their names on the pipe."""


class _Labelled:
    """An ``async def``; its calls have its own name, as known to the user's code."""

    def __init__(self, function: Callable[..., Any], label: str) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._label = label

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = running.get()
        assert call is not None  # the executor has set it
        running.set((call[0], self._label, call[2]))
        return self._function(*args, **kwargs)


class _AsyncFunctionClient(FunctionWorker, AsyncOwnerClient):
    """The engine of a worker of ``async def`` functions."""


class _AsyncFunctionExecutor(AsyncExecutor):
    """Adds the functions that are sent, and runs their calls; see AsyncExecutor."""

    _client: _AsyncFunctionClient
    _label_of = staticmethod(label_of)

    def _accept(self, frame: Frame, headers: Mapping[str, Any] | None = None) -> None:
        if frame[2] == ADD_FUNCTION:
            self._add_function(frame)
        else:
            super()._accept(frame, headers)

    def _add_function(self, frame: Frame) -> None:
        """Loads a function now: the next frame may be a call of it."""
        (name, function), _ = self._client.arguments(frame[3], frame[-1])
        is_async = inspect.iscoroutinefunction(function)
        if is_async or inspect.isasyncgenfunction(function):
            function = _Labelled(function, label_of(name))
        self._client.functions[name] = function

    def _is_async(self, method: object) -> bool:
        return isinstance(method, _Labelled)
