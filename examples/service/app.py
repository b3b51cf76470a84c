"""A model behind FastAPI: batches, replicas, streams, and a clean end.

    uvicorn examples.service.app:app

The number of replicas follows the load. Requests beyond what they can take are answered
with status 503, and with the time after which to try again.

After SIGTERM uvicorn accepts no new requests and finishes those that it has; then the
runtime drains, and the replicas close. A replica that is killed restarts, and its calls
are repeated: no request fails. A client that disconnects cancels its call.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse

import actorlib
from actorlib.exceptions import (
    ActorUnavailableError,
    OverloadedError,
    RuntimeDrainingError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

T = TypeVar("T")


@actorlib.remote(num_gpus=0.5, max_concurrency=32, max_restarts=-1, max_task_retries=3)
class Model:
    """Reverses texts in batches, on half a GPU."""

    @actorlib.setup
    async def load(self) -> None:
        """Loads the model, in the worker."""
        self._table = {"polite": "please"}

    @actorlib.close
    async def unload(self) -> None:
        """Releases the model after the last request."""
        self._table.clear()

    @actorlib.batch(max_size=16, wait=0.002)
    async def predict(self, texts: list[str]) -> list[str]:
        """Computes a batch in the time of one text."""
        await asyncio.sleep(0.005)
        return [text[::-1] for text in texts]

    async def tokens(self, text: str) -> AsyncIterator[str]:
        """Yields the words one by one."""
        for word in text.split():
            await asyncio.sleep(0.001)
            yield word[::-1]

    async def check(self) -> None:
        """Returns if the replica is healthy."""

    async def where(self) -> tuple[int, list[int | str]]:
        """Returns the process id and the GPUs."""
        return os.getpid(), actorlib.get_gpu_ids()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Starts the runtime and the replicas with the service, and ends them with it."""
    async with (
        actorlib.init(num_gpus=2) as runtime,
        actorlib.Replicas(
            Model, min=2, max=4, max_pending=64, health="check"
        ) as models,
    ):
        app.state.models = models
        yield
        await runtime.drain(timeout=30)


app = FastAPI(lifespan=lifespan)


def models_of(request: Request) -> actorlib.Replicas[Any]:
    """Returns the replicas of the service."""
    models: actorlib.Replicas[Any] = request.app.state.models
    return models


@app.exception_handler(RuntimeDrainingError)
@app.exception_handler(ActorUnavailableError)
async def try_later(_: Request, error: Exception) -> JSONResponse:
    """Answers 503: the caller may try again."""
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": "1"})


@app.exception_handler(OverloadedError)
async def refuse(_: Request, error: OverloadedError) -> JSONResponse:
    """Answers 503: the replicas have as many calls as they may have."""
    seconds = str(ceil(error.retry_after))
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": seconds})


async def answer_of(request: Request, ref: actorlib.ObjectRef[T]) -> T:
    """Returns the result of a call, and cancels the call if the client disconnects."""

    async def disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    disconnected = asyncio.create_task(disconnect())
    first: set[asyncio.Future[Any]] = {disconnected, ref}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if ref.done():
            return await ref
        raise HTTPException(499, "the client has disconnected")
    finally:
        disconnected.cancel()
        ref.cancel()  # a call that is done is not affected


@app.get("/predict")
async def predict(request: Request, text: str) -> dict[str, str]:
    """Calls one of the replicas. A client that disconnects cancels the call."""
    ref = models_of(request).predict.remote(text)
    return {"answer": await answer_of(request, ref)}


@app.get("/plain")
def plain(request: Request, text: str) -> dict[str, str]:
    """The same from a plain function, which FastAPI runs in a thread."""
    ref = models_of(request).predict.remote(text)
    return {"answer": ref.get(timeout=30)}


@app.get("/stream")
async def stream(request: Request, text: str) -> StreamingResponse:
    """Sends each word as an event. A client that disconnects cancels the work."""
    words = models_of(request).tokens.remote(text)  # outside: it may be refused

    async def events() -> AsyncIterator[str]:
        async for word in words:
            yield f"data: {await word}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/replicas")
async def replicas(request: Request) -> list[dict[str, object]]:
    """Lists the replicas."""
    rows: list[dict[str, object]] = []
    for each in models_of(request).stats():
        pid, gpus = await each.handle.where.remote()
        rows.append({"slot": each.slot, "pid": pid, "gpus": gpus, "calls": each.calls})
    return rows
