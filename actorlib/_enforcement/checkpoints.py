"""Has CUDA's driver move a worker's state off its GPU and back.

This module decides which workers can be moved. A separate program calls the driver
(``cuda_checkpoint``); this module starts it, waits for it, and ends it if its caller no
longer waits.
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
"""Seconds that the driver may take to copy the memory of a GPU, one way."""
_SUBMITTED, _LEAST = 60.0, 1.0
"""Seconds that submitted work may take to end by default, and the least limit."""
_SOON = 1.0
"""Seconds that a killed process takes to end, unless the driver blocks it."""


class CheckpointError(Exception):
    """The driver has not done what was requested.

    Args:
        reason: The reason.
        is_broken: Whether the state of the process is unknown; else it is unchanged.
    """

    def __init__(self, reason: str, *, is_broken: bool) -> None:
        super().__init__(reason)
        self.is_broken = is_broken


def lease_fault(lease: Lease, system: str) -> str:
    """Returns why a worker's state cannot be moved off its devices; empty if it can."""
    if system != "linux":
        return f"CUDA checkpoints processes only on Linux, and this is {system}"
    if not lease.shares:
        return "it holds no GPU, so there is nothing to give back"
    names = [f"{share.device.kind} {share.device.id}" for share in lease.shares]
    for name, share in zip(names, lease.shares, strict=True):
        if share.device.family != "nvidia":
            return (
                f"only NVIDIA's driver takes a process off its GPU, and {name} is of "
                f"the family {share.device.family!r}"
            )
        if share.device.logical:
            return f"{name} was declared and not found: it has no driver"
    if len(names) > 1:
        return (
            f"it holds {', '.join(names)}, and the driver is known to restore only "
            "processes of one GPU"
        )
    return ""


@final
class Checkpoints:
    """Has the driver of one machine save and restore processes."""

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
        """Copies a process's GPU memory to the host, and releases the GPU.

        Args:
            pid: The process.
            patience: Seconds that its submitted work may take to end, at least one;
                None for a minute.

        Raises:
            CheckpointError: It is not saved.
        """
        seconds = _SUBMITTED if patience is None else max(_LEAST, patience)
        await self._ask("save", pid, round(min(seconds, self._limit) * 1000))

    async def restore(self, pid: int) -> None:
        """Moves the state of a process back to the GPU.

        Raises:
            CheckpointError: It is not restored.
        """
        await self._ask("restore", pid, 0)

    async def _ask(self, operation: str, pid: int, milliseconds: int) -> None:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _no_start(error) from error
        with ours:
            with theirs:
                process = self._start(operation, pid, milliseconds, theirs)
            try:
                async with asyncio.timeout(self._limit):
                    output = await _read_all(ours)
            except TimeoutError:
                why = f"the driver has not answered within {self._limit:g} s"
                raise CheckpointError(why, is_broken=True) from None
            finally:
                process.kill()  # it may still run, after a timeout or cancellation
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SOON)
        outcome, _, reason = output.strip().partition(" ")
        if outcome != "done":
            why = reason or "the program that calls the driver ended without an answer"
            raise CheckpointError(why, is_broken=outcome != "refused")

    def _start(
        self, operation: str, pid: int, milliseconds: int, answer: socket.socket
    ) -> subprocess.Popen[bytes]:
        # Without the user's modules and their variables for Python.
        command = [sys.executable, "-I", "-S", os.fspath(self._program)]
        try:
            return subprocess.Popen(
                [*command, operation, str(pid), str(milliseconds)],
                stdin=subprocess.DEVNULL,
                stdout=answer.fileno(),
                stderr=subprocess.DEVNULL,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            raise _no_start(error) from error


def _no_start(error: OSError) -> CheckpointError:
    why = f"the program that calls the driver cannot be started: {error}"
    return CheckpointError(why, is_broken=False)


async def _read_all(sock: socket.socket) -> str:
    loop = asyncio.get_running_loop()
    sock.setblocking(False)  # noqa: FBT003  # the socket API
    output = b""
    while piece := await loop.sock_recv(sock, 1 << 16):
        output += piece
    return output.decode(errors="replace")
