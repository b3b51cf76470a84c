"""Waiting for many results at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from actorlib._apart import TOO_LATE, Apart
from actorlib._ref import ObjectRef
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    import asyncio


def get_all(refs: object, timeout: float | None) -> list[Any]:
    """The values of refs, in their order; see ``get``.

    The thread sleeps once, until all of them are there or one has failed.
    """
    if isinstance(refs, str) or not isinstance(refs, Sequence):
        raise TypeError(f"get() takes a ref or a list of refs, not {refs!r}")
    given = list(cast("Sequence[ObjectRef[Any]]", refs))
    for ref in cast("list[object]", given):
        if not isinstance(ref, ObjectRef):
            raise TypeError(
                f"get() takes refs, not {ref!r} ({type(ref).__name__}): "
                "handle.method.remote() gives one"
            )
    pending = {ref for ref in given if not ref.done()}
    if pending:
        _wait_for_all(pending, timeout)
        failed = next((ref for ref in given if ref.done() and _has_failed(ref)), None)
        if failed is not None:
            failed.get(0)
    return [ref.get(0) for ref in given]


def _wait_for_all(refs: set[ObjectRef[Any]], timeout: float | None) -> None:
    first = next(iter(refs))
    loop = cast("Any", first.get_loop())
    if not isinstance(loop, Apart) or loop.is_here():
        first.get(timeout)  # it says what is wrong
        return
    left = len(refs)
    lock = threading.Lock()
    lock.acquire()

    def one_done(ref: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        if left == 0 or _has_failed(ref):
            with contextlib.suppress(RuntimeError):  # it rang before
                lock.release()

    for ref in refs:
        ref.add_done_callback(one_done)
    try:
        if not loop.wait(lock, timeout):
            raise GetTimeoutError(TOO_LATE)
    finally:
        if left > 0:
            for ref in refs:
                ref.remove_done_callback(one_done)


def _has_failed(ref: asyncio.Future[Any]) -> bool:
    return ref.cancelled() or ref.exception() is not None
