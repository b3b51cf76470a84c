"""Runs an engine's methods on its loop, whichever thread calls them.

The calling thread waits for the result. So an error is raised in the line that caused
it, and an engine is used by one thread alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar, final

from actorlib._core.fork_copies import close_in_forks
from actorlib._core.loop_thread import UserLoopPortal, portal_of
from actorlib._core.object_ref import hide_from_other_loops

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.loop_thread import LoopPortal

T = TypeVar("T")

_FORKED = (
    "this process is a fork of the one whose runtime this is, and cannot use it: hand "
    "results over, or start a runtime of its own here by init()"
)


@final
class RuntimePortal:
    """Calls functions on the loop of a runtime, from any thread.

    Args:
        loop: The loop, which runs on this thread.

    Attributes:
        portal: Posts callbacks to the loop, which nobody waits for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        portal = portal_of(loop)
        self._are_refs_hidden = portal is not None  # it has a thread to itself
        if self._are_refs_hidden:
            hide_from_other_loops()
        self.portal: LoopPortal = portal or UserLoopPortal(loop)
        close_in_forks(self, RuntimePortal._refuse)

    def call(self, work: Callable[[], T]) -> T:
        """Calls a function on the loop, and waits for its result; see LoopPortal.

        Raises:
            RuntimeError: Nobody runs the loop, or this process is a fork.
            Exception: What the function raised.
        """
        if self.portal.is_here():
            return work()
        self.hide_refs()
        return self.portal.call(work)

    def hide_refs(self) -> None:
        """Lets a loop of the calling thread gather refs; see hide_from_other_loops."""
        if not self._are_refs_hidden and asyncio._get_running_loop() is not None:  # noqa: SLF001  # None, and no error, if there is none
            self._are_refs_hidden = True
            hide_from_other_loops()

    def _refuse(self) -> None:
        self.portal.refusal = _FORKED
