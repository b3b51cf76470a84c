"""Explains why the operating system refuses the start of a runtime."""

from __future__ import annotations

import errno
import os
import traceback

_ADVICE = {
    errno.EFBIG: (
        "no file may have content here, shared memory included: raise the limit with "
        "'ulimit -f unlimited'"
    ),
    errno.EAGAIN: (
        "no further process or thread may be started: raise the limit of this user "
        "('ulimit -u') or of the container (pids.max)"
    ),
    errno.EMFILE: "too many files are open in this process: raise 'ulimit -n'",
    errno.ENFILE: "too many files are open on this machine",
    errno.ENOMEM: "there is not enough memory",
    errno.ENOSPC: "there is no space left, perhaps in /dev/shm of the container",
}


def explain_start_error(error: OSError | RuntimeError) -> str:
    """Returns the text of an error of the operating system, with advice if any."""
    return ": ".join(filter(None, (str(error), advice_on_start(error))))


def advice_on_start(error: OSError | RuntimeError) -> str:
    """Returns what an error of the operating system means and what to do about it.

    Empty for an error that says it itself.
    """
    if not isinstance(error, OSError):
        # How threading reports EAGAIN, and EPERM too.
        if "start new thread" not in str(error):
            return ""
        return (
            f"{_ADVICE[errno.EAGAIN]}. Or the seccomp profile of the container refuses "
            "clone3, as that of an old container engine does: update it"
        )
    if error.errno == errno.ENOENT and error.filename == os.devnull:
        return f"there is no {os.devnull}: /dev of the container is incomplete"
    if error.errno in (errno.EPERM, errno.ENOSYS):
        return (
            f"the kernel refuses a system call{_place_of(error)}, perhaps by the "
            "seccomp profile of the container: 'docker run --security-opt "
            "seccomp=unconfined' runs without one"
        )
    return _ADVICE.get(error.errno or 0, "")


def _place_of(error: OSError) -> str:
    """Returns the last line of Python that led to an error, which names no call."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        # Errors of a child process are raised again.
        if frame.line and not frame.line.startswith("raise "):
            return f" in '{frame.line}'"
    return ""
