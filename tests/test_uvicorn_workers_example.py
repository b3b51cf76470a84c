"""The example with several web processes shares one model among them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx: Any = pytest.importorskip("httpx")

# Four processes import FastAPI.
pytestmark = [pytest.mark.process, pytest.mark.thorough]

ROOT = Path(__file__).parents[1]
LIMIT = 30.0


class Server:
    """The example in a process of its own.

    Attributes:
        url: Where it is.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.uvicorn_workers", "--port", "0"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._said: list[str] = []
        self.url = self._started()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self) -> str:
        """Waits until a worker listens; what the first line tells is too early."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            if "Application startup complete" in line:
                said = "".join(self._said)
                if found := re.search(r"running on (http://\S+)", said):
                    return found[1]
        raise AssertionError("".join(self._said))

    def _read(self) -> None:
        assert self.process.stderr is not None
        self._said.extend(self.process.stderr)

    def end(self) -> tuple[int, str]:
        """Waits for its end; gives its exit code, and what it said."""
        code = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        return code, "".join(self._said)

    def close(self) -> None:
        """Closes what it said."""
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(server.process.pid, signal.SIGKILL)
    server.end()
    server.close()


async def _served_by(url: str, count: int, seen: list[int]) -> set[int]:
    """Asks until so many processes have answered; gives them.

    Args:
        url: Where the server is.
        count: How many processes.
        seen: Gets the numbers of the answers that the model has counted.
    """
    found: set[int] = set()
    deadline = time.monotonic() + LIMIT

    async def asked(path: str, number: int) -> None:
        # A connection for each: the kernel says which process gets it.
        async with httpx.AsyncClient(base_url=url, timeout=LIMIT) as client:
            answer = await client.get(path, params={"text": f"text {number}"})
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["answer"] == f"text {number}"[::-1]
        seen.append(told["served"])
        found.add(told["worker"])

    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found} have answered"
        paths = ("/predict", "/plain") * 4
        await asyncio.gather(*(asked(path, n) for n, path in enumerate(paths)))
    return found


async def test_workers_when_one_is_killed_then_the_model_goes_on_for_all(
    server: Server,
) -> None:
    seen: list[int] = []
    before = await _served_by(server.url, 2, seen)
    with Watched(before) as watched:
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        after = await _served_by(server.url, 1, seen) - {killed}
        server.process.send_signal(signal.SIGTERM)
        code, said = await asyncio.to_thread(server.end)

        assert sorted(seen) == [*range(1, len(seen) + 1)]  # one model, one count
        assert after
        assert code in (0, 128 + signal.SIGTERM), said
        assert "Traceback" not in said
        assert await asyncio.to_thread(watched.left) == []
