"""What a worker of functions does when its owner wants it to look at its pipe.

While a function runs nobody reads. The owner writes a frame first and then sends a
signal, which says no more than *look*: what is to be done, and whether it still is, the
frame says, in the worker, where it is known which call is running. So a signal that
comes late harms nobody.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from actorlib._wire.control import LOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType, FrameType

_AGAIN = 0.001
_OWN = "actorlib."


class Attention:
    """Looks when the signal comes, but never in the middle of actorlib's own work.

    Args:
        is_running: Whether the user's code is being run.
        look: Looks at the pipe; may raise KeyboardInterrupt.
        outermost: The pieces of code that run the user's.

    Attributes:
        is_wanted: Whether the signal has come and nobody has looked yet.
    """

    def __init__(
        self,
        is_running: Callable[[], bool],
        look: Callable[[], None],
        outermost: Collection[CodeType],
    ) -> None:
        self.is_wanted = False
        self._is_running = is_running
        self._look = look
        self._outermost = outermost
        self._main = threading.get_ident()
        self._pid = os.getpid()
        signal.signal(LOOK, self._signalled)

    def again(self) -> None:
        """Has the main thread look; from any thread."""
        signal.pthread_kill(self._main, LOOK)

    def _signalled(self, _: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a fork: the pipe is its parent's
            return
        self.is_wanted = True
        if not self._is_running():  # whoever runs the next call looks first
            return
        if self._is_busy(frame):
            timer = threading.Timer(_AGAIN, self._once_more)
            timer.daemon = True
            timer.start()
            return
        self.is_wanted = False
        self._look()

    def _once_more(self) -> None:
        if self.is_wanted:
            self.again()

    def _is_busy(self, frame: FrameType | None) -> bool:
        """Whether the signal came while actorlib was at work below the user's code."""
        while frame is not None and frame.f_code not in self._outermost:
            if frame.f_globals.get("__name__", "").startswith(_OWN):
                return True
            frame = frame.f_back
        return False


class Inattention:
    """What stands there in a thread, which no signal reaches.

    What was sent is seen when the function looks, or waits for something.
    """

    is_wanted = False

    def again(self) -> None:
        """Nothing; see Attention."""
