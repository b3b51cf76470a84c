"""The results of ``handle.method.map(items)``: all calls are sent at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._api.map_source import ValueSource
from actorlib._api.pipeline import MAX_IN_FLIGHT, LimitedCalls, MapResults
from actorlib._api.results import Results
from actorlib._base.public import public

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence

    from actorlib._api.map_calls import MapCall
    from actorlib._api.pipeline import MapOptions
    from actorlib._api.waiting import Steps
    from actorlib._futures.object_ref import ObjectRef

R_co = TypeVar("R_co", covariant=True)


@public("actorlib.types")
class MapResult(MapResults[R_co]):
    """The results of many calls of one method, in the order of the calls.

    Write ``results = await batch``, or ``async for result in batch`` for each as soon
    as its chunk is done; in plain methods of actors, ``batch.get()`` and a plain
    ``for``. Each of these begins with the first result, and may be repeated. The error
    of a call is raised there, with a note that names the call, and unanswered chunks
    are cancelled.

    A cancelled wait cancels the calls if the batch is not referenced elsewhere.

    Example:
        >>> @actorlib.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> batch = Doubler.remote().double.map(range(4))
        >>> await batch
        [0, 2, 4, 6]
    """

    def __init__(
        self,
        iterables: Sequence[object],
        call_chunk: Callable[[tuple[object, ...]], ObjectRef[Any]],
        options: MapOptions,
    ) -> None:
        self._kept: list[Any] = []
        self._place = 0
        # The size of chunks depends on the time of earlier ones.
        limit = float("inf") if options.chunksize is not None else MAX_IN_FLIGHT
        width = len(iterables)

        def make(call: MapCall, args: tuple[object, ...]) -> None:
            if options.returns_errors:
                call.add_items(call_chunk, args, width)
            else:
                call.add_chunk(call_chunk(args), call.size)

        source, maker = ValueSource("map()", iterables), LimitedCalls(make, limit)
        try:
            super().__init__(source, maker, options)
        except BaseException:
            self.cancel()
            raise

    def __repr__(self) -> str:
        total, done = self._calls.counts()
        return f"<MapResult, {done} of {total} chunks done>"

    def __aiter__(self) -> Results[R_co]:
        """Iterates over all results."""
        return _Replay(self)

    def __iter__(self) -> Results[R_co]:
        """Iterates over all results; blocks this thread meanwhile."""
        return _Replay(self)

    def _fill_from(
        self, place: int, ready: deque[Any], *, fails_early: bool = False
    ) -> Steps[int]:
        """Waits for results after the first ``place`` ones, and adds them to ``ready``.

        Returns the number of results so far.
        """
        while place == len(self._kept):
            request = self._advance(fails_early=fails_early)
            if request is not None:
                yield request
            elif self._is_over:
                break
        ready.extend(self._kept[place:])
        return len(self._kept)

    def _fill(self) -> Steps[bool]:
        self._place = yield from self._fill_from(
            self._place, self._ready, fails_early=self._fails_early
        )
        return bool(self._ready)

    def _add_ready(self, outcomes: list[Any]) -> None:
        self._kept += outcomes

    @property
    def _makes_calls_later(self) -> bool:
        """Whether calls are made while results are taken, and not by ``map()``."""
        return self._options.chunksize is None or self._values.is_async

    def _refuse(self, call: MapCall, error: Exception) -> None:
        if self._makes_calls_later:
            super()._refuse(call, error)
        else:
            raise error

    def _refuse_values(self, error: Exception) -> None:
        if self._makes_calls_later:
            super()._refuse_values(error)
        else:
            raise error

    def _has_raised(self) -> None:
        self.cancel()


class _Replay(Results[R_co]):
    """Iterates over the results of a batch from the first one on."""

    def __init__(self, batch: MapResult[R_co]) -> None:
        super().__init__(batch._progress)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        self._batch = batch
        self._place = 0

    def cancel(self) -> None:
        self._batch.cancel()

    def _prepare_async(self) -> None:
        self._batch._prepare_async()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file

    def _prepare_blocking(self) -> None:
        self._batch._prepare_blocking()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file

    def _leave(self) -> None:
        self._batch._leave()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file

    def _fill(self) -> Steps[bool]:
        fill = self._batch._fill_from  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        self._place = yield from fill(self._place, self._ready)
        return bool(self._ready)

    def _has_raised(self) -> None:
        self._batch.cancel()
