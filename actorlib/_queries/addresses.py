"""The addresses of servers.

A server is a named socket (``_base/named_sockets``). Its name has the number of its
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.named_sockets import named_sockets

if TYPE_CHECKING:
    from actorlib._base.named_sockets import NamedSockets

QUERY_SOCKETS = "actorlib-door-"
"""The kind of the named sockets of servers."""
RUNTIMES = "actorlib-name-"
"""The kind of the named sockets at which clients attach to runtimes."""


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        uid: The user, by the name of the socket.
        pid: The process, as numbered in its own container.
        place: The address for ``socket.connect``.
    """

    uid: int
    pid: int
    place: str


def find_servers(sockets: NamedSockets | None = None) -> list[Address]:
    """Lists the servers of all users that this process can see, by process."""
    sockets = sockets or named_sockets(QUERY_SOCKETS)
    servers: list[Address] = []
    for uid, name in sockets.listed():
        pid = name.partition("-")[0]
        if pid.isdecimal():
            servers.append(Address(uid, int(pid), sockets.place(name, uid)))
    return sorted(servers, key=lambda address: (address.pid, address.place))
