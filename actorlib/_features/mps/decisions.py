"""Decides how shares of a GPU hold under CUDA's Multi-Process Service.

Each GPU has a control daemon of its own (``daemon``), so that those who share one
are those whom a fault of it ends. Devices are named by UUID on both sides: a number
would be counted anew behind the daemon's own mask. A limit names the one GPU that a
client holds: if it names one that the client does not see, CUDA drops all limits.

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
"""NVIDIA's program that is the daemon, and that speaks to it."""

PIPES, LOGS, READY = "pipe", "log", "ready"
"""In a daemon's folder: its sockets, its logs, and a file that is there once it is."""

_SERVER = "nvidia-cuda-mps-server"[:15]
"""What the kernel calls the process of a server, of whose name it keeps 15 letters."""
_MIB = 2**20
_FAULT = re.compile(r"\bFAULT\b")
_BAD_NEWS = re.compile(r"fault|fatal|exception", re.IGNORECASE)


def mps_fault(host: Host) -> str:
    """Says why no private daemon can be run here; empty if one can.

    Args:
        host: The machine.
    """
    if host.system != "linux":
        return "MPS is there on Linux alone"
    if host.program(CONTROL) is None:
        return f"there is no {CONTROL} on PATH: it comes with NVIDIA's driver"
    return ""


def mode_fault(device: Device, there: Mapping[int, str], *, is_prohibited: bool) -> str:
    """Says why a GPU that is not in the usual compute mode lets no daemon of ours in.

    Args:
        device: The GPU.
        there: The programs on it, by process id; empty for one that cannot be seen.
        is_prohibited: Whether its mode is the prohibited one, and not the exclusive.

    Returns:
        Empty if it lets one in: nobody has it that is exclusively for one process.
    """
    name, back = (
        f"{device.kind} {device.id}",
        f"'nvidia-smi -i {device.uuid} -c DEFAULT' as root",
    )
    if is_prohibited:
        return (
            f"{name} is in compute mode PROHIBITED, in which nobody can compute there: "
            f"{back} ends that"
        )
    if not there:
        return ""
    daemons = [pid for pid, program in there.items() if program == _SERVER]
    if daemons:
        who = f"the server of another MPS daemon (pid {daemons[0]}) has it"
        remedy = f"end that daemon ('echo quit | {CONTROL}' as its user)"
    else:
        pid, program = next(iter(there.items()))
        who = f"{program or 'a process'} (pid {pid}) has it"
        remedy = "wait for its end"
    return (
        f"{name} is in compute mode EXCLUSIVE_PROCESS, and {who}: {remedy}, or let "
        f"several in by {back}"
    )


def limit_of(share: Share) -> int:
    """Returns the bytes that a share may pin: whole MiB, as the variable takes them.

    Args:
        share: Of a device whose memory is known.
    """
    return max(1, (share.nbytes or 0) // _MIB) * _MIB


THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""What limits the multiprocessors that a client may use."""


def name_of(share: Share) -> str:
    """Returns the UUID of a share's GPU, or else its id."""
    return share.device.uuid or share.device.id


def client_variables(folder: str, share: Share) -> dict[str, str]:
    """Makes the variables of a process that is to be a client.

    Args:
        folder: That of the daemon.
        share: What the process holds of the daemon's GPU.
    """
    uuid = name_of(share)
    return {
        "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/{PIPES}",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{uuid}={limit_of(share) // _MIB}M",
        "CUDA_VISIBLE_DEVICES": uuid,
    }


def is_faulty(status: str) -> bool:
    """Whether a server is in the state in which it refuses clients after a fault.

    Args:
        status: What ``get_server_status`` printed. A control program that is too old
            for that prints an error, which says nothing.
    """
    return _FAULT.search(status) is not None


def named_in(log: str) -> tuple[int, ...]:
    """Returns the numbers in a log's lines that tell of a fault, in order.

    A fault goes to all clients and names nobody, but for the log, which has the process
    id of those that the driver can tell. What else is a number is nobody's process.

    Args:
        log: What the daemon and its servers wrote.
    """
    lines = [line for line in log.splitlines() if _BAD_NEWS.search(line)]
    # Each begins with a time in brackets, and the number of the server.
    texts = [line.rpartition("]")[2] for line in lines]
    return tuple(int(word) for text in texts for word in re.findall(r"\d+", text))


def to_blame(members: Mapping[int, bool], named: Collection[int]) -> set[int]:
    """Says against whom the end of all that share a GPU counts.

    Those whom the log names, if it names any of them. Otherwise those whose processes
    had ended by themselves before the others were ended for them; maybe nobody.

    Args:
        members: By process id, whether the process ended by itself.
        named: Numbers in the log; see ``named_in``.
    """
    found = set(named) & members.keys()
    return found or {pid for pid, has_ended in members.items() if has_ended}
