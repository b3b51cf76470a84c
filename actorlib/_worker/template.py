"""The template: the process that workers come from and that cleans up after everyone.

One small, single-threaded process without accelerators, started with the runtime. It
has the worker's side of actorlib and the user's preloads imported, and forks a worker
whenever the owner asks; memory is shared until it is written to. With
``start_method="spawn"`` it imports nothing and starts a fresh interpreter instead.

It is also what outlives the owner. It is the parent of every worker and adopts their
orphans (``PR_SET_CHILD_SUBREAPER``), so it can promise:

* when a worker ends, for whatever reason, its whole process group is killed, and so
  are descendants that left the group and still carry its mark in their environment;
* when the owner's socket closes, for whatever reason, every worker is given a second
  to leave and is then killed with all it started, and then the template goes;
* when the template itself is killed, the kernel kills the workers with it
  (``PR_SET_PDEATHSIG``).

What it is asked and what it reports is agreed in ``_wire/control``.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, cast

from actorlib._wire.codec import encode
from actorlib._wire.control import (
    EXITED,
    FAREWELL,
    FORK,
    FORKED,
    HELLO,
    PRELOADING,
    REQUEST,
    mark_of_worker,
)
from actorlib._worker.birth import call_process
from actorlib._worker.preload import preload, warm_up
from actorlib._worker.processes import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    children,
    find_mark,
    has_children,
    kill_group,
    mark_of,
    next_ended,
    prctl,
    watch,
    write_mark,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Template:
    """The fork server.

    Args:
        control: The socket to the owner.
        owner: The owner's process id.
        mark: The runtime's own mark; workers get it with their number.
        preload: Modules to import.
        spawn: Whether to start interpreters instead of forking.
    """

    def __init__(
        self,
        control: socket.socket,
        owner: int,
        mark: str,
        preload: list[str],
        *,
        spawn: bool,
    ) -> None:
        self._control = control
        self._owner = owner
        self._mark = mark
        self._preload = preload
        self._spawn = spawn
        self._watched: int | None = None
        self._mark_address = find_mark()
        self._pids: dict[int, int] = {}
        self._workers: dict[int, int] = {}
        self._orphans: dict[int, str] = {}
        self._leaving: dict[str, tuple[int, int, int, int]] = {}
        self._wakeup, wakeup = socket.socketpair()
        wakeup.setblocking(False)  # noqa: FBT003  # the socket API
        self._wakeup.setblocking(False)  # noqa: FBT003
        self._wakeup_in = wakeup
        self._owner_is_there = True
        self._fork_worker: Callable[[list[int], int], NoReturn] = (
            self._exec_worker if spawn else self._become_worker
        )

    def run(self) -> None:
        """Serves until the owner is gone and every worker with it."""
        signal.signal(signal.SIGCHLD, _wake_up)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wakeup_in.fileno(), warn_on_full_buffer=False)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        call_process("actorlib")
        # A preload may take for ever, and nobody serves requests meanwhile: the kernel
        # ends this process with the owner until it can look for itself.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._owner:
            return
        told = preload(self._preload, lambda name: self._send((PRELOADING, name)))
        if not self._spawn:
            warm_up()
        prctl(PR_SET_PDEATHSIG, 0)
        self._send((HELLO, *told))
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        # A child that the owner forked keeps a copy of its socket open; its process
        # descriptor tells the truth.
        owner = self._watched = watch(self._owner)
        if owner is not None:
            poller.register(owner, select.POLLIN)
        while self._owner_is_there:
            for descriptor, _ in poller.poll():
                if descriptor == self._control.fileno():
                    self._serve_request()
                elif descriptor == owner:
                    self._owner_is_there = False
                else:
                    self._reap()
        self._say_farewell()

    # Requests.

    def _serve_request(self) -> None:
        try:
            record, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 8)
            while record and len(record) < REQUEST.size:
                more = self._control.recv(REQUEST.size - len(record))
                record = record + more if more else b""
        except OSError:
            record, descriptors = b"", []
        if not record:
            self._owner_is_there = False
            return
        kind, number, worker = REQUEST.unpack(record)
        if kind == FORK:
            self._fork(worker, descriptors)
        else:
            self._kill(worker, number)

    def _fork(self, worker: int, descriptors: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._send((FORKED, worker, 0, f"fork failed: {error}"))
            pid = -1
        if pid == 0:
            try:
                self._fork_worker(descriptors, worker)
            except BaseException:  # noqa: BLE001  # never back into the template's loop
                traceback.print_exc()
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._pids[worker] = pid
            self._workers[pid] = worker
            self._send((FORKED, worker, pid, ""))

    def _kill(self, worker: int, number: int) -> None:
        pid = self._pids.get(worker)
        if pid is not None:  # not reaped yet, so the number is still its own
            kill_group(pid, number)

    # In the child.

    def _begin_child(self, descriptors: list[int], worker: int) -> int:
        os.setsid()
        parent = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was told to watch
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for own in (self._control, self._wakeup, self._wakeup_in):
            own.close()
        if self._watched is not None:
            os.close(self._watched)
        pipe, out, err = descriptors
        os.dup2(out, 1)
        os.dup2(err, 2)
        for extra in {out, err} - {1, 2}:
            os.close(extra)
        write_mark(self._mark_address, mark_of_worker(self._mark, worker))
        return pipe

    def _become_worker(self, descriptors: list[int], worker: int) -> NoReturn:
        from actorlib._worker.__main__ import live  # noqa: PLC0415  # warm by now

        pipe = self._begin_child(descriptors, worker)
        gc.enable()
        os.set_inheritable(pipe, False)  # noqa: FBT003  # the os API
        live(socket.socket(fileno=pipe))

    def _exec_worker(self, descriptors: list[int], worker: int) -> NoReturn:
        pipe = self._begin_child(descriptors, worker)
        os.set_inheritable(pipe, True)  # noqa: FBT003  # the os API
        os.execv(  # our own interpreter and module
            sys.executable, [sys.executable, "-m", "actorlib._worker", str(pipe)]
        )

    # Endings.

    def _reap(self) -> None:
        with contextlib.suppress(OSError):
            while self._wakeup.recv(4096):
                pass
        has_reaped = False
        while (ended := next_ended(self._before_reaping)) is not None:
            has_reaped = True
            pid, status, peak = ended
            worker = self._workers.pop(pid, None)
            self._orphans.pop(pid, None)
            if worker is not None:
                del self._pids[worker]
                mark = mark_of_worker(self._mark, worker)
                self._leaving[mark] = (EXITED, worker, status, peak)
        if has_reaped and self._leaving:
            self._bury()

    def _bury(self) -> None:
        """Reports the workers of which nothing is left, and ends what is of others.

        What left its group and then lost its parent has become a child of this
        process; it may have children of its own, which come when it is gone.
        """
        left: set[str] = set()
        for pid in children():
            if pid in self._workers:
                continue
            # Remembered, as one that is dying has no environment to be read any more.
            mark = self._orphans.get(pid) or mark_of(pid)
            self._orphans[pid] = mark
            if mark in self._leaving:
                left.add(mark)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for mark in [mark for mark in self._leaving if mark not in left]:
            self._send(self._leaving.pop(mark))

    def _kill_orphans(self) -> None:
        """Kills every child that is no worker."""
        for pid in children():
            if pid not in self._workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _before_reaping(self, pid: int) -> None:
        if pid in self._workers:
            kill_group(pid, signal.SIGKILL)

    def _say_farewell(self) -> None:
        """Gives the workers a moment to follow their owner, then ends them all."""
        deadline = time.monotonic() + FAREWELL
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        while self._pids and (left := deadline - time.monotonic()) > 0:
            poller.poll(left * 1000)
            self._reap()
        for pid in self._workers:
            kill_group(pid, signal.SIGKILL)
        while self._pids:
            poller.poll(100)
            self._reap()
        # What an orphan leaves behind when it is killed comes here in its turn.
        deadline = time.monotonic() + FAREWELL
        while has_children() and time.monotonic() < deadline:
            self._kill_orphans()
            poller.poll(10)
            self._reap()

    def _send(self, report: tuple[Any, ...]) -> None:
        with contextlib.suppress(OSError):  # a lost owner is noticed where it is read
            self._control.sendall(cast("bytes", encode(report)))


def _wake_up(*_: object) -> None:
    """Does nothing: without a handler the signal would not wake the loop."""


def main() -> None:
    """Serves with the arguments that the owner started this process with."""
    control = socket.socket(fileno=int(sys.argv[1]))
    owner, mark, method, *preload = sys.argv[2:]
    Template(control, int(owner), mark, preload, spawn=method == "spawn").run()
    os._exit(0)
