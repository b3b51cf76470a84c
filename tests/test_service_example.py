"""The examples of services answer all requests, whichever process is killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.owners import Watched

import actorlib
from actorlib.exceptions import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Iterator

fastapi: Any = pytest.importorskip("fastapi")
uvicorn: Any = pytest.importorskip("uvicorn")
httpx: Any = pytest.importorskip("httpx")

# Several processes import FastAPI.
pytestmark = [pytest.mark.process, pytest.mark.thorough]

ROOT = Path(__file__).parents[1]
LIMIT = 30.0


class Server:
    """An example in a process of its own.

    Attributes:
        url: Where it is.
    """

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words, "--port", "0"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._log: list[str] = []
        self.url = self._started()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _started(self) -> str:
        """Waits until it listens: with several workers, the address comes before."""
        assert self.process.stderr is not None
        url = ready = ""
        for line in self.process.stderr:
            self._log.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                url = found[1]
            if "Application startup complete" in line:
                ready = line
            if url and ready:
                return url
        raise AssertionError("".join(self._log))

    def _read(self) -> None:
        assert self.process.stderr is not None
        self._log.extend(self.process.stderr)

    def end(self) -> tuple[int, str]:
        """Waits for its end; gives its exit code, and what it has logged."""
        code = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        return code, "".join(self._log)


@contextmanager
def serving(*words: str) -> Iterator[Server]:
    server = Server(*words)
    yield server
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(server.process.pid, signal.SIGKILL)
    server.end()
    assert server.process.stderr is not None
    server.process.stderr.close()


async def test_service_when_replicas_are_killed_and_it_ends_then_no_request_fails() -> (
    None
):
    limits = httpx.Limits(max_connections=64)
    with serving("uvicorn", "examples.service.app:app", "--no-access-log") as service:
        async with httpx.AsyncClient(
            base_url=service.url, limits=limits, timeout=LIMIT
        ) as client:
            await check_service(service, client)


async def check_service(service: Server, client: Any) -> None:
    found = (await client.get("/replicas")).json()
    assert sorted(each["slot"] for each in found) == [0, 1]

    async def ask(path: str, number: int) -> None:
        answer = await client.get(path, params={"text": f"text {number}"})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"answer": f"text {number}"[::-1]}

    requests = [
        asyncio.create_task(ask(path, number))
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
    assert 2 <= len(now) <= 4
    last = [asyncio.create_task(ask("/predict", n)) for n in range(16)]
    await asyncio.wait(last, return_when=asyncio.FIRST_COMPLETED)
    with Watched([each["pid"] for each in now]) as watched:
        service.process.send_signal(signal.SIGTERM)
        ended = await asyncio.gather(*last, return_exceptions=True)
        # What had not arrived by then was not taken: that is no failed request.
        assert all(
            error is None or isinstance(error, httpx.TransportError) for error in ended
        )
        code, log = await asyncio.to_thread(service.end)
        assert code in (0, -signal.SIGTERM)
        assert "Application shutdown complete" in log
        assert "Traceback" not in log
        assert await asyncio.to_thread(watched.left) == []


async def test_request_when_the_replicas_are_full_then_told_when_to_come_again() -> (
    None
):
    from examples.service.app import app, lifespan, refuse  # noqa: PLC0415  # it needs fastapi

    async with lifespan(app):
        models = app.state.models
        held = [models.predict.remote("abc") for _ in range(64 * 2)]
        with pytest.raises(OverloadedError) as refused:
            models.predict.remote("abc")
        answer = await refuse(fastapi.Request({"type": "http"}), refused.value)
        assert set(await asyncio.gather(*held)) == {"cba"}

    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert b"max_pending=64" in answer.body


@actorlib.remote
class Waiting:
    """Waits until its call is cancelled."""

    def __init__(self) -> None:
        self._ends = asyncio.Event()

    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._ends.set()
            raise

    async def until_cancelled(self) -> None:
        await self._ends.wait()


async def test_request_when_its_client_disconnects_then_its_call_is_cancelled() -> None:
    from examples.service.app import answer_of  # noqa: PLC0415  # it needs fastapi

    app = fastapi.FastAPI()
    waiting: list[Any] = []

    @app.post("/wait")
    async def wait(request: fastapi.Request, words: list[str]) -> None:
        assert words == ["a", "b"]
        await answer_of(request, waiting[0].wait.remote())

    @app.get("/two")
    async def two(request: fastapi.Request) -> int:
        return await answer_of(request, waiting[1].echo.remote(2))

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    async with actorlib.init(engine="inline"):
        waiting[:] = [Waiting.remote(), Echo.remote()]
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/two")).json() == 2
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/wait", json=["a", "b"], timeout=0.2)
        await asyncio.wait_for(waiting[0].until_cancelled.remote(), LIMIT)
        server.should_exit = True
        await serving


async def served_by(url: str, count: int, seen: list[int]) -> set[int]:
    """Asks until so many processes have answered; gives them.

    Args:
        url: Where the server is.
        count: How many processes.
        seen: Gets the numbers of the answers that the model has counted.
    """
    found: set[int] = set()
    deadline = time.monotonic() + LIMIT

    async def ask(path: str, number: int) -> None:
        # A connection for each: the kernel says which process gets it.
        async with httpx.AsyncClient(base_url=url, timeout=LIMIT) as client:
            answer = await client.get(path, params={"text": f"text {number}"})
        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert document["answer"] == f"text {number}"[::-1]
        seen.append(document["served"])
        found.add(document["worker"])

    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found} have answered"
        paths = ("/predict", "/plain") * 4
        await asyncio.gather(*(ask(path, n) for n, path in enumerate(paths)))
    return found


async def test_workers_when_one_is_killed_then_the_model_goes_on_for_all() -> None:
    seen: list[int] = []
    with serving("examples.uvicorn_workers") as server:
        before = await served_by(server.url, 2, seen)
        with Watched(before) as watched:
            killed = min(before)
            os.kill(killed, signal.SIGKILL)
            after = await served_by(server.url, 1, seen) - {killed}
            server.process.send_signal(signal.SIGTERM)
            code, log = await asyncio.to_thread(server.end)

            assert sorted(seen) == [*range(1, len(seen) + 1)]  # one model, one count
            assert after
            assert code in (0, 128 + signal.SIGTERM), log
            assert "Traceback" not in log
            assert await asyncio.to_thread(watched.left) == []
