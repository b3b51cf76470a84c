"""One model for all processes of a web server.

    python -m examples.uvicorn_workers --port 8000

This program has the runtime and starts uvicorn with two workers, which attach to the
runtime by its name: see ``app``. SIGTERM ends all of it: uvicorn finishes the requests
that it has, its workers detach, and the runtime ends last. A worker that is killed is
replaced by uvicorn, and the model does not notice.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

import actorlib


@actorlib.remote(num_gpus=0.5)
class Model:
    """Turns texts around, for whichever process asks."""

    def __init__(self) -> None:
        self._served = 0

    async def predict(self, text: str) -> tuple[str, int]:
        """The answer, and how many there were."""
        await asyncio.sleep(0.002)
        self._served += 1
        return text[::-1], self._served


async def main() -> int:
    """Has the runtime for as long as uvicorn runs; gives its exit code."""
    name = f"uvicorn-{os.getpid()}"  # "service" would do for one of it on a machine
    async with actorlib.init(name=name, num_gpus=1):
        # It holds the actor for as long as the runtime runs.
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
