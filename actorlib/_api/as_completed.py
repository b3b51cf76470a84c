"""The values of refs in the order of their completion."""

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
    """Yields the values of refs in the order of their completion.

    ``async for value in actorlib.as_completed(refs)``, or a plain ``for`` in plain
    methods of actors. The error of a call is raised in the place of its value; the
    iteration may go on after it. Items of a stream are yielded as they arrive.

    Args:
        refs: Refs and streams, each of them once.
        yield_obj_refs: If True, it yields the refs, which are done, instead of their
            values. Default: False.
        progress: If True, or a label, a bar on standard error shows the number of
            results, and the remaining time. The bar is removed at the end. Nothing is
            shown if standard error is not a terminal. Default: False.

    Raises:
        TypeError: ``refs`` is not a list of refs and streams, or an argument has the
            wrong type.
        ValueError: One is in it twice.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> refs = [double.remote(x) for x in range(3)]
        >>> sorted([value async for value in actorlib.as_completed(refs)])
        [0, 2, 4]
    """
    check_bool("yield_obj_refs", yield_obj_refs)
    listed = ref_list("as_completed()", refs)
    results: _Completed[T] = _Completed(listed, yields_refs=yield_obj_refs)
    if progress is not False:
        results.show_progress(progress)
    return results


class _Completed(Results[T]):
    """The results of refs and streams, in the order of their completion.

    A done callback is added to each ref once: waiting for all remaining refs for each
    result would take quadratic time. For a stream it is added to its next arrival.
    """

    def __init__(self, listed: list[Awaited], *, yields_refs: bool) -> None:
        super().__init__()
        self._left: dict[ObjectRef[T], None] = {}
        self._streams: dict[ObjectRef[T], ObjectRefGenerator[T]] = {}
        self._completed: deque[ObjectRef[T]] = deque()
        self._wakeup = Wakeup()
        self._is_watching = False
        self._yields_refs = yields_refs
        for awaited in listed:
            self._expect(awaited)

    def show_progress(self, label: bool | str) -> None:  # noqa: FBT001  # the option
        """Shows the number of results, of the total if there are no streams."""
        from actorlib._api.progress import progress_of  # noqa: PLC0415  # few show it

        total = None if self._streams else len(self._left)
        self._progress = progress_of(label, total)

    def cancel(self) -> None:
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
        self._collect_done()
        for ref in self._left:
            ref.add_done_callback(self._arrived)

    def _arrived(self, ref: asyncio.Future[T]) -> None:
        completed = cast("ObjectRef[T]", ref)
        if completed in self._left:
            del self._left[completed]
            self._completed.append(completed)
        self._wakeup.notify()

    def _collect_done(self) -> None:
        for ref in [ref for ref in self._left if ref.done()]:
            del self._left[ref]
            self._completed.append(ref)

    def _fill(self) -> Steps[bool]:
        while not self._ready:
            if not self._is_watching:
                self._collect_done()
            if self._completed:
                ref = self._result_of(self._completed.popleft())
                if ref is not None:
                    self._ready.append(ref if self._yields_refs else outcome_of(ref))
                continue
            if not self._left:
                return False
            pending = () if self._is_watching else tuple(self._left)
            yield WaitRequest(pending, wakeup=self._wakeup)
        return True

    def _result_of(self, completed: ObjectRef[T]) -> ObjectRef[T] | None:
        """Returns the ref, or the next item of its stream; None at a stream's end."""
        stream = self._streams.pop(completed, None)
        if stream is None:
            return completed
        item = reader_of(stream).take()
        if not stream.is_finished():
            self._expect(stream)
        return item
