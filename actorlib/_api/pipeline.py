"""Makes a call for each value of an iterable, as many at once as there is room for.

A pipeline takes a value only when its call can begin, so an endless iterable costs no
more memory than the running calls. The first calls begin when the pipeline is made, the
others when a result is asked for: there is no background task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from actorlib._api.as_completed import END, Results
from actorlib._api.waiting import Steps, WaitRequest, Wakeup
from actorlib._core.loop_thread import may_block
from actorlib._core.object_ref import ObjectRef, mark_seen
from actorlib._core.public import public
from actorlib._core.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._api.progress import Progress

    A_contra = TypeVar("A_contra", contravariant=True)
    U = TypeVar("U")

    class Unary(Protocol[A_contra, U]):
        """What is called with one argument by place: a method or a function."""

        def remote(self, first: A_contra, /) -> ObjectRef[U]: ...


_NOT_YET: Any = object()


class ValueSource:
    """Takes values from an iterable, or from an asynchronous one.

    Args:
        where: The function that the user called, for messages.
        values: The iterable. One that is both is asynchronous where a loop runs.

    Attributes:
        is_over: Whether there are no more.
        coming: The next value of an asynchronous one, while it is waited for.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, where: str, values: object) -> None:
        self.is_over = False
        self.coming: asyncio.Task[Any] | None = None
        self._later: AsyncIterator[Any] | None = None
        self._now: Iterator[Any] = iter(())
        if isinstance(values, AsyncIterable) and (
            not isinstance(values, Iterable) or not may_block()
        ):
            self._later = aiter(cast("AsyncIterable[Any]", values))
        elif isinstance(values, Iterable):
            self._now = iter(cast("Iterable[Any]", values))
        else:
            raise TypeError(
                f"{where} takes its values from an iterable, such as a list, not "
                f"{values!r} ({type(values).__name__})"
            )

    @property
    def is_async(self) -> bool:
        """Whether the values come from an asynchronous iterable."""
        return self._later is not None

    def next(self) -> tuple[Any] | None:
        """The next value, or None if there is none, or not yet.

        Raises:
            Exception: What the iterable raised; it is over then.
        """
        if self.is_over:
            return None
        try:
            value = self._next()
        except BaseException:
            self.is_over = True
            raise
        if value is END:
            self.is_over = True
        elif value is not _NOT_YET:
            return (value,)
        return None

    def _next(self) -> Any:
        if self._later is None:
            return next(self._now, END)
        if self.coming is None:
            self.coming = asyncio.get_running_loop().create_task(_next_of(self._later))
        if not self.coming.done():
            return _NOT_YET
        task, self.coming = self.coming, None
        return task.result()

    def close(self) -> asyncio.Task[Any] | None:
        """Takes no more values; also for a destructor.

        Returns:
            The cancelled task that waits for the next one, if there is one.
        """
        self.is_over = True
        coming, self.coming = self.coming, None
        if coming is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                coming.get_loop().call_soon_threadsafe(coming.cancel)
        return coming


async def _next_of(values: AsyncIterator[Any]) -> Any:
    return await anext(values, END)


T = TypeVar("T")
V = TypeVar("V")

MAX_IN_FLIGHT = 100
"""How many calls are under way by default, or have results that nobody has taken."""


class PipelineTask:
    """The call of one value, or the several calls that a function made of it.

    Attributes:
        refs: The refs of the calls; empty until it has begun.
        error: What the function raised instead, or None.
    """

    __slots__ = ("_is_one", "error", "refs")

    def __init__(self) -> None:
        self.refs: tuple[ObjectRef[Any], ...] = ()
        self.error: BaseException | None = None
        self._is_one = True

    def begun(self, made: object) -> None:
        """Sets the refs that the function returned for the value: one, or a list.

        Raises:
            TypeError: It is neither.
        """
        kind = type(made).__name__
        if isinstance(made, ObjectRef):
            self.refs = (cast("ObjectRef[Any]", made),)
            return
        several = cast("list[object]", made) if isinstance(made, list | tuple) else []
        if not several or not all(isinstance(ref, ObjectRef) for ref in several):
            raise TypeError(
                "the function has to return the ref of a call, as in 'lambda actor, "
                f"value: actor.method.remote(value)', and returned {made!r} "
                f"({kind})"
            )
        self._is_one = False
        self.refs = tuple(cast("list[ObjectRef[Any]]", several))

    @property
    def is_done(self) -> bool:
        """Whether all its refs are done, or it has an error."""
        if self.error is not None:
            return True
        return bool(self.refs) and not self.pending()

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs that it waits for."""
        return [ref for ref in self.refs if not ref.done()]

    def result(self) -> Any:
        """The result of the call, or a list of results.

        Raises:
            Exception: What the call raised, or the function.
        """
        if self.error is not None:
            raise self.error
        return self.refs[0].get() if self._is_one else [ref.get() for ref in self.refs]


class PipelineWorkers(Protocol):
    """Makes the calls of a pipeline.

    ``MapRun``, for a pool of actors, and ``_CallWorkers``, for one method or function,
    implement it.
    """

    wakeup: Wakeup

    def has_room(self) -> bool:
        """Whether the call of one more value may begin now.

        Raises:
            RuntimeError: The pipeline was given up.
        """
        ...

    def begin(self, value: Any) -> None:
        """Makes the call of a value; an error of the function becomes its result."""
        ...

    def fail(self, error: BaseException) -> None:
        """Makes an error the result of the next value."""
        ...

    def take(self) -> PipelineTask | None:
        """Removes and returns a call that is done, if there is one."""
        ...

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs of all running calls."""
        ...

    def ready(self) -> int:
        """How many calls are done that nobody has taken, to be shown."""
        ...

    def stuck(self) -> Exception:
        """The error to raise if nothing runs and there is room for nothing."""
        ...


class Pipeline(Results[T]):
    """Iterates over the results of values, in the order in which its workers give them.

    Asynchronous values are taken once the first result is awaited.

    Args:
        values: The values.
        workers: Make the calls.
        progress: Shows how many there are; None shows nothing.
    """

    def __init__(
        self,
        values: ValueSource,
        workers: PipelineWorkers,
        progress: Progress | None = None,
    ) -> None:
        self._values = values
        self._workers = workers
        if progress is not None:
            self._progress = progress
            progress.ready = workers.ready
        if not values.is_async:
            self._fill()

    def __next__(self) -> T:
        """The next result; see Results.

        Raises:
            TypeError: The values come from an asynchronous iterable.
        """
        self.refuse_async()
        return super().__next__()

    def refuse_async(self) -> None:
        """Makes sure that its values can be taken without an event loop.

        Raises:
            TypeError: They come from an asynchronous iterable.
        """
        if self._values.is_async:
            raise TypeError(
                "the values come from an asynchronous iterable, which needs an event "
                "loop: write 'async for' in place of 'for', in an async def"
            )

    def steps(self) -> Steps[T]:
        """The wait for one result, or ``END``, for who makes other results of them."""
        return self._steps()

    async def aclose(self) -> None:
        """Takes no more values."""
        coming = self._close()
        if coming is not None:
            await asyncio.wait([coming])
            mark_seen(coming)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # __init__ has raised
            self._close()

    def _steps(self) -> Steps[T]:
        workers, values = self._workers, self._values
        while True:
            has_room = self._fill()
            task = workers.take()
            if task is not None:
                return cast("T", task.result())
            pending = workers.pending()
            also = values.coming if has_room else None
            if not pending and also is None:
                break
            yield WaitRequest(pending, also=also, wakeup=workers.wakeup)
        if not values.is_over:
            raise workers.stuck()
        self._close()
        return cast("T", END)

    def _fill(self) -> bool:
        """Makes calls while there is room and a value; True if there is room left."""
        while self._workers.has_room():
            try:
                found = self._values.next()
            except Exception as error:  # noqa: BLE001  # the user's iterable
                self._workers.fail(error)
                continue
            if found is None:
                return True
            self._workers.begin(found[0])
        return False

    def _close(self) -> asyncio.Task[Any] | None:
        if self._progress is not None:
            self._progress.hide()
        return self._values.close()


@overload
def map_unordered(
    fn: Unary[V, T],
    items: Iterable[V] | AsyncIterable[V],
    *,
    backpressure_size: int = MAX_IN_FLIGHT,
    progress: bool | str = False,
) -> Results[T]: ...
@overload
def map_unordered(
    fn: Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    *,
    backpressure_size: int = MAX_IN_FLIGHT,
    progress: bool | str = False,
) -> Results[T]: ...
@public("actorlib")
def map_unordered(
    fn: Unary[V, T] | Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    *,
    backpressure_size: int = MAX_IN_FLIGHT,
    progress: bool | str = False,
) -> Results[T]:
    """Makes a call for each item and gives the results in the order in which they come.

    ``async for value in actorlib.map_unordered(handle.double, range(1000))``, or a
    plain ``for`` in plain methods of actors. The first calls are made at once, the
    others as results are taken, so items may be endless.

    Args:
        fn: A method of an actor, or a function that gives the ref of a call.
        items: An iterable, or an asynchronous one.
        backpressure_size: How many results are under way, or wait to be taken, at the
            most. Default: 100.
        progress: Shows how many have come, as for ``as_completed``. Default: False.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: ``backpressure_size`` is less than 1.

    Example:
        >>> @actorlib.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> double = Doubler.remote().double
        >>> results = actorlib.map_unordered(double, range(4), backpressure_size=2)
        >>> sorted([value async for value in results])
        [0, 2, 4, 6]
    """
    check_count("backpressure_size", backpressure_size, 1)
    call = getattr(fn, "remote", fn)
    if not callable(call):
        raise TypeError(
            "map_unordered() takes a method of an actor (handle.method), a remote "
            f"function, or a function that returns the ref of a call, not {fn!r} "
            f"({type(fn).__name__})"
        )
    shown = None if progress is False else pipeline_progress(progress, (items,))
    values = ValueSource("map_unordered()", items)
    return Pipeline(values, _CallWorkers(call, backpressure_size), shown)


def pipeline_progress(
    asked: bool | str,  # noqa: FBT001  # as it is given
    iterables: Sequence[object],
) -> Progress | None:
    """The progress of a pipeline over iterables; see ``progress_of``."""
    from actorlib._api.progress import progress_of, total_of  # noqa: PLC0415  # few ask

    return progress_of(asked, total_of(iterables))


class _CallWorkers:
    """Makes calls by a function, up to a limit; see PipelineWorkers."""

    def __init__(self, call: Callable[[Any], object], limit: int) -> None:
        self.wakeup = Wakeup()
        self._call = call
        self._limit = limit
        self._running: list[PipelineTask] = []
        self._done: deque[PipelineTask] = deque()

    def has_room(self) -> bool:
        """Whether the call of one more value may begin; see PipelineWorkers."""
        return len(self._running) + len(self._done) < self._limit

    def begin(self, value: Any) -> None:
        """Makes the call of a value; see PipelineWorkers."""
        task = PipelineTask()
        self._running.append(task)
        try:
            task.begun(self._call(value))
        except Exception as error:  # noqa: BLE001  # the user's function
            task.error = error

    def fail(self, error: BaseException) -> None:
        """Makes an error a result; see PipelineWorkers."""
        task = PipelineTask()
        task.error = error
        self._done.append(task)

    def take(self) -> PipelineTask | None:
        """Removes and returns a call that is done; see PipelineWorkers."""
        if not self._done:
            self._done.extend(task for task in self._running if task.is_done)
            self._running = [task for task in self._running if not task.is_done]
        return self._done.popleft() if self._done else None

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs of all running calls; see PipelineWorkers."""
        return [ref for task in self._running for ref in task.pending()]

    def ready(self) -> int:
        """How many calls are done that nobody has taken; see PipelineWorkers."""
        return len(self._done) + sum(task.is_done for task in self._running)

    def stuck(self) -> Exception:
        """Never needed: while nothing runs there is room; see PipelineWorkers."""
        return AssertionError("nothing runs, and there is room")
