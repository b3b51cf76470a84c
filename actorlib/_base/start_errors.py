"""Explains why the operating system refuses the start of a runtime."""

from __future__ import annotations

import errno
import os

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
    errno.EPERM: (
        "the kernel refuses a system call, perhaps by the seccomp profile of the "
        "container: 'docker run --security-opt seccomp=unconfined' runs without one"
    ),
}
_ADVICE[errno.ENOSYS] = _ADVICE[errno.EPERM]


def advice_on_start(error: OSError | RuntimeError) -> str:
    """Returns what an error of the operating system means and what to do about it.

    Empty for an error that says it itself.
    """
    if not isinstance(error, OSError):
        # How threading reports EAGAIN.
        return _ADVICE[errno.EAGAIN] if "start new thread" in str(error) else ""
    if error.errno == errno.ENOENT and error.filename == os.devnull:
        return f"there is no {os.devnull}: /dev of the container is incomplete"
    return _ADVICE.get(error.errno or 0, "")
