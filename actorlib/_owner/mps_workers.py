"""Keeps the workers that share GPUs under MPS, each group with a fate of its own.

To kill a client whose work is still on the GPU may leave the others with undefined
results (NVIDIA's pages on MPS), so its work is taken off first, by the control program,
and then its process is killed: soon, whether that worked or not.

A fatal fault of one client reaches all of that GPU, and the server takes no new one
before the last of them has left. So all of a group are ended, and none is told to have
ended before all have: whoever is restarted finds a new daemon. It counts against those
who are to blame, if that is known (``to_blame``).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._core.log import warn
from actorlib._enforcement.mps import CONTROL, client_variables, limit_of, to_blame
from actorlib._enforcement.mps_daemon import MpsDaemon
from actorlib._processes.launcher import ProcessExit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Share
    from actorlib.accelerators.host import Host


@final
class MpsWorkers:
    """Keeps the groups of one runtime, by the GPU that they share.

    Args:
        loop: The owner's loop.
        host: The machine.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, host: Host) -> None:
        self._loop = loop
        self._host = host
        self._groups: dict[str, MpsGroup] = {}
        self._over: set[MpsGroup] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def group(self, share: Share) -> MpsGroup:
        """Gives the group of those on a share's GPU; its daemon is started.

        Raises:
            OSError: There can be no process.
        """
        uuid = share.device.uuid or share.device.id
        group = self._groups.get(uuid)
        if group is None:
            program = self._host.program(CONTROL)
            if program is None:
                raise FileNotFoundError(f"{CONTROL} is no more on PATH")
            group = MpsGroup(self._loop, self, uuid, self._host, program)
            self._groups[uuid] = group
        return group

    def variables(self, share: Share) -> dict[str, str]:
        """Makes the variables of a worker in the group of a share's GPU."""
        return client_variables(self.group(share).folder, share)

    def check(self, share: Share) -> dict[str, str | int]:
        """Says what a worker has to verify; see ``mps_check`` of the worker."""
        return {
            "folder": self.group(share).folder,
            "nbytes": limit_of(share),
            "device": share.device.id,
        }

    def forget(self, group: MpsGroup) -> None:
        """Has the next worker on that GPU begin a new group."""
        if self._groups.get(group.device) is group:
            del self._groups[group.device]
        self._over.add(group)

    def close(self, group: MpsGroup) -> None:
        """Ends the daemon of a group that is over."""
        self._over.discard(group)
        task = self._loop.create_task(group.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def abandon(self) -> None:
        """Has all daemons end, where the loop is closed."""
        for group in (*self._groups.values(), *self._over):
            group.daemon.abandon()

    def wait(self) -> None:
        """Blocks until all daemons are gone."""
        for group in (*self._groups.values(), *self._over):
            group.daemon.wait()

    async def aclose(self) -> None:
        """Ends all daemons."""
        for group in (*self._groups.values(), *self._over):
            self.close(group)
        self._groups.clear()
        if self._closing:
            await asyncio.wait(self._closing)


@final
class MpsGroup:
    """Holds the workers that share a GPU under one daemon.

    Args:
        loop: The owner's loop.
        groups: All of the runtime.
        device: The UUID of the GPU.
        host: The machine.
        program: The control program.

    Attributes:
        device: As given.
        daemon: The daemon.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: MpsWorkers,
        device: str,
        host: Host,
        program: str,
    ) -> None:
        self.device = device
        self.daemon = MpsDaemon(loop, program, device, host.environ, self._on_event)
        self._loop = loop
        self._groups = groups
        self._members: dict[MpsWorker, ProcessExit | None] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._event: tuple[str, str] | None = None

    @property
    def folder(self) -> str:
        """Where the daemon has its files."""
        return self.daemon.folder

    def add(self, process: WorkerProcess, label: str) -> MpsWorker:
        """Takes a worker in; whoever kills it or waits for its end asks what is given.

        Args:
            process: The worker.
            label: What its actor is called.
        """
        worker = MpsWorker(self._loop, process, label, self.daemon)
        self._members[worker] = None
        process.exited.add_done_callback(
            lambda done: self._ended(worker, done.result())
        )
        return worker

    async def aclose(self) -> None:
        """Ends the daemon."""
        await self.daemon.aclose()

    def _ended(self, worker: MpsWorker, how: ProcessExit) -> None:
        self._members[worker] = how
        if self._event is not None:
            self._settle()
        elif worker.was_killed or how.error:
            self._release(worker, how)
        else:
            task = self._loop.create_task(self._check(worker, how))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _check(self, worker: MpsWorker, how: ProcessExit) -> None:
        """Asks whether a death is a fault of the GPU, which all others have, too."""
        await self.daemon.ask("check", worker.pid)
        if self._event is None:
            self._release(worker, how)

    def _release(self, worker: MpsWorker, how: ProcessExit) -> None:
        del self._members[worker]
        worker.end(how)

    def _on_event(self, event: str, text: str) -> None:
        """Ends all members, as the daemon failed, is gone, or tells of a fault."""
        if self._event is not None:
            return
        self._event = event, text
        self._groups.forget(self)
        for worker, how in self._members.items():
            worker.ended_by_itself = how is not None
        for worker, how in list(self._members.items()):
            if how is None:
                worker.kill_now()
        self._settle()

    def _settle(self) -> None:
        """Tells of all ends once the last process is gone."""
        if None in self._members.values():
            return
        assert self._event is not None
        ends = self._explained(*self._event)
        self._members.clear()
        for worker, how in ends.items():
            worker.end(how)
        self._groups.close(self)

    def _explained(self, event: str, text: str) -> dict[MpsWorker, ProcessExit]:
        ends = {worker: how for worker, how in self._members.items() if how is not None}
        if event == "failed":
            return {
                worker: how
                if worker.was_killed
                else ProcessExit(error=f"GPU {self.device} under MPS: {text}")
                for worker, how in ends.items()
            }
        if event == "gone":
            blamed: set[int] = set()
            what = f"GPU {self.device}: {text}, and with it all that shared it"
        else:
            by_pid = {worker.pid: worker.ended_by_itself for worker in ends}
            named = [int(word) for word in text.split()]
            blamed = to_blame(by_pid, named)
            who = [worker for worker in ends if worker.pid in blamed]
            labels = ", ".join(f"{worker.label} (pid {worker.pid})" for worker in who)
            whose = f"{labels} is to blame" if labels else "nothing says whose"
            what = (
                f"GPU {self.device} had a fatal fault under MPS, which ends all that "
                f"share it; {whose}"
            )
            warn("%s", what)
        return {
            worker: replace(how, fault=what)
            if worker.pid in blamed
            else how
            if worker.was_killed
            else ProcessExit(error=what, is_lost=True)
            for worker, how in ends.items()
        }


@final
class MpsWorker:
    """Stands for a worker under MPS; see WorkerProcess.

    Args:
        loop: The owner's loop.
        process: The worker.
        label: What its actor is called.
        daemon: That of its GPU.

    Attributes:
        label: As given.
        was_killed: Whether somebody has killed it.
        ended_by_itself: Whether it had ended when its group was.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: WorkerProcess,
        label: str,
        daemon: MpsDaemon,
    ) -> None:
        self.label = label
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.ended_by_itself = False
        self.call_cells: list[int] | None = None
        self._loop = loop
        self._process = process
        self._daemon = daemon
        self._killing: asyncio.Task[None] | None = None

    @property
    def sock(self) -> socket.socket:
        return self._process.sock

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def delay(self) -> str:
        return self._process.delay

    @property
    def was_killed(self) -> bool:
        return self._killing is not None

    def identify(self, pid: int) -> None:
        self._process.identify(pid)

    def rename(self, name: str) -> None:
        self._process.rename(name)

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        self._process.keep_output(keep)

    def show(self, text: str) -> None:
        self._process.show(text)

    def kill(self) -> None:
        if self._killing is None and not self._process.exited.done():
            self._killing = self._loop.create_task(self._end())

    async def _end(self) -> None:
        try:
            if self._process.pid:
                await self._daemon.ask("end", self._process.pid)
        finally:
            self._process.kill()

    def kill_now(self) -> None:
        """Ends its process group: its work is off the GPU already."""
        self._process.kill()

    def end(self, how: ProcessExit) -> None:
        """Tells that it is gone."""
        if not self.exited.done():
            self.exited.set_result(how)
