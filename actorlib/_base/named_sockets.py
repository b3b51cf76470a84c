"""Listening sockets with names, which every process of the machine can list.

On Linux such a socket has an abstract address, made of a kind, its user and a name. It
is not a file. The kernel allows one socket per name and drops it with its process,
however that ends. Any process may connect to such an address, and any process may take
one that looks like another user's. So both ends ask the kernel for the identity of the
other end (``SO_PEERCRED``, unix(7)). Abstract addresses belong to a network namespace:
programs in containers with a separate one are not visible from outside.

Elsewhere it is a socket in a folder that only its user may enter. The file of a killed
program is removed by the next process that takes the name or lists the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

NO_SIGNAL: Final = int(getattr(socket, "MSG_NOSIGNAL", 0))
"""A flag for ``send`` to a process that may have ended: a program may have restored the
default handler of SIGPIPE, which ends it."""

_BACKLOG = 16
_CREDENTIALS = struct.Struct("iII")
_LISTENS = "00010000"
"""The flags of a listening socket (``__SO_ACCEPTCON``) in proc_net(5)."""


class NamedSockets(ABC):
    """The named sockets of one kind on this machine."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @abstractmethod
    def place(self, name: str, uid: int | None = None) -> str:
        """Returns the address of a named socket, by default of this user."""

    @abstractmethod
    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        """Binds a socket to a name and listens.

        Returns:
            The listening socket, and a function that removes what closing it leaves.

        Raises:
            FileExistsError: Another process has the name.
            OSError: The socket cannot be created.
        """

    @abstractmethod
    def listed(self) -> list[tuple[int, str]]:
        """Lists the user and the name of each socket that this process can see."""

    def names(self) -> list[str]:
        return [name for uid, name in self.listed() if uid == os.geteuid()]


@final
class AbstractSockets(NamedSockets):
    """Sockets that have abstract addresses of Linux."""

    def __init__(
        self, kind: str, table: str = "/proc/net/unix", backlog: int = _BACKLOG
    ) -> None:
        super().__init__(kind)
        self._table = table
        self._backlog = backlog

    def place(self, name: str, uid: int | None = None) -> str:
        return f"\0{self._kind}{os.geteuid() if uid is None else uid}/{name}"

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        return _listen_at(self.place(name), self._backlog), _nothing

    def listed(self) -> list[tuple[int, str]]:
        try:
            with open(self._table, encoding="utf-8", errors="replace") as table:  # noqa: PTH123  # no pathlib in the owner
                lines = [line.rstrip("\n").split(maxsplit=7) for line in table]
        except OSError:
            return []
        start = f"@{self._kind}"
        names: set[tuple[int, str]] = set()
        for line in lines:
            # Each connection to a listener has the same address, without the flag.
            if len(line) == 8 and line[3] == _LISTENS and line[7].startswith(start):
                uid, _, name = line[7].removeprefix(start).partition("/")
                if uid.isdecimal():
                    names.add((int(uid), name))
        return sorted(names)


@final
class FolderSockets(NamedSockets):
    """Sockets in a folder of the user, which no other user may enter."""

    def __init__(self, kind: str, folder: str) -> None:
        super().__init__(kind)
        self._folder = folder

    def place(self, name: str, uid: int | None = None) -> str:
        del uid  # others may not enter the folder
        return os.path.join(self._folder, f"{self._kind}{name}")  # noqa: PTH118  # no pathlib in the owner

    def listen(self, name: str) -> tuple[socket.socket, Callable[[], None]]:
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)  # noqa: PTH102  # the same
        if not is_own_folder(self._folder):
            raise PermissionError(
                f"{self._folder} is accessible to other users, or belongs to another"
            )
        place = self.place(name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            # One process at a time: the removal of an old file must not hit a new one.
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.lexists(place):
                _is_answered(place)  # removes the file of a process that has ended
            return _listen_at(place), lambda: _remove(place)
        finally:
            os.close(folder)

    def listed(self) -> list[tuple[int, str]]:
        if not is_own_folder(self._folder):
            return []
        return sorted(
            (os.geteuid(), file.removeprefix(self._kind))
            for file in os.listdir(self._folder)  # noqa: PTH208  # the same
            if file.startswith(self._kind)
            and _is_answered(os.path.join(self._folder, file))  # noqa: PTH118  # the same
        )


def named_sockets(kind: str) -> NamedSockets:
    if sys.platform == "linux":
        return AbstractSockets(kind)
    folder = os.environ.get("TMPDIR") or "/tmp"  # the folder in it is private
    return FolderSockets(kind, os.path.join(folder, f"actorlib-door-{os.geteuid()}"))  # noqa: PTH118  # the same


def is_own_folder(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder exists, belongs to this user, and is closed to others."""
    with suppress(OSError):
        status = os.lstat(folder)
        is_private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        return is_private and status.st_uid == os.geteuid()
    return False


def close_listener(sock: socket.socket) -> None:
    """Closes a listening socket, even for forks that have a copy of it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


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


def _listen_at(place: str, backlog: int = _BACKLOG) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(True)  # noqa: FBT003  # whatever the default timeout is
        sock.bind(place)
        sock.listen(backlog)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            message = "another process listens there"
            raise FileExistsError(errno.EEXIST, message) from error
        raise
    return sock


def _is_answered(place: str) -> bool:
    """Whether a process listens at a place; a socket without a process is removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        try:
            sock.connect(place)
        except ConnectionRefusedError:
            _remove(place)
            return False
        except BlockingIOError:  # its backlog is full
            return True
        except OSError:
            return False
    return True


def _remove(place: str) -> None:
    with suppress(OSError):
        os.unlink(place)  # noqa: PTH108  # the same


def _nothing() -> None:
    """Has nothing to remove: the kernel has removed the address."""
