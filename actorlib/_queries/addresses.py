"""Where the servers of runtimes are, and who asks.

A server is a named socket (``_core/named_sockets``), whose name tells its process.
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
"""The kind of the sockets that are servers."""
RUNTIMES = "actorlib-name-"
"""The kind of those where runtimes that have names let clients in."""


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        uid: Whose it is, as its name says.
        pid: The process, as it counts itself; in another container that may be another.
        place: What a socket connects to.
    """

    uid: int
    pid: int
    place: str


def find_servers(sockets: NamedSockets | None = None) -> list[Address]:
    """Lists the servers that this process can see, of whomever, by process.

    Args:
        sockets: Those that are looked at. Default: None, for this machine's.
    """
    sockets = sockets or named_sockets(QUERY_SOCKETS)
    found: list[Address] = []
    for uid, name in sockets.listed():
        pid = name.partition("-")[0]
        if pid.isdecimal():
            found.append(Address(uid, int(pid), sockets.place(name, uid)))
    return sorted(found, key=lambda address: (address.pid, address.place))


def peer_uid(sock: socket.socket) -> int | None:
    """Gives the user at the other end of a connection; None where nobody can say.

    Of who connects it is the user at that time, of who listens the one who began to.
    """
    option: int | None = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    told = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[1])


def peer_pid(sock: socket.socket) -> int:
    """Gives the process at the other end of a connection; 0 where nobody can say."""
    option: int | None = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    told = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[0])
