"""Starting and ending runtimes, and whose they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib import Runtime

pytestmark = pytest.mark.process


OTHERS: dict[str, Callable[[Any], Any]] = {
    "a call": lambda echo: echo.echo.remote(1),
    "a handle": lambda echo: echo,
    "an end": lambda _: actorlib.kill(Echo.remote()),
    "wait": lambda echo: actorlib.wait([echo.echo.remote(1)]),
    "as_completed": lambda echo: anext(actorlib.as_completed([echo.echo.remote(1)])),
}


def test_runtime_when_used_on_another_loop_then_it_says_whose_it_is() -> None:
    async def begin() -> tuple[Runtime, Any]:
        runtime = await actorlib.init()
        return runtime, await Echo.remote()

    async def use(what: Callable[[Any], Any]) -> None:
        await what(echo)

    async def block() -> None:
        echo.echo.remote(1).get()

    loop = asyncio.new_event_loop()
    runtime, echo = loop.run_until_complete(begin())
    try:
        for what in OTHERS.values():
            with pytest.raises(RuntimeError, match=r"another event loop.*loop_scope"):
                asyncio.run(use(what))
        with pytest.raises(RuntimeError, match=r"another event loop.*loop_scope"):
            asyncio.run(block())
        assert loop.run_until_complete(echo.echo.remote(2)) == 2
    finally:
        loop.run_until_complete(runtime.shutdown())
        loop.close()
