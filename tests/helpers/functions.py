"""Remote functions that many tests use; workers import this module."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import actorlib

if TYPE_CHECKING:
    from helpers.actors import Place


@actorlib.remote
def add(first: int, second: int = 0, *, scale: int = 1) -> int:
    """A sum."""
    return (first + second) * scale


@actorlib.remote
def pid() -> int:
    """Where it runs."""
    return os.getpid()


@actorlib.remote
def halt(place: Place, value: Any = None) -> Any:
    """Stops until the test lets it go on."""
    place.stop_here()
    return value


@actorlib.remote
def fail(error: BaseException) -> None:
    """Raises what it is given."""
    raise error


def group_of(runtime: actorlib.Runtime, resources: str = "CPU=1") -> Any:
    """What the snapshot says of the workers for some resources."""
    return next(c for c in runtime.snapshot().worker_groups if c.resources == resources)
