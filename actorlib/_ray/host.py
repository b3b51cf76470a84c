"""What Ray runs: it holds the user's object, and calls its methods by name.

Ray's actors are of classes that are derived from these, one for each face. A host with
``async def`` methods has Ray's event loop; its plain methods run one at a time on a
thread of their own, that of the constructor, as beside any loop of actorlib's.
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
from actorlib._core.object_ref import hide_from_other_loops
from actorlib._ray.messages import answered, enter, raised, received, refuse_late, where
from actorlib._ray.ray_api import leave, ray
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
        self._instance = self._born(birth, sent, values)

    def _born(
        self, birth: Birth, sent: Sent | SealedValue, values: tuple[Any, ...]
    ) -> object:
        try:
            make, self._home = birth.begin(birth, self)
            _, args, kwargs = received(sent, values)
            return make(*args, **kwargs)
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
    """An actor with ``async def`` methods: Ray's loop, and a thread beside it."""

    def __init__(self, birth: Birth, sent: Sent | SealedValue, *values: Any) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=birth.label)
        self._gates = {
            group: asyncio.Semaphore(limit) for group, limit in birth.limits.items()
        }
        self._groups = birth.groups
        self._is_moved = False
        self._cancelled: set[int] = set()
        super().__init__(birth, sent, *values)

    def _born(
        self, birth: Birth, sent: Sent | SealedValue, values: tuple[Any, ...]
    ) -> object:
        born = super()._born
        return self._thread.submit(born, birth, sent, values).result()

    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs was cancelled; Ray would not say; see CallLookup."""
        return call in self._cancelled

    async def ready(self) -> str:
        """Which process it is, to whoever waits for it."""
        return _worker_id()

    async def call(self, sent: Sent | SealedValue, *values: Any) -> Any:
        """Calls a method, when there is room for it."""
        self._move()
        asked, args, kwargs = received(sent, values)
        gate = self._gate(asked)
        if gate is None:
            return await self._call(asked, args, kwargs, _NO_LIMIT)
        async with gate:
            places = partial(_taken, gate), gate.release
            return await self._call(asked, args, kwargs, places)

    async def stream(self, sent: Sent, *values: Any) -> AsyncIterator[Any]:
        """Calls a generator, when there is room for it."""
        self._move()
        sent, args, kwargs = received(sent, values)
        gate = self._gate(sent)
        if gate is not None:
            await gate.acquire()
        try:
            self._enter(sent)
            items = self._method(sent.name)(*args, **kwargs)
            step = self._stepper(items)
            while (item := await step()) is not _END:
                yield item
        except (GeneratorExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None
        finally:
            if gate is not None:
                gate.release()

    def _move(self) -> None:
        """From the first call on, refs belong to the loop."""
        if not self._is_moved:
            self._is_moved = True
            # Those that the class or the constructor has brought stay without a loop.
            hide_from_other_loops()
            self._home.move(asyncio.get_running_loop())

    def _gate(self, sent: Sent) -> asyncio.Semaphore | None:
        """What a call has to pass; plain methods only pass what was asked for."""
        group = (sent.headers or {}).get("group") or self._groups.get(sent.name, "")
        return self._gates.get(group)

    async def _call(
        self,
        sent: Sent,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        places: tuple[Callable[[], bool], Callable[[], None]],
    ) -> Any:
        try:
            number = self._enter(sent)
            method = self._method(sent.name)
            is_async = inspect.iscoroutinefunction(method)
            if sent.batch is not None:
                if is_async:
                    each = await await_each(method, sent.batch, args, places)
                    return answered(sent, each)
                calling = partial(call_each, method, sent.batch, args)
                return answered(sent, await self._beside(sent, number, calling))
            if is_async:
                return answered(sent, await method(*args, **kwargs))
            calling = partial(method, *args, **kwargs)
            return answered(sent, await self._beside(sent, number, calling))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code
            raise self._raised(error, sent) from None

    async def _beside(
        self, sent: Sent, number: int, calling: Callable[[], object]
    ) -> object:
        """Runs a plain method on the thread of the constructor."""
        context = copy_context()

        def run() -> object:
            refuse_late(sent, self._called(sent))
            return context.run(calling)

        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, run)
        except asyncio.CancelledError:
            self._cancelled.add(number)  # it runs on, and may ask
            raise

    def _stepper(self, items: Any) -> Callable[[], Any]:
        """Takes the next item, of an async generator or of a plain one."""
        if hasattr(items, "__anext__"):
            return lambda: anext(items, _END)
        loop, context = asyncio.get_running_loop(), copy_context()
        return lambda: loop.run_in_executor(
            self._thread, lambda: context.run(next, items, _END)
        )


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
