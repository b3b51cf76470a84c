"""Serves the page and its data: an ASGI application.

| path | method | answer |
|---|---|---|
| ``/`` | GET | the page, in one file |
| ``/looks`` | GET | the samples, as events, while the client reads |
| ``/actors/{id}/stack``, ``calls``, ``explain`` | GET | the answer, in JSON |
| ``/actors/{id}/logs`` | GET | its latest lines, or those ``after`` a page |
| ``/actors/{id}/kill`` | POST | kills the actor: ``{"restart": false}`` |
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from actorlib._base.ids import ID_SIZE
from actorlib._web.guard import Guard
from actorlib._web.looks import PAGE
from actorlib._web.questions import OWNER, Questions
from actorlib._web.watch import in_json
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from actorlib._queries.rows import Logs
    from actorlib._web.guard import Admission
    from actorlib._web.watch import Ask, Watch

MOST_WATCHING: Final = 16
"""The most open pages."""
_PAGE = Path(__file__).with_name("page.html")
_PARTS = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_LONGEST_BODY = 1024
_DIGITS = 18
_ID = re.compile(rf"[0-9a-fA-F]{{{2 * ID_SIZE}}}")
_KILLS = '{"restart": true}, {"restart": false} or {}'


@final
class Application:
    """Serves the page of one runtime."""

    def __init__(self, ask: Ask, watch: Watch, admission: Admission) -> None:
        self._watch = watch
        self._questions = Questions(ask, watch)
        self._page = _PAGE.read_text("utf-8")
        self._watching = 0
        routes = [
            Route("/", self._show),
            Route("/looks", self._looks),
            Route("/actors/{actor}/kill", self._kill, methods=["POST"]),
            Route("/actors/{actor}/logs", self._logs),
            Route("/actors/{actor}/{question}", self._answer),
        ]
        bare = Starlette(routes=routes)
        self.asgi: ASGIApp = Guard(bare, admission, headers(self._page))

    async def _show(self, _: Request) -> Response:
        return HTMLResponse(self._page)

    async def _looks(self, _: Request) -> Response:
        if self._watching >= MOST_WATCHING:
            refusal = {"error": f"{MOST_WATCHING} pages are open already"}
            return JSONResponse(refusal, status_code=503)
        return StreamingResponse(
            self._events(), media_type="text/event-stream; charset=utf-8"
        )

    async def _events(self) -> AsyncIterator[str]:
        """Yields samples; a client that reads slowly misses some of them."""
        self._watching += 1
        try:
            number = 0
            while (sample := await self._watch.after(number)) is not None:
                text = sample.text
                if number == 0:
                    points = [PAGE.encode(point) for point in self._watch.points]
                    text = in_json({**PAGE.encode(sample.content), "points": points})
                number = sample.number
                yield f"data: {text}\n\n"
        finally:
            self._watching -= 1

    async def _answer(self, request: Request) -> Response:
        queries: dict[str, Callable[[str], object]] = {
            "calls": self._questions.calls,
            "explain": self._questions.explain,
            "stack": self._questions.stack,
        }
        answer_query = queries.get(request.path_params["question"])
        if answer_query is None:
            return JSONResponse({"error": "nothing is served there"}, status_code=404)
        return await _respond(answer_query, request.path_params["actor"])

    async def _logs(self, request: Request) -> Response:
        after, *others = request.query_params.getlist("after") or ["0"]
        if others or not (
            after.isascii() and after.isdecimal() and len(after) < _DIGITS
        ):
            wrong = {"error": "after takes the number of a line"}
            return JSONResponse(wrong, status_code=400)

        def logs(actor: str) -> Logs:
            return self._questions.logs(actor, int(after))

        return await _respond(logs, request.path_params["actor"])

    async def _kill(self, request: Request) -> Response:
        try:
            is_restarted = _restart_of(await _body_of(request))
        except ValueError as error:
            wrong = {"error": f"send {_KILLS}: {error}"}
            return JSONResponse(wrong, status_code=400)
        except ClientDisconnect:
            return Response()  # the client has gone

        def kill(actor: str) -> object:
            return self._questions.kill(actor, is_restarted=is_restarted)

        return await _respond(kill, request.path_params["actor"])


async def _respond(answer_query: Callable[[str], object], actor: str) -> Response:
    if actor != OWNER and not _ID.fullmatch(actor):
        wrong = {"error": "There is no such actor: an id has 32 hex digits."}
        return JSONResponse(wrong, status_code=404)
    try:
        answer = await asyncio.to_thread(answer_query, actor.lower())
    except RuntimeNotFoundError as error:
        status, reason = 404, str(error)
    except RuntimeUnreachableError as error:
        status, reason = 503, str(error)
    except ValueError as error:
        status, reason = 409, str(error)
    else:
        # Starlette's JSONResponse refuses texts that are not UTF-8; file names may be.
        content = PAGE.encode(answer) if is_dataclass(answer) else answer
        return Response(in_json(content), media_type="application/json")
    return Response(in_json({"error": reason}), status, media_type="application/json")


async def _body_of(request: Request) -> bytes:
    """Reads the body of a request.

    Raises:
        ValueError: It is too long.
        ClientDisconnect: The client has gone.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_BODY:
            raise ValueError(f"this is longer than {_LONGEST_BODY} bytes")
    return body


def _restart_of(body: bytes) -> bool:
    """Parses the body of a request to kill an actor.

    Raises:
        ValueError: It is invalid.
    """
    try:
        # As pairs, so that a repeated name is detected.
        pairs: object = json.loads(body, object_pairs_hook=tuple)
    except RecursionError:
        raise ValueError("this is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(pairs, tuple):
        raise ValueError("this is not an object")  # noqa: TRY004  # of the client
    match cast("tuple[object, ...]", pairs):
        case ():
            return False
        case (("restart", bool(is_restarted)),):
            return is_restarted
        case _:
            raise ValueError("this has another name, another value or two of them")


def headers(page: str) -> dict[str, str]:
    """Returns headers that allow the page only its own scripts and this server."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _PARTS.findall(page):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    policy = [
        "default-src 'none'",
        f"script-src {' '.join(hashes['script'])}",
        f"style-src {' '.join(hashes['style'])}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
