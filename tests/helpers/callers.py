"""The two APIs by which a test of the contract makes calls and waits for them.

A test is a coroutine in both cases. With ``Api`` it awaits refs on the loop of the
runtime. With ``Blocking`` the runtime has a loop of its own, and the test waits as a
thread of a script does: in ``actorlib.blocking``, in a thread of the test.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast, final

import pytest

import actorlib
import actorlib.blocking
from helpers.callees import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Api:
    """How a test waits; what does not wait is called as it is, such as ``remote()``.

    Attributes:
        is_blocking: Whether it is that of scripts.
    """

    is_blocking = False

    async def get(self, ref: Any, *, limit: float | None = None) -> Any:
        """The value of a ref, or the list of the values of several.

        Args:
            ref: A ref, or a list of refs.
            limit: Seconds after which a TimeoutError is raised. Default: None, for the
                limit of the test.
        """
        many = isinstance(ref, list)
        waiting: Any = asyncio.gather(*cast("list[Any]", ref)) if many else ref
        return await (waiting if limit is None else asyncio.wait_for(waiting, limit))

    async def wait(
        self, refs: Sequence[Any], *, num_returns: int = 1, limit: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        """The refs that are done, and the others; see ``actorlib.wait``."""
        return await actorlib.wait(refs, num_returns=num_returns, timeout=limit)

    async def next_item(self, stream: Any) -> Any:
        """The ref of a stream's next item.

        Raises:
            StopAsyncIteration: There is none.
        """
        return await anext(stream)

    async def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        """Ends an actor, and returns when it has ended."""
        await actorlib.kill(actor, no_restart=no_restart)

    async def ready(self, actor: Any) -> None:
        """Waits until an actor is ready."""
        await actor

    def put(self, value: Any) -> Any:
        """The ref of a value."""
        return actorlib.put(value)

    def cancel(self, ref: Any, **options: Any) -> None:
        """Cancels a call or a stream; see ``actorlib.cancel``."""
        actorlib.cancel(ref, **options)

    async def items(self, stream: Any) -> list[Any]:
        """The refs of all items of a stream."""
        return [ref async for ref in stream]


@final
class Blocking(Api):
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


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(partial(function, *args, **kwargs))
