"""Raises the limit of open files: a thousand actors need more than a shell's 1 024.

Every launcher opens descriptors for each worker in the owner's process, so each raises
the limit as it launches, and says what to do where the limit is reached all the same.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import sys

_HEADROOM = 256
"""Descriptors for the program itself."""
_CEILING = 1 << 16
_OUT_OF_FDS = frozenset({errno.EMFILE, errno.ENFILE})


class FdLimit:
    """Raises this process's soft limit of open files for as long as it is needed.

    Go and Node raise theirs at every start. The hard limit stays, and so do the limits
    of workers, which are those that this process was started with.
    """

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = self._soft

    def raise_to(self, count: int) -> None:
        """Raises the limit if it is too low.

        Args:
            count: How many descriptors will be open besides the program's own.
        """
        wanted = count + _HEADROOM
        if self._raised == resource.RLIM_INFINITY or wanted <= self._raised:
            return
        is_unlimited = self._hard == resource.RLIM_INFINITY
        most = _CEILING if is_unlimited else min(self._hard, _CEILING)
        raised = max(min(max(wanted, 2 * self._raised), most), self._raised)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, self._hard))
        self._raised = raised

    def restore_in(self, pid: int) -> None:
        """Gives a child, and whatever it starts, the limit there was before."""
        if sys.platform == "linux" and self._raised != self._soft:
            with contextlib.suppress(OSError):
                limits = (self._soft, self._hard)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def restore(self) -> None:
        """Lowers the limit to what it was, unless somebody else has changed it."""
        current, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if current == self._raised != self._soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))
        self._raised = self._soft


def start_error_reason(error: Exception) -> str:
    """Says why a worker cannot start, and what helps if descriptors have run out."""
    if not isinstance(error, OSError) or error.errno not in _OUT_OF_FDS:
        return str(error)
    if error.errno == errno.ENFILE:
        return "this machine has as many files open as its kernel allows (fs.file-max)"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = "" if soft == hard else f", and may be raised to {hard}"
    return (
        "this process may open no more descriptors, of which each worker needs some: "
        f"its limit of open files is {soft}{more}. Raise it (ulimit -n), or run fewer "
        "workers at once"
    )
