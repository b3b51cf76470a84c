"""The web application: each worker of uvicorn is a client of one runtime."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import actorlib
from actorlib.exceptions import RuntimeLostError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Attaches when the worker starts, and detaches when it ends."""
    async with actorlib.attach(os.environ.get("RUNTIME", "service")):
        app.state.model = actorlib.get_actor("model")
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(RuntimeLostError)
async def gone(_: Request, error: Exception) -> JSONResponse:
    """Answers 503 after the program with the runtime has ended."""
    return JSONResponse({"detail": str(error)}, 503)


@app.get("/predict")
async def predict(request: Request, text: str) -> dict[str, Any]:
    """Calls the model, which all workers share."""
    answer, served = await request.app.state.model.predict.remote(text)
    return {"answer": answer, "served": served, "worker": os.getpid()}


@app.get("/plain")
def plain(request: Request, text: str) -> dict[str, Any]:
    """The same from a plain function, which FastAPI runs in a thread."""
    ref = request.app.state.model.predict.remote(text)
    answer, served = ref.get(timeout=30)
    return {"answer": answer, "served": served, "worker": os.getpid()}
