"""The interfaces of launchers and of launched workers.

A launcher starts and ends processes, independent of actors: it takes a name and returns
a socket. There are two: ``TemplateLauncher`` forks or starts interpreters, and
``InlineLauncher``, in ``_inline``, starts threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._base.value import dataclass

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """The end of a process, as its parent observed it.

    Attributes:
        code: The exit code, or None if a signal ended it.
        signal: The signal, or None.
        peak: The peak of its memory, in bytes; 0 if unknown.
        error: The error if it never started, or was lost with its parent.
        is_lost: Whether it ended because of a shared part that comes back: its parent,
            or a GPU that it shared with others.
        fault: An additional cause of the end, for people; or the empty string.
        what: A noun for it, for sentences.
    """

    code: int | None = None
    signal: int | None = None
    peak: int = 0
    error: str = ""
    is_lost: bool = False
    fault: str = ""
    what: str = "process"


class WorkerProcess(Protocol):
    """One worker, from before its process exists until after it has ended."""

    @property
    def sock(self) -> socket.socket:
        """The owner's end of the pipe; usable at once, closed by its user."""
        ...

    @property
    def pid(self) -> int:
        """The process id, or 0 while it is unknown."""
        ...

    def identify(self, pid: int) -> None:
        """Records the id that the process reports, maybe before its parent does."""
        ...

    @property
    def delay(self) -> str:
        """Why its start or its end takes long; empty if it does not."""
        ...

    call_cells: list[int] | None = None
    """The cells in which a worker in this process records its calls; else None."""

    @property
    def exited(self) -> asyncio.Future[ProcessExit]:
        """Done when the process and its process group have ended."""
        ...

    def kill(self) -> None:
        """Ends its whole process group at once; harmless if it is gone."""
        ...

    def rename(self, name: str | Callable[[], str]) -> None:
        """Shows its further output behind another name, or what a function returns."""
        ...

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Passes its output from now on to a function.

        It gets ``stdout`` or ``stderr``, the name of the actor, the process id, and
        lines without their ends.
        """
        ...

    def show(self, text: str) -> None:
        """Shows lines as if the process had written them to its standard error."""
        ...


class Launcher(Protocol):
    """Starts workers.

    Attributes:
        environment: Variables that a worker has to set or (None) remove, because the
            launcher needed other values. None instead of a dict means that workers are
            threads of this process and share its variables.
    """

    @property
    def environment(self) -> dict[str, str | None] | None: ...

    async def start(self) -> None:
        """Prepares for launching; raises TemplateError if that fails."""
        ...

    def launch(self, name: str, *, has_devices: bool) -> WorkerProcess:
        """Starts a worker; returns at once.

        Args:
            name: The name of its actor, for its output.
            has_devices: Whether it will use an accelerator.

        Raises:
            TemplateError: No worker can be started, or none with an accelerator.
        """
        ...

    def keep_open(self, descriptors: Sequence[int]) -> None:
        """Keeps copies of these descriptors open until all workers have ended.

        This holds even if this process is killed. Those of an earlier call are not kept
        any longer.

        Raises:
            OSError: The kernel refuses to keep them.
        """
        ...

    def show_output(self) -> None:
        """Shows all output of workers so far, even if it was only counted."""
        ...

    def abandon(self) -> Callable[[], None]:
        """Ends all workers when the loop is already closed.

        Returns a function that blocks until no process is left.
        """
        ...

    async def aclose(self) -> None:
        """Ends all remaining workers; leaves no process."""
        ...
