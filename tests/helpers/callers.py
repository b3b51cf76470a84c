"""The two APIs by which a test of the contract makes calls and waits for them.

A test is a coroutine in both cases. With ``Awaiting`` it awaits refs on the loop of the
runtime. With ``Blocking`` the runtime has a loop of its own, and the test waits as a
thread of a script does: in ``actorlib.blocking``, in a thread of the test.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import pytest

import actorlib
import actorlib.blocking
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib.exceptions import ActorError
from helpers.actors import end_of, gone
from helpers.callees import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Api(Protocol):
    """How a test waits; what does not wait is called as it is, such as ``remote()``."""

    @property
    def is_blocking(self) -> bool:
        """Whether it is that of scripts."""
        ...

    async def get(self, ref: Any, *, limit: float | None = None) -> Any:
        """The value of a ref, or the list of the values of several.

        Args:
            ref: A ref, or a list of refs.
            limit: Seconds after which a TimeoutError is raised. Default: None, for the
                limit of the test.
        """
        ...

    async def wait(
        self, refs: Sequence[Any], *, num_returns: int = 1, limit: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        """The refs that are done, and the others; see ``actorlib.wait``."""
        ...

    async def next_item(self, stream: Any) -> Any:
        """The ref of a stream's next item.

        Raises:
            StopAsyncIteration: There is none.
        """
        ...

    async def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        """Ends an actor, and returns when it has ended."""
        ...

    async def ready(self, actor: Any) -> None:
        """Waits until an actor is ready."""
        ...

    def put(self, value: Any) -> Any:
        """The ref of a value."""
        ...

    def cancel(self, ref: Any, **options: Any) -> None:
        """Cancels a call or a stream; see ``actorlib.cancel``."""
        ...

    async def items(self, stream: Any) -> list[Any]:
        """The refs of all items of a stream."""
        ...

    def end_of(self, actor: Any) -> asyncio.Future[None]:
        """Done when an actor's process is gone; does not keep the handle."""
        ...


@final
class Awaiting:
    """The async API; see Api."""

    is_blocking = False

    async def get(self, ref: Any, *, limit: float | None = None) -> Any:
        """See Api."""
        waiting: Any = _together(ref)
        return await (waiting if limit is None else asyncio.wait_for(waiting, limit))

    async def wait(
        self, refs: Sequence[Any], *, num_returns: int = 1, limit: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        """See Api."""
        return await actorlib.wait(refs, num_returns=num_returns, timeout=limit)

    async def next_item(self, stream: Any) -> Any:
        """See Api."""
        return await anext(stream)

    async def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        """See Api."""
        await actorlib.kill(actor, no_restart=no_restart)

    async def ready(self, actor: Any) -> None:
        """See Api."""
        await actor

    def put(self, value: Any) -> Any:
        """See Api."""
        return actorlib.put(value)

    def cancel(self, ref: Any, **options: Any) -> None:
        """See Api."""
        actorlib.cancel(ref, **options)

    async def items(self, stream: Any) -> list[Any]:
        """See Api."""
        return [ref async for ref in stream]

    def end_of(self, actor: Any) -> asyncio.Future[None]:
        """See Api."""
        return end_of(actor)


@final
class Blocking:
    """The API of scripts; see Api."""

    is_blocking = True

    async def get(self, ref: Any, *, limit: float | None = None) -> Any:
        """See Api."""
        return await _in_thread(actorlib.blocking.get, ref, timeout=limit or LIMIT)

    async def wait(
        self, refs: Sequence[Any], *, num_returns: int = 1, limit: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        """See Api."""
        seconds = LIMIT if limit is None else limit
        return await _in_thread(
            actorlib.blocking.wait, list(refs), num_returns=num_returns, timeout=seconds
        )

    async def next_item(self, stream: Any) -> Any:
        """See Api."""
        end = object()
        ref = await _in_thread(next, stream, end)
        if ref is end:
            raise StopAsyncIteration
        return ref

    async def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        """See Api."""
        await _in_thread(actorlib.blocking.kill, actor, no_restart=no_restart)

    async def ready(self, actor: Any) -> None:
        """See Api."""
        await self.get(actor.__ray_ready__.remote())

    def put(self, value: Any) -> Any:
        """See Api."""
        return actorlib.blocking.put(value)

    def cancel(self, ref: Any, **options: Any) -> None:
        """See Api."""
        actorlib.blocking.cancel(ref, **options)

    async def items(self, stream: Any) -> list[Any]:
        """See Api."""
        return await _in_thread(list, stream)

    def end_of(self, actor: Any) -> asyncio.Future[None]:
        """See Api."""
        engine: Any = find_engine()
        number = pin_of(actor).actor_id
        if not hasattr(engine, "actor_table"):
            ready = engine.ready(number)
            return asyncio.ensure_future(_end_elsewhere(engine, ready, number.hex()))
        ended: Future[None] = Future()

        def tell(_: object) -> None:
            ended.set_result(None)

        def watch() -> None:
            life = engine.actor_table.by_id[number]
            life.ended.add_done_callback(tell)

        engine.loop.call(watch)
        return asyncio.wrap_future(ended)


async def error_of(api: Api, ref: Any) -> Any:
    """The exception that a wait raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the test looks closer
        await api.get(ref)
    return caught.value


async def all_items(api: Api, stream: Any) -> list[Any]:
    """The values of all items of a stream."""
    values: list[Any] = []
    while True:
        try:
            ref = await api.next_item(stream)
        except StopAsyncIteration:
            return values
        values.append(await api.get(ref))


def _together(ref: Any) -> Any:
    return asyncio.gather(*cast("list[Any]", ref)) if isinstance(ref, list) else ref


async def _end_elsewhere(engine: Any, ready: Any, key: str) -> None:
    with suppress(ActorError):  # it has ended meanwhile
        await _in_thread(ready.get, LIMIT)
    actors = await _in_thread(engine.actors)
    await asyncio.gather(*(gone(info.pid) for info in actors if info.actor_id == key))


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(partial(function, *args, **kwargs))
