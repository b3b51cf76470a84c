"""Calls that begin as there is room for them: values may be endless, or come late.

A pipeline takes a value only when a call of it can begin, so an endless iterable costs
no more memory than the calls under way. What there is room for begins when the pipeline
is made, and more when a result is asked for: nothing runs behind the user's back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from actorlib._api.as_completed import END, Results
from actorlib._api.waiting import Steps, WaitRequest, Wakeup
from actorlib._core.loop_thread import may_block
from actorlib._core.object_ref import ObjectRef
from actorlib._core.public import public
from actorlib._core.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._api.actor_handle import ActorMethod


_NOT_YET: Any = object()


class ValueSource:
    """Where values come from: an iterable, or an asynchronous one.

    Args:
        where: Whose values they are, for messages.
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
                f"{where} takes values from an iterable, not {values!r} "
                f"({type(values).__name__})"
            )

    @property
    def is_async(self) -> bool:
        """Whether a loop has to run to get at the values."""
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
        came, self.coming = self.coming, None
        return came.result()

    def close(self) -> asyncio.Task[Any] | None:
        """Takes no more; gives what waits for the next one, being cancelled.

        May be called from a destructor.
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

_MAX_IN_FLIGHT = 100


class PipelineTask:
    """One value on its way through a call, or through several refs of one.

    Attributes:
        refs: What is waited for; empty while it is not begun.
        error: Why it could not be begun, or is not any more.
    """

    __slots__ = ("_is_one", "error", "refs")

    def __init__(self) -> None:
        self.refs: tuple[ObjectRef[Any], ...] = ()
        self.error: BaseException | None = None
        self._is_one = True

    def begun(self, made: object) -> None:
        """Takes what a function gave for a value: a ref, or several.

        Raises:
            TypeError: It is neither.
        """
        if isinstance(made, ObjectRef):
            self.refs = (cast("ObjectRef[Any]", made),)
            return
        several = cast("list[object]", made) if isinstance(made, list | tuple) else []
        if not several or not all(isinstance(ref, ObjectRef) for ref in several):
            raise TypeError(
                "the function has to give the ref of a call, as in 'lambda actor, "
                f"value: actor.method.remote(value)', not {made!r}"
            )
        self._is_one = False
        self.refs = tuple(cast("list[ObjectRef[Any]]", several))

    @property
    def is_done(self) -> bool:
        """Whether it has its result, or an error."""
        if self.error is not None:
            return True
        return bool(self.refs) and not self.pending()

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs that it waits for."""
        return [ref for ref in self.refs if not ref.done()]

    def result(self) -> Any:
        """What the call gave.

        Raises:
            Exception: What it raised, or why it was not made.
        """
        if self.error is not None:
            raise self.error
        return self.refs[0].get() if self._is_one else [ref.get() for ref in self.refs]


class PipelineWorkers(Protocol):
    """Whoever does the work that a stream of values asks for."""

    bell: Wakeup

    def has_room(self) -> bool:
        """Whether one more value may be begun now.

        Raises:
            RuntimeError: The work of this stream was given up.
        """
        ...

    def begin(self, value: Any) -> None:
        """Begins the work on a value; an error of the function waits in its place."""
        ...

    def fail(self, error: BaseException) -> None:
        """Puts an error where the next value would be."""
        ...

    def take(self) -> PipelineTask | None:
        """A piece of work that is done, if there is one; it is taken out."""
        ...

    def pending(self) -> list[ObjectRef[Any]]:
        """What to wait for; empty if nothing is under way."""
        ...

    def stuck(self) -> Exception:
        """Why there is room for nothing, and nothing under way."""
        ...


class Progress(Protocol):
    """What shows how far a stream is."""

    def advance(self) -> None:
        """One more result was given."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


class Pipeline(Results[T]):
    """The results of values, in the order in which the crew gives them.

    Asynchronous values are taken from the first result on that somebody waits for.

    Args:
        values: Where they come from.
        crew: Who does the work.
        progress: What shows it, if anything does.
    """

    def __init__(
        self,
        values: ValueSource,
        crew: PipelineWorkers,
        progress: Progress | None = None,
    ) -> None:
        self._values = values
        self._crew = crew
        self._progress = progress
        if not values.is_async:
            self._fill()

    def __next__(self) -> T:
        """The next result; see Results.

        Raises:
            TypeError: The values come from an asynchronous iterable.
        """
        if self._values.is_async:
            raise TypeError("asynchronous values need a loop: use 'async for'")
        return super().__next__()

    async def aclose(self) -> None:
        """Gives up what is left: no further value is taken."""
        coming = self._close()
        if coming is not None:
            await asyncio.wait([coming])
            if not coming.cancelled():
                coming.exception()  # given up with the rest

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it was refused
            self._close()

    def _steps(self) -> Steps[T]:
        crew, values = self._crew, self._values
        while True:
            has_room = self._fill()
            task = crew.take()
            if task is not None:
                if self._progress is not None:
                    self._progress.advance()
                return cast("T", task.result())
            pending = crew.pending()
            also = values.coming if has_room else None
            if not pending and also is None:
                break
            yield WaitRequest(pending, also=also, bell=crew.bell)
        if not values.is_over:
            raise crew.stuck()
        self._close()
        return cast("T", END)

    def _fill(self) -> bool:
        """Begins what there is room for; True if there is room for more."""
        while self._crew.has_room():
            try:
                found = self._values.next()
            except Exception as error:  # noqa: BLE001  # the user's iterable
                self._crew.fail(error)
                continue
            if found is None:
                return True
            self._crew.begin(found[0])
        return False

    def _close(self) -> asyncio.Task[Any] | None:
        if self._progress is not None:
            self._progress.close()
        return self._values.close()


@public("actorlib")
def map_unordered(
    fn: ActorMethod[..., T] | Callable[[V], ObjectRef[T]],
    items: Iterable[V] | AsyncIterable[V],
    *,
    backpressure_size: int = _MAX_IN_FLIGHT,
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
            f"map_unordered() takes a method of an actor or a function, not {fn!r}"
        )
    return Pipeline(
        ValueSource("map_unordered()", items), _CallWorkers(call, backpressure_size)
    )


class _CallWorkers:
    """A crew without limits of its own: whoever a function calls."""

    def __init__(self, call: Callable[[Any], object], limit: int) -> None:
        self.bell = Wakeup()
        self._call = call
        self._limit = limit
        self._running: list[PipelineTask] = []
        self._done: deque[PipelineTask] = deque()

    def has_room(self) -> bool:
        """Whether one more may be under way; see PipelineWorkers."""
        return len(self._running) + len(self._done) < self._limit

    def begin(self, value: Any) -> None:
        """Makes the call; see PipelineWorkers."""
        task = PipelineTask()
        self._running.append(task)
        try:
            task.begun(self._call(value))
        except Exception as error:  # noqa: BLE001  # the user's function
            task.error = error

    def fail(self, error: BaseException) -> None:
        """Puts an error among the results; see PipelineWorkers."""
        task = PipelineTask()
        task.error = error
        self._done.append(task)

    def take(self) -> PipelineTask | None:
        """One that is done; see PipelineWorkers."""
        if not self._done:
            self._done.extend(task for task in self._running if task.is_done)
            self._running = [task for task in self._running if not task.is_done]
        return self._done.popleft() if self._done else None

    def pending(self) -> list[ObjectRef[Any]]:
        """What to wait for; see PipelineWorkers."""
        return [ref for task in self._running for ref in task.pending()]

    def stuck(self) -> Exception:
        """Never: there is room when nothing is under way; see PipelineWorkers."""
        return AssertionError("there was room")
