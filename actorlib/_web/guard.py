"""Decides who may ask the page's server, before anything else sees a request.

Who has the address has the token that is in it, and nobody else does: not another user
of the machine, for whom a port of loopback is as open as for this one. It is sent with
each request and is in no cookie, since browsers send those of ``127.0.0.1`` to whatever
listens on any other port there.

A page of another site may have its own name point here (DNS rebinding) and would then
be let through by the browser; so requests name this machine by an address, by
``localhost``, or by the name that was asked for.
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
    """Why somebody is not served: a status of HTTP, and words."""

    status: int
    words: str


@final
class Admission:
    """Says who is served.

    Args:
        token: What the address has to have.
        address: Where the server listens.
        names: What this machine is called besides, if it listens beyond itself.
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
        """Says why a request is not served; None if it is.

        Args:
            method: That of HTTP.
            query: What stands behind the question mark.
            headers: By name, in lower case.
        """
        host = headers.get("host", "")
        if not self._is_ours(_name_of(host)):
            return Refusal(421, _OTHER_HOST)
        given = parse_qs(query).get("token", [])
        if len(given) != 1 or not secrets.compare_digest(
            given[0].encode("utf-8", "surrogatepass"), self._token
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
        # An address cannot be made to mean another machine, as a name can.
        return is_loopback(name) or not self._is_loopback


def _name_of(host: str) -> str:
    """The host of a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")


@final
class Guard:
    """Lets through who may ask, and says in each answer what browsers may do with it.

    Args:
        application: What serves them.
        admission: Who may.
        headers: What is said in each answer.
    """

    def __init__(
        self, application: ASGIApp, admission: Admission, headers: Mapping[str, str]
    ) -> None:
        self._application = application
        self._admission = admission
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in headers.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; as ASGI has it."""
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
