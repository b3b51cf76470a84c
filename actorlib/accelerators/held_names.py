"""Names that a process holds and others can read, until it ends.

The kernel drops a name with the last process that has it open, however that ends:

* on Linux a name is the abstract address of a socket (``_base/named_sockets``);
* elsewhere it is a locked file, in a folder that belongs to the user.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Protocol, final

from actorlib._base.named_sockets import AbstractSockets, is_own_folder
from actorlib._base.public import public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CONNECTIONS = 4096
"""Connections that wait at a socket; the kernel lowers it to ``net.core.somaxconn``."""


@public("actorlib.accelerators")
class HeldNames(Protocol):
    """Names that processes hold and that others can read."""

    def hold(self, name: str) -> Callable[[], None]:
        """Holds a name until the returned function is called, or the process ends.

        Args:
            name: A text of at most 80 bytes, not empty.

        Raises:
            BlockingIOError: Another process holds it.
            OSError: It cannot be held.
        """
        ...

    def held(self) -> Iterator[str]:
        """Lists the names that any process holds."""
        ...


@final
class SocketNames:
    """Names of listening sockets, to which no process connects.

    Args:
        machine: Processes with different texts do not see each other's names.
    """

    def __init__(self, machine: str = "") -> None:
        self._machine = machine
        self._sockets = AbstractSockets(f"actorlib-{machine}")

    def sockets(self, kind: str) -> AbstractSockets:
        """Returns sockets of a kind, to which many processes may connect."""
        kind = f"actorlib-{self._machine}{kind}-"
        return AbstractSockets(kind, backlog=_CONNECTIONS)

    def hold(self, name: str) -> Callable[[], None]:
        """Holds a name: see HeldNames."""
        try:
            return self._sockets.listen(name)[0].close
        except FileExistsError as error:
            raise BlockingIOError(*error.args) from None

    def held(self) -> Iterator[str]:
        """Lists the names: see HeldNames."""
        return iter(self._sockets.names())


@final
class LockedFiles:
    """Names that are locked files; a file without a lock has no holder.

    Their folder is made if it is missing, and used only if it belongs to this user
    alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, name: str) -> Callable[[], None]:
        """Holds a name: see HeldNames."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if not is_own_folder(self._folder):
            raise PermissionError(f"{self._folder} is not this user's alone")
        path = self._folder / name.replace("%", "%25").replace("/", "%2F")
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A file with the final name is always locked while its process lives.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._link(draft, path)
        except BaseException:
            os.close(file)
            raise
        finally:
            draft.unlink()
        owner = os.getpid()

        def release() -> None:
            if os.getpid() == owner:
                path.unlink(missing_ok=True)
            os.close(file)

        return release

    def _link(self, draft: Path, path: Path) -> None:
        while True:
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                if _is_locked(path):
                    raise BlockingIOError(f"{path} is held") from None
            else:
                return

    def held(self) -> Iterator[str]:
        """Lists the names: see HeldNames."""
        if not is_own_folder(self._folder):
            return
        for path in sorted(self._folder.iterdir()):
            if not path.name.startswith(".") and _is_locked(path):
                yield path.name.replace("%2F", "/").replace("%25", "%")


def _is_locked(path: Path) -> bool:
    """Whether a process holds a file; removes a file whose holder was killed."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed it, and a third may have replaced it.
        if os.path.samestat(os.fstat(file), path.stat()):
            path.unlink()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    finally:
        os.close(file)
    return False
