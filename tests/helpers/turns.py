"""Turns of the event loop, counted instead of slept."""

from __future__ import annotations

import asyncio


async def next_turn() -> None:
    """Lets every callback that is ready on the running loop be called once."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    loop.call_soon(over.set_result, None)
    await over


def in_time() -> asyncio.Timeout:
    """A limit around a wait that only a failure reaches, instead of hanging."""
    return asyncio.timeout(10)
