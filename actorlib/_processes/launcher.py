"""Where workers come from: a Protocol, and what every launched worker offers.

A launcher starts and ends processes and knows nothing of actors: it is given a name
and gives a socket. There are three: ``TemplateLauncher`` forks, ``SpawnLauncher``
starts interpreters, and ``InlineLauncher``, in another room, starts threads.

One launched worker, as the owner holds it: its pipe, its output, its end.
"""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from actorlib._processes.worker_output import OutputPipe

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._processes.worker_output import Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How a process ended, as its parent saw it.

    Attributes:
        code: The exit code, or None if a signal ended it.
        signal: The signal, or None.
        peak: The most memory it had, in bytes; 0 if unknown.
        trouble: What went wrong if it never started, or was lost with its parent.
        is_lost: Whether it was lost with its parent, which comes back.
        what: What it was, for sentences about it.
    """

    code: int | None = None
    signal: int | None = None
    peak: int = 0
    trouble: str = ""
    is_lost: bool = False
    what: str = "process"


class WorkerProcess(Protocol):
    """One worker, from before its process exists until after it is gone."""

    @property
    def sock(self) -> socket.socket:
        """The owner's end of the pipe; usable at once, closed by who took it."""
        ...

    @property
    def pid(self) -> int:
        """The process id, or 0 while it is unknown."""
        ...

    def identify(self, pid: int) -> None:
        """The process has said its id, which may be before its parent has."""
        ...

    @property
    def exited(self) -> asyncio.Future[ProcessExit]:
        """Done when the process is gone and nothing of it is left."""
        ...

    def kill(self) -> None:
        """Ends its whole process group at once; harmless if it is gone."""
        ...

    def rename(self, name: str) -> None:
        """Shows what it prints from now on behind another name."""
        ...

    def log_tail(self) -> str:
        """The last lines of its standard error, whole once it is gone."""
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

    def forsake(self) -> None:
        """In a fork of this process: leaves what was launched to its parent."""
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


class LaunchedWorker:
    """A worker that a template started; see WorkerProcess.

    Args:
        kill: Asks the template to end its process group.
        number: Its number at the template.
        name: What its actor is called, for its output.
        loop: The owner's loop.

    Attributes:
        pid: Its process id as far as it is known, for people.
        child: The same as the template told it. Signals go there alone: a worker may
            say any number.
    """

    def __init__(
        self,
        kill: Callable[[LaunchedWorker], None],
        number: int,
        name: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._kill = kill
        self._name = name
        self._loop = loop
        self._outputs: list[OutputPipe] = []
        self.number = number
        self.pid = self.child = 0
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._theirs = socket.socketpair()
        self._looks: asyncio.TimerHandle | None = None
        self._watched = -1

    def identify(self, pid: int) -> None:
        self.pid = self.child or pid

    def kill(self) -> None:
        self._kill(self)

    def rename(self, name: str) -> None:
        self._name = name
        for output in self._outputs:
            output.rename(name)

    def log_tail(self) -> str:
        return self._outputs[-1].tail if self._outputs else ""

    def open_output(self, terminal: Terminal) -> list[int]:
        """Makes the output pipes; gives the descriptors that the child gets."""
        self._outputs.append(OutputPipe("stdout", terminal))
        self._outputs.append(OutputPipe("stderr", terminal))
        ends = [output.write_end for output in self._outputs]
        return [self._theirs.fileno(), *ends]

    def close_theirs(self) -> None:
        """Closes what is on its way to the child."""
        self._theirs.close()
        for output in self._outputs:
            output.close_write_end()

    def began(self, pid: int) -> None:
        self.pid = self.child = pid
        for output in self._outputs:
            output.begin(self._loop, self._name, pid)

    def look_later(
        self, seconds: float, look: Callable[[LaunchedWorker], None]
    ) -> None:
        """Calls back if the process is still there by then."""
        if self._looks is not None:
            self._looks.cancel()
        self._looks = self._loop.call_later(seconds, look, self)

    def end_process(self, parent: int) -> None:
        """Ends the process itself, now.

        Args:
            parent: The process id of the template; see ``end_alone``.
        """
        if self.child and _parent_of(self.child) == parent:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.child, signal.SIGKILL)

    def end_alone(self, parent: int, gone: Callable[[], None]) -> None:
        """Ends the process group while the template stands still.

        Args:
            parent: The process id of the template: whose child it is not any more has
                ended before, and its number may be another's.
            gone: Called when the process has ended.
        """
        if self._watched >= 0:
            return
        try:
            self._watched = os.pidfd_open(self.child)
        except (AttributeError, OSError):
            gone()
            return
        if _parent_of(self.child) not in (parent, None):
            gone()
            return
        self.kill_group()
        self._loop.add_reader(self._watched, gone)

    def ended(self, how: ProcessExit) -> None:
        if self._looks is not None:
            self._looks.cancel()
        if self._watched >= 0:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = -1
        self.close_theirs()
        for output in self._outputs:
            output.close()
        if not self.exited.done():
            self.exited.set_result(how)

    def forsake(self) -> None:
        """In a fork: closes its copies of what its parent holds."""
        self.sock.close()
        self._theirs.close()
        for output in self._outputs:
            output.forsake()

    def kill_group(self) -> None:
        """Ends what is left of it when the template is no longer there to do so."""
        if self.child:
            try:
                os.killpg(self.child, 9)
            except (ProcessLookupError, PermissionError):
                return


def _parent_of(pid: int) -> int | None:
    """The parent of a process, ended or not; None where nobody says."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # Behind the name, which is in brackets and may hold anything.
    return int(told.rpartition(b")")[2].split()[1])
