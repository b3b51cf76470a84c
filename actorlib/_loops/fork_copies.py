"""Closes, in a forked child, the copies of what its parent has open.

A resource of a runtime is registered where it is opened. A worker and the template
register nothing and do not load this file. Their own forks need the open resources, or
close them without this.
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
    """Closes the copies of a resource in forks of this process.

    It is not kept alive, so ``close`` is a function of its class.
    """
    _closers[resource] = close


def _close_copies() -> None:
    """Closes all copies, even if some raise; Python reports the exceptions."""
    with ExitStack() as closing:
        for resource, close in _closers.items():
            closing.callback(close, resource)
    _closers.clear()


os.register_at_fork(after_in_child=_close_copies)
