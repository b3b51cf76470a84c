"""The call whose code is running, for whoever asks about it and for what it calls.

It is a context variable: every call has its own, and so has everything that it starts
on its event loop. A thread that the user's code starts has none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping  # in an alias
from contextvars import ContextVar
from typing import Any, TypeAlias

Running: TypeAlias = tuple[int, str, Mapping[str, Any] | None]
"""Its number in this worker, its method, and what the caller said of this call alone.

A plain tuple, as it is made for each call.
"""

Deadline: TypeAlias = tuple[float, float, str]
"""When a call's time is over, how many seconds it was given, and to whom.

The first by ``time.monotonic()``, which all processes of a machine share; the last is
the call above that they were given to, or empty if they are the call's own.
"""

running: ContextVar[Running | None] = ContextVar("actorlib_running", default=None)
"""None outside of calls."""


def deadline_of(headers: Mapping[str, Any] | None) -> Deadline | None:
    """When the time of a call is over, from what was said of it; None for never."""
    return None if headers is None else headers.get("deadline")


def is_late(headers: Mapping[str, Any] | None) -> bool:
    """Whether the time of a call is over."""
    deadline = deadline_of(headers)
    return deadline is not None and deadline[0] <= time.monotonic()
