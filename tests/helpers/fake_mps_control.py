"""NVIDIA's MPS control program as it behaves, with a daemon but without a GPU.

Run with ``-f`` it is the daemon, in the foreground; otherwise it has the daemon do what
comes on its standard input. Clients are processes with the fake driver beside this file
(``fake_cuda.c``), which speaks to the daemon in lines. What it plays is in the table of
``docs/decisions/0078-a-private-mps-daemon-for-each-gpu.md``.

A folder says how this one misbehaves, by the files that are in it: ``dies`` (its daemon
ends at once), ``hangs`` (at whatever it is told but ``get_server_list``), ``refuses``
(``terminate_client`` fails), ``late`` and ``busy`` (how often it does not answer yet,
and its server is not ready), ``old`` (it does not know ``get_server_status``),
``exits`` (its server ends by a fault, and there is another).
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from pathlib import Path

SERVER = 4242424
FAULTY = 719  # CUDA_ERROR_LAUNCH_FAILED
NOT_READY = 807  # CUDA_ERROR_MPS_SERVER_NOT_READY
TERMINATED = 810  # CUDA_ERROR_MPS_CLIENT_TERMINATED


class Client:
    """A process that has initialised CUDA."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.is_working = False
        self.was_terminated = False


class Daemon:
    """The control daemon and its one server.

    Args:
        mood: The folder that says how it misbehaves.
    """

    def __init__(self, mood: Path) -> None:
        self._mood = mood
        self._log = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"], "server.log")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control")
        self._listening.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._clients: dict[socket.socket, Client] = {}
        self._is_faulty = self._is_undefined = self._is_over = False
        self._server = 0
        self._write("Control", "Starting")

    def run(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._listening:
                    accepted, _ = sock.accept()
                    self._selector.register(accepted, selectors.EVENT_READ)
                elif line := self._line(sock):
                    sock.sendall(f"{self._answer(sock, line)}\n".encode())
                else:
                    self._gone(sock)

    def _line(self, sock: socket.socket) -> list[str]:
        try:
            return sock.recv(4096).decode().split()
        except OSError:
            return []

    def _gone(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()
        client = self._clients.pop(sock, None)
        if client is None:
            return
        if client.is_working and not client.was_terminated:
            self._is_undefined = True  # for those who are left
        if not self._clients:
            self._is_faulty = self._is_undefined = False

    def _answer(self, sock: socket.socket, words: list[str]) -> str:
        verb, *rest = words
        client = self._clients.get(sock)
        if verb == "connect":
            if self._take("busy") or self._is_faulty:
                return str(NOT_READY)
            self._clients[sock] = Client(int(rest[0]))
            self._server = self._server or SERVER  # which stays when it is idle
            self._write("Server", f"Received new client request from {rest[0]}")
            return "0"
        if client is not None:
            return str(self._serve(client, verb))
        return self._do(verb, rest)

    def _serve(self, client: Client, verb: str) -> int:
        if client.was_terminated:
            return TERMINATED
        if self._is_faulty:
            return FAULTY
        if verb == "work":
            client.is_working = True
        elif verb.startswith("fault"):
            self._is_faulty = True
            who = f"Client {client.pid}" if verb == "fault" else "A client"
            self._write("Server", f"{who} has a fatal fault")
            if (self._mood / "exits").exists():
                self._server += 1  # the daemon starts another
        return FAULTY if self._is_faulty or self._is_undefined else 0

    def _do(self, verb: str, rest: list[str]) -> str:
        match verb:
            case "quit":
                self._is_over = True
                said = ""
            case "start_server":
                self._server = self._server or SERVER
                said = ""
            case "get_server_list":
                said = str(self._server) if self._server else ""
            case "get_client_list":
                said = "\n".join(str(client.pid) for client in self._clients.values())
            case "get_server_status" if not (self._mood / "old").exists():
                is_it = self._is_faulty and self._server == SERVER
                said = "FAULT" if is_it else "ACTIVE"
            case "terminate_client":
                said = self._terminate(int(rest[1]))
            case _:
                said = f"Unknown command {verb}"
        return said

    def _terminate(self, pid: int) -> str:
        found = [client for client in self._clients.values() if client.pid == pid]
        if (self._mood / "refuses").exists() or not found:
            return "Failed to terminate client"
        found[0].was_terminated = True
        return ""

    def _take(self, name: str) -> bool:
        """Counts down what it does so many times."""
        return take(self._mood / name)

    def _write(self, who: str, text: str) -> None:
        with self._log.open("a") as log:
            log.write(f"[2026-01-01 00:00:00.000 {who} {SERVER}] {text}\n")


def take(path: Path) -> bool:
    """Counts a file down; whether it was above zero."""
    left = int(path.read_text() or 0) if path.exists() else 0
    if left:
        path.write_text(str(left - 1))
    return bool(left)


def control(mood: Path) -> int:
    """Has the daemon do what is on the standard input; gives the exit code."""
    for line in sys.stdin:
        if take(mood / "late"):
            sys.stdout.write("Cannot find MPS control daemon process\n")
            return 1
        if (mood / "hangs").exists() and not line.startswith("get_server_list"):
            time.sleep(600)
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control")
                sock.sendall(line.encode())
                said = sock.recv(1 << 16).decode().strip()
            except OSError:
                sys.stdout.write("Cannot find MPS control daemon process\n")
                return 1
        if said:
            sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "-f" not in sys.argv[2:]:
        sys.exit(control(folder))
    if (folder / "dies").exists():
        sys.stdout.write("no MPS on this machine, says the fake\n")
        sys.exit(3)
    (folder / "daemon").write_text(str(os.getpid()))
    Daemon(folder).run()
