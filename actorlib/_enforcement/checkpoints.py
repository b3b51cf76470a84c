"""Has CUDA's driver take a worker's work off its GPU, and put it back.

What can be taken off is decided here; the driver is asked by a program of its own
(``cuda_checkpoint``), which this starts, waits for, and ends when nobody wants its
answer any more.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib.accelerators.base import Lease

_PROGRAM = Path(__file__).with_name("cuda_checkpoint.py")
LIMIT = 600.0
"""Seconds that the driver may take to copy what a GPU has in memory, one way."""
_SUBMITTED, _LEAST = 60.0, 1.0
"""Seconds that what was submitted to a GPU may take to end, if nobody has said so; and
the least of what is said."""
_SOON = 1.0
"""Seconds that a process takes to end once it is killed, unless the driver holds it."""


class CheckpointError(Exception):
    """The driver has not done what it was asked.

    Args:
        reason: Why.
        is_broken: Whether nothing can be known of the process any more; otherwise it is
            as it was.
    """

    def __init__(self, reason: str, *, is_broken: bool) -> None:
        super().__init__(reason)
        self.is_broken = is_broken


def lease_fault(lease: Lease, system: str) -> str:
    """Says why what a worker does on its devices cannot be taken off; empty if it can.

    Args:
        lease: What it holds.
        system: The system that it runs on, for example ``"linux"``.
    """
    if system != "linux":
        return f"CUDA checkpoints processes on Linux alone, and this is {system}"
    if not lease.shares:
        return "it holds no GPU, so there is nothing to give back"
    held = [f"{share.device.kind} {share.device.id}" for share in lease.shares]
    for name, share in zip(held, lease.shares, strict=True):
        if share.device.family != "nvidia":
            return (
                f"NVIDIA's driver alone takes a process off its GPU, and {name} is of "
                f"the family {share.device.family!r}"
            )
        if share.device.logical:
            return f"{name} was declared and not found: it has no driver"
    if len(held) > 1:
        return (
            f"it holds {', '.join(held)}, and the driver is known to put back a "
            "process of one GPU alone"
        )
    return ""


@final
class Checkpoints:
    """Has the driver of one machine save and restore processes.

    Args:
        environ: The variables of this process.
        program: What asks the driver. Default: ``cuda_checkpoint``.
        limit: Seconds that it may take. Default: LIMIT.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        program: Path = _PROGRAM,
        limit: float = LIMIT,
    ) -> None:
        self._environ = environ
        self._program = program
        self._limit = limit

    async def save(self, pid: int, patience: float | None) -> None:
        """Copies what a process has on its GPU to the host, and lets go of the GPU.

        Args:
            pid: The process.
            patience: Seconds that what it has submitted may take to end, at least one;
                None for a minute.

        Raises:
            CheckpointError: It is not done.
        """
        seconds = _SUBMITTED if patience is None else max(_LEAST, patience)
        await self._ask("save", pid, round(min(seconds, self._limit) * 1000))

    async def restore(self, pid: int) -> None:
        """Puts it back.

        Args:
            pid: The process.

        Raises:
            CheckpointError: It is not done.
        """
        await self._ask("restore", pid, 0)

    async def _ask(self, verb: str, pid: int, milliseconds: int) -> None:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _no_start(error) from error
        with ours:
            with theirs:
                process = self._start(verb, pid, milliseconds, theirs)
            try:
                async with asyncio.timeout(self._limit):
                    said = await _all_of(ours)
            except TimeoutError:
                why = f"the driver has not answered within {self._limit:g} s"
                raise CheckpointError(why, is_broken=True) from None
            finally:
                process.kill()  # if nobody waits for it any more
                _reap(process)
        outcome, _, reason = said.strip().partition(" ")
        if outcome != "done":
            why = reason or "what asks the driver has ended without an answer"
            raise CheckpointError(why, is_broken=outcome != "refused")

    def _start(
        self, verb: str, pid: int, milliseconds: int, answer: socket.socket
    ) -> subprocess.Popen[bytes]:
        # Neither the user's modules nor their variables for Python have a part in it.
        command = [sys.executable, "-I", "-S", os.fspath(self._program)]
        try:
            return subprocess.Popen(
                [*command, verb, str(pid), str(milliseconds)],
                stdin=subprocess.DEVNULL,
                stdout=answer.fileno(),
                stderr=subprocess.DEVNULL,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            raise _no_start(error) from error


def _no_start(error: OSError) -> CheckpointError:
    why = f"what asks the driver cannot be started: {error}"
    return CheckpointError(why, is_broken=False)


async def _all_of(sock: socket.socket) -> str:
    """Reads what a process says until its end."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)  # noqa: FBT003  # the socket API
    said = b""
    while piece := await loop.sock_recv(sock, 1 << 16):
        said += piece
    return said.decode(errors="replace")


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Takes note of the end of a process that has ended, or is about to."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SOON)
