"""Threads that the system refuses to start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def refuse_once(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., object]
) -> list[RuntimeError]:
    """Lets a pool refuse the next call of a partial function.

    Returns:
        The error, until the pool has raised it.
    """
    submit: Any = ThreadPoolExecutor.submit
    errors = [RuntimeError("can't start new thread")]

    def start(pool: ThreadPoolExecutor, work: Any, *args: Any) -> Any:
        if errors and getattr(work, "func", None) is function:
            raise errors.pop()
        return submit(pool, work, *args)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", start)
    return errors
