"""Finds and ends processes that a subject has left running.

A peer starts daemons, some in sessions of their own. On Linux this process can become
the parent of all that loses its own, so that nothing escapes by forking twice;
elsewhere only the group of the subject is ended.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
"""See prctl(2)."""

_GRACE = 5.0


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan among its descendants."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(grace: float = _GRACE) -> list[str]:
    """Waits for all children to end, then kills those that have not.

    No child of this process may be somebody's who still wants it.

    Args:
        grace: Seconds to wait; daemons may be on their way out.

    Returns:
        The commands of those that had to be killed.
    """
    deadline = time.monotonic() + grace
    while _reap() and time.monotonic() < deadline:
        time.sleep(0.02)
    killed: list[str] = []
    # Again and again: the children of whom was killed are orphans only then.
    while left := _reap():
        for pid in left:
            killed.append(_command(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return killed


def _reap() -> list[int]:
    """Collects the children that have ended; gives those that have not."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        tasks = list(Path("/proc/self/task").iterdir())
    except OSError:
        return []
    return [
        int(pid)
        for task in tasks
        for pid in (task / "children").read_text(encoding="ascii").split()
    ]


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return str(pid)
    program, _, rest = raw.decode(errors="replace").partition("\0")
    name = program.rpartition("/")[2]  # where it lies would be most of the line
    return f"{name} {rest}".replace("\0", " ").strip()[:80] or str(pid)
