"""Where runtimes that have names let clients in: one socket for each user and name.

On Linux that is an abstract address made of both, so the kernel itself sees to it that
there is but one of a name, and frees the name with the process, however that ends.
Anybody may take such an address: who connects, and who listens, asks the kernel whose
process the other one is.

Elsewhere it is a socket in the folder of the doors. What a killed program leaves there
is removed by who takes the name next, or looks for it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, final

from actorlib._door.addresses import (
    is_answered,
    is_own_folder,
    listening,
    make_folder,
    remove_socket,
    user_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_KIND = "actorlib-name-"
_LISTENS = "00010000"
"""The flags of a socket that listens (``__SO_ACCEPTCON``), as proc_net(5) has them."""


class NamedSockets(Protocol):
    """The sockets of the named runtimes of one user on one machine."""

    def place(self, name: str) -> str:
        """What a socket connects to that wants the runtime of a name."""
        ...

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name.

        Returns:
            The socket that listens, and what removes what closing it leaves.

        Raises:
            FileExistsError: Somebody has the name.
            OSError: There can be no socket.
        """
        ...

    def names(self) -> list[str]:
        """Lists the names of this user's runtimes that this process can see."""
        ...


@final
class AbstractSockets:
    """Sockets that are abstract addresses of Linux.

    Args:
        table: The kernel's list of local sockets.
    """

    def __init__(self, table: str = "/proc/net/unix") -> None:
        self._table = table

    def place(self, name: str) -> str:
        """What a socket connects to: see NamedSockets."""
        return f"\0{_KIND}{os.geteuid()}/{name}"

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name: see NamedSockets."""
        try:
            return listening(self.place(name)), _nothing
        except OSError as error:
            raise _taken_or(error) from error

    def names(self) -> list[str]:
        """Lists the names: see NamedSockets."""
        try:
            with open(self._table, encoding="utf-8", errors="replace") as table:  # noqa: PTH123  # no pathlib in the owner
                lines = [line.split() for line in table]
        except OSError:
            return []
        start = f"@{_KIND}{os.geteuid()}/"
        # Each connection to one has the same address, without the flag.
        return sorted(
            {
                line[7].removeprefix(start)
                for line in lines
                if len(line) == 8 and line[3] == _LISTENS and line[7].startswith(start)
            }
        )


@final
class FolderSockets:
    """Sockets in a folder of the user's own.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def place(self, name: str) -> str:
        """What a socket connects to: see NamedSockets."""
        return os.path.join(self._folder, f"{_KIND}{name}")  # noqa: PTH118  # no pathlib in the owner

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name: see NamedSockets."""
        make_folder(self._folder)
        place = self.place(name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            # One at a time: who removes what is left must not remove what is new.
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.lexists(place):  # the same
                is_answered(place)  # it removes what nobody answers
            return listening(place), lambda: remove_socket(place)
        except OSError as error:
            raise _taken_or(error) from error
        finally:
            os.close(folder)

    def names(self) -> list[str]:
        """Lists the names: see NamedSockets."""
        if not is_own_folder(self._folder):
            return []
        return sorted(
            file.removeprefix(_KIND)
            for file in os.listdir(self._folder)  # noqa: PTH208  # the same
            if file.startswith(_KIND) and is_answered(os.path.join(self._folder, file))  # noqa: PTH118  # the same
        )


def named_sockets() -> NamedSockets:
    """Gives the sockets of this user's named runtimes on this machine."""
    if sys.platform == "linux":
        return AbstractSockets()
    return FolderSockets(user_folder())


def _taken_or(error: OSError) -> OSError:
    """Says that a name is taken, if that is what is wrong."""
    if error.errno == errno.EADDRINUSE:
        return FileExistsError(errno.EEXIST, "somebody listens there")
    return error


def _nothing() -> None:
    """Removes nothing: the kernel has."""


def close_listener(sock: socket.socket) -> None:
    """Closes a socket that listens, also for forks that have a copy of it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
