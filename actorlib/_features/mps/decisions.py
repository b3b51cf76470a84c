"""Decisions about shares of a GPU under CUDA's Multi-Process Service.

Each GPU has a separate control daemon (``daemon``), so that a fault ends only the
workers on that GPU. Both sides name devices by UUID: an index would be counted again
behind the daemon's own mask. A limit names the one GPU of the client: if it names one
that the client does not see, CUDA drops all limits.

https://docs.nvidia.com/deploy/mps/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from actorlib.accelerators.base import Device, Share
    from actorlib.accelerators.host import Host

CONTROL = "nvidia-cuda-mps-control"
"""NVIDIA's program that runs the daemon, and that sends commands to it."""

PIPES, LOGS, READY = "pipe", "log", "ready"
"""In a daemon's folder: its sockets, its logs, and a file that marks it as ready."""

_SERVER = "nvidia-cuda-mps-server"[:15]
"""The kernel's name for the process of a server: it keeps 15 characters."""
_MIB = 2**20
_FAULT = re.compile(r"\bFAULT\b")
_BAD_NEWS = re.compile(r"fault|fatal|exception", re.IGNORECASE)


def mps_fault(host: Host) -> str:
    """Returns why no private daemon can run here; empty if one can."""
    if host.system != "linux":
        return "only Linux has MPS"
    if host.program(CONTROL) is None:
        return f"there is no {CONTROL} on PATH: it comes with NVIDIA's driver"
    return ""


def mode_fault(
    device: Device, programs: Mapping[int, str], *, is_prohibited: bool
) -> str:
    """Returns why a GPU without the default compute mode cannot have our daemon.

    Args:
        device: The GPU.
        programs: The programs on it, by process id; empty for an invisible one.
        is_prohibited: Whether its mode is the prohibited one, and not the exclusive.

    Returns:
        Empty if it can: it is exclusive, and no process uses it.
    """
    name, back = (
        f"{device.kind} {device.id}",
        f"'nvidia-smi -i {device.uuid} -c DEFAULT' as root",
    )
    if is_prohibited:
        return (
            f"{name} is in compute mode PROHIBITED, in which no process can use it: "
            f"{back} ends that"
        )
    if not programs:
        return ""
    daemons = [pid for pid, program in programs.items() if program == _SERVER]
    if daemons:
        who = f"the server of another MPS daemon (pid {daemons[0]}) has it"
        remedy = f"end that daemon ('echo quit | {CONTROL}' as its user)"
    else:
        pid, program = next(iter(programs.items()))
        who = f"{program or 'a process'} (pid {pid}) has it"
        remedy = "wait for its end"
    return (
        f"{name} is in compute mode EXCLUSIVE_PROCESS, and {who}: {remedy}, or let "
        f"several in by {back}"
    )


def limit_of(share: Share) -> int:
    """Returns the bytes that a share may pin: whole MiB, the unit of the variable.

    Args:
        share: A share of a device with known memory.
    """
    return max(1, (share.nbytes or 0) // _MIB) * _MIB


THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""The variable that limits the multiprocessors of a client."""


def name_of(share: Share) -> str:
    """Returns the UUID of a share's GPU, or else its id."""
    return share.device.uuid or share.device.id


def client_variables(folder: str, share: Share) -> dict[str, str]:
    """Returns the variables of a client."""
    uuid = name_of(share)
    return {
        "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/{PIPES}",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{uuid}={limit_of(share) // _MIB}M",
        "CUDA_VISIBLE_DEVICES": uuid,
    }


def is_faulty(status: str) -> bool:
    """Whether a server is in the state in which it refuses clients after a fault.

    Args:
        status: The output of ``get_server_status``. A control program that does not
            know it prints an error, which does not match.
    """
    return _FAULT.search(status) is not None


def named_in(log: str) -> tuple[int, ...]:
    """Returns the numbers in a log's lines about a fault, in order.

    A fault reaches all clients without a name. Only the log has the process ids that
    the driver knows. Its other numbers are not process ids.
    """
    lines = [line for line in log.splitlines() if _BAD_NEWS.search(line)]
    # Each line begins with a time in brackets, and the number of the server.
    texts = [line.rpartition("]")[2] for line in lines]
    return tuple(int(word) for text in texts for word in re.findall(r"\d+", text))


def to_blame(members: Mapping[int, bool], named: Collection[int]) -> set[int]:
    """Returns the processes against which the end of all workers on a GPU counts.

    These are the processes that the log names, if any. Else they are those that had
    ended before the others were ended for them; maybe none.

    Args:
        members: By process id, whether the process ended before.
        named: Numbers in the log; see ``named_in``.
    """
    by_log = set(named) & members.keys()
    return by_log or {pid for pid, has_ended in members.items() if has_ended}
