"""One launched worker, as the owner holds it: its pipe, its output, its end."""

from __future__ import annotations

import os
import socket
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
        self._outputs: tuple[OutputPipe, OutputPipe] | None = None
        self.number = number
        self.pid = 0
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._theirs = socket.socketpair()

    def kill(self) -> None:
        self._kill(self)

    def rename(self, name: str) -> None:
        self._name = name
        for output in self._outputs or ():
            output.label = name

    def log_tail(self) -> str:
        return self._outputs[1].tail if self._outputs else ""

    def open_output(self, terminal: Terminal) -> list[int]:
        """Makes the output pipes; gives the descriptors that the child gets."""
        out = OutputPipe("stdout", terminal)
        err = OutputPipe("stderr", terminal)
        self._outputs = out, err
        return [self._theirs.fileno(), out.write_end, err.write_end]

    def close_theirs(self) -> None:
        """Closes what is on its way to the child."""
        self._theirs.close()
        for output in self._outputs or ():
            output.close_write_end()

    def began(self, pid: int) -> None:
        self.pid = pid
        for output in self._outputs or ():
            output.begin(self._loop, self._name, pid)

    def ended(self, how: ProcessExit) -> None:
        self.close_theirs()
        for output in self._outputs or ():
            output.close()
        if not self.exited.done():
            self.exited.set_result(how)

    def forsake(self) -> None:
        """In a fork: closes its copies of what its parent holds."""
        self.sock.close()
        self._theirs.close()
        for output in self._outputs or ():
            output.forsake()

    def kill_group(self) -> None:
        """Ends what is left of it when the template is no longer there to do so."""
        if self.pid:
            try:
                os.killpg(self.pid, 9)
            except (ProcessLookupError, PermissionError):
                return
