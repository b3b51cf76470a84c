"""Listening sockets with names, which every process of the machine can list.

On Linux such a socket has an abstract address, made of a kind, its user and a name. It
is not a file, and the kernel sees to it that there is but one of a name and drops it
with the process, however that ends. Anybody may connect to such an address, and anybody
may take one that looks like another user's: so both ends ask the kernel who the other
one is (``SO_PEERCRED``, unix(7)). Abstract addresses belong to a network namespace:
programs in containers that have one of their own are not seen from outside.

Elsewhere it is a socket in a folder that only its user may enter. What a killed program
leaves there is removed by who takes the name next, or looks for it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable

_BACKLOG = 16
_LISTENS = "00010000"
"""The flags of a socket that listens (``__SO_ACCEPTCON``), as proc_net(5) has them."""


class NamedSockets(ABC):
    """The named sockets of one kind on this machine.

    Args:
        kind: Sets their addresses apart from others.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @abstractmethod
    def place(self, name: str, uid: int | None = None) -> str:
        """What a socket connects to that wants a name.

        Args:
            name: The name.
            uid: Whose it is. Default: None, for this user's.
        """

    @abstractmethod
    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name.

        Returns:
            The socket that listens, and what removes what closing it leaves.

        Raises:
            FileExistsError: Somebody has the name.
            OSError: There can be no socket.
        """

    @abstractmethod
    def listed(self) -> list[tuple[int, str]]:
        """Lists the user and the name of each that this process can see, in order."""

    def names(self) -> list[str]:
        """Lists the names of this user's that this process can see, in order."""
        return [name for uid, name in self.listed() if uid == os.geteuid()]


@final
class AbstractSockets(NamedSockets):
    """Sockets that are abstract addresses of Linux.

    Args:
        kind: Sets their addresses apart from others.
        table: The kernel's list of local sockets.
    """

    def __init__(self, kind: str, table: str = "/proc/net/unix") -> None:
        super().__init__(kind)
        self._table = table

    def place(self, name: str, uid: int | None = None) -> str:
        """What a socket connects to: see NamedSockets."""
        return f"\0{self._kind}{os.geteuid() if uid is None else uid}/{name}"

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name: see NamedSockets."""
        try:
            return _listening(self.place(name)), _nothing
        except OSError as error:
            raise _taken_or(error) from error

    def listed(self) -> list[tuple[int, str]]:
        """Lists users and names: see NamedSockets."""
        try:
            with open(self._table, encoding="utf-8", errors="replace") as table:  # noqa: PTH123  # no pathlib in the owner
                lines = [line.rstrip("\n").split(maxsplit=7) for line in table]
        except OSError:
            return []
        start = f"@{self._kind}"
        found: set[tuple[int, str]] = set()
        for line in lines:
            # Each connection to one has the same address, without the flag.
            if len(line) == 8 and line[3] == _LISTENS and line[7].startswith(start):
                uid, _, name = line[7].removeprefix(start).partition("/")
                if uid.isdecimal():
                    found.add((int(uid), name))
        return sorted(found)


@final
class FolderSockets(NamedSockets):
    """Sockets in a folder of the user's own.

    Args:
        kind: Sets their files apart from others.
        folder: Where they are: made if it is missing, and used only if it is this
            user's alone.
    """

    def __init__(self, kind: str, folder: str) -> None:
        super().__init__(kind)
        self._folder = folder

    def place(self, name: str, uid: int | None = None) -> str:
        """What a socket connects to: see NamedSockets."""
        del uid  # others may not enter the folder
        return os.path.join(self._folder, f"{self._kind}{name}")  # noqa: PTH118  # no pathlib in the owner

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Takes a name: see NamedSockets."""
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)  # noqa: PTH102  # the same
        if not is_own_folder(self._folder):
            raise PermissionError(f"{self._folder} is not this user's alone")
        place = self.place(name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            # One at a time: who removes what is left must not remove what is new.
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.lexists(place):  # the same
                _is_answered(place)  # it removes what nobody answers
            return _listening(place), lambda: _remove(place)
        except OSError as error:
            raise _taken_or(error) from error
        finally:
            os.close(folder)

    def listed(self) -> list[tuple[int, str]]:
        """Lists users and names: see NamedSockets."""
        if not is_own_folder(self._folder):
            return []
        return sorted(
            (os.geteuid(), file.removeprefix(self._kind))
            for file in os.listdir(self._folder)  # noqa: PTH208  # the same
            if file.startswith(self._kind)
            and _is_answered(os.path.join(self._folder, file))  # noqa: PTH118  # the same
        )


def named_sockets(kind: str) -> NamedSockets:
    """Gives the named sockets of one kind on this machine.

    Args:
        kind: Sets their addresses apart from others.
    """
    if sys.platform == "linux":
        return AbstractSockets(kind)
    folder = os.environ.get("TMPDIR") or "/tmp"  # private inside of it
    return FolderSockets(kind, os.path.join(folder, f"actorlib-door-{os.geteuid()}"))  # noqa: PTH118  # the same


def is_own_folder(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is there, and is this user's alone."""
    with suppress(OSError):
        found = os.lstat(folder)
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        return is_private and found.st_uid == os.geteuid()
    return False


def close_listener(sock: socket.socket) -> None:
    """Closes a socket that listens, also for forks that have a copy of it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _listening(place: str) -> socket.socket:
    """Listens at a place.

    Raises:
        OSError: Somebody does, or there can be no socket there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(True)  # noqa: FBT003  # whatever the default timeout is
        sock.bind(place)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _is_answered(place: str) -> bool:
    """Says whether somebody listens there; what nobody answers is removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        try:
            sock.connect(place)
        except ConnectionRefusedError:
            _remove(place)
            return False
        except BlockingIOError:  # so many knock that it has no room
            return True
        except OSError:
            return False
    return True


def _remove(place: str) -> None:
    """Removes a socket that is a file, if it is there."""
    with suppress(OSError):
        os.unlink(place)  # noqa: PTH108  # the same


def _taken_or(error: OSError) -> OSError:
    """Says that a name is taken, if that is what is wrong."""
    if error.errno == errno.EADDRINUSE:
        return FileExistsError(errno.EEXIST, "somebody listens there")
    return error


def _nothing() -> None:
    """Removes nothing: the kernel has."""
