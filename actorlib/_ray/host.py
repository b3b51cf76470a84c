"""The Ray actor that holds the user's object and calls its methods.

Each interface has a class derived from these. A host with ``async def`` methods has
Ray's event loop, on a thread that is not the main thread. Ray calls the constructor
there, and plain methods run there and block the loop. Only a concurrency group without
coroutines has threads of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._base.labels import Label, own_name
from actorlib._core.engine import ActorExit
from actorlib._options.hooks import hooks_of, make_instance
from actorlib._options.interface import CALL, READY, find_method
from actorlib._ray.messages import (
    answer_to,
    enter_call,
    failure_of,
    read_call,
    refuse_late,
)
from actorlib._ray.ray_api import exit_worker, is_cancelled, ray
from actorlib._wire.batches import await_each, call_each

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Coroutine,
        Generator,
        Iterator,
        Mapping,
    )

    from actorlib._ray.messages import CallMessage, HostConfig
    from actorlib._ray.pickled import PickledValue

_END = object()


class _BaseHost:
    """Holds the user's object; the base of both kinds of host.

    The constructor of a host takes the configuration, the arguments of the user's
    constructor, and the values of the refs among them.
    """

    _instance: object

    def _make(
        self,
        config: HostConfig,
        sent: CallMessage | PickledValue,
        values: tuple[Any, ...],
    ) -> Coroutine[Any, Any, object] | None:
        """Makes the user's object; returns its ``async def __init__``, if any."""
        self._label = config.label
        self._numbers = itertools.count(1)
        with self._failing():
            make, self._process = config.begin(config, self)
            with self._process.blocked():
                _, args, kwargs = read_call(sent, values)
                self._instance, initializing = make_instance(make, args, kwargs)
        return initializing

    def _set_up(self) -> None:
        setup = hooks_of(type(self._instance)).setup
        if setup is not None:
            with self._failing(), self._process.blocked():
                find_method(self._instance, setup)()

    @contextmanager
    def _failing(self) -> Generator[None]:
        """Converts errors of the user's code to errors of the creation."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the user's code
            raise failure_of(error, f"{self._label}()", retried=False) from None

    def leave(self) -> None:
        """Ends the actor after the calls that it was sent.

        Raises:
            SystemExit: Always.
        """
        ray.actor.exit_actor()

    def __ray_shutdown__(self) -> None:
        """Calls the clean-up methods of the user's class; Ray calls it at the end."""
        cls = type(self._instance)
        close = hooks_of(cls).close_of(self._instance)
        with ExitStack() as steps:  # the last one first, each even if another raises
            for clean_up in (getattr(cls, "__ray_shutdown__", None), close):
                if clean_up is not None:
                    steps.callback(clean_up, self._instance)

    # See ``runtime_context.CallLookup``.

    def was_canceled(self, call: int) -> bool:
        del call
        return bool(ray.get_runtime_context().is_canceled())

    def function_name(self, method: str) -> str:
        cls = type(self._instance)
        return f"{cls.__module__}.{cls.__qualname__}.{method}"

    # Calls.

    def _method(self, name: str) -> Callable[..., Any]:
        if name == READY.name:
            return _true
        if name == CALL.name:
            return self._call_with
        return find_method(self._instance, name)

    def _call_with(
        self, function: Callable[..., object], /, *args: Any, **kwargs: Any
    ) -> object:
        return function(self._instance, *args, **kwargs)

    def _enter(self, sent: CallMessage) -> int:
        """Makes a call the current one; returns its number."""
        number = next(self._numbers)
        enter_call(number, sent, self._called(sent))
        return number

    def _called(self, sent: CallMessage) -> str:
        return f"{self._label}.{sent.name}"

    def _raised(self, error: BaseException, sent: CallMessage) -> BaseException:
        """Returns the exception that Ray gets for an error of the user's code."""
        if isinstance(error, ActorExit):
            return _left(ray.actor.exit_actor)
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(bool(error.code))
            message = f"Its code left while it ran {sent.name}."
            return _left(lambda: exit_worker(message, code)) if code else error
        if isinstance(error, Exception):
            label = Label(self._label, own=own_name(self._instance))
            at = label.method(sent.name, os.getpid())
            return failure_of(error, at, sent.retried)
        return error


class ActorHost(_BaseHost):
    """Hosts an actor without an event loop, on Ray's main thread or in its pool."""

    def __init__(
        self, config: HostConfig, sent: CallMessage | PickledValue, *values: Any
    ) -> None:
        self._make(config, sent, values)
        self._set_up()

    def ready(self) -> str:
        """Returns the id of the process, when the actor is ready."""
        return _worker_id()

    def call(self, sent: CallMessage | PickledValue, *values: Any) -> Any:
        call, args, kwargs = read_call(sent, values)
        return copy_context().run(self._call, call, args, kwargs)

    def stream(self, sent: CallMessage, *values: Any) -> Iterator[Any]:
        sent, args, kwargs = read_call(sent, values)
        context = copy_context()
        try:
            context.run(self._enter, sent)
            items = context.run(self._method(sent.name), *args, **kwargs)
            while (item := context.run(next, items, _END)) is not _END:
                yield item
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None

    def _call(
        self, sent: CallMessage, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            self._enter(sent)
            method = self._method(sent.name)
            if sent.batch is not None:
                return answer_to(sent, call_each(method, sent.batch, args))
            return answer_to(sent, method(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None


class AsyncActorHost(_BaseHost):
    """Hosts an actor with ``async def`` methods, on Ray's loop."""

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, config: HostConfig, sent: CallMessage | PickledValue, *values: Any
    ) -> None:
        self._gates = {
            group: asyncio.Semaphore(limit) for group, limit in config.limits.items()
        }
        self._threads = {
            group: ThreadPoolExecutor(limit, thread_name_prefix=group)
            for group, limit in config.limits.items()
            if group
        }
        self._groups = config.groups
        self._ending_threads: dict[str, asyncio.Future[None]] = {}
        initializing = self._make(config, sent, values)
        if initializing is not None:
            with self._failing():
                await initializing
        self._set_up()
        for name, group in config.groups.items():
            if _is_coroutine(self._method(name)):
                self._threads.pop(group, None)

    def was_canceled(self, call: int) -> bool:
        del call
        return is_cancelled()

    async def ready(self) -> str:
        return _worker_id()

    async def call(self, sent: CallMessage | PickledValue, *values: Any) -> Any:
        """Calls a method, within the limit of its group."""
        call, args, kwargs = read_call(sent, values)
        gate = self._gate(call)
        if gate is None:
            return await self._call(call, args, kwargs, _NO_LIMIT)
        async with gate:
            places = partial(_try_acquire, gate), gate.release
            return await self._call(call, args, kwargs, places)

    async def stream(self, sent: CallMessage, *values: Any) -> AsyncIterator[Any]:
        """Calls a generator, within the limit of its group."""
        sent, args, kwargs = read_call(sent, values)
        gate = self._gate(sent)
        if gate is not None:
            await gate.acquire()
        try:
            self._enter(sent)
            items = self._method(sent.name)(*args, **kwargs)
            await self._leave_threads(sent, is_async=hasattr(items, "__anext__"))
            step = self._stepper(sent, items)
            while (item := await step()) is not _END:
                yield item
        except (GeneratorExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None
        finally:
            if gate is not None:
                gate.release()

    def _group(self, sent: CallMessage) -> str:
        return (sent.headers or {}).get("group") or self._groups.get(sent.name, "")

    def _gate(self, sent: CallMessage) -> asyncio.Semaphore | None:
        """Returns the limit of a call's concurrency group, if there is one."""
        return self._gates.get(self._group(sent))

    async def _call(
        self,
        sent: CallMessage,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        places: tuple[Callable[[], bool], Callable[[], None]],
    ) -> Any:
        try:
            self._enter(sent)
            method = self._method(sent.name)
            is_async = inspect.iscoroutinefunction(method)
            await self._leave_threads(sent, is_async=is_async)
            if sent.batch is not None:
                if is_async:
                    each = await await_each(method, sent.batch, args, places)
                    return answer_to(sent, each)
                calling = partial(call_each, method, sent.batch, args)
                return answer_to(sent, await self._plainly(sent, calling))
            if is_async:
                return answer_to(sent, await method(*args, **kwargs))
            calling = partial(method, *args, **kwargs)
            return answer_to(sent, await self._plainly(sent, calling))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None

    async def _leave_threads(self, sent: CallMessage, *, is_async: bool) -> None:
        """Ends the threads of a group when a call brings a coroutine into it.

        From then on, plain methods of the group run on the loop.
        """
        group = self._group(sent)
        threads = self._threads.pop(group, None) if is_async else None
        if threads is not None:
            loop = asyncio.get_running_loop()
            ending = loop.run_in_executor(None, threads.shutdown)
            self._ending_threads[group] = ending
        if group in self._ending_threads:
            await asyncio.shield(self._ending_threads[group])

    async def _plainly(
        self, sent: CallMessage, calling: Callable[[], object]
    ) -> object:
        """Runs plain code, on the blocked loop or on a thread of its group."""
        threads = self._threads.get(self._group(sent))
        if threads is None:
            with self._process.blocked():
                return calling()
        context = copy_context()

        def run() -> object:
            refuse_late(sent, self._called(sent))
            return context.run(calling)

        return await asyncio.get_running_loop().run_in_executor(threads, run)

    def _stepper(self, sent: CallMessage, items: Any) -> Callable[[], Any]:
        """Returns a function for the next item of an async or plain generator."""
        if hasattr(items, "__anext__"):
            return lambda: anext(items, _END)
        return lambda: self._plainly(sent, partial(next, items, _END))


def _is_coroutine(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _left(leave: Callable[[], object]) -> BaseException:
    """Returns the error that leaving raises."""
    try:
        leave()
    except BaseException as error:  # noqa: BLE001  # its purpose
        return error
    raise AssertionError("leaving raises")


def _try_acquire(gate: asyncio.Semaphore) -> bool:
    """Acquires a semaphore if that is possible without waiting."""
    if gate.locked():
        return False
    with suppress(StopIteration):  # it did not wait
        gate.acquire().send(None)
    return True


def _true() -> bool:
    return True


_NO_LIMIT = _true, lambda: None


def _worker_id() -> str:
    worker_id: str = ray.get_runtime_context().get_worker_id()
    return worker_id
