"""Turns the signals that end a program into a cancellation of its main task.

``asyncio.run`` does so with SIGINT. SIGTERM, which stops a service, and SIGHUP, which
reports the end of its terminal, end a Python program where it stands: no ``finally``
block runs, no actor closes its resources.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from types import FrameType
    from typing import Any

T = TypeVar("T")

_NAMES = ("SIGTERM", "SIGHUP")


async def until_terminated(main: Coroutine[Any, Any, T]) -> T:
    """Awaits the program's main coroutine; a signal that ends programs cancels it.

    The first signal cancels it. A second one ends the program where it stands, as
    without this function. A handler of the program is not replaced. Only the main
    thread can have handlers: on others this function only awaits.

    Returns:
        The coroutine's result, perhaps in spite of its cancellation.

    Raises:
        SystemExit: A signal cancelled it. The exit code is 128 and the signal's number,
            as shells report for a process that the signal has ended.
    """
    came: list[int] = []
    task = asyncio.current_task()
    with _handled(came):
        try:
            return await main
        except asyncio.CancelledError:
            if not came:
                raise
            raise SystemExit(128 + came[0]) from None
        finally:
            if asyncio._get_running_loop() is None:  # noqa: SLF001  # a fork
                from actorlib._loops.forking import let_task_end  # noqa: PLC0415  # rare

                let_task_end(task)


@contextmanager
def _handled(came: list[int]) -> Generator[None]:
    """Handles the signals in the block, and appends the one that came to the list."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    signals = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    is_main = threading.current_thread() is threading.main_thread()
    ours = [n for n in signals if is_main and signal.getsignal(n) is signal.SIG_DFL]

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)
        stop_handling()
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    def stop_handling() -> None:
        for number in ours:
            if signal.getsignal(number) is handle:
                signal.signal(number, signal.SIG_DFL)

    for number in ours:
        signal.signal(number, handle)
    try:
        yield
    finally:
        stop_handling()
