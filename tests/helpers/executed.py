"""Functions that executors run; imported by workers, so it loads little."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator


def double(x: int, *, and_add: int = 0) -> int:
    """Doubles a number."""
    return 2 * x + and_add


def fail(text: str) -> None:
    """Raises what nobody catches."""
    raise LookupError(text)


def wait_for(path: str) -> str:
    """Says that it waits, and returns once a file is there."""
    Path(f"{path}-{os.getpid()}").touch()
    while not Path(path).exists():
        time.sleep(0.001)
    return path


def end_process() -> None:
    """Ends its process."""
    os._exit(3)


def gpus() -> list[Any]:
    """The GPUs that it has."""
    return actorlib.get_gpu_ids()


def is_imported(name: str) -> bool:
    """Whether a module is loaded in its process."""
    return name in sys.modules


def count_up_to(most: int) -> Iterator[int]:
    """A generator."""
    yield from range(most)


def make_executor() -> None:
    """Makes an executor where none can be."""
    actorlib.Executor()
