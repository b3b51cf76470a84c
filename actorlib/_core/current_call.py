"""The call whose code is running, for the context of its code and for nested calls.

It is a context variable: every call has a separate value, which the tasks that it
starts on its event loop share. A thread that the user's code starts has none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping  # in an alias
from contextvars import ContextVar
from typing import Any, TypeAlias

Running: TypeAlias = tuple[int, str, Mapping[str, Any] | None]
"""The call's number in this worker, its method, and its headers.

A plain tuple, as it is made for each call.
"""

Deadline: TypeAlias = tuple[float, float, str]
"""The time at which a call expires, its timeout in seconds, and the call that set it.

The first is a time of ``time.monotonic()``, which all processes of a machine share. The
last is the name of the outer call with that timeout, or empty for the call itself.
"""

running: ContextVar[Running | None] = ContextVar("actorlib_running", default=None)
"""None outside of calls."""


def deadline_of(headers: Mapping[str, Any] | None) -> Deadline | None:
    """Returns the deadline in the headers of a call, or None."""
    return None if headers is None else headers.get("deadline")


def is_late(headers: Mapping[str, Any] | None) -> bool:
    """Whether the deadline of a call has passed."""
    deadline = deadline_of(headers)
    return deadline is not None and deadline[0] <= time.monotonic()
