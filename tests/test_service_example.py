"""The example of a service answers all requests, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx: Any = pytest.importorskip("httpx")

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).parents[1]
LIMIT = 30.0


class Service:
    """The service in a process of its own.

    Attributes:
        url: Where it is.
    """

    def __init__(self) -> None:
        arguments = ["examples.service.app:app", "--port", "0", "--no-access-log"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []
        self.url = self._started()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            if found := re.search(r"running on (http://\S+)", line):
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
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.process.kill()
    service.end()
    service.close()


async def test_service_when_replicas_are_killed_and_it_ends_then_no_request_fails(
    service: Service,
) -> None:
    limits = httpx.Limits(max_connections=64)
    async with httpx.AsyncClient(
        base_url=service.url, limits=limits, timeout=LIMIT
    ) as client:
        found = (await client.get("/replicas")).json()
        assert sorted(each["gpus"][0] for each in found) == [0, 0, 1, 1]

        async def asked(path: str, number: int) -> None:
            answer = await client.get(path, params={"text": f"text {number}"})
            assert answer.status_code == 200, answer.text
            assert answer.json() == {"answer": f"text {number}"[::-1]}

        requests = [
            asyncio.create_task(asked(path, number))
            for number in range(40)
            for path in ("/predict", "/plain")
        ]
        await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        for each in found[:2]:
            os.kill(each["pid"], signal.SIGKILL)
        await asyncio.gather(*requests)

        stream = await client.get("/stream", params={"text": "abc def"})
        assert stream.text == "data: cba\n\ndata: fed\n\n"

        now = (await client.get("/replicas")).json()
        assert len(now) == 4
        last = [asyncio.create_task(asked("/predict", n)) for n in range(16)]
        await asyncio.wait(last, return_when=asyncio.FIRST_COMPLETED)
        with Watched([each["pid"] for each in now]) as watched:
            service.process.send_signal(signal.SIGTERM)
            ended = await asyncio.gather(*last, return_exceptions=True)
            # What had not arrived by then was not taken: that is no failed request.
            assert all(
                error is None or isinstance(error, httpx.TransportError)
                for error in ended
            )
            code, said = await asyncio.to_thread(service.end)
            assert code in (0, -signal.SIGTERM)
            assert "Application shutdown complete" in said
            assert "Traceback" not in said
            assert await asyncio.to_thread(watched.left) == []
