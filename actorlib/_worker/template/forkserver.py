"""The template: the process that workers are forked from and that cleans up after them.

It is a small, single-threaded process without accelerators, which starts with the
runtime. It imports the worker's side of actorlib and the user's preloads, and forks a
worker at each request of the owner. Memory is shared until it is written to. After the
first request it keeps some workers ready for the next ones (``prefork``). With
``start_method="spawn"`` it imports nothing and starts a new interpreter for each
worker.

The template outlives the owner. It is the parent of every worker and adopts their
orphans (``PR_SET_CHILD_SUBREAPER``), so it can guarantee:

* When a worker ends, for any reason, its whole process group is killed, and so are
  descendants that have left the group and still carry its mark in their environment.
* When the owner's socket closes, for any reason, every worker has a second to leave.
  Then it is killed with all its processes, and the template ends. If the owner has
  ended, the template first removes what features have left on the machine.
* When the template itself is killed, the kernel kills the workers
  (``PR_SET_PDEATHSIG``).

None of this depends on signals, which the program or a preload may block, ignore or
handle. The descriptor of each child process reports its end, and a regular check finds
adopted orphans. SIGCHLD only makes both faster. It is needed only on kernels without
process descriptors.

Requests and reports are defined in ``_wire/forkserver_protocol``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from actorlib._base.stdio import fill_standard_streams
from actorlib._wire.codec import encode
from actorlib._wire.fd_passing import FD_SIZE, received_fds
from actorlib._wire.forkserver_protocol import (
    EXITED,
    FORKED,
    LEAVE_TIMEOUT,
    MISSED,
    PRELOADED,
    PRELOADING,
    REQUEST,
    worker_mark,
)
from actorlib._worker.os_process import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    ProcessTitle,
    children,
    find_mark,
    has_child,
    has_children,
    is_ending,
    kill_group,
    mark_of,
    name_process,
    next_ended,
    prctl,
    watch,
    write_mark,
)
from actorlib._worker.template.prefork import (
    IDLE_DELAY,
    PreforkedChild,
    PreforkedChildren,
    room_for_children,
    run_warm_up,
    wait_for_work,
    warm_up_frames,
)
from actorlib._worker.template.preload import collect_garbage, preload, rest, warm_up
from actorlib._worker.template.shared_numpy import SharedNumpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_ROOM = socket.CMSG_SPACE(8 * FD_SIZE)
_NO_WAIT = int(socket.MSG_DONTWAIT)


def next_request(control: socket.socket) -> tuple[int, list[int]] | None:
    """Reads the next request for a worker; returns None if the owner is gone.

    Returns:
        The number of the worker, and its pipe and its output, which the caller closes.

    Raises:
        BlockingIOError: No further request has arrived.
        OSError: The kernel refuses it.
    """
    try:
        # socket.recv_fds ignores its flags (CPython 3.11 to 3.13).
        record, ancillary, _, _ = control.recvmsg(REQUEST.size, _ROOM, _NO_WAIT)
        descriptors = received_fds(ancillary)
        while record and len(record) < REQUEST.size:
            more = control.recv(REQUEST.size - len(record))
            record = record + more if more else b""
    except ConnectionError:
        record, descriptors = b"", []
    if not record:
        return None
    (worker,) = REQUEST.unpack(record)
    return worker, descriptors


Report: TypeAlias = tuple[Any, ...]

_REHEARSALS = 10
_FIRST_FORK_DELAY = 0.25
"""Seconds to wait for the first request before idle time is used.

The owner imports for longer than this process, and then requests its first worker.
"""
_BATCH = 32
"""Requests that are served before children are reaped."""
_CHECK_INTERVAL = 5.0
"""Seconds between two checks for ended children without an event.

These are orphans, and children without a process descriptor if SIGCHLD does not come.
A check takes 0.2 to 0.7 ms of CPU on a busy machine, because its caches are cold.
"""
_SPARE_DESCRIPTORS = 16
"""Descriptors that stay free for requests, which bring three each."""

# The C module instead of ``signal``: the enums of ``signal`` would make a child copy
# forty pages of memory, and a preload may replace its functions.
_signal: Any = importlib.import_module("_signal")
_handle = _signal.signal
_SIGCHLD, _SIGINT, _SIG_DFL = map(int, (signal.SIGCHLD, signal.SIGINT, signal.SIG_DFL))
_SIG_SETMASK = int(signal.SIG_SETMASK)
_SIGKILL = int(signal.SIGKILL)
_detach: Any = importlib.import_module("_socket").socket.detach


class Template:
    """The fork server.

    Args:
        kept: A socket that this process has open until its end, and never reads. It
            keeps descriptors of the owner open.
        mark: The runtime's mark; workers get it with their number.
        spawn: Whether to start interpreters instead of forking.
        shares_numpy: Whether to import NumPy after a worker has imported it.
    """

    def __init__(
        self,
        control: socket.socket,
        kept: int,
        owner: int,
        mark: str,
        preload: list[str],
        *,
        spawn: bool,
        shares_numpy: bool,
    ) -> None:
        self._control = control
        self._kept = kept
        self._owner = owner
        self._mark = mark
        self._preload = preload
        self._spawn = spawn
        self._numpy = SharedNumpy() if shares_numpy else None
        self._watched: int | None = None
        self._mark_memory = find_mark()
        self._pids: dict[int, int] = {}
        self._workers: dict[int, int] = {}
        self._orphan_marks: dict[int, str] = {}
        self._ended: dict[str, Report] = {}
        self._poller = select.poll()
        self._pidfds: dict[int, int] = {}
        self._watched_children: dict[int, int] = {}
        self._wakeup, wakeup = socket.socketpair()
        wakeup.setblocking(False)  # noqa: FBT003  # the socket API
        self._wakeup.setblocking(False)  # noqa: FBT003
        self._wakeup_in = wakeup
        self._owner_is_there = True
        self._preforked = PreforkedChildren(room_for_children)
        self._rest = [] if spawn else [*rest(), self._rehearse]
        self._spare_time: Iterator[None] | None = None
        if not spawn and not preload and sys.version_info >= (3, 12):
            self._rest.append(self._plan_immortality)
        self._has_forked = False
        self._run_worker: Callable[[socket.socket], NoReturn]
        self._fork_worker: Callable[[list[int], int], NoReturn] = (
            self._exec_worker if spawn else self._become_worker
        )

    def run(self) -> None:
        """Serves requests until the owner and all workers are gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._reset_signals()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        name_process("actorlib")
        title = ProcessTitle()
        title.show(f"actorlib: workers of pid {self._owner}")
        # A preload may never return, and no request is served meanwhile. Until the
        # loop watches the owner, the kernel ends this process with it.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._owner:
            return
        # What the kernel refuses now, it would refuse with each worker.
        has_children()
        with contextlib.suppress(BlockingIOError):
            self._control.recvmsg(1, 0, _NO_WAIT | socket.MSG_PEEK)
        result = preload(self._preload, lambda name: self._send((PRELOADING, name)))
        if self._spawn:
            gc.enable()
        else:
            if self._numpy is not None:
                self._numpy.install()
            self._run_worker = warm_up(title)
            if self._preload:  # imports take long in any case
                from actorlib._worker.template.huge_pages import collapse_heap  # noqa: PLC0415  # few have preloads

                self._load_rest()
                collapse_heap()
        prctl(PR_SET_PDEATHSIG, 0)
        self._reset_signals()
        self._send((PRELOADED, *result))
        poller = self._poller
        poller.register(self._control, select.POLLIN)
        poller.register(self._wakeup, select.POLLIN)
        # A fork of the owner keeps a copy of its socket open, so the owner's process
        # descriptor is watched, too.
        control, owner = self._control.fileno(), watch(self._owner)
        self._watched = owner
        if owner is not None:
            poller.register(owner, select.POLLIN)
        is_idle = False
        while self._owner_is_there:
            ready = self._wait(self._pause(is_idle=is_idle))
            is_idle = not ready  # until the next request
            if is_idle:
                self._use_idle_time()
            if control in ready:
                self._serve_requests()
            if owner in ready:
                self._owner_is_there = False
        poller.unregister(control)
        if owner is not None:
            poller.unregister(owner)
        self._end_workers()

    def _reset_signals(self) -> None:
        """Makes SIGCHLD wake the loop, and unblocks all signals here and in workers.

        The program that started this process may have blocked or ignored signals, and a
        preload may have changed them. While SIGCHLD is ignored, the kernel reaps
        children itself and drops their exit statuses.
        """
        _handle(_SIGCHLD, _wake_up)
        _signal.set_wakeup_fd(self._wakeup_in.fileno(), warn_on_full_buffer=False)
        _signal.pthread_sigmask(_SIG_SETMASK, ())

    def _wait(self, seconds: float | None) -> list[int]:
        """Waits for events, and reaps children; returns the ready descriptors."""
        if self._workers or has_children():
            seconds = min(
                _CHECK_INTERVAL if seconds is None else seconds, _CHECK_INTERVAL
            )
        events = self._poller.poll(None if seconds is None else seconds * 1000)
        ready = [descriptor for descriptor, _ in events]
        if ready != [self._control.fileno()]:
            self._reap(ready)
        return ready

    def _pause(self, *, is_idle: bool) -> float | None:
        """Returns the seconds to wait for a request before idle time is used."""
        self._check_numpy()
        if self._rest:
            # A program that places one actor and ends needs none of the rest.
            delay = IDLE_DELAY if self._has_forked else _FIRST_FORK_DELAY
            return 0.0 if is_idle else delay
        if self._spare_time is not None:
            return 0.0 if is_idle else IDLE_DELAY
        return self._preforked.pause(time.monotonic())

    def _use_idle_time(self) -> None:
        if self._rest:
            self._rest.pop(0)()
        elif self._spare_time is not None:
            if next(self._spare_time, self) is self:
                self._spare_time = None
        else:
            self._prefork()

    def _check_numpy(self) -> None:
        """Plans the import of NumPy, after which waiting children are replaced."""
        if self._numpy is not None and (steps := self._numpy.steps()):
            self._rest += [*steps, collect_garbage, self._preforked.renew]

    def _load_rest(self) -> None:
        while self._rest:
            self._rest.pop(0)()

    def _rehearse(self) -> None:
        """Runs a few small actors, so that children share what the interpreter caches.

        The interpreter caches lookups and specialises code as it runs. Each child would
        write that again, which is a tenth of the pages that it copies.
        """
        for _ in range(_REHEARSALS):
            with contextlib.suppress(BaseException):  # a real actor reports errors
                run_warm_up(self._frames)
        gc.collect()
        gc.freeze()

    def _plan_immortality(self) -> None:
        """Plans to make the objects of the template immortal in idle time.

        All later forks gain from it; the next one alone would start sooner without it.
        """
        from actorlib._worker.template.immortal import immortal_steps, is_known  # noqa: PLC0415  # not everywhere

        if is_known():
            self._spare_time = immortal_steps()

    @cached_property
    def _frames(self) -> list[bytes]:
        return warm_up_frames()

    # Requests.

    def _serve_requests(self) -> None:
        """Serves all requests that have come, then reports all of them.

        After each fork this process copies the pages that it touches, so little is done
        between two forks.
        """
        reports: list[Report] = []
        for _ in range(_BATCH):
            try:
                request = next_request(self._control)
            except BlockingIOError:
                break
            if request is None:
                self._owner_is_there = False
                break
            reports.append(self._start_worker(*request))
        if reports:
            self._send(*reports)

    def _start_worker(self, worker: int, descriptors: list[int]) -> Report:
        """Makes a preforked child a worker, or forks a new one."""
        # All workers but the first share what is imported now.
        self._check_numpy()
        if self._has_forked:
            self._load_rest()
        self._has_forked = True
        error_text = ""
        pid = 0 if self._spawn else self._preforked.assign(worker, descriptors)
        if not pid:
            try:
                pid = self._fork(lambda: self._fork_worker(descriptors, worker))
            except OSError as error:
                from actorlib._base.start_errors import explain_start_error  # noqa: PLC0415  # rarely needed

                error_text, pid = f"fork failed: {explain_start_error(error)}", 0
        for descriptor in descriptors:
            os.close(descriptor)
        if pid:
            self._pids[worker] = pid
            self._workers[pid] = worker
        return (FORKED, worker, pid, error_text)

    def _prefork(self) -> None:
        if not self._preforked.is_one_missing(time.monotonic()):
            return
        _ = self._frames  # now, so that children share them
        # An error here recurs, and is reported, when a worker is requested.
        with contextlib.suppress(OSError), contextlib.ExitStack() as unused:
            ours, theirs = map(unused.enter_context, socket.socketpair())
            pid = self._fork(lambda: self._become_preforked(theirs, ours))
            unused.pop_all()
            theirs.close()
            self._preforked.add(PreforkedChild(pid, ours))

    def _fork(self, child: Callable[[], NoReturn]) -> int:
        """Forks a child that runs a function which never returns; returns its pid."""
        pid = os.fork()
        if pid == 0:
            try:
                child()
            except BaseException:  # noqa: BLE001  # never back into the template's loop
                traceback.print_exc()
            finally:
                os._exit(1)
        self._watch_child(pid)
        return pid

    # In the child.

    def _begin_child(self) -> None:
        """Separates a fork from the template: session, signals, descriptors."""
        os.setsid()
        parent = os.getppid()
        prctl(PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:  # it ended before the kernel watched it
            os._exit(1)
        signal.set_wakeup_fd(-1)
        _handle(_SIGCHLD, _SIG_DFL)
        _handle(_SIGINT, signal.default_int_handler)
        for parents in (self._control, self._wakeup, self._wakeup_in):
            os.close(_detach(parents))
        os.close(self._kept)
        if self._watched is not None:
            os.close(self._watched)
        for descriptor in self._watched_children:
            os.close(descriptor)
        self._preforked.close()

    def _take_descriptors(self, descriptors: list[int], worker: int) -> int:
        """Applies a worker's output and mark to this process; returns its pipe."""
        pipe, out, err = descriptors
        os.dup2(out, 1)
        os.dup2(err, 2)
        for extra in {out, err} - {1, 2}:
            os.close(extra)
        write_mark(self._mark_memory, worker_mark(self._mark, worker))
        return pipe

    def _become_worker(self, descriptors: list[int], worker: int) -> NoReturn:
        self._begin_child()
        self._serve_worker(descriptors, worker)

    def _become_preforked(
        self, sock: socket.socket, templates: socket.socket
    ) -> NoReturn:
        self._begin_child()
        templates.close()
        with contextlib.suppress(BaseException):  # a real actor reports errors
            run_warm_up(self._frames)
        self._serve_worker(*wait_for_work(sock))

    def _serve_worker(self, descriptors: list[int], worker: int) -> NoReturn:
        pipe = self._take_descriptors(descriptors, worker)
        gc.enable()
        os.set_inheritable(pipe, False)  # noqa: FBT003  # the os API
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, pipe)
        self._run_worker(sock)

    def _exec_worker(self, descriptors: list[int], worker: int) -> NoReturn:
        self._begin_child()
        pipe = self._take_descriptors(descriptors, worker)
        os.set_inheritable(pipe, True)  # noqa: FBT003  # the os API
        os.execv(sys.executable, [sys.executable, "-m", "actorlib._worker", str(pipe)])

    # Endings.

    def _watch_child(self, pid: int) -> None:
        """Makes the end of a child wake the loop, where process descriptors exist."""
        if pid in self._pidfds:
            return
        with contextlib.suppress(AttributeError, OSError):
            descriptor = os.pidfd_open(pid)
            if 0 < os.sysconf("SC_OPEN_MAX") < descriptor + _SPARE_DESCRIPTORS:
                os.close(descriptor)
                return
            self._pidfds[pid] = descriptor
            self._watched_children[descriptor] = pid
            self._poller.register(descriptor, select.POLLIN)

    def _unwatch_child(self, pid: int) -> None:
        descriptor = self._pidfds.pop(pid, None)
        if descriptor is not None:
            del self._watched_children[descriptor]
            self._poller.unregister(descriptor)
            os.close(descriptor)

    def _reap(self, ready: list[int]) -> None:
        """Reaps the children that have ended, and reports workers among them.

        No descriptor is ready if no event came for a while.
        """
        with contextlib.suppress(OSError):
            while self._wakeup.recv(4096):
                pass
        self._preforked.kill_stuck()
        has_reaped = False
        while (end := next_ended(self._before_reaping)) is not None:
            has_reaped = True
            self._note_end(*end)
        watched = self._watched_children
        ended = [watched[descriptor] for descriptor in ready if descriptor in watched]
        for pid in ended if ready else self._workers.keys() - self._pidfds.keys():
            if has_child(pid):
                # It has not ended, or a debugger holds it. The regular check reaps it.
                self._unwatch_child(pid)
                continue
            # SIGCHLD was ignored, and the kernel has reaped it. Its process group keeps
            # its number as long as it has members.
            self._reset_signals()
            has_reaped = True
            if pid in self._workers:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            self._note_end(pid, None, 0)
        if has_reaped and self._ended:
            self._report_ended()

    def _note_end(self, pid: int, status: int | None, peak: int) -> None:
        """Forgets a child, and keeps the report of a worker.

        The exit status is None if it was lost. The peak memory is in KiB; 0 if unknown.
        """
        self._unwatch_child(pid)
        has_missed = self._preforked.missed_assignment(pid)
        worker = self._workers.pop(pid, None)
        self._orphan_marks.pop(pid, None)
        if worker is not None:
            del self._pids[worker]
            mark = worker_mark(self._mark, worker)
            self._ended[mark] = (
                (MISSED, worker) if has_missed else (EXITED, worker, status, peak)
            )

    def _report_ended(self) -> None:
        """Reports workers of which no process remains; kills remaining processes.

        A process that has left its group and lost its parent is now a child of the
        template. Its own children follow when it has ended.
        """
        remaining: set[str] = set()
        for pid in children():
            if pid in self._workers or self._preforked.has(pid):
                continue
            # Kept, because a process that is ending has no readable environment.
            mark = self._orphan_marks.get(pid) or mark_of(pid)
            self._orphan_marks[pid] = mark
            if mark in self._ended:
                remaining.add(mark)
                self._watch_child(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        for mark in [mark for mark in self._ended if mark not in remaining]:
            self._send(self._ended.pop(mark))

    def _kill_orphans(self) -> None:
        for pid in children():
            if pid not in self._workers:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _before_reaping(self, pid: int) -> None:
        if pid in self._workers:
            kill_group(pid, signal.SIGKILL)

    def _end_workers(self) -> None:
        """Lets the workers follow their owner for a moment, then ends them all."""
        self._preforked.close()
        deadline = time.monotonic() + LEAVE_TIMEOUT
        while self._pids and (seconds := deadline - time.monotonic()) > 0:
            self._wait(seconds)
        for pid in self._workers:
            kill_group(pid, signal.SIGKILL)
        while self._pids:
            self._wait(0.1)
        # The children of a killed orphan become children of this process.
        deadline = time.monotonic() + LEAVE_TIMEOUT
        while has_children() and time.monotonic() < deadline:
            self._kill_orphans()
            self._wait(0.01)
        if self._has_owner_ended():
            from actorlib._worker.features import remove_leftovers  # noqa: PLC0415  # normally the owner cleans up

            remove_leftovers(self._owner)

    def _has_owner_ended(self) -> bool:
        """Whether the owner itself ends, and has not just closed its runtime."""
        if self._watched is None:
            return False
        poller = select.poll()
        poller.register(self._watched, select.POLLIN)
        return bool(poller.poll(0)) or is_ending(self._owner)

    def _send(self, *reports: Report) -> None:
        result = b"".join(cast("bytes", encode(report)) for report in reports)
        with contextlib.suppress(OSError):  # the loop notices that the owner is gone
            self._control.sendall(result)


def _wake_up(*_: object) -> None:
    """Does nothing; without a handler the signal would not wake the loop."""


def main() -> None:
    # Otherwise a worker's pipe could get the number of an output stream.
    fill_standard_streams()
    descriptors, owner, mark, method, *preload = sys.argv[1:]
    control, kept = map(int, descriptors.split(","))
    try:
        Template(
            socket.socket(fileno=control),
            kept,
            int(owner),
            mark,
            preload,
            spawn=method == "spawn",
            shares_numpy=method == "share",
        ).run()
    except OSError as error:
        from actorlib._base.start_errors import explain_start_error  # noqa: PLC0415  # rarely needed

        text = f"actorlib: the template ends: {explain_start_error(error)}"
        print(text, file=sys.stderr, flush=True)  # noqa: T201  # no log here
        os._exit(1)
    os._exit(0)
