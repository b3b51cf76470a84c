"""Runs one MPS daemon, in a process that survives the owner and cleans up.

The daemon is its child and runs in the foreground. When the owner's socket closes, or
the owner ends while a fork of it still has a copy of the socket, the daemon gets the
command to quit, then it is killed with its servers, and its folder is removed. If this
process itself is killed, the kernel ends the daemon.

Only this process calls the control program, which may hang: each call has a limit, and
after the first timeout it is not called any longer.

Requests from the owner are lines, and so are the answers:

* ``end PID``: take the work of a client and its children off the GPU; the answer is
  ``ended PID``, even if there was nothing to end, or it failed.
* ``check PID``: check for a faulty server, because a process has ended; the answer is
  ``checked PID`` if there is none.
* ``ready``: the daemon answers.
* ``failed REASON``: it never will.
* ``gone REASON``: it has ended.
* ``fault NUMBERS``: a server is faulty; the numbers in the log may be processes.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from actorlib._features.mps.decisions import LOGS, PIPES, READY, is_faulty, named_in

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

READY_LIMIT = 20.0
"""Seconds for a daemon to answer first: the first start may initialize all GPUs."""
_LIMIT = 2.0
"""Seconds for one call of the control program."""
_PAUSE = 0.05
_LOOK_INTERVAL = 1.0
"""Seconds between two checks whether the logs have grown."""
_LEAVE = 5.0
_TAIL = 1500
_NUMBERS = 64

_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class Keeper:
    """Runs a daemon for as long as the owner lives; the end of an owner 0 is ignored.

    Its folder is made and removed here.
    """

    def __init__(
        self, sock: socket.socket, owner: int, folder: str, program: str, device: str
    ) -> None:
        self._sock = sock
        self._folder = Path(folder)
        self._program = program
        self._environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/{PIPES}",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/{LOGS}",
            "CUDA_VISIBLE_DEVICES": device,
        }
        self._daemon: subprocess.Popen[bytes] | None = None
        self._hangs = False
        self._unread = b""
        self._log_size = 0
        self._servers: set[int] = set()
        self._is_faulty = False
        self._poller = select.poll()
        self._poller.register(sock, select.POLLIN)
        with suppress(OSError):
            self._poller.register(os.pidfd_open(owner), select.POLLIN)

    def run(self) -> None:
        """Serves until the owner or the daemon has ended."""
        if _prctl is not None:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # to inherit servers of a killed daemon
        try:
            why = self._start()
            if why:
                self._say(f"failed {why}")
                self._wait_for_owner()
            else:
                self._start_server()
                (self._folder / READY).touch()
                self._say("ready")
                self._serve()
        except OSError as error:
            self._say(f"failed {error}")
        finally:
            self._end()

    def _start(self) -> str:
        """Starts the daemon and waits until it answers; returns why it does not."""
        for folder in (self._folder, self._folder / PIPES, self._folder / LOGS):
            folder.mkdir(mode=0o700)
        with (self._folder / LOGS / "printed.log").open("wb") as printed:
            self._daemon = subprocess.Popen(
                [self._program, "-f"],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # there is one thread
            )
        deadline = time.monotonic() + READY_LIMIT
        while time.monotonic() < deadline:
            code = self._daemon.poll()
            if code is not None:
                return f"the MPS daemon ended with {code}{self._log_tail()}"
            if self._control("get_server_list") is not None:
                return ""
            self._hangs = False  # it may be starting
            if self._poller.poll(_PAUSE * 1000) and not self._read():
                return "the owner has ended"
        return f"the MPS daemon did not answer for {READY_LIMIT:g} s{self._log_tail()}"

    def _start_server(self) -> None:
        """Starts a server before the first client, so that its end is noticed.

        If that fails, or takes long, the first client starts it.
        """
        self._control(f"start_server -uid {os.getuid()}")
        self._hangs = False
        self._has_lost_server()

    def _wait_for_owner(self) -> None:
        while self._read():
            self._poller.poll()

    def _serve(self) -> None:
        daemon = self._daemon
        assert daemon is not None
        while daemon.poll() is None:
            # Requests during the start are in the buffer already.
            *requests, self._unread = self._unread.split(b"\n")
            for request in requests:
                self._answer(*request.decode().split())
            if not self._poller.poll(_LOOK_INTERVAL * 1000):
                self._look()
            elif not self._read():
                return
        self._say(f"gone the MPS daemon ended with {daemon.poll()}{self._log_tail()}")

    def _read(self) -> bool:
        """Reads the owner's requests; returns False if the owner has ended."""
        descriptors = [fd for fd, _ in self._poller.poll(0)]
        if not descriptors:
            return True
        if descriptors != [self._sock.fileno()]:
            return False
        try:
            data = self._sock.recv(4096)
        except OSError:
            return False
        self._unread += data
        return bool(data)

    def _answer(self, request: str, pid: str) -> None:
        if request == "end":
            self._terminate(int(pid))
            self._say(f"ended {pid}")
        elif not self._report_fault():
            self._say(f"checked {pid}")

    def _terminate(self, pid: int) -> None:
        """Removes a worker's clients and its children's from the GPU."""
        for server in self._numbers("get_server_list") or ():
            for client in self._numbers(f"get_client_list {server}") or ():
                with suppress(OSError):  # it has ended
                    # A worker leads a session; its children are in it.
                    if os.getsid(client) == pid:
                        self._control(f"terminate_client {server} {client}")

    def _look(self) -> None:
        """Checks for faults if the logs have grown."""
        size = sum(path.stat().st_size for path in self._logs())
        if size != self._log_size:
            self._log_size = size
            self._report_fault()

    def _report_fault(self) -> bool:
        """Reports a faulty server to the owner, once; returns whether there is one."""
        if not self._is_faulty:
            self._is_faulty = self._has_lost_server() or any(
                is_faulty(self._control(f"get_server_status {server}") or "")
                for server in self._servers
            )
            if self._is_faulty:
                log = "".join(map(_text_of, self._logs()))
                named = dict.fromkeys(named_in(log))
                self._say(" ".join(("fault", *map(str, [*named][-_NUMBERS:]))))
        return self._is_faulty

    def _has_lost_server(self) -> bool:
        """Whether a server has ended: with a single user only a fault ends one."""
        listed = self._numbers("get_server_list")
        if listed is None:
            return False  # the servers are unknown
        before, self._servers = self._servers, set(listed)
        return not before <= self._servers

    # The control program.

    def _control(self, command: str) -> str | None:
        """Runs a command of the control program; None if it fails or takes too long."""
        if self._hangs:
            return None
        try:
            ended = subprocess.run(
                [self._program],
                input=f"{command}\n".encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
                timeout=_LIMIT,
                check=True,
            )
        except subprocess.TimeoutExpired:
            self._hangs = True
            return None
        except (OSError, subprocess.SubprocessError):
            return None
        return ended.stdout.decode(errors="replace")

    def _numbers(self, command: str) -> list[int] | None:
        """Reads a list of processes, one per line; None if there is no answer."""
        output = self._control(command)
        if output is None:
            return None
        lines = [line.strip() for line in output.splitlines()]
        return [int(line) for line in lines if line.isdecimal()]

    def _logs(self) -> list[Path]:
        return sorted((self._folder / LOGS).glob("*.log"))

    def _log_tail(self) -> str:
        log = "\n".join(_text_of(path)[-_TAIL:].strip() for path in self._logs())
        return f"; its log: {' | '.join(log.split(chr(10)))}" if log.strip() else ""

    def _say(self, line: str) -> None:
        with suppress(OSError):  # the end of the owner is noticed when reading
            self._sock.sendall(line.replace("\n", " ").encode() + b"\n")

    # The end.

    def _end(self) -> None:
        """Ends the daemon and its servers, and removes all files."""
        daemon = self._daemon
        if daemon is not None:
            if daemon.poll() is None and self._control("quit") is not None:
                with suppress(subprocess.TimeoutExpired):
                    daemon.wait(_LIMIT)
            if daemon.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()
        deadline = time.monotonic() + _LEAVE
        while (servers := _children()) and time.monotonic() < deadline:
            for pid in servers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _children() -> list[int]:
    try:
        listed = Path("/proc/thread-self/children").read_text()
    except OSError:  # a kernel that does not list them
        return []
    return [int(word) for word in listed.split()]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _die_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def main() -> None:
    """Serves with the arguments of this process from the owner."""
    descriptor, owner, folder, program, device = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=int(descriptor))
    Keeper(sock, int(owner), folder, program, device).run()
