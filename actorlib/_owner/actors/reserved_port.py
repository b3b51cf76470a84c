"""A TCP port that is kept for a gang, until the last of it has ended.

Whoever asks the kernel for a free port and closes that socket again may lose the port
to anybody before rank 0 listens on it, and two gangs may be given the same. So the
owner binds it and keeps it bound, without listening: with ``SO_REUSEADDR`` on both
sides Linux lets rank 0 bind and listen beside it, as no socket of that port listens yet
(socket(7)), and gives the port to nobody who asks for any. What connects meanwhile is
refused, and tries again, as ``torch`` does; and it cannot be given that very port as
its own end, which would connect it to itself.

A program that asks for this port by its number, with ``SO_REUSEADDR``, gets it, as it
would in any case before rank 0 listens.

Rejected: rank 0 finds a port and tells the others. Their environment is set before any
of them runs, and a rank that came first would wait for one that may never come.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import final


@final
class ReservedPort:
    """Keeps a port that was free; see the module.

    Attributes:
        number: The port.

    Raises:
        OSError: There is none, or this process is out of descriptors.
    """

    def __init__(self) -> None:
        self._socket = _bound()
        self.number: int = self._socket.getsockname()[1]

    def __repr__(self) -> str:
        return f"<ReservedPort {self.number}>"

    def close(self) -> None:
        """Gives it back; harmless the second time."""
        self._socket.close()


def _bound() -> socket.socket:
    """Binds a socket to a free port of all addresses, as rank 0 will listen on all."""
    if sys.platform != "linux":
        # BSD lets nobody else bind the same address: another one, though. So the port
        # is kept there from whoever wants it on this address, or is given any.
        return _bound_to(socket.AF_INET, "127.0.0.1")
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # IPv6 is there and switched off
            return _bound_to(socket.AF_INET6, "::")
    return _bound_to(socket.AF_INET, "")


def _bound_to(family: socket.AddressFamily, address: str) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind((address, 0))
    except BaseException:
        made.close()
        raise
    return made
