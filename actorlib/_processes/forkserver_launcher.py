"""Launches workers through the template: requests forks, reads its reports.

The template forks one worker after the other. The owner requests a few forks at a time,
so few descriptors are in transit. A ``TemplateWorker`` is the owner's side of one
worker: its pipe, its output, its end.

The owner never ends a template that has workers: the kernel would end them with it.
While the template does not answer, running actors go on, and ``kill()`` signals the
process group of a worker directly. After ten seconds the log names the workers that
wait for the template: new ones, and ended ones without a report. A shutdown kills the
template and then every process that carries the mark of the runtime.

If the template was killed, the kernel ends the workers, the owner ends their process
groups, and a new template is started. Processes that have left their group, or were
forked so recently that the owner does not know their number, are found by the mark.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from actorlib._base.log import warn
from actorlib._base.process_stat import read_stat
from actorlib._loops.fork_copies import close_in_forks
from actorlib._processes.fd_limit import FdLimit, start_error_reason
from actorlib._processes.kept_descriptors import KeptDescriptors
from actorlib._processes.launcher import ProcessExit
from actorlib._processes.template_process import (
    FORKING,
    SPAWNING,
    new_mark,
    start_template,
)
from actorlib._processes.worker_output import LogPrinter, OutputPipe
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.forkserver_protocol import (
    EXITED,
    FORKED,
    LEAVE_TIMEOUT,
    MARK_VARIABLE,
    MISSED,
    PRELOADED,
    PRELOADING,
    REQUEST,
)
from actorlib.exceptions import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._base.process_stat import ProcessStat
    from actorlib._processes.template_process import BegunTemplate
    from actorlib._processes.worker_output import LogStyle
    from actorlib._wire.messages import Frame


_TEMPLATE_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF})
"""The errors of a request to a template that has ended."""
_KILL_ROUNDS = 8
"""How often the search is repeated, as a killed process may have forked before."""


def kill_leftovers(mark: str) -> None:
    """Kills every process with a runtime's mark, even its template; needs ``/proc``."""
    start = f"{MARK_VARIABLE}={mark}:".encode()
    for _ in range(_KILL_ROUNDS):
        leftovers = [pid for pid in _processes() if _has_variable(pid, start)]
        for pid in leftovers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not leftovers:
            return


def _processes() -> list[int]:
    with suppress(OSError):
        names = [path.name for path in Path("/proc").iterdir()]
        return [int(name) for name in names if name.isdecimal()]
    return []


def _has_variable(pid: int, start: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is another user's
        return False
    return any(variable.startswith(start) for variable in environment.split(b"\0"))


_MAX_PREFORKED = 32
_ANSWER_LIMIT = 10.0
"""Seconds without an answer of the template after which waiting workers are logged.

It answers within milliseconds; an import in its idle time delays that by a second.
"""
_RESTART_PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)
"""Seconds before each attempt to restart the template."""
_START_LIMIT = 300.0
# Descriptors per worker: four for its pipe, its side socket and its output, and around
# its fork the other ends of three.
_DESCRIPTORS = 7


class TemplateLauncher:
    """Starts workers as forks of a warm template, or as fresh interpreters.

    For fresh interpreters (``python -m actorlib._worker``) the template imports nothing
    and only ends them: on systems where a process cannot be set to die with its parent,
    only a parent that outlives the owner leaves no process behind.

    Args:
        method: How the template starts workers; see ``begin_template``.
        begun: The first template, if its process was started; ``start`` completes it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        preload: Sequence[str],
        style: LogStyle,
        method: str = FORKING,
        begun: BegunTemplate | None = None,
    ) -> None:
        self.environment: dict[str, str | None] = {}
        if method == SPAWNING:  # the user's own processes must not inherit ours
            self.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH")
        self._loop = loop
        self._preload = preload
        self._method = method
        self._printer = LogPrinter(loop, style)
        self._mark = new_mark() if begun is None else begun.mark
        self._fd_limit = FdLimit()
        self._last_number = 0
        self._workers: dict[int, TemplateWorker] = {}
        self._queue: deque[TemplateWorker] = deque()
        self._orphans: list[TemplateWorker] = []
        self._in_flight = 0
        self._requests: deque[TemplateWorker] = deque()
        self._unanswered: set[int] = set()
        self._silence: asyncio.TimerHandle | None = None
        self._last_answer = 0.0
        self._process: subprocess.Popen[bytes] | None = begun and begun.process
        self._sock: socket.socket | None = None
        self._begun: socket.socket | None = begun and begun.sock
        self._kept: KeptDescriptors | None = begun and begun.kept
        self._channel: AsyncChannel | None = None
        self._preloaded: asyncio.Future[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._device_preload = ""
        self._error = ""
        self._stage = "started"
        self._preload_failed = False
        self._is_closed = False
        close_in_forks(self, TemplateLauncher.close_in_fork)

    async def start(self) -> None:
        """Starts the template and waits until its preloads are imported.

        Raises:
            TemplateError: It did not start, or a preload could not be imported.
        """
        self._preload_failed, self._stage = False, "started"
        try:
            await self._spawn()
            await self._wait_until_preloaded()
        except BaseException as error:
            self._error = str(error)
            await self._end()
            raise
        self._send_forks()

    async def _spawn(self) -> None:
        if self._begun is not None:
            begun, self._begun = self._begun, None
            self._listen(begun)
            return
        try:
            kept = self._kept = self._kept or KeptDescriptors()
            ours, theirs = socket.socketpair()
        except OSError as error:
            message = f"the template cannot be started: {start_error_reason(error)}"
            raise TemplateError(message) from error
        self._listen(ours)
        starting = self._loop.run_in_executor(None, self._start_process, theirs, kept)
        try:
            self._process = await asyncio.shield(starting)
        except OSError as error:
            message = f"the template cannot be started: {start_error_reason(error)}"
            raise TemplateError(message) from error
        except asyncio.CancelledError:
            # The thread cannot be stopped, and its process has to be ended.
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._process = starting.result()
            raise
        finally:
            theirs.close()

    def _listen(self, sock: socket.socket) -> None:
        self._sock = sock
        self._preloaded = self._loop.create_future()
        self._channel = AsyncChannel(
            self._loop, sock, self._receive, self._on_template_gone
        )

    async def _wait_until_preloaded(self) -> None:
        try:
            async with asyncio.timeout(_START_LIMIT):
                await cast("asyncio.Future[None]", self._preloaded)
        except TimeoutError as error:
            self._preload_failed = True
            raise TemplateError(
                f"the template {self._stage} for over {_START_LIMIT:g} s"
            ) from error

    def launch(self, name: str, *, has_devices: bool) -> TemplateWorker:
        if has_devices and self._device_preload:
            raise TemplateError(
                f"{name} uses an accelerator, and the preload {self._device_preload} "
                "has initialised one in the template: a fork of it could not use any. "
                "Take it out of init(preload=[...]), or use start_method='spawn'"
            )
        if self._is_closed:
            raise TemplateError("the template is closed")
        self._fd_limit.raise_to((len(self._workers) + 1) * _DESCRIPTORS)
        self._last_number += 1
        worker = TemplateWorker(self.kill, self._last_number, name, self._loop)
        self._workers[worker.number] = worker
        self._queue.append(worker)
        self._send_forks()
        return worker

    def kill(self, worker: TemplateWorker) -> None:
        """Ends a worker's process group, or its start if it has no process yet."""
        if worker.number not in self._workers:
            return
        if worker.child_pid:
            if self._process is None:  # the worker has ended with it: see _clean_up()
                return
            # If it was reaped, another process may have its number.
            stat = read_stat(worker.child_pid)
            if stat is None or stat.parent == self._process.pid:
                worker.kill_group()
            self._expect_answer(worker)
        else:
            if worker in self._queue:
                self._queue.remove(worker)
            # If it is forked anyway, it is killed when the fork is reported.
            self._finish(worker, ProcessExit(signal=9))

    def _expect_answer(self, worker: TemplateWorker) -> None:
        """Watches the template until it has reported the start or end of a worker."""
        self._unanswered.add(worker.number)
        if self._silence is None:
            self._last_answer = self._loop.time()
            self._silence = self._loop.call_later(_ANSWER_LIMIT, self._look_at_silence)

    def _on_answer(self, number: int) -> None:
        """Records a report. The last one stops the timer: an idle loop has none."""
        self._unanswered.discard(number)
        if not self._unanswered and self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _look_at_silence(self) -> None:
        """Logs the workers that wait for the template if it does not answer."""
        self._silence = None
        if self._process is None:
            return
        seconds = self._loop.time() - self._last_answer
        if seconds < _ANSWER_LIMIT:
            again = _ANSWER_LIMIT - seconds
        else:
            again = _ANSWER_LIMIT
            template = self._process.pid
            reason = silence_reason(template, read_stat(template))
            for number in self._unanswered:
                worker = self._workers[number]
                pid = worker.child_pid
                worker.report_delay(
                    end_reason(pid, read_stat(pid), reason)
                    if pid
                    else f"it waits for its process: {reason}"
                )
        self._silence = self._loop.call_later(again, self._look_at_silence)

    def close_in_fork(self) -> None:
        """In a fork: the template is its parent's; see ``close_in_forks``."""
        if self._channel is not None:
            self._channel.close_in_fork()
        if self._kept is not None:
            self._kept.close()
        self._process = None
        self._is_closed = True
        self._requests.clear()
        for worker in self._workers.values():
            worker.close_in_fork()
        self._workers.clear()

    def keep_open(self, descriptors: Sequence[int]) -> None:
        if self._kept is not None and not self._is_closed:
            self._kept.keep(descriptors)

    def show_output(self) -> None:
        for worker in self._workers.values():
            worker.read_output()
        self._printer.flush()

    def abandon(self) -> Callable[[], None]:
        process, is_lost = self._process, self._channel is None
        # The template ends all its workers when the owner's end is closed.
        self.close_in_fork()
        self._fd_limit.restore()

        def wait() -> None:
            if process is not None:
                _wait_for_end(process, self._mark, is_lost=is_lost)

        return wait

    async def aclose(self) -> None:
        """Ends the template, and with it the remaining workers."""
        self._is_closed = True
        if self._restarting is not None and not self._restarting.done():
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        await self._end()
        if self._kept is not None:
            self._kept.close()
        self._queue.clear()
        for worker in list(self._workers.values()):
            self._finish(worker, ProcessExit(signal=9, error=self._error))
        self._printer.flush()
        self._fd_limit.restore()

    async def _end(self) -> None:
        """Ends the template; workers in the queue go on waiting."""
        is_lost = self._channel is None
        if self._begun is not None:
            self._begun.close()
            self._begun = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_wait_for_end, process, self._mark, is_lost=is_lost)

    def _start_process(
        self, control: socket.socket, kept: KeptDescriptors
    ) -> subprocess.Popen[bytes]:
        process = start_template(self._method, self._preload, self._mark, control, kept)
        self._fd_limit.restore_in(process.pid)
        return process

    def _send_forks(self) -> None:
        if self._channel is None:
            if self._queue and not self._is_closed:
                self._restart_soon()
            return
        if self._preloaded is None or not self._preloaded.done():
            return
        while self._queue and self._in_flight < _MAX_PREFORKED:
            worker = self._queue.popleft()
            try:
                worker.open_output(self._printer)
            except OSError as error:
                self._finish(worker, ProcessExit(error=start_error_reason(error)))
                continue
            self._in_flight += 1
            self._requests.append(worker)
            self._expect_answer(worker)
            if len(self._requests) == 1:
                self._send_requests()

    def _send_requests(self) -> None:
        sock = cast("socket.socket", self._sock)
        while self._requests:
            worker = self._requests[0]
            if worker.number in self._workers:  # otherwise it was killed meanwhile
                record = REQUEST.pack(worker.number)
                try:
                    socket.send_fds(sock, [record], worker.child_ends())
                except BlockingIOError:
                    self._loop.add_writer(sock.fileno(), self._send_more)
                    return
                except OSError as error:
                    if error.errno in _TEMPLATE_GONE:  # _on_template_gone() comes
                        self._requests.clear()
                        return
                    self._in_flight -= 1
                    self._finish(worker, ProcessExit(error=start_error_reason(error)))
                else:
                    worker.close_child_ends()
            else:
                self._in_flight -= 1
            self._requests.popleft()

    def _send_more(self) -> None:
        self._loop.remove_writer(cast("socket.socket", self._sock).fileno())
        self._send_requests()
        self._send_forks()

    def _receive(self, frames: list[Frame]) -> None:
        self._last_answer = self._loop.time()
        for frame in frames:
            if frame[0] == PRELOADED:
                self._on_preloaded(*frame[1:])
            elif frame[0] == PRELOADING:
                self._stage = f"imported {frame[1]}"
            elif frame[0] == FORKED:
                self._on_forked(*frame[1:])
            elif (worker := self._workers.get(frame[1])) is None:
                continue  # it was killed before it had a process
            elif frame[0] == EXITED:
                self._finish(worker, _exit_of(*frame[2:]))
            else:
                assert frame[0] == MISSED
                reason = "its process had already ended"
                self._finish(worker, ProcessExit(error=reason, is_lost=True))

    def _on_preloaded(self, error: str, device_preload: str) -> None:
        preloaded = cast("asyncio.Future[None]", self._preloaded)
        self._device_preload = device_preload
        if error:
            self._preload_failed = True
            preloaded.set_exception(
                TemplateError(f"a module of init(preload=...) failed:\n{error}")
            )
        else:
            preloaded.set_result(None)

    def _on_forked(self, number: int, pid: int, error: str) -> None:
        self._in_flight -= 1
        self._on_answer(number)
        worker = self._workers.get(number)
        if worker is None:  # it was killed before it had a process
            if pid:
                kill_group_of(pid)
        elif pid:
            worker.on_forked(pid)
        else:
            self._finish(worker, ProcessExit(error=error))
        self._send_forks()

    def _finish(self, worker: TemplateWorker, how: ProcessExit) -> None:
        self._workers.pop(worker.number, None)
        self._on_answer(worker.number)
        worker.on_exited(how)

    def _on_template_gone(self, _: Exception | None) -> None:
        """Handles the death of the template; the kernel has killed its workers."""
        self._requests.clear()
        self._in_flight = 0
        preloaded = cast("asyncio.Future[None]", self._preloaded)
        if not preloaded.done():
            preloaded.set_exception(
                TemplateError(f"the template died while it {self._stage}")
            )
            preloaded.exception()  # retrieved: maybe no caller waits
            return
        waiting = set(self._queue)
        for worker in [w for w in self._workers.values() if w not in waiting]:
            worker.kill_group()
            self._orphans.append(worker)
        self._preloaded = self._channel = None
        self._restart_soon()

    def _restart_soon(self) -> None:
        if self._restarting is None or self._restarting.done():
            self._restarting = self._loop.create_task(self._restart())

    async def _clean_up(self) -> None:
        """Ends the old template, and reports the workers that were lost with it."""
        await self._end()
        orphans, self._orphans = self._orphans, []
        for worker in orphans:
            reason = "the template process died, and it with it"
            self._finish(worker, ProcessExit(error=reason, is_lost=True))

    async def _restart(self) -> None:
        """Restarts the template, with increasing pauses while it dies.

        Workers in the queue wait for all attempts. An import that failed is not tried
        again before the next request.
        """
        for pause in _RESTART_PAUSES:
            await self._clean_up()
            await asyncio.sleep(pause)
            try:
                await self.start()
            except TemplateError:
                if self._preload_failed:
                    break
            if self._channel is not None:
                return
        await self._clean_up()
        for worker in [*self._queue]:
            self._finish(worker, ProcessExit(error=self._error))
        self._queue.clear()


class TemplateWorker:
    """The owner's side of one worker of a template; see WorkerProcess.

    Attributes:
        number: Its number at the template.
        pid: Its process id for people, or 0.
        child_pid: The process id that the template has reported. Only this one gets
            signals: a worker may report any number.
    """

    def __init__(
        self,
        kill: Callable[[TemplateWorker], None],
        number: int,
        name: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._kill = kill
        self._name = name
        self._label: str | Callable[[], str] = name
        self._loop = loop
        self._outputs: list[OutputPipe] = []
        self._keep: Callable[[str, str, int, list[bytes]], None] | None = None
        self.number = number
        self.pid = self.child_pid = 0
        self.exited: asyncio.Future[ProcessExit] = loop.create_future()
        self.sock, self._child_sock = socket.socketpair()
        self.delay = ""
        self.call_cells: list[int] | None = None

    def identify(self, pid: int) -> None:
        self.pid = self.child_pid or pid

    def kill(self) -> None:
        self._kill(self)

    def rename(self, name: str | Callable[[], str]) -> None:
        self._label = name
        if self.child_pid:  # else its output is not read yet
            self._rename_output()

    def _rename_output(self) -> None:
        label = self._label
        if isinstance(label, str):
            self._name = label
        for output in self._outputs:
            output.rename(label)

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        self._keep = keep
        for output in self._outputs:
            output.keep = keep

    def show(self, text: str) -> None:
        if self._outputs:
            self._outputs[-1].show(text)

    def open_output(self, printer: LogPrinter) -> None:
        self._outputs.append(OutputPipe("stdout", printer, self._keep))
        self._outputs.append(OutputPipe("stderr", printer, self._keep))

    def child_ends(self) -> list[int]:
        ends = [output.write_end for output in self._outputs]
        return [self._child_sock.fileno(), *ends]

    def read_output(self) -> None:
        if self.child_pid:
            for output in self._outputs:
                output.read_all()

    def close_child_ends(self) -> None:
        """Closes the owner's copies of the child's descriptors."""
        self._child_sock.close()
        for output in self._outputs:
            output.close_write_end()

    def on_forked(self, pid: int) -> None:
        self.pid = self.child_pid = pid
        self.delay = ""
        # The worker may have answered before the template reported the fork. What an
        # actor has printed until then is shown behind its first name; a worker of
        # functions prints nothing before its first call.
        is_fixed = isinstance(self._label, str)
        for output in self._outputs:
            output.start(self._loop, self._name if is_fixed else self._label, pid)
        self._rename_output()

    def report_delay(self, reason: str) -> None:
        """Logs once why its start or its end takes long."""
        if reason != self.delay:
            self.delay = reason
            warn("%s: %s", self._name, reason)

    def on_exited(self, how: ProcessExit) -> None:
        self.close_child_ends()
        for output in self._outputs:
            output.close()
        if not self.exited.done():
            self.exited.set_result(how)

    def close_in_fork(self) -> None:
        """In a fork: closes the copies of the parent's descriptors."""
        self.sock.close()
        self._child_sock.close()
        for output in self._outputs:
            output.close_in_fork()

    def kill_group(self) -> None:
        if self.child_pid:
            kill_group_of(self.child_pid)


def kill_group_of(pid: int) -> None:
    """Kills the process group of a worker, or a worker that has none yet."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
        return
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def silence_reason(pid: int, stat: ProcessStat | None) -> str:
    process = f"the template process (pid {pid})"
    if stat is not None and stat.is_stopped:
        return f"{process} is stopped. `kill -CONT {pid}` lets it go on"
    if stat is not None and stat.state == "D":
        return f"{process} waits for a device or a disk"
    return f"{process} does not answer"


def end_reason(pid: int, stat: ProcessStat | None, silence: str) -> str:
    """Explains why the end of a killed worker has not been reported.

    ``silence`` is the reason why the template does not answer.
    """
    if stat is None or stat.has_ended:
        return f"its process (pid {pid}) has ended. Its share is free later: {silence}"
    return (
        f"its process (pid {pid}) was killed, and the kernel has not ended it yet (it "
        "cannot while the process waits for a device or a disk). Its share is free "
        "when it has ended"
    )


_NO_STATUS = (
    "its process ended, and the kernel has dropped its exit status: a module of "
    "init(preload=[...]) has changed SIGCHLD to be ignored"
)


def _exit_of(status: int | None, peak: int) -> ProcessExit:
    if status is None:
        return ProcessExit(fault=_NO_STATUS)
    nbytes = peak * 1024 if sys.platform == "linux" else peak
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return ProcessExit(signal=-code, peak=nbytes)
    return ProcessExit(code=code, peak=nbytes)


def _wait_for_end(
    process: subprocess.Popen[bytes], mark: str, *, is_lost: bool
) -> None:
    """Waits for the end of a template, and kills it after a limit.

    If it was killed, its remaining workers are killed, too. That may be known
    (``is_lost``): its exit code is not enough, because it is 0 if this process ignores
    SIGCHLD. This is one function, so that a thread completes it even if the caller
    stops waiting.
    """
    try:
        has_left = process.wait(LEAVE_TIMEOUT + 1.0) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        has_left = False
    if is_lost or not has_left:
        kill_leftovers(mark)
