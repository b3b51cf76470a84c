"""Tries whether an actor can be started: ``python -m actorlib._cli.start_check spawn``.

It is a program of its own, so that whoever asks can end it if it hangs.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import actorlib

ANSWERED = "answered after"
"""What the program prints if it works begins so; else it prints what went wrong."""
_LARGE = 2**20


class Probe:
    """An actor that gives back what it gets."""

    def echo(self, value: bytes) -> bytes:
        """Gives a value back."""
        return value


async def try_an_actor(method: Any) -> str:
    """Starts a runtime with one actor, ends it, and says how that went.

    Args:
        method: How the worker is started.
    """
    began = time.perf_counter()
    try:
        async with actorlib.init(
            engine="local", num_cpus=1, num_gpus=0, control=False, start_method=method
        ):
            await actorlib.remote(Probe).remote().echo.remote(bytes(_LARGE))
            return f"{ANSWERED} {time.perf_counter() - began:.2f} s"
    except Exception as error:  # noqa: BLE001  # a strange machine
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.stdout.write(actorlib.run(try_an_actor(sys.argv[1])))
