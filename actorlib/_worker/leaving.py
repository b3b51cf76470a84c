"""How a worker's process ends, and how a fork of it does that the user's code made."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import traceback
from typing import NoReturn

from actorlib._engine import set_engine


def leave(code: int) -> NoReturn:
    """Runs what was registered for the end of the process, then ends it.

    Interpreter teardown itself is skipped: a forked child would take apart modules
    that it shares with the template, page by page, for nothing.

    Args:
        code: The exit code.
    """
    set_engine(None)
    _wait_for_threads()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # what multiprocessing does
    _flush()
    os._exit(code)


def leave_fork(error: BaseException | None) -> NoReturn:
    """Ends a fork whose code has come back to where the worker would go on.

    What was registered for the end of the process was so by the worker, which runs it
    at its own end: here it would remove files that are in use, or end processes that
    are the worker's.

    Args:
        error: What the code raised, if it did.
    """
    code = 0
    if isinstance(error, SystemExit):
        code = code_of(error)
    elif error is not None:
        # The outermost frame is ours, and tells the user nothing.
        inner = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, inner or error.__traceback__)
        code = 1
    _wait_for_threads()
    _flush()
    os._exit(code)


def code_of(error: SystemExit) -> int:
    """The exit code, by the rules of the interpreter."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  # what the interpreter does with a text
    return 1


def _wait_for_threads() -> None:
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # waits for the user's threads, as the interpreter does


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    with contextlib.suppress(BaseException):
        ctypes.CDLL(None).fflush(None)  # what C code has printed
