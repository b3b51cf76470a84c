"""The addresses of servers, and the users and processes at the ends of connections.

A server is a named socket (``_base/named_sockets``). Its name has the number of its
process.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.named_sockets import named_sockets

if TYPE_CHECKING:
    from actorlib._base.named_sockets import NamedSockets

_CREDENTIALS = struct.Struct("iII")
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


def peer_uid(sock: socket.socket) -> int | None:
    """Returns the user at the other end of a connection, or None if unknown.

    The kernel records it when a process connects or begins to listen.
    """
    credentials = _peer_credentials(sock)
    return None if credentials is None else credentials[1]


def peer_pid(sock: socket.socket) -> int:
    """Returns the process at the other end of a connection, or 0 if unknown."""
    credentials = _peer_credentials(sock)
    return 0 if credentials is None else credentials[0]


def _peer_credentials(sock: socket.socket) -> tuple[int, int, int] | None:
    option: int | None = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    data = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return pid, uid, gid
