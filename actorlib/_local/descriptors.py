"""Room for descriptors: a thousand actors need more than a shell's usual 1 024."""

from __future__ import annotations

import contextlib
import errno
import resource
import sys

_SPARE = 256
_ENOUGH = 1 << 16


class Room:
    """This process's soft limit of open files, raised while it is needed.

    Go and Node raise theirs at every start. The hard limit stays, and so do the limits
    of workers, which are those that this process was started with.
    """

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = self._soft

    def make(self, count: int) -> None:
        """Raises the limit if it is too low.

        Args:
            count: How many descriptors will be open besides the program's own.
        """
        wanted = count + _SPARE
        if self._raised == resource.RLIM_INFINITY or wanted <= self._raised:
            return
        no_end = self._hard == resource.RLIM_INFINITY
        most = _ENOUGH if no_end else min(self._hard, _ENOUGH)
        raised = max(min(max(wanted, 2 * self._raised), most), self._raised)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, self._hard))
        self._raised = raised

    def spare(self, pid: int) -> None:
        """Gives a child, and whatever it starts, the limit there was before."""
        if sys.platform == "linux" and self._raised != self._soft:
            with contextlib.suppress(OSError):
                limits = (self._soft, self._hard)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def restore(self) -> None:
        """Lowers the limit to what it was, unless somebody else has changed it."""
        now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if now == self._raised != self._soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))
        self._raised = self._soft


def why(error: Exception) -> str:
    """What an error says, and what can be done if descriptors have run out."""
    if not isinstance(error, OSError) or error.errno not in _OUT:
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


_OUT = frozenset({errno.EMFILE, errno.ENFILE})
