"""Says what the owner asks of a launcher, and of every worker that one launched.

A launcher starts and ends processes and knows nothing of actors: it is given a name
and gives a socket. There are three: ``TemplateLauncher`` forks, ``SpawnLauncher``
starts interpreters, and ``InlineLauncher``, in ``_inline``, starts threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """Says how a process ended, as its parent saw it.

    Attributes:
        code: The exit code, or None if a signal ended it.
        signal: The signal, or None.
        peak: The most memory it had, in bytes; 0 if unknown.
        error: What went wrong if it never started, or was lost with its parent.
        is_lost: Whether it was lost with what others have, too, and that comes back:
            its parent, or a GPU that it shared with them.
        fault: What it did besides that ended it, for people; or the empty string.
        what: What it was, for sentences about it.
    """

    code: int | None = None
    signal: int | None = None
    peak: int = 0
    error: str = ""
    is_lost: bool = False
    fault: str = ""
    what: str = "process"


class WorkerProcess(Protocol):
    """Stands for one worker, before its process exists until after it is gone."""

    @property
    def sock(self) -> socket.socket:
        """The owner's end of the pipe; usable at once, closed by who took it."""
        ...

    @property
    def pid(self) -> int:
        """The process id, or 0 while it is unknown."""
        ...

    def identify(self, pid: int) -> None:
        """Notes the id that the process reports, maybe before its parent does."""
        ...

    @property
    def delay(self) -> str:
        """Why its start or its end takes long; empty if it does not."""
        ...

    call_cells: list[int] | None = None
    """The cells in which a worker in this process notes its calls; None for others."""

    @property
    def exited(self) -> asyncio.Future[ProcessExit]:
        """Done when the process is gone and nothing of it is left."""
        ...

    def kill(self) -> None:
        """Ends its whole process group at once; harmless if it is gone."""
        ...

    def rename(self, name: str | Callable[[], str]) -> None:
        """Shows its further output behind another name, or what a function returns."""
        ...

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Has what it prints from now on kept.

        Args:
            keep: Gets ``stdout`` or ``stderr``, what its actor is called, its process,
                and lines without their ends.
        """
        ...

    def show(self, text: str) -> None:
        """Shows lines as if the process had written them to its standard error."""
        ...


class Launcher(Protocol):
    """Starts workers.

    Attributes:
        environment: Variables that a worker has to set or (None) remove, because the
            launcher needed them otherwise. None instead of a dict says that workers
            live in this process and have no variables of their own.
    """

    @property
    def environment(self) -> dict[str, str | None] | None: ...

    async def start(self) -> None:
        """Makes ready to launch.

        Raises:
            TemplateError: It cannot.
        """
        ...

    def launch(self, name: str, *, has_devices: bool) -> WorkerProcess:
        """Starts a worker; returns at once.

        Args:
            name: What its actor is called, for its output.
            has_devices: Whether it will use an accelerator.

        Raises:
            TemplateError: Nothing can be started, or not with an accelerator.
        """
        ...

    def show_output(self) -> None:
        """Shows all that workers have printed by now, also what was only counted."""
        ...

    def abandon(self) -> Callable[[], None]:
        """Ends everything, where the loop is closed.

        Returns:
            Blocks until nothing is left.
        """
        ...

    async def aclose(self) -> None:
        """Ends everything that was launched and is still there; leaves nothing."""
        ...
