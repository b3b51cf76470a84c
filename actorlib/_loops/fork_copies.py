"""Closes in a forked child its copies of what its parent has open.

What a process has open for its runtime is registered where it is opened. A worker and
the template register nothing and do not load this file: their own forks need what they
have open, or close it by themselves.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
_closers: WeakKeyDictionary[Any, Callable[[Any], object]] = WeakKeyDictionary()


def close_in_forks(resource: R, close: Callable[[R], object]) -> None:
    """Has forks of this process close their copy of something.

    Args:
        resource: What is open; it is not kept alive.
        close: Closes the copy: a function of its class.
    """
    _closers[resource] = close


def _close_copies() -> None:
    """Closes all of them, whatever the others raise; Python reports what was raised."""
    with ExitStack() as closing:
        for resource, close in _closers.items():
            closing.callback(close, resource)
    _closers.clear()


os.register_at_fork(after_in_child=_close_copies)
