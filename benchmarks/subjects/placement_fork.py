"""The floor of placement: a bare template forks children that answer with one byte."""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.subjects._report import Wave, arguments, distinct, report
from benchmarks.subjects.bare_template import COUNT

_TEMPLATE = Path(__file__).with_name("bare_template.py")


def _measured(wave: Wave) -> dict[str, float]:
    metrics: dict[str, float] = {}
    control, far_control = socket.socketpair()
    answers, far_answers = socket.socketpair()
    descriptors = (far_control.fileno(), far_answers.fileno())
    command = [sys.executable, str(_TEMPLATE), *map(str, descriptors)]
    command += [",".join(wave.preloads), ",".join(wave.imports)]
    begun = time.perf_counter()
    with subprocess.Popen(command, pass_fds=descriptors), control, answers:
        far_control.close()
        far_answers.close()
        _receive(control, 1)
        metrics["start"] = time.perf_counter() - begun
        for name in ("cold", "second")[: wave.waves]:
            begun = time.perf_counter()
            control.sendall(COUNT.pack(wave.size))
            _receive(answers, wave.size)
            metrics[name] = wave.size / (time.perf_counter() - begun)
            found = _receive(control, wave.size * COUNT.size)
            distinct(struct.unpack(f"<{wave.size}i", found), wave.size)
            begun = time.perf_counter()
            control.sendall(COUNT.pack(0))
            _receive(control, 1)
            metrics["down"] = wave.size / (time.perf_counter() - begun)
        control.shutdown(socket.SHUT_RDWR)
    return metrics


def _receive(sock: socket.socket, nbytes: int) -> bytes:
    found = b""
    while len(found) < nbytes:
        more = sock.recv(nbytes - len(found))
        if not more:
            raise EOFError("the bare template is gone")
        found += more
    return found


if __name__ == "__main__":
    report(_measured(Wave(**arguments())))
