"""Results one after the other, for ``async for`` and for ``for``."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._checks import truth
from actorlib._waiting import Bell, Steps, Wish, ref_list, run_here, run_soon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._ref import ObjectRef

T = TypeVar("T")

END: Any = object()
"""What stands for no further result."""


class Results(ABC, Generic[T]):
    """An iterator: ``async for`` where a loop runs, ``for`` in plain methods of actors.

    What a call raised is raised where its value would be; whoever catches it may go on
    with the same iterator. One that is left early has lost nothing.
    """

    def __aiter__(self) -> Results[T]:
        """Itself."""
        return self

    async def __anext__(self) -> T:
        """The next result.

        Raises:
            Exception: What the call raised.
        """
        value = await run_soon(self._steps())
        if value is END:
            raise StopAsyncIteration
        return value

    def __iter__(self) -> Results[T]:
        """Itself."""
        return self

    def __next__(self) -> T:
        """The next result; this thread is blocked meanwhile.

        Raises:
            RuntimeError: This thread runs an event loop.
            Exception: What the call raised.
        """
        value = run_here(self._steps())
        if value is END:
            raise StopIteration
        return value

    async def aclose(self) -> None:
        """Gives up what is left, for ``contextlib.aclosing``."""

    @abstractmethod
    def _steps(self) -> Steps[T]:
        """Waits for one result and gives it, or ``END``."""


def as_completed(
    refs: Sequence[ObjectRef[T]], *, yield_obj_refs: bool = False
) -> Results[T]:
    """The values of refs in the order in which they come.

    ``async for value in actorlib.as_completed(refs)``, or a plain ``for`` in plain
    methods of actors. What a call raised is raised where its value would be; iterating
    on gives those that are left.

    Args:
        refs: Refs, each of them once.
        yield_obj_refs: Gives the refs, all done, instead of their values.

    Raises:
        TypeError: It was given something else than a list of refs.
        ValueError: A ref is there twice.
    """
    truth("yield_obj_refs", yield_obj_refs)
    given = ref_list("as_completed()", refs)
    return _Completed(given, gives_refs=yield_obj_refs)


class _Completed(Results[T]):
    """Each ref is watched once, as waiting for all of them anew each time adds up."""

    def __init__(self, refs: list[ObjectRef[T]], *, gives_refs: bool) -> None:
        self._left: dict[ObjectRef[T], None] = dict.fromkeys(refs)
        self._found: deque[ObjectRef[T]] = deque()
        self._bell = Bell()
        self._is_watching = False
        self._gives_refs = gives_refs

    async def __anext__(self) -> T:
        """The next result; see Results."""
        if not self._is_watching:
            self._watch()
        return await super().__anext__()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if any(ref.get_loop() is not loop for ref in self._left):
            return
        self._is_watching = True
        self._find()
        for ref in self._left:
            ref.add_done_callback(self._arrived)

    def _arrived(self, ref: asyncio.Future[T]) -> None:
        found = cast("ObjectRef[T]", ref)
        if found in self._left:
            del self._left[found]
            self._found.append(found)
        self._bell.ring()

    def _find(self) -> None:
        for ref in [ref for ref in self._left if ref.done()]:
            del self._left[ref]
            self._found.append(ref)

    def _steps(self) -> Steps[T]:
        while not self._found:
            if not self._is_watching:
                self._find()
                if self._found:
                    break
            if not self._left:
                return cast("T", END)
            pending = () if self._is_watching else tuple(self._left)
            yield Wish(pending, bell=self._bell)
        ref = self._found.popleft()
        return cast("T", ref) if self._gives_refs else ref.get()
