"""Calls a remote function for each item: ``function.map(items)``.

Unlike a method's ``map``, which sends everything at once to one actor, this makes calls
as there is room for them, as a pool does, so items may be endless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from actorlib._api.as_completed import END, Results
from actorlib._api.pipeline import (
    Pipeline,
    PipelineTask,
    ValueSource,
    pipeline_progress,
)
from actorlib._api.waiting import Steps, Wakeup
from actorlib._core.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._api.progress import Progress
    from actorlib._core.object_ref import ObjectRef

    A_contra = TypeVar("A_contra", contravariant=True)
    B_contra = TypeVar("B_contra", contravariant=True)
    C_contra = TypeVar("C_contra", contravariant=True)
    T = TypeVar("T")

    class Binary(Protocol[A_contra, B_contra, T]):
        """What takes two arguments by place."""

        def remote(self, first: A_contra, second: B_contra, /) -> ObjectRef[T]: ...

    class Ternary(Protocol[A_contra, B_contra, C_contra, T]):
        """What takes three arguments by place."""

        def remote(
            self, first: A_contra, second: B_contra, third: C_contra, /
        ) -> ObjectRef[T]: ...


R = TypeVar("R")


def map_calls(
    call: Callable[[tuple[object, ...]], ObjectRef[Any]],
    iterables: Sequence[object],
    *,
    chunksize: int,
    backpressure_size: int,
    progress: bool | str,
) -> Results[Any]:
    """Makes a call for each item, or for each chunk of items, as there is room.

    Args:
        call: Makes a call: with the arguments of one, or for chunks those of all.
        iterables: One for each argument.
        chunksize: How many items a call is for.
        backpressure_size: How many calls are under way, or wait to be taken.
        progress: Whether it is shown, or what it is called there.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A number is below 1.
    """
    check_count("chunksize", chunksize, 1)
    check_count("backpressure_size", backpressure_size, 1)
    shown = None if progress is False else pipeline_progress(progress, iterables)
    workers = OrderedCalls(call, backpressure_size)
    source = ArgumentSource(iterables, chunksize)
    if chunksize == 1:
        return Pipeline(source, workers, shown)
    return ResultsOfChunks(
        Pipeline(source, workers), lambda: workers.ready() * chunksize, shown
    )


class ArgumentSource(ValueSource):
    """Takes the arguments of a call at a time, or those of a chunk of calls.

    Args:
        iterables: One for each argument; the shortest ends them. A single one may be
            asynchronous.
        chunksize: How many calls are in a chunk, at the most.
    """

    def __init__(self, iterables: Sequence[object], chunksize: int) -> None:
        self._width = len(iterables)
        self._length = self._width * chunksize
        self._flat: list[object] = []
        self._failed: Exception | None = None
        super().__init__("map()", _zipped(iterables))

    def next(self) -> tuple[Any] | None:
        """The next arguments, one after the other; see ValueSource."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        while len(self._flat) < self._length:
            try:
                found = super().next()
            except Exception as error:
                if not self._flat:
                    raise
                self._failed = error  # behind those that came
                break
            if found is None and not self.is_over:
                return None
            if found is None:
                break
            self._flat.extend(found if self._width == 1 else found[0])
        flat, self._flat = tuple(self._flat), []
        return (flat,) if flat else None


def _zipped(iterables: Sequence[object]) -> object:
    if len(iterables) == 1:
        return iterables[0]
    for each in iterables:
        if not isinstance(each, Iterable):
            raise TypeError(
                "map() takes the values of several arguments from an iterable each, "
                f"such as a list, not {each!r} ({type(each).__name__})"
            )
    return zip(*cast("Sequence[Iterable[object]]", iterables), strict=False)


class OrderedCalls:
    """Makes calls, up to a limit, and gives them in their order; see PipelineWorkers.

    Args:
        call: Makes a call with arguments.
        limit: How many are under way, or wait to be taken, at the most.
    """

    def __init__(
        self, call: Callable[[tuple[object, ...]], object], limit: int
    ) -> None:
        self.wakeup = Wakeup()
        self._call = call
        self._limit = limit
        self._tasks: deque[PipelineTask] = deque()

    def has_room(self) -> bool:
        """Whether one more call may begin; see PipelineWorkers."""
        return len(self._tasks) < self._limit

    def begin(self, value: tuple[object, ...]) -> None:
        """Makes a call; see PipelineWorkers."""
        task = PipelineTask()
        self._tasks.append(task)
        try:
            task.begun(self._call(value))
        except Exception as error:  # noqa: BLE001  # arguments that do not fit
            task.error = error

    def fail(self, error: BaseException) -> None:
        """Makes an error the next result; see PipelineWorkers."""
        task = PipelineTask()
        task.error = error
        self._tasks.append(task)

    def take(self) -> PipelineTask | None:
        """Removes and returns the first call if it is done; see PipelineWorkers."""
        if self._tasks and self._tasks[0].is_done:
            return self._tasks.popleft()
        return None

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs of the first call, which no other overtakes; see PipelineWorkers."""
        return self._tasks[0].pending() if self._tasks else []

    def ready(self) -> int:
        """How many calls are done that nobody has taken; see PipelineWorkers."""
        return sum(task.is_done for task in self._tasks)

    def stuck(self) -> Exception:
        """Never needed: while nothing runs there is room; see PipelineWorkers."""
        return AssertionError("nothing runs, and there is room")


class ResultsOfChunks(Results[R]):
    """Iterates over the results of calls, each of which gives those of a chunk.

    Args:
        chunks: The results of the calls.
        ready: Gives how many results of calls are there that nobody has taken.
        progress: Shows how many results there are; None shows nothing.
    """

    def __init__(
        self,
        chunks: Pipeline[list[R]],
        ready: Callable[[], int],
        progress: Progress | None,
    ) -> None:
        self._chunks = chunks
        self._found = found = deque[R]()
        if progress is not None:
            self._progress = progress
            progress.ready = lambda: ready() + len(found)

    def __next__(self) -> R:
        """The next result; see Pipeline."""
        self._chunks.refuse_async()
        return super().__next__()

    async def aclose(self) -> None:
        """Takes no more items, and gives no more results."""
        self._found.clear()
        if self._progress is not None:
            self._progress.hide()
        await self._chunks.aclose()

    def _steps(self) -> Steps[R]:
        while not self._found:
            chunk = yield from self._chunks.steps()
            if chunk is END:
                return cast("R", END)
            self._found.extend(chunk)
        return self._found.popleft()
