"""Ends an actor that gets SIGTERM when the calls that run have ended.

This is for actors that run several calls at once, as in Ray. A serial actor ends at
once.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def end_after_calls(begin: Callable[[], None]) -> None:
    """Handles SIGTERM from now on, unless the user's code does.

    A second signal ends the process at once.

    Args:
        begin: Called on the main thread at the first signal. It refuses further calls,
            and has ``end_now`` called when no call runs.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    process = os.getpid()

    def handle(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() == process:
            begin()
        else:  # a fork of the worker has inherited this
            end_now()

    signal.signal(signal.SIGTERM, handle)


def end_now() -> None:
    """Ends this process by SIGTERM, whose handler has been removed."""
    os.kill(os.getpid(), signal.SIGTERM)
