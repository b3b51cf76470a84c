"""Raises the limit of open files: a thousand actors need more than a shell's 1 024.

Every launcher opens descriptors for each worker in the owner's process. So each raises
the limit when it launches, and the error message tells what to do at the hard limit.
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
    """Raises this process's soft limit of open files while it is needed.

    Go and Node raise theirs at every start. The hard limit is not changed. Workers keep
    the limits that this process was started with.
    """

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised: int = self._soft

    def raise_to(self, count: int) -> None:
        """Raises the limit for so many descriptors besides the program's own."""
        wanted = count + _HEADROOM
        if self._raised == resource.RLIM_INFINITY or wanted <= self._raised:
            return
        current, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if current != self._raised:  # other code has changed it
            self._soft = self._raised = current
            self.raise_to(count)
            return
        is_unlimited = self._hard == resource.RLIM_INFINITY
        most = _CEILING if is_unlimited else min(self._hard, _CEILING)
        raised = max(min(max(wanted, 2 * self._raised), most), self._raised)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, self._hard))
        self._raised = raised

    def restore_in(self, pid: int) -> None:
        """Sets the original limit for a child and the processes that it starts."""
        if sys.platform == "linux" and self._raised != self._soft:
            with contextlib.suppress(OSError):
                limits = (self._soft, self._hard)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def restore(self) -> None:
        """Lowers the limit to the original, unless other code has changed it."""
        current, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if current == self._raised != self._soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))
        self._raised = self._soft


def start_error_reason(error: Exception) -> str:
    """Returns why a worker cannot start, with advice if there is any."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno not in _OUT_OF_FDS:
        from actorlib._base.start_errors import explain_start_error  # noqa: PLC0415  # rarely needed

        return explain_start_error(error)
    if error.errno == errno.ENFILE:
        return "this machine has as many files open as its kernel allows (fs.file-max)"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = "" if soft == hard else f", and may be raised to {hard}"
    return (
        "this process may open no more descriptors, of which each worker needs some: "
        f"its limit of open files is {soft}{more}. Raise it (ulimit -n), or run fewer "
        "workers at once"
    )
