"""Where the doors of runtimes are, and who stands before one.

On Linux a door is a socket with an abstract address. It is no file, and the kernel
drops it with the process, however that ends. Anybody may connect to such an address,
and anybody may take one that looks like another user's: so both ends ask the kernel who
the other one is (``SO_PEERCRED``, unix(7)). Abstract addresses belong to a network
namespace: programs in containers that have one of their own are not seen from outside.

Elsewhere it is a socket in a folder that only its user may enter. What a killed program
leaves there is removed by who finds nobody behind it.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Callable

_BACKLOG = 16
_CREDENTIALS = struct.Struct("iII")
_KIND = "actorlib-door-"


class Address(NamedTuple):
    """Where a door is.

    Attributes:
        uid: Whose it is, as its name says.
        pid: The process, as it counts itself; in another container that may be another.
        place: What a socket connects to.
    """

    uid: int
    pid: int
    place: str


class Doors(Protocol):
    """The doors of one machine."""

    def listen(self) -> tuple[socket.socket, str, Callable[[], None]]:
        """Opens a door of this process.

        Returns:
            The socket that listens, where it is, and what removes what closing the
            socket leaves.

        Raises:
            OSError: It cannot be opened.
        """
        ...

    def find(self) -> list[Address]:
        """Lists the doors that this process can see, of whomever, by process."""
        ...


@final
class AbstractDoors:
    """Doors that are abstract addresses of Linux.

    Args:
        table: The kernel's list of local sockets.
    """

    def __init__(self, table: str = "/proc/net/unix") -> None:
        self._table = table

    def listen(self) -> tuple[socket.socket, str, Callable[[], None]]:
        """Opens a door of this process: see Doors."""
        # Containers may share a network and count their processes alike.
        place = f"\0{_KIND}{os.geteuid()}/{os.getpid()}-{os.urandom(4).hex()}"
        return listening(place), place, _nothing

    def find(self) -> list[Address]:
        """Lists the doors: see Doors."""
        try:
            with open(self._table, encoding="utf-8", errors="replace") as table:  # noqa: PTH123  # no pathlib in the owner
                names = {line.rstrip("\n").rpartition(" ")[2] for line in table}
        except OSError:
            return []
        start = f"@{_KIND}"
        found: list[Address] = []
        for name in names:
            if name.startswith(start):
                said, _, rest = name.removeprefix(start).partition("/")
                pid = rest.partition("-")[0]
                if said.isdecimal() and pid.isdecimal():
                    found.append(Address(int(said), int(pid), f"\0{name[1:]}"))
        return sorted(found, key=lambda address: (address.pid, address.place))


@final
class FolderDoors:
    """Doors that are sockets in a folder of the user's own.

    Args:
        folder: Where they are: made if it is missing, and used only if it is this
            user's alone.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def listen(self) -> tuple[socket.socket, str, Callable[[], None]]:
        """Opens a door of this process: see Doors."""
        make_folder(self._folder)
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        place = os.path.join(self._folder, name)  # noqa: PTH118  # the same
        return listening(place), place, lambda: remove_socket(place)

    def find(self) -> list[Address]:
        """Lists the doors: see Doors."""
        if not is_own_folder(self._folder):
            return []
        found: list[Address] = []
        for name in sorted(os.listdir(self._folder)):  # noqa: PTH208  # the same
            pid = name.partition("-")[0]
            place = os.path.join(self._folder, name)  # noqa: PTH118  # the same
            if pid.isdecimal() and is_answered(place):
                found.append(Address(os.geteuid(), int(pid), place))
        return found


def make_folder(folder: str) -> None:
    """Makes a folder that this user alone may enter, if it is not there.

    Raises:
        PermissionError: What is there is not this user's alone.
    """
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)  # noqa: PTH102  # no pathlib in the owner
    if not is_own_folder(folder):
        raise PermissionError(f"{folder} is not this user's alone")


def is_own_folder(folder: str) -> bool:
    """Whether a folder is there, and is this user's alone."""
    with suppress(OSError):
        found = os.lstat(folder)
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        return is_private and found.st_uid == os.geteuid()
    return False


def doors() -> Doors:
    """Gives the doors of this machine."""
    if sys.platform == "linux":
        return AbstractDoors()
    return FolderDoors(user_folder())


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


def user_folder() -> str:
    """Gives the folder of this user's sockets, where they are files."""
    folder = os.environ.get("TMPDIR") or "/tmp"  # private inside of it
    return os.path.join(folder, f"{_KIND}{os.geteuid()}")  # noqa: PTH118  # the same


def listening(place: str) -> socket.socket:
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


def is_answered(place: str) -> bool:
    """Says whether somebody listens there; what nobody answers is removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)  # noqa: FBT003  # the socket API
        try:
            sock.connect(place)
        except ConnectionRefusedError:
            remove_socket(place)
            return False
        except BlockingIOError:  # so many knock that it has no room
            return True
        except OSError:
            return False
    return True


def remove_socket(place: str) -> None:
    """Removes a socket that is a file, if it is there."""
    with suppress(OSError):
        os.unlink(place)  # noqa: PTH108  # the same


def _nothing() -> None:
    """Removes nothing: the kernel has."""
