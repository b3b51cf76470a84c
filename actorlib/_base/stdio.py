"""The standard streams of this process, which a daemon may have closed."""

from __future__ import annotations

import os

_STANDARD_ERROR = 2


def fill_standard_streams() -> None:
    """Opens ``/dev/null`` on those of the descriptors 0 to 2 that are closed.

    Otherwise sockets would get these numbers, and libuv (under uvloop) aborts the
    process rather than close one of them.
    """
    try:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
            pass
    except FileNotFoundError:  # the start of a runtime says what is missing
        return
    os.close(descriptor)
