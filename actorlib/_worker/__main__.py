"""How a worker begins and how it leaves, forked from the template or spawned.

Spawned, it is ``python -m actorlib._worker FD`` with one end of the pipe as the
inherited descriptor FD. Forked, the template calls ``live`` in the child.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import socket
import sys
import threading
import traceback
from typing import TYPE_CHECKING, NoReturn

from actorlib._engine import set_engine
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.memory import Memory
from actorlib._wire.pipe import Pipe
from actorlib._wire.showing import Showing
from actorlib._worker.birth import prepare, read_start

if TYPE_CHECKING:
    from collections.abc import Callable


class Cradle:
    """What every worker begins with; the template makes it once, for all its forks."""

    def __init__(self) -> None:
        self.showing = Showing(Memory())
        self.decoder = FrameDecoder(self.showing)


def live(sock: socket.socket, cradle: Cradle) -> NoReturn:
    """Serves one actor to its end and leaves the process.

    Args:
        sock: The worker's end of the pipe.
        cradle: What no other worker of this process has begun with.
    """
    leave(ended(lambda: serve(sock, cradle)))


def ended(serve: Callable[[], None]) -> int:
    """Serves one actor to its end; gives the exit code that this stands for.

    Args:
        serve: Lives the actor's life.
    """
    try:
        serve()
    except EOFError:
        return 0  # the owner is gone: nobody is left to be told anything
    except SystemExit as error:
        return _code_of(error)
    except BaseException:  # noqa: BLE001  # the last frame of the actor
        traceback.print_exc()
        return 1
    return 0


def speak_in_lines() -> None:
    """Makes output appear line by line, and a segfault leave a Python traceback.

    Lines are what the owner shows, and what an actor's last words are made of.
    """
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # pyright: ignore  # noqa: PGH003  # a plain text stream
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        faulthandler.enable()


def leave(code: int) -> NoReturn:
    """Runs what was registered for the end of the process, then ends it.

    Interpreter teardown itself is skipped: a forked child would take apart modules
    that it shares with the template, page by page, for nothing.
    """
    set_engine(None)
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # waits for the user's threads, as the interpreter does
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # what multiprocessing does
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    with contextlib.suppress(BaseException):
        ctypes.CDLL(None).fflush(None)  # what C code has printed
    os._exit(code)


def serve(sock: socket.socket, cradle: Cradle) -> None:
    """Serves one actor to its end.

    Args:
        sock: The worker's end of the pipe.
        cradle: What no other worker of this process has begun with.

    Raises:
        BaseException: What ended it; EOFError if that was the owner's end.
    """
    try:
        _live_on(Pipe(sock, cradle.showing, cradle.decoder))
    finally:
        cradle.showing.close()


def _live_on(pipe: Pipe) -> None:
    start = read_start(pipe.begin()[0])
    prepare(start)
    if start.is_of_functions:
        from actorlib._worker import functions  # noqa: PLC0415  # likewise

        functions.serve(start, pipe)
    elif start.is_looped:
        from actorlib._worker import looped, loops  # noqa: PLC0415  # serial actors never load them

        looped.serve(start, pipe, loops.new_loop())
    elif start.limits:
        from actorlib._worker import threaded  # noqa: PLC0415

        threaded.serve(start, pipe)
    else:
        from actorlib._worker import serial  # noqa: PLC0415

        serial.serve(start, pipe)


def _code_of(error: SystemExit) -> int:
    """The exit code, by the rules of the interpreter."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  # what the interpreter does with a text
    return 1


if __name__ == "__main__":
    speak_in_lines()
    os.set_inheritable(int(sys.argv[1]), False)  # noqa: FBT003  # the os API
    live(socket.socket(fileno=int(sys.argv[1])), Cradle())
