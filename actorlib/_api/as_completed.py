"""The values of refs in the order in which they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeVar, cast

from actorlib._api.results import Results, outcome_of
from actorlib._api.waiting import (
    Awaited,
    Steps,
    WaitRequest,
    Wakeup,
    readiness_of,
    ref_list,
)
from actorlib._base.public import public
from actorlib._base.validation import check_bool
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import reader_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._futures.stream_reader import ObjectRefGenerator

T = TypeVar("T")


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
        super().__init__()
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

    def cancel(self) -> None:
        """Cancels the calls that are not done."""
        for ref in self._left:
            self._streams.get(ref, ref).cancel()

    def _expect(self, awaited: Awaited) -> None:
        sign: ObjectRef[T] = readiness_of(awaited)
        if not isinstance(awaited, ObjectRef):
            self._streams[sign] = awaited
        self._left[sign] = None
        if self._is_watching:
            sign.add_done_callback(self._arrived)

    def _prepare_async(self) -> None:
        if self._is_watching:
            return
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

    def _fill(self) -> Steps[bool]:
        while not self._ready:
            if not self._is_watching:
                self._find()
            if self._found:
                ref = self._taken(self._found.popleft())
                if ref is not None:
                    self._ready.append(ref if self._gives_refs else outcome_of(ref))
                continue
            if not self._left:
                return False
            pending = () if self._is_watching else tuple(self._left)
            yield WaitRequest(pending, wakeup=self._wakeup)
        return True

    def _taken(self, found: ObjectRef[T]) -> ObjectRef[T] | None:
        """The ref, or the next item of a generator; None if that has ended."""
        stream = self._streams.pop(found, None)
        if stream is None:
            return found
        item = reader_of(stream).take()
        if not stream.is_finished():
            self._expect(stream)
        return item
