"""Authorizes the requests to the page's server.

The address of the page contains a token, because a loopback port is open to all users
of the machine. The token is sent with each request. It is not in a cookie, since
browsers send the cookies of ``127.0.0.1`` to all ports there.

Another site may let its own name point to this machine (DNS rebinding), so that
browsers allow its page to send requests. So the host of a request has to be an address,
``localhost``, or the name of the option.
"""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, final
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse

from actorlib._web.address import LOCALHOST, is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from actorlib._web.address import WebAddress

_NO_TOKEN = (
    "This address lacks the token that belongs to it. The whole address was printed "
    "where the page was started; in the program it is runtime.dashboard.\n"
)
_OTHER_HOST = "This server does not go by that name.\n"
_OTHER_ORIGIN = "Another site may not ask this.\n"


class Refusal(NamedTuple):
    """Why a request is refused: an HTTP status, and a text."""

    status: int
    words: str


@final
class Admission:
    """Authorizes requests that contain the token.

    ``names`` are further names of this machine, if other machines can connect.
    """

    def __init__(
        self, token: str, address: WebAddress, names: frozenset[str] = frozenset()
    ) -> None:
        self._token = token.encode()
        self._is_loopback = address.is_loopback
        self._names = {address.host.lower()}
        if not address.is_loopback:
            self._names |= {name.lower() for name in names}

    def refusal(
        self, method: str, query: str, headers: Mapping[str, str]
    ) -> Refusal | None:
        """Returns why a request is refused, or None.

        The names of headers are in lower case.
        """
        host = headers.get("host", "")
        if not self._is_ours(_name_of(host)):
            return Refusal(421, _OTHER_HOST)
        tokens = parse_qs(query).get("token", [])
        if len(tokens) != 1 or not secrets.compare_digest(
            tokens[0].encode("utf-8", "surrogatepass"), self._token
        ):
            return Refusal(401, _NO_TOKEN)
        origin = headers.get("origin")
        if method != "GET" and origin not in (None, f"http://{host}"):
            return Refusal(403, _OTHER_ORIGIN)
        return None

    def _is_ours(self, name: str) -> bool:
        if name == LOCALHOST or name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        # Unlike a name, an address cannot be redirected to another machine.
        return is_loopback(name) or not self._is_loopback


def _name_of(host: str) -> str:
    """Returns the host of a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")


@final
class Guard:
    """Passes authorized requests on, and adds headers to all answers."""

    def __init__(
        self, application: ASGIApp, admission: Admission, headers: Mapping[str, str]
    ) -> None:
        self._application = application
        self._admission = admission
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in headers.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; see ASGI."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        query = scope["query_string"].decode("latin-1")
        refusal = self._admission.refusal(scope["method"], query, headers)
        serve = self._application
        if refusal is not None:
            serve = PlainTextResponse(refusal.words, status_code=refusal.status)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        await serve(scope, receive, send_guarded)
