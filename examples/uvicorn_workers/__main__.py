"""One model for all processes of a web server.

    python -m examples.uvicorn_workers --port 8000

This program starts the runtime, and uvicorn with two workers, which attach to the
runtime by its name (module ``app``). After SIGTERM uvicorn finishes its requests, its
workers detach, and the runtime ends last. uvicorn replaces a worker that is killed;
the model is not affected.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

import actorlib


@actorlib.remote(num_gpus=0.5)
class Model:
    """Reverses texts for all processes."""

    def __init__(self) -> None:
        self._served = 0

    async def predict(self, text: str) -> tuple[str, int]:
        """Returns the answer, and the number of answers so far."""
        await asyncio.sleep(0.002)
        self._served += 1
        return text[::-1], self._served


async def main() -> int:
    """Runs uvicorn inside the runtime; returns its exit code."""
    name = f"uvicorn-{os.getpid()}"  # a fixed name works for one service per machine
    async with actorlib.init(name=name, num_gpus=1):
        # This handle keeps the actor alive.
        model = await Model.options(name="model").remote()
        app = "examples.uvicorn_workers.app:app"
        server = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "uvicorn", app, "--workers", "2"],
            *sys.argv[1:],
            env={**os.environ, "RUNTIME": name},
        )
        try:
            return await server.wait()
        finally:
            with suppress(ProcessLookupError):  # it has ended
                server.terminate()
            await server.wait()
            del model


if __name__ == "__main__":
    sys.exit(actorlib.run(main()))
