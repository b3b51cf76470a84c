"""Interrupts the calls that an interrupted cell waits for, and shows output in time.

A kernel runs a cell that awaits as a task, which it cancels at SIGINT, and other cells
in its main thread, where SIGINT raises KeyboardInterrupt. Only the signal handler shows
whether the user or a timeout in the cell has cancelled a wait. So the kernel's handler
is wrapped at the beginning of a cell, which the kernel reverts at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from actorlib._core.engine import find_engine
from actorlib._futures.object_ref import interrupt_with_cells
from actorlib._loops.loop_thread import LoopPortal, portal_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class CellWatch:
    """Watches whether the user interrupts the running cell."""

    def __init__(self) -> None:
        self._was_signalled = False
        self._previous: Callable[[int, FrameType | None], object] | None = None

    def begin_cell(self, _: object = None) -> None:
        """Handles the signal during the cell that runs now."""
        self._was_signalled = False
        if threading.current_thread() is not threading.main_thread():
            return  # signals do not reach it
        handler = signal.getsignal(signal.SIGINT)
        # An interruption by KeyboardInterrupt is visible without this.
        raises = handler is signal.default_int_handler
        if callable(handler) and not raises and handler != self._signalled:
            self._previous = handler
            signal.signal(signal.SIGINT, self._signalled)

    def end_cell(self, _: object = None) -> None:
        """Clears the signal, as between cells the user interrupts nothing.

        The output of actors for this cell is shown before the next one begins.
        """
        self._was_signalled = False
        engine: Any = find_engine()
        show_output = getattr(engine, "show_output", None)
        if show_output is None:
            return
        home = portal_of(engine.loop)
        if home is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                home.call(show_output)

    def is_interrupted(self) -> bool:
        """Whether the user has interrupted the wait that is being cancelled."""
        return self._was_signalled or isinstance(sys.exception(), KeyboardInterrupt)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._was_signalled = True
        if frame is not None and frame.f_code is LoopPortal.wait.__code__:
            # A cell that awaits and blocks its loop: the kernel's handler would only
            # ask the loop to cancel it.
            raise KeyboardInterrupt
        if self._previous is not None:
            self._previous(number, frame)
        # The kernel's handler adds a callback without waking its loop, which would
        # sleep on if it is idle.
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_soon_threadsafe(lambda: None)


def watch_cells() -> None:
    """Watches the cells of the notebook, if this process is a kernel.

    It is called at each start of a runtime, in a cell.
    """
    shell = shell_of_kernel()
    if shell is None:
        return
    watch: CellWatch | None = getattr(shell, _MARK, None)
    if watch is None:
        watch = CellWatch()
        setattr(shell, _MARK, watch)
        shell.events.register("pre_run_cell", watch.begin_cell)
        shell.events.register("post_run_cell", watch.end_cell)
        interrupt_with_cells(watch.is_interrupted)
    watch.begin_cell()


_MARK = "_actorlib_cell_watch"


def shell_of_kernel() -> Any:
    """Returns the shell of the kernel, or None if this process is not a kernel."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    return shell if hasattr(shell, "kernel") else None
