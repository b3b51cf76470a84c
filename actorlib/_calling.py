"""The call whose code is running, for whoever asks about it and for what it calls.

It is a context variable: every call has its own, and so has everything that it starts
on its event loop. A thread that the user's code starts has none.
"""

from __future__ import annotations

from collections.abc import Mapping  # in an alias
from contextvars import ContextVar
from typing import Any, TypeAlias

Running: TypeAlias = tuple[int, str, Mapping[str, Any] | None]
"""Its number in this worker, its method, and what the caller said of this call alone.

A plain tuple, as it is made for each call.
"""

running: ContextVar[Running | None] = ContextVar("actorlib_running", default=None)
"""None outside of calls."""
