"""Iterators over results, for ``async for`` and for ``for``."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._api.waiting import (
    Awaited,
    Steps,
    WaitRequest,
    Wakeup,
    readiness_of,
    ref_list,
    run_async,
    run_blocking,
)
from actorlib._core.object_ref import ObjectRef
from actorlib._core.public import public
from actorlib._core.stream_reader import reader_of
from actorlib._core.validation import check_bool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._api.progress import Progress
    from actorlib._core.stream_reader import ObjectRefGenerator

T = TypeVar("T")

END: Any = object()
"""Stands for: no further result."""


@public("actorlib")
class Results(ABC, Generic[T]):
    """An iterator: ``async for`` where a loop runs, ``for`` in plain methods of actors.

    What a call raised is raised where its value would be; whoever catches it may go on
    with the same iterator. One that is left early has lost nothing.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> results = actorlib.as_completed([double.remote(1)])
        >>> async for value in results:
        ...     print(value)
        2
    """

    _progress: Progress | None = None

    def __aiter__(self) -> Results[T]:
        """Itself."""
        return self

    async def __anext__(self) -> T:
        """The next result.

        Raises:
            Exception: What the call raised.
        """
        value = await run_async(self._followed())
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
        value = run_blocking(self._followed())
        if value is END:
            raise StopIteration
        return value

    async def aclose(self) -> None:
        """Gives up what is left, for ``contextlib.aclosing``."""

    def _followed(self) -> Steps[T]:
        steps = self._steps()
        if self._progress is None:
            return steps
        return self._progress.followed(steps, END)

    @abstractmethod
    def _steps(self) -> Steps[T]:
        """The wait for one result, or ``END``; see ``waiting``."""


@public("actorlib")
def as_completed(
    refs: Sequence[ObjectRef[T] | ObjectRefGenerator[T]],
    *,
    yield_obj_refs: bool = False,
    progress: bool | str = False,
) -> Results[T]:
    """Gives the values of refs in the order in which they come.

    ``async for value in actorlib.as_completed(refs)``, or a plain ``for`` in plain
    methods of actors. What a call raised is raised where its value would be; iterating
    on gives those that are left. Of a generator of a call each item comes as it is
    there, among the others.

    Args:
        refs: Refs and generators, each of them once.
        yield_obj_refs: If True, it gives the refs, all done, instead of their values.
            Default: False.
        progress: If True, or a label, a bar on standard error shows how many results
            have come, and how long the rest will take. The bar is wiped at the end.
            Nothing is shown if standard error is no terminal. Default: False.

    Raises:
        TypeError: It was given something else than a list of them, or an argument is of
            the wrong type.
        ValueError: One is there twice.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> refs = [double.remote(x) for x in range(3)]
        >>> sorted([value async for value in actorlib.as_completed(refs)])
        [0, 2, 4]
    """
    check_bool("yield_obj_refs", yield_obj_refs)
    given = ref_list("as_completed()", refs)
    results: _Completed[T] = _Completed(given, gives_refs=yield_obj_refs)
    if progress is not False:
        results.show_progress(progress)
    return results


class _Completed(Results[T]):
    """The results of refs and generators, as they come.

    A done callback is added to each ref once: to wait for all that are left anew for
    each result would take quadratic time. For a generator it is added to the arrival of
    its next item.
    """

    def __init__(self, given: list[Awaited], *, gives_refs: bool) -> None:
        self._left: dict[ObjectRef[T], None] = {}
        self._streams: dict[ObjectRef[T], ObjectRefGenerator[T]] = {}
        self._found: deque[ObjectRef[T]] = deque()
        self._wakeup = Wakeup()
        self._is_watching = False
        self._gives_refs = gives_refs
        for awaited in given:
            self._expect(awaited)

    def show_progress(self, asked: bool | str) -> None:  # noqa: FBT001  # as it is given
        """Shows how many there are, of as many as can be known."""
        from actorlib._api.progress import progress_of  # noqa: PLC0415  # few ask

        total = None if self._streams else len(self._left)
        self._progress = progress_of(asked, total)

    async def __anext__(self) -> T:
        """The next result; see Results."""
        if not self._is_watching:
            self._watch()
        return await super().__anext__()

    def _expect(self, awaited: Awaited) -> None:
        sign: ObjectRef[T] = readiness_of(awaited)
        if not isinstance(awaited, ObjectRef):
            self._streams[sign] = awaited
        self._left[sign] = None
        if self._is_watching:
            sign.add_done_callback(self._arrived)

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
        self._wakeup.notify()

    def _find(self) -> None:
        for ref in [ref for ref in self._left if ref.done()]:
            del self._left[ref]
            self._found.append(ref)

    def _steps(self) -> Steps[T]:
        while True:
            while not self._found:
                if not self._is_watching:
                    self._find()
                    if self._found:
                        break
                if not self._left:
                    return cast("T", END)
                pending = () if self._is_watching else tuple(self._left)
                yield WaitRequest(pending, wakeup=self._wakeup)
            ref = self._taken(self._found.popleft())
            if ref is not None:
                return cast("T", ref) if self._gives_refs else ref.get()

    def _taken(self, found: ObjectRef[T]) -> ObjectRef[T] | None:
        """The ref, or the next item of a generator; None if that has ended."""
        stream = self._streams.pop(found, None)
        if stream is None:
            return found
        item = reader_of(stream).take()
        if not stream.is_finished():
            self._expect(stream)
        return item
