"""Tries to start an actor: ``python -m actorlib._cli.start_check spawn``.

It is a program of its own, so that the caller can end it if it hangs.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import actorlib

ANSWERED = "answered after"
"""The beginning of the program's output if it works; else it prints the error."""
_LARGE = 2**20


class Probe:
    """An actor that returns its argument."""

    def echo(self, value: bytes) -> bytes:
        """Returns the value."""
        return value


async def try_an_actor(method: Any) -> str:
    """Starts a runtime with one actor, ends it, and returns a report."""
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
