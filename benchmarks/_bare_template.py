"""A bare fork server: ``_bare_template.py CONTROL ANSWERS PRELOADS IMPORTS``.

For each number N on CONTROL it forks N children; each writes one byte on ANSWERS and
stays. Their process ids go back on CONTROL. A 0 ends the children and is answered with
one byte when they are gone. Only what it needs is imported: it is what forking costs.
"""

import gc
import importlib
import os
import socket
import struct
import sys

COUNT = struct.Struct("<i")


def main() -> None:
    """Serves until CONTROL closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    answers, preloads, imports = int(sys.argv[2]), sys.argv[3], sys.argv[4]
    for name in filter(None, preloads.split(",")):
        importlib.import_module(name)
    gc.collect()
    gc.disable()
    gc.freeze()
    control.sendall(b"r")
    pids: list[int] = []
    life = -1
    while request := control.recv(COUNT.size):
        (count,) = COUNT.unpack(request)
        if count:
            watched, life = os.pipe()
            pids = [_fork(answers, watched, life, imports) for _ in range(count)]
            os.close(watched)
            control.sendall(struct.pack(f"<{count}i", *pids))
        else:
            os.close(life)
            for pid in pids:
                os.waitpid(pid, 0)
            control.sendall(b"d")


def _fork(answers: int, watched: int, life: int, imports: str) -> int:
    pid = os.fork()
    if pid == 0:
        os.close(life)
        for name in filter(None, imports.split(",")):
            importlib.import_module(name)
        os.write(answers, b".")
        os.read(watched, 1)
        os._exit(0)
    return pid


if __name__ == "__main__":
    main()
