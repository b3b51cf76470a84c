"""Forks workers before they are requested, and warms them up.

A fork and the pages that it copies first are half of the time until an actor answers.
After the template has forked, and no request came for a moment, it forks one more
worker. That is a complete process, but without a number, a pipe, or a line of the
user's code. It blocks until it is assigned the number of a worker, and ends when the
template closes its socket. A runtime that places no actor has none. After a burst there
are several (``demand``). They are forked one after the other, so that requested workers
have the CPUs.

Most of the time from a worker's first frame to its first answer is spent on copying the
pages that it writes to and shares with its parent. A preforked child does that ahead:
it serves a small actor of its own, which is created, called and stopped over a pipe
without an owner. Only the garbage of one actor remains, in this process alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from actorlib._base.ids import ActorId
from actorlib._base.import_path import import_path
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
    """The template's end of the socket pair with a preforked child."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock
        self._was_stuck = False

    def assign(self, worker: int, descriptors: list[int]) -> bool:
        """Makes the child a worker; returns False if that is impossible."""
        if is_stopped(self.pid):  # by a signal, for an unknown time
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            return False
        try:
            socket.send_fds(self._sock, [_NUMBER.pack(worker)], descriptors)
        except OSError:
            return False
        return True

    def kill_if_stuck(self) -> None:
        """Kills the child if a signal stopped it before it read its assignment."""
        if not is_stopped(self.pid):
            return
        with contextlib.suppress(OSError):
            if self._sock.recv(1, socket.MSG_DONTWAIT) == b"":
                return  # it has read it and is a worker, which the user may stop
        self._was_stuck = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def missed_assignment(self) -> bool:
        """Whether the child, which has ended, had not read its assignment."""
        if self._was_stuck:
            return True
        try:
            self._sock.recv(1)
        except OSError:
            return True  # the assignment was lost with the child's end of the pair
        return False

    def close(self) -> None:
        """Lets the child end, or forgets it in another process than the template."""
        self._sock.close()


IDLE_DELAY = 0.02
"""Seconds without a request after which the template does other work.

It imports the remaining modules, a step at a time, and then preforks if needed.
"""


class PreforkedChildren:
    """Keeps the preforked children, as many as demand and resources allow.

    ``room`` returns the number of children that the machine has room for.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._waiting: deque[PreforkedChild] = deque()
        # A child that was assigned a moment ago may not have read that yet.
        self._assigned: dict[int, PreforkedChild] = {}
        self._demand = Demand()
        self._requests = 0
        self._missing = 0

    def assign(self, worker: int, descriptors: list[int]) -> int:
        """Makes a child a worker; returns its process id, or 0 if there is none."""
        self._requests += 1
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
        """Returns the seconds to wait for a request before ``is_one_missing``."""
        if self._requests or self._missing:
            return IDLE_DELAY
        change = self._demand.next_change()
        return None if change == float("inf") else max(change - now, 0.0)

    def is_one_missing(self, now: float) -> bool:
        """Whether to fork a child now; also lets surplus children end.

        True once for each missing child, even if forked children end: what kills one
        may kill the next.
        """
        if self._requests or now >= self._demand.next_change():
            requests, self._requests = self._requests, 0
            self._demand = self._demand.after(requests, now)
            number = min(self._demand.number, self._room())
            while len(self._waiting) > number:
                self._waiting.pop().close()
            self._missing = number - len(self._waiting) if requests else 0
        if not self._missing:
            return False
        self._missing -= 1
        return True

    def renew(self) -> None:
        """Replaces all waiting children by new forks."""
        self._missing += len(self._waiting)
        while self._waiting:
            self._waiting.pop().close()

    def add(self, child: PreforkedChild) -> None:
        self._waiting.append(child)

    def has(self, pid: int) -> bool:
        return any(child.pid == pid for child in self._waiting)

    def missed_assignment(self, pid: int) -> bool:
        """Forgets an ended child; returns True if it had not read its assignment."""
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
        """Kills children that were stopped before they read their assignment.

        A signal may stop a child only after its assignment. Its end is then reported as
        a missed assignment, and another worker is started.
        """
        for child in self._assigned.values():
            child.kill_if_stuck()

    def close(self) -> None:
        """Lets all children end, or forgets them outside the template."""
        for child in (*self._waiting, *self._assigned.values()):
            child.close()
        self._waiting.clear()
        self._assigned.clear()


def room_for_children() -> int:
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

    Closes the socket then. Ends the process if the template closes its end.
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
    """Creates the frames of the owner of a small actor, in the template."""

    class WarmUp:  # a local class is pickled by value, like the classes of a script
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
        path=import_path(),
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
    """Serves the actor of these frames; returns the frames that it has sent."""
    # In packets, because the frames of an owner also arrive one by one.
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
