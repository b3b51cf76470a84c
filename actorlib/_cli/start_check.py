"""Tries whether an actor can be started: ``python -m actorlib._cli.start_check spawn``.

It is a program of its own, so that whoever asks can end it if it hangs.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Literal

import actorlib

_LARGE = 2**20


class Probe:
    """An actor that gives back what it gets."""

    def echo(self, value: bytes) -> bytes:
        """Gives a value back."""
        return value


async def try_an_actor(
    method: Literal["template", "spawn"],
) -> dict[str, float | bool]:
    """Starts a runtime with one actor, and ends it.

    Args:
        method: How its worker is started.

    Returns:
        ``seconds`` from the start to its answer, and whether that was shared.

    Raises:
        ActorlibError: It does not work.
        RuntimeError: The answer is another one.
    """
    began = time.perf_counter()
    async with actorlib.init(
        engine="local", num_cpus=1, num_gpus=0, control=False, start_method=method
    ) as runtime:
        sent = bytes(_LARGE)
        if await actorlib.remote(Probe).remote().echo.remote(sent) != sent:
            raise RuntimeError("an actor gave back something else than it was given")
        seconds = time.perf_counter() - began
        return {
            "seconds": seconds,
            "is_shared": runtime.snapshot().object_store.used > 0,
        }


if __name__ == "__main__":
    said: Any = sys.argv[1]
    sys.stdout.write(json.dumps(actorlib.run(try_an_actor(said))))
