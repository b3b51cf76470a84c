"""What Ray runs: it holds the user's object, and calls its methods by name.

Ray's actors are of classes that are derived from these, one for each face. A host with
``async def`` methods has Ray's event loop, on a thread that is not the main one: there
Ray calls the constructor too, and plain methods run, which block the loop meanwhile.
Only those of a concurrency group have threads of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._core.engine import ActorExit
from actorlib._core.interface import CALL, READY
from actorlib._ray.messages import answered, enter, raised, received, refuse_late, where
from actorlib._ray.ray_api import is_cancelled, leave, ray
from actorlib._wire.batches import await_each, call_each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from actorlib._ray.messages import Birth, Sent
    from actorlib._ray.sealed import SealedValue

_END = object()


class _Hosting:
    """What both kinds of host do.

    Args:
        birth: What the actor is made from.
        sent: The arguments of the constructor.
        *values: The values of the refs among them.
    """

    def __init__(self, birth: Birth, sent: Sent | SealedValue, *values: Any) -> None:
        self._label = birth.label
        self._numbers = itertools.count(1)
        try:
            make, self._home = birth.begin(birth, self)
            with self._home.blocked():
                _, args, kwargs = received(sent, values)
                self._instance = make(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the user's code
            raise raised(error, f"{self._label}()", retried=False) from None

    def leave(self) -> None:
        """Ends the actor behind what it was sent.

        Raises:
            SystemExit: Always.
        """
        ray.actor.exit_actor()

    def __ray_shutdown__(self) -> None:
        """Cleans up as the user's class says; Ray calls it where the actor leaves."""
        clean_up = getattr(type(self._instance), "__ray_shutdown__", None)
        if clean_up is not None:
            clean_up(self._instance)

    # What may be asked of the process; see ``runtime_context.Process``.

    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs was cancelled; see CallLookup."""
        del call
        return bool(ray.get_runtime_context().is_canceled())

    def function_name(self, method: str) -> str:
        """A method, with its class and the module of that; see CallLookup."""
        made = type(self._instance)
        return f"{made.__module__}.{made.__qualname__}.{method}"

    # Calls.

    def _method(self, name: str) -> Callable[..., Any]:
        if name == READY.name:
            return _true
        if name == CALL.name:
            return self._call_with
        found: Callable[..., Any] = getattr(self._instance, name)
        return found

    def _call_with(
        self, function: Callable[..., object], /, *args: Any, **kwargs: Any
    ) -> object:
        return function(self._instance, *args, **kwargs)

    def _enter(self, sent: Sent) -> int:
        """The call's place in its context; gives its number here."""
        number = next(self._numbers)
        enter(number, sent, self._called(sent))
        return number

    def _called(self, sent: Sent) -> str:
        return f"{self._label}.{sent.name}"

    def _raised(self, error: BaseException, sent: Sent) -> BaseException:
        """What is raised in the place of what the user's code has raised."""
        if isinstance(error, ActorExit):
            return _left(ray.actor.exit_actor)
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(bool(error.code))
            said = f"Its code left while it ran {sent.name}."
            return _left(lambda: leave(said, code)) if code else error
        if isinstance(error, Exception):
            at = where(self._instance, self._label, sent.name)
            return raised(error, at, sent.retried)
        return error


class Host(_Hosting):
    """An actor without an event loop: Ray's main thread, or its pool of threads."""

    def ready(self) -> str:
        """Which process it is, to whoever waits for it."""
        return _worker_id()

    def call(self, sent: Sent | SealedValue, *values: Any) -> Any:
        """Calls a method."""
        asked, args, kwargs = received(sent, values)
        return copy_context().run(self._call, asked, args, kwargs)

    def stream(self, sent: Sent, *values: Any) -> Iterator[Any]:
        """Calls a generator."""
        sent, args, kwargs = received(sent, values)
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
        self, sent: Sent, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            self._enter(sent)
            method = self._method(sent.name)
            if sent.batch is not None:
                return answered(sent, call_each(method, sent.batch, args))
            return answered(sent, method(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None


class AsyncHost(_Hosting):
    """An actor with ``async def`` methods: all of it on the thread of Ray's loop."""

    def __init__(self, birth: Birth, sent: Sent | SealedValue, *values: Any) -> None:
        self._gates = {
            group: asyncio.Semaphore(limit) for group, limit in birth.limits.items()
        }
        self._threads = {
            group: ThreadPoolExecutor(limit, thread_name_prefix=group)
            for group, limit in birth.limits.items()
            if group
        }
        self._groups = birth.groups
        super().__init__(birth, sent, *values)

    def was_canceled(self, call: int) -> bool:
        """Whether the call that asks was cancelled; see CallLookup."""
        del call
        return is_cancelled()

    async def ready(self) -> str:
        """Which process it is, to whoever waits for it."""
        return _worker_id()

    async def call(self, sent: Sent | SealedValue, *values: Any) -> Any:
        """Calls a method, when there is room for it."""
        asked, args, kwargs = received(sent, values)
        gate = self._gate(asked)
        if gate is None:
            return await self._call(asked, args, kwargs, _NO_LIMIT)
        async with gate:
            places = partial(_taken, gate), gate.release
            return await self._call(asked, args, kwargs, places)

    async def stream(self, sent: Sent, *values: Any) -> AsyncIterator[Any]:
        """Calls a generator, when there is room for it."""
        sent, args, kwargs = received(sent, values)
        gate = self._gate(sent)
        if gate is not None:
            await gate.acquire()
        try:
            self._enter(sent)
            items = self._method(sent.name)(*args, **kwargs)
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

    def _group(self, sent: Sent) -> str:
        return (sent.headers or {}).get("group") or self._groups.get(sent.name, "")

    def _gate(self, sent: Sent) -> asyncio.Semaphore | None:
        """What a call has to pass; plain methods only pass what was asked for."""
        return self._gates.get(self._group(sent))

    async def _call(
        self,
        sent: Sent,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        places: tuple[Callable[[], bool], Callable[[], None]],
    ) -> Any:
        try:
            self._enter(sent)
            method = self._method(sent.name)
            is_async = inspect.iscoroutinefunction(method)
            if sent.batch is not None:
                if is_async:
                    each = await await_each(method, sent.batch, args, places)
                    return answered(sent, each)
                calling = partial(call_each, method, sent.batch, args)
                return answered(sent, await self._plainly(sent, calling))
            if is_async:
                return answered(sent, await method(*args, **kwargs))
            calling = partial(method, *args, **kwargs)
            return answered(sent, await self._plainly(sent, calling))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None

    async def _plainly(self, sent: Sent, calling: Callable[[], object]) -> object:
        """Runs plain code: on the loop, which waits, or on a thread of its group's."""
        threads = self._threads.get(self._group(sent))
        if threads is None:
            with self._home.blocked():
                return calling()
        context = copy_context()

        def run() -> object:
            refuse_late(sent, self._called(sent))
            return context.run(calling)

        return await asyncio.get_running_loop().run_in_executor(threads, run)

    def _stepper(self, sent: Sent, items: Any) -> Callable[[], Any]:
        """Takes the next item, of an async generator or of a plain one."""
        if hasattr(items, "__anext__"):
            return lambda: anext(items, _END)
        return lambda: self._plainly(sent, partial(next, items, _END))


def _left(way: Callable[[], object]) -> BaseException:
    """What a way out raises."""
    try:
        way()
    except BaseException as error:  # noqa: BLE001  # it is what it does
        return error
    raise AssertionError("a way out raises")


def _taken(gate: asyncio.Semaphore) -> bool:
    """Takes a place if there is one, without waiting for it."""
    if gate.locked():
        return False
    with suppress(StopIteration):  # it has not had to wait
        gate.acquire().send(None)
    return True


def _true() -> bool:
    return True


_NO_LIMIT = _true, lambda: None


def _worker_id() -> str:
    found: str = ray.get_runtime_context().get_worker_id()
    return found
