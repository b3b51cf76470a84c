"""The tier ``"mps"``: workers share GPUs under MPS, in one group per GPU.

Killing a client whose work is still on the GPU may leave the others with undefined
results (NVIDIA's pages on MPS). So the control program first takes its work off, and
then its process is killed: soon, even if the first step fails.

A fatal fault of one client reaches all clients of that GPU, and the server accepts no
new one before the last of them has left. So the whole group is ended, and no end is
reported before all have ended: restarted actors find a new daemon. The end counts
against the workers to blame, if they are known (``to_blame``).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._base.log import warn
from actorlib._core.engine import override
from actorlib._enforcement.tiers import Settings, Tier, nvidia_fault
from actorlib._features.mps.decisions import (
    CONTROL,
    THREADS,
    client_variables,
    limit_of,
    mps_fault,
    name_of,
    to_blame,
)
from actorlib._processes.launcher import ProcessExit
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping

    from actorlib._enforcement.tiers import Grant, Site
    from actorlib._features.mps.daemon import MpsDaemon
    from actorlib._options.actor_options import ActorOptions
    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Device, Share
    from actorlib.accelerators.host import Host


@final
class Mps(Tier):
    """The tier ``"mps"``: has the groups of one runtime, by the GPU that they share."""

    word = "mps"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._host = site.host
        self._fault = mps_fault(site.host) if site.devices else ""
        self._faults: dict[str, str] = {}
        self._groups: dict[str, MpsGroup] = {}
        self._over: set[MpsGroup] = set()
        self._closing: set[asyncio.Task[None]] = set()
        by_nvml = [device for device in site.devices if device.source == "NVML"]
        if by_nvml and not self._fault:
            from actorlib._features.mps.compute_modes import gpus_without_mps  # noqa: PLC0415  # few machines have it

            self._faults = gpus_without_mps(site.host, by_nvml)

    # Availability.

    @override
    def fault(self, device: Device) -> str:
        why = self._fault or self._faults.get(device.uuid or "", "")
        return nvidia_fault(device, why, is_by_card=True)

    @override
    def refusal(
        self, label: str, asked: str, options: ActorOptions, amounts: Mapping[str, int]
    ) -> str:
        percentage = options.mps_thread_percentage
        if percentage is None or asked == self.word:
            return ""
        return (
            f"{label} requests mps_thread_percentage={percentage}, a limit of MPS, and "
            f"its enforcement is {asked!r}, as the runtime's is: add "
            "enforcement='mps'"
        )

    @override
    def remarks(self, grant: Grant, environ: Mapping[str, str]) -> Iterable[str]:
        percentage = grant.options.mps_thread_percentage
        yield (
            "it limits each process of the actor separately, and no actor on the GPU "
            "that has not requested it"
        )
        yield (
            "no compute, unless mps_thread_percentage says how much"
            if percentage is None
            else f"compute to {percentage} % of the multiprocessors, which others may "
            "use, too"
        )

    @override
    def examine(self) -> Iterable[tuple[str, str]]:
        pipe = self._host.environ.get("CUDA_MPS_PIPE_DIRECTORY")
        if pipe:
            yield (
                f"CUDA_MPS_PIPE_DIRECTORY={pipe} is set: processes that are started "
                "from here go to that daemon, and a fault of one ends all",
                "Unset it, unless it is meant",
            )

    @override
    def checkpoint_fault(self, grant: Grant) -> str:
        if not grant.parts:
            return ""
        return "under MPS the server of all clients keeps its state on the GPU"

    # Workers.

    @override
    def admit(self, label: str, grant: Grant) -> None:
        percentage = grant.options.mps_thread_percentage
        if percentage is not None and not grant.parts:
            raise ActorUnschedulableError(
                f"{label} requests mps_thread_percentage={percentage}, and its "
                "gpu_memory is a whole GPU here, which it has alone: leave "
                "mps_thread_percentage out, or ask for less memory"
            )
        for share in grant.parts:  # of NVIDIA's GPUs, one at most
            self._group(share)

    @override
    def adopt(self, process: WorkerProcess, label: str, grant: Grant) -> WorkerProcess:
        for share in grant.parts:
            process = self._group(share).add(process, label)
        return process

    @override
    def visible(self, grant: Grant) -> Mapping[str, str]:
        names = [name_of(share) for share in grant.parts]  # one, or none
        return {"CUDA_VISIBLE_DEVICES": names[0]} if names else {}

    @override
    def settings(
        self,
        number: int,
        grant: Grant,
        own: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> Settings:
        variables: dict[str, str] = {}
        entry: dict[str, str | int] | None = None
        for share in grant.parts:
            folder = self._group(share).daemon.folder
            variables = client_variables(folder, share)
            entry = {
                "folder": folder,
                "nbytes": limit_of(share),
                "device": share.device.id,
            }
        variables = {name: variables[name] for name in variables.keys() - own.keys()}
        if entry and (percentage := grant.options.mps_thread_percentage) is not None:
            variables[THREADS] = str(percentage)  # the user's own value, too
        return Settings(variables, entry)

    # Groups.

    def _group(self, share: Share) -> MpsGroup:
        """Returns the group on a share's GPU; starts its daemon if there is none.

        Raises:
            OSError: No process can be started.
        """
        uuid = name_of(share)
        group = self._groups.get(uuid)
        if group is None:
            program = self._host.program(CONTROL)
            if program is None:
                raise FileNotFoundError(f"{CONTROL} is no longer on PATH")
            loop = asyncio.get_running_loop()
            group = self._groups[uuid] = MpsGroup(loop, self, uuid, self._host, program)
        return group

    def forget(self, group: MpsGroup) -> None:
        """Makes the next worker on that GPU start a new group."""
        if self._groups.get(group.device) is group:
            del self._groups[group.device]
        self._over.add(group)

    def close(self, group: MpsGroup) -> None:
        """Ends the daemon of a group that is over."""
        self._over.discard(group)
        task = asyncio.get_running_loop().create_task(group.daemon.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @override
    def abandon(self) -> Callable[[], None]:
        daemons = [group.daemon for group in (*self._groups.values(), *self._over)]
        for daemon in daemons:
            daemon.abandon()

        def wait() -> None:
            for daemon in daemons:
                daemon.wait()

        return wait

    @override
    async def aclose(self) -> None:
        for group in (*self._groups.values(), *self._over):
            self.close(group)
        self._groups.clear()
        if self._closing:
            await asyncio.wait(self._closing)


@final
class MpsGroup:
    """The workers that share a GPU under one daemon."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: Mps,
        device: str,
        host: Host,
        program: str,
    ) -> None:
        from actorlib._features.mps.daemon import MpsDaemon  # noqa: PLC0415  # few ask for it

        self.device = device
        self.daemon = MpsDaemon(loop, program, device, host.environ, self._on_event)
        self._loop = loop
        self._groups = groups
        self._members: dict[MpsWorker, ProcessExit | None] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._event: tuple[str, str] | None = None

    def add(self, process: WorkerProcess, label: str) -> MpsWorker:
        """Adds a worker; returns the process to use instead of it."""
        worker = MpsWorker(self._loop, process, label, self.daemon)
        self._members[worker] = None
        process.exited.add_done_callback(
            lambda done: self._ended(worker, done.result())
        )
        return worker

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
        """Checks whether a death is a fault of the GPU, which all others share."""
        await self.daemon.ask("check", worker.pid)
        if self._event is None:
            self._release(worker, how)

    def _release(self, worker: MpsWorker, how: ProcessExit) -> None:
        del self._members[worker]
        worker.end(how)

    def _on_event(self, event: str, text: str) -> None:
        """Ends all members: the daemon failed, has ended, or reports a fault."""
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
        """Reports all ends once the last process has ended."""
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
    """Replaces the process of a worker under MPS; see WorkerProcess."""

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

    def rename(self, name: str | Callable[[], str]) -> None:
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
        """Kills its process group: its work is off the GPU already."""
        self._process.kill()

    def end(self, how: ProcessExit) -> None:
        """Reports its end."""
        if not self.exited.done():
            self.exited.set_result(how)
