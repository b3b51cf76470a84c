"""Combines calls of a method: ``@batch`` on a method of an actor.

It runs in the actor: callers call a method with one argument. One batch runs at a time,
and calls that arrive meanwhile form the next one, so a busy actor has large batches.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from actorlib._base.public import public
from actorlib._base.validation import check_count, check_seconds, wrong_type
from actorlib._options.interface import is_generator, signature_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from actorlib._api.typed_methods import TypedMethod

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_QUEUE = "__actorlib_batch_{}__"


@overload
def batch(
    method: Callable[[S, list[T]], Awaitable[Sequence[R]] | Sequence[R]], /
) -> TypedMethod[S, [T], R, Coroutine[Any, Any, R]]: ...
@overload
def batch(
    *, max_size: int = 32, wait: float = 0.005
) -> Callable[
    [Callable[[S, list[T]], Awaitable[Sequence[R]] | Sequence[R]]],
    TypedMethod[S, [T], R, Coroutine[Any, Any, R]],
]: ...
@public("actorlib")
def batch(*given: Any, max_size: int = 32, wait: float = 0.005) -> Any:
    """Combines calls of a method, so that it works on many inputs at once.

    The method takes a list and returns one result for each item, in order. Callers call
    it with one item and get one result. The actor has an event loop, as with ``async
    def`` methods: the method itself may be plain, and blocks that loop while it
    computes, or ``async def``. One batch runs at a time; calls that arrive meanwhile
    are in the next one. A call that is cancelled while it waits is left out.

    An exception among the results is raised only for that caller. An exception of the
    method is raised for all callers of the batch.

    Args:
        *given: The method, for ``@batch`` without parentheses.
        max_size: The largest number of calls in a batch, 1 or more; so many begin it at
            once. It is limited by the actor's ``max_concurrency``. Default: 32.
        wait: Seconds that the first call of a batch waits for others, 0 or more; with 0
            only waiting calls are in it. Default: 0.005.

    Returns:
        The decorator, or the decorated method.

    Raises:
        TypeError: An argument has the wrong type, or it does not decorate a method with
            one argument.
        ValueError: An argument is out of range.

    Example:
        >>> @actorlib.remote
        ... class Model:
        ...     @actorlib.batch(max_size=32)
        ...     def predict(self, inputs):
        ...         return [2 * x for x in inputs]
        >>> model = Model.remote()
        >>> await model.predict.remote(21)
        42
    """
    check_count("max_size", max_size, 1)
    check_seconds("wait", wait)

    def decorate(
        method: Callable[[S, list[T]], Awaitable[Sequence[R]] | Sequence[R]],
    ) -> TypedMethod[S, [T], R, Coroutine[Any, Any, R]]:
        _check(method)
        # A method that overrides another one may call it, so each has its own queue.
        name = _QUEUE.format(f"{method.__module__}.{method.__qualname__}")

        @functools.wraps(method)
        async def call_one(self: S, item: T) -> R:
            queue: _BatchQueue | None = getattr(self, name, None)
            if queue is None:
                work = functools.partial(method, self)
                queue = _BatchQueue(method.__qualname__, work, max_size, wait)
                # Without a ``__setattr__`` of the user's, which may refuse it.
                object.__setattr__(self, name, queue)
            return cast("R", await queue.add(item))

        # To a type checker it is also a method under @method.
        return cast("TypedMethod[S, [T], R, Coroutine[Any, Any, R]]", call_one)

    return decorate(*given) if given else decorate


def _check(method: object) -> None:
    if not inspect.isfunction(method):
        raise wrong_type("@batch takes a method of a class", method)
    if is_generator(method):
        raise TypeError(
            f"@batch takes a method that returns a list, and {method.__qualname__} is "
            "a generator"
        )
    try:
        signature_of(method).bind(None, [])
    except TypeError as error:
        raise TypeError(
            f"@batch calls {method.__qualname__} with a list of items and nothing "
            f"else: {error}"
        ) from None


class _Waiting(NamedTuple):
    """A call that waits for its result."""

    item: Any
    answer: asyncio.Future[Any]


class _BatchQueue:
    """Holds the calls of one method of one actor that wait for their batch."""

    def __init__(
        self,
        name: str,
        work: Callable[[list[Any]], Any],
        max_size: int,
        wait: float,
    ) -> None:
        self._name = name
        self._work = work
        self._max_size = max_size
        self._wait = wait
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.Handle | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_due = False

    async def add(self, item: object) -> Any:
        """Adds an item to a batch; returns its result."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(item, loop.create_future())
        self._waiting.append(waiting)
        if self._timer is None:
            self._timer = loop.call_later(self._wait, self._come_due)
        self._begin()
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            # By identity: comparing items may fail, as with arrays.
            self._waiting = [each for each in self._waiting if each is not waiting]
            raise

    def _come_due(self) -> None:
        self._is_due = True
        self._begin()

    def _begin(self) -> None:
        """Begins a batch if one is due and none runs."""
        is_time = self._is_due or len(self._waiting) >= self._max_size
        if self._running is not None or not is_time:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_due = False
        batch = self._waiting[: self._max_size]
        del self._waiting[: self._max_size]
        loop = asyncio.get_running_loop()
        if self._waiting:  # they have waited long enough
            self._timer = loop.call_soon(self._come_due)
        if batch:
            self._running = loop.create_task(self._run(batch))

    async def _run(self, batch: list[_Waiting]) -> None:
        try:
            _answer(batch, await self._results([item for item, _ in batch]))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            waiting = [answer for _, answer in batch if not answer.done()]
            for answer in waiting:  # SystemExit ends the actor in its calls
                answer.set_exception(error)
            if not (waiting or isinstance(error, Exception)):
                raise
        finally:
            for _, answer in batch:
                answer.cancel()  # has no effect on the answered ones
            self._running = None
            self._begin()

    async def _results(self, items: list[Any]) -> list[Any]:
        results = self._work(items)
        if inspect.isawaitable(results):
            results = await results
        try:
            listed = list(results)
        except TypeError:
            kind = type(results).__name__
            raise TypeError(
                f"{self._name}() has to return a list with a result for each of its "
                f"{len(items)} items, not {kind}"
            ) from None
        if len(listed) != len(items):
            raise ValueError(
                f"{self._name}() has returned {len(listed)} results for {len(items)} "
                "items: it has to return one for each, in order"
            )
        return listed


def _answer(batch: list[_Waiting], results: list[Any]) -> None:
    for (_, answer), result in zip(batch, results, strict=True):
        if answer.done():
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
