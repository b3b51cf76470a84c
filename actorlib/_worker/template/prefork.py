"""Forks workers before somebody asks for them, and warms them up.

A fork and what it copies first are half of the time until an actor answers. So after
the template has forked and nothing more was asked for a moment, it forks one more: a
process of its own in every respect, but without a number, a pipe, or a line of the
user's code. It blocks until it is assigned a worker's number, and ends when nobody can
assign one any more. A runtime that places nothing has none; after a burst there are a
few (``demand``), forked one after the other, so that who was asked for has the CPUs.

Most of the time from a worker's first frame to its first answer goes into copying the
pages that it writes to and shares with its parent. A preforked child has time for that:
it serves a small actor of its own, made, called and stopped, over a pipe to nobody.
What is left of it is the garbage of one actor, in this process alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from actorlib._base.ids import ActorId
from actorlib._core.engine import set_engine
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.codec import encode
from actorlib._wire.messages import CALL, CALL_SCALARS, START, STOP, Frame
from actorlib._wire.serialization import dump, encode_call
from actorlib._worker.__main__ import WarmWorker, serve
from actorlib._worker.os_process import is_stopped
from actorlib._worker.template.demand import MOST, Demand, affordable

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = struct.Struct("<Q")
_DESCRIPTORS = 3


class PreforkedChild:
    """Is the template's end of the pair of sockets with a preforked child.

    Args:
        pid: Its process id.
        sock: The template's end of a socket pair; closed by ``close``.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock
        self._was_stuck = False

    def assign(self, worker: int, descriptors: list[int]) -> bool:
        """Makes it a worker; False if it cannot become one.

        Args:
            worker: The worker's number.
            descriptors: The worker's pipe and output.
        """
        if is_stopped(self.pid):  # by a signal: nobody knows for how long
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            return False
        try:
            socket.send_fds(self._sock, [_NUMBER.pack(worker)], descriptors)
        except OSError:
            return False
        return True

    def kill_if_stuck(self) -> None:
        """Kills one that a signal stopped before it has read what it was assigned."""
        if not is_stopped(self.pid):
            return
        with contextlib.suppress(OSError):
            if self._sock.recv(1, socket.MSG_DONTWAIT) == b"":
                return  # it has read it and is a worker, whom anybody may stop
        self._was_stuck = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def missed_assignment(self) -> bool:
        """Whether one that has ended had not read what it was assigned."""
        if self._was_stuck:
            return True
        try:
            self._sock.recv(1)
        except OSError:
            return True  # what was sent was lost with its end of the pair
        return False

    def close(self) -> None:
        """Lets it end, or forgets it in a process that is not the template."""
        self._sock.close()


IDLE_DELAY = 0.02
"""Seconds without a request after which the template has time for what can wait.

That is importing the rest, a step at a time, and then preforking if that is wanted.
"""


class PreforkedChildren:
    """Keeps the template's preforked children, as many as demand and room ask for.

    Args:
        room: Says how many there is room for.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._waiting: deque[PreforkedChild] = deque()
        # One that has been assigned a moment ago may not have read it yet.
        self._assigned: dict[int, PreforkedChild] = {}
        self._demand = Demand()
        self._asked = 0
        self._missing = 0

    def assign(self, worker: int, descriptors: list[int]) -> int:
        """Makes one a worker; gives its process id, 0 if there is none to be had.

        Args:
            worker: The worker's number.
            descriptors: The worker's pipe and output.
        """
        self._asked += 1
        while self._waiting:
            child = self._waiting.popleft()
            if child.assign(worker, descriptors):
                self._keep_assigned(child)
                return child.pid
            child.close()
        return 0

    def _keep_assigned(self, child: PreforkedChild) -> None:
        while len(self._assigned) >= MOST:
            self._assigned.pop(next(iter(self._assigned))).close()
        self._assigned[child.pid] = child

    def pause(self, now: float) -> float | None:
        """Says how long to wait for a request until ``is_one_missing`` is asked.

        Args:
            now: The time, in seconds.

        Returns:
            Seconds, None if for ever.
        """
        if self._asked or self._missing:
            return IDLE_DELAY
        change = self._demand.next_change()
        return None if change == float("inf") else max(change - now, 0.0)

    def is_one_missing(self, now: float) -> bool:
        """Whether a child is to be forked now; lets those end that are too many.

        True once for each that is missing, however many of them end: what kills one
        may kill the next.

        Args:
            now: The time, in seconds.
        """
        if self._asked or now >= self._demand.next_change():
            asked, self._asked = self._asked, 0
            self._demand = self._demand.after(asked, now)
            number = min(self._demand.number, self._room())
            while len(self._waiting) > number:
                self._waiting.pop().close()
            self._missing = number - len(self._waiting) if asked else 0
        if not self._missing:
            return False
        self._missing -= 1
        return True

    def renew(self) -> None:
        """Lets all end that wait, and has as many forked anew."""
        self._missing += len(self._waiting)
        while self._waiting:
            self._waiting.pop().close()

    def add(self, child: PreforkedChild) -> None:
        """Takes in one that was forked."""
        self._waiting.append(child)

    def has(self, pid: int) -> bool:
        """Whether a process is one that waits."""
        return any(child.pid == pid for child in self._waiting)

    def missed_assignment(self, pid: int) -> bool:
        """Whether a process that has ended had not read what it was assigned.

        Args:
            pid: A child of the template's, which is forgotten here.
        """
        for child in [child for child in self._waiting if child.pid == pid]:
            self._waiting.remove(child)
            child.close()
        assigned = self._assigned.pop(pid, None)
        if assigned is None:
            return False
        has_missed = assigned.missed_assignment()
        assigned.close()
        return has_missed

    def kill_stuck(self) -> None:
        """Kills those that were stopped before they have read what they were assigned.

        A signal that was sent before may stop one only when it was assigned: its end
        is told as that of one that has missed it, and there is another worker.
        """
        for child in self._assigned.values():
            child.kill_if_stuck()

    def close(self) -> None:
        """Lets all end, or forgets them in a process that is not the template."""
        for child in (*self._waiting, *self._assigned.values()):
            child.close()
        self._waiting.clear()
        self._assigned.clear()


def room_for_children() -> int:
    """Says how many preforked children this process and the machine have room for."""
    open_files = os.sysconf("SC_OPEN_MAX")
    return affordable(_available_memory(), None if open_files < 0 else open_files)


def _available_memory() -> int | None:
    with (
        contextlib.suppress(OSError),
        open("/proc/meminfo", "rb") as meminfo,  # noqa: PTH123  # no pathlib in the template
    ):
        for line in meminfo:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def wait_for_work(sock: socket.socket) -> tuple[list[int], int]:
    """Blocks in a preforked child until it is assigned descriptors and a number.

    Ends the process if it never will be.

    Args:
        sock: The child's end of the socket pair; closed by then.
    """
    try:
        record, descriptors, _, _ = socket.recv_fds(sock, _NUMBER.size, _DESCRIPTORS)
    except OSError:
        record, descriptors = b"", []
    if len(record) < _NUMBER.size or len(descriptors) < _DESCRIPTORS:
        os._exit(0)
    sock.close()
    return descriptors, _NUMBER.unpack(record)[0]


_PREFIX = b"\0" * 8
_NAME = "actorlib"


def warm_up_frames() -> list[bytes]:
    """Makes what the owner of a small actor would send; once, and in the template."""

    class WarmUp:  # a local class travels by value, as those of a script do
        def __init__(self, value: object) -> None:
            self.value = value

        def method(self, value: object) -> object:
            return value

    arguments = encode_call((1,), {})
    config = ActorConfig(
        actor_id=ActorId(_PREFIX * 2),
        class_name=_NAME,
        prefix=_PREFIX,
        limits={},
        groups={},
        environment={},
        features={},
        path=sys.path,
        runtime_env={},
        resources={},
        accelerator_ids={},
    )
    frames: list[Frame] = [
        (START, vars(config), dump(WarmUp), None, arguments),
        (CALL_SCALARS, 1, "method", 1),
        (CALL, 2, "method", None, encode_call((b"",), {})),
        (STOP,),
    ]
    return [cast("bytes", encode(frame)) for frame in frames]


def run_warm_up(frames: list[bytes]) -> list[bytes]:
    """Serves the actor of these frames; gives what it has sent.

    Args:
        frames: What ``warm_up_frames`` gave.
    """
    # In packets, as the frames of an owner come one after the other too.
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        for frame in frames:
            far.send(frame)
        try:
            serve(near, WarmWorker())
        finally:
            set_engine(None)
        near.close()
        return list(iter(partial(far.recv, 4096), b""))
