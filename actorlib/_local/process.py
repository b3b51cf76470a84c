"""One launched worker, as the owner holds it: its pipe, its output, its end."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actorlib._local.output import OutputPipe

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._local.launcher import ProcessExit
    from actorlib._local.terminal import Terminal


class LaunchedWorker:
    """A worker that a template started; see WorkerProcess.

    Args:
        kill: Asks the template to end its process group.
        number: Its number at the template.
        name: What its actor is called, for its output.
        loop: The owner's loop.
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
        self.pid = 0
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._theirs = socket.socketpair()
        self._looks: asyncio.TimerHandle | None = None
        self._watched = -1

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
        self.pid = pid
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
        if self.pid and _parent_of(self.pid) == parent:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)

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
            self._watched = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            gone()
            return
        if _parent_of(self.pid) not in (parent, None):
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
        if self.pid:
            try:
                os.killpg(self.pid, 9)
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
