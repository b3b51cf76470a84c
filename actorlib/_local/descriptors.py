"""Descriptors: room for many, and none of ours where a standard stream belongs."""

from __future__ import annotations

import os
import resource

_SPARE = 256
_ENOUGH = 1 << 16
_STANDARD_ERROR = 2


def make_room(count: int) -> None:
    """Raises this process's soft limit of open files if it is too low for so many.

    A thousand actors need more than a shell's usual 1 024.

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


def fill_standard_streams() -> None:
    """Opens those of descriptors 0 to 2 that are closed, on nothing.

    Sockets would take their numbers, and libuv, under uvloop, aborts the process rather
    than close one of those.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)
