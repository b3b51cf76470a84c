"""Runs an engine's methods on its loop, for callers on any thread.

The calling thread waits for the result. So an error is raised in the line that caused
it, and only one thread uses an engine. The decorator ``@on_loop`` makes a method cross
to the loop.
"""

from __future__ import annotations

import asyncio
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, final

from actorlib._futures.object_ref import hide_from_other_loops
from actorlib._loops.fork_copies import close_in_forks
from actorlib._loops.loop_thread import UserLoopPortal, portal_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._loops.loop_thread import LoopPortal

T = TypeVar("T")
Method = TypeVar("Method", bound="Callable[..., object]")

_FORKED = (
    "this process is a fork of the process of this runtime, and cannot use it: send "
    "results to that process, or start a separate runtime here by init()"
)


@final
class RuntimePortal:
    """Calls functions on the loop of a runtime, from any thread.

    Its ``portal`` posts callbacks to the loop without waiting for them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        portal = portal_of(loop)
        self._are_refs_hidden = portal is not None  # it has a thread to itself
        if self._are_refs_hidden:
            hide_from_other_loops()
        self.portal: LoopPortal = portal or UserLoopPortal(loop)
        close_in_forks(self, RuntimePortal._refuse)

    def call(self, work: Callable[[], T]) -> T:
        """Calls a function on the loop, and waits for its result; see LoopPortal."""
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


class LoopCaller(Protocol):
    """Calls functions on a loop, from any thread; ``RuntimePortal`` implements it."""

    def call(self, work: Callable[[], T]) -> T: ...


class HasPortal(Protocol):
    """An object whose methods any thread may call."""

    @property
    def portal(self) -> LoopCaller: ...


def on_loop(method: Method) -> Method:
    """Runs a method on the loop of its object's portal, for callers on any thread."""

    @wraps(method)
    def cross(self: HasPortal, /, *args: Any, **kwargs: Any) -> object:
        return self.portal.call(partial(method, self, *args, **kwargs))

    return cast("Method", cross)
