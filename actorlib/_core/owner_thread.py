"""The thread that runs a runtime's loop, for verbs that other threads call.

They are done there, while whoever calls waits for what they give; so what is wrong is
raised in the line that is wrong, and an engine is used by one thread alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar, final

from actorlib._core.loop_thread import Beside, home_of
from actorlib._core.object_ref import be_known_by_home

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.loop_thread import Crossing

T = TypeVar("T")

_FORKED = (
    "this process is a fork of the one whose runtime this is, and cannot use it: hand "
    "results over, or start a runtime of its own here by init()"
)


@final
class OwnerThread:
    """Does work on the thread that runs a runtime's loop, whoever asks for it.

    Args:
        loop: The loop, which this thread runs.

    Attributes:
        crossing: How others post there what nobody waits for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        home = home_of(loop)
        self._is_known = home is not None  # it has a thread to itself
        if self._is_known:
            be_known_by_home()
        self.crossing: Crossing = home or Beside(loop)

    def across(self, work: Callable[[], T]) -> T:
        """Does something there, and waits until it is done; see Crossing.

        Raises:
            RuntimeError: Nobody runs the loop, or this process is a fork.
            Exception: What the work raised.
        """
        if self.crossing.is_here():
            return work()
        self.meet()
        return self.crossing.across(work)

    def meet(self) -> None:
        """Lets the loop of another thread, if it runs one, gather refs of this one."""
        if not self._is_known and asyncio._get_running_loop() is not None:  # noqa: SLF001  # None, and no error, if there is none
            self._is_known = True
            be_known_by_home()

    def close_in_fork(self) -> None:
        """Refuses everything from now on: this process is a fork."""
        self.crossing.refusal = _FORKED
