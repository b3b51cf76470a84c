"""Calls of a sync and of an async actor, on uvloop or on asyncio's own loop."""

import asyncio
import os
from typing import Any

import actorlib
from benchmarks.subjects._calls import awaited
from benchmarks.subjects._processes import place
from benchmarks.subjects._report import Traffic, arguments, prefixed, report


@actorlib.remote
class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


@actorlib.remote
class Looped:
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


async def _calls(
    actor: actorlib.ActorHandle[Any], traffic: Traffic
) -> dict[str, float]:
    place(await actor.pid.remote(), apart=traffic.apart)
    return await awaited(actor.echo.remote, traffic)


async def _measured(traffic: Traffic) -> dict[str, float]:
    async with actorlib.init():
        return prefixed("sync", await _calls(Plain.remote(), traffic)) | prefixed(
            "async", await _calls(Looped.remote(), traffic)
        )


if __name__ == "__main__":
    asked = Traffic(**arguments())
    run = actorlib.run if asked.method == "uvloop" else asyncio.run
    report(run(_measured(asked)))
