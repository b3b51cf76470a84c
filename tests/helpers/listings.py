"""Runtimes and actors as commands list them, a program to list, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actorlib._cli.listing import Listing

BUSY = """
import asyncio, time
import actorlib
from helpers.owners import listen, tell

@actorlib.remote(num_gpus=1)
class Model:
    def predict(self):
        time.sleep(1000)

async def main():
    async with actorlib.init(num_cpus=4, num_gpus=1, grace=0):
        first = Model.options(name="m1").remote()
        await first
        second = Model.options(num_gpus=0.5, name="m2").remote()
        calls = [first.predict.remote()]
        calls += [first.predict.options(timeout=60).remote() for _ in range(2)]
        await asyncio.sleep(0)
        tell("ready")
        await asyncio.to_thread(listen)

asyncio.run(main())
"""


def actorlib(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does."""
    environ = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "TERM")}
    return subprocess.run(
        [sys.executable, "-m", "actorlib", *words],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )


def actor(**said: Any) -> Any:
    return {
        "id": "ab" * 16,
        "class_name": "Model",
        "name": "m1",
        "label": "Model 'm1'",
        "pid": 812,
        "state": "alive",
        "resources": {"GPU": 0.5},
        "devices": {"0": 0.5},
        "device_nbytes": {"0": 12 * 2**30},
        "device_memory": {"0": 3 * 2**30},
        "enforced_by": "watchdog",
        "cpu": 12.3,
        "pss": 20 * 2**20,
        "rss": 60 * 2**20,
        "pending": 3,
        "running": 1,
        "waiting": 2,
        "made": 40,
        "restarts": 0,
        "age": 61.0,
        "death": "",
        "why": "",
        **said,
    }


def listing(*actors: Any, **said: Any) -> Listing:
    found: Any = {
        "pid": 800,
        "user": "alice",
        "program": "python train.py",
        "name": "",
        "version": "0.1.0",
        "error": "",
        "stuck": None,
        "cpu": 3.0,
        "pss": 2**30,
        "rss": 2**31,
        "total": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**34},
        "available": {"CPU": 3.0, "GPU": 0.5, "memory": 2.0**34},
        "object_store": {"live": 0, "warm": 0, "limit": 0},
        "in_line": [],
        "in_line_count": 0,
        "devices": [],
        "actors": list(actors),
        "functions": [],
        "clients": [],
        **said,
    }
    return {"runtimes": [found]}
