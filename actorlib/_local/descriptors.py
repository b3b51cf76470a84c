"""Room for descriptors: a thousand actors need more than a shell's usual 1 024."""

from __future__ import annotations

import resource

_SPARE = 256
_ENOUGH = 1 << 16


def make_room(count: int) -> None:
    """Raises this process's soft limit of open files if it is too low for so many.

    The hard limit stays, as do the limits of workers: they come from a process that
    was started before. Go and Node raise theirs likewise at every start.

    Args:
        count: How many descriptors will be open besides the program's own.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _SPARE
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    raised = max(min(max(wanted, 2 * soft), most), soft)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
