"""A pool of actors that share out values: each actor has one value at a time.

A pool has no background task. Idle actors are given values whenever a method of the
pool is called, so the user's functions run in the caller's own code, and no lock is
needed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.pipeline import (
    Pipeline,
    PipelineTask,
    ValueSource,
    pipeline_progress,
)
from actorlib._api.waiting import Steps, Waiting, WaitRequest, Wakeup
from actorlib._core.object_ref import watch
from actorlib._core.public import public
from actorlib._core.validation import check_bool, check_seconds
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnschedulableError,
    GetTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

    from actorlib._api.as_completed import Results
    from actorlib._core.object_ref import ObjectRef


_UNTAKEN_PER_ACTOR = 4
"""Results not taken yet, per actor: so many calls may overtake the slowest one."""


class PoolTask(PipelineTask):
    """A value that was given to a pool, and the function to call with it."""

    __slots__ = ("actor", "function", "value")

    def __init__(self, function: Callable[[Any, Any], object], value: object) -> None:
        super().__init__()
        self.function = function
        self.value = value
        self.actor: ActorHandle[Any] | None = None


class PoolState:
    """Keeps the actors of a pool, and the tasks of its values.

    Attributes:
        members: The actors.
        tasks: The tasks whose result was not taken, in order.
        run: The running ``map()``, or None.
        wakeup: Wakes tasks that wait, when something is done.
    """

    def __init__(self) -> None:
        self.members: set[ActorHandle[Any]] = set()
        self.tasks: dict[PipelineTask, None] = {}
        self.run: MapRun | None = None
        self.wakeup = Wakeup()
        self._idle: deque[ActorHandle[Any]] = deque()
        self._waiting: deque[PoolTask] = deque()
        self._running: list[PoolTask] = []
        self._done: dict[PipelineTask, None] = {}
        self._death: ActorError | None = None

    def __str__(self) -> str:
        return (
            f"{len(self.members)}: {len(self._running)} busy, "
            f"{len(self._waiting)} values wait"
        )

    def admit(self, actor: object) -> None:
        """Adds an actor.

        Raises:
            TypeError: It is no handle.
            ValueError: It is in the pool already.
        """
        if not isinstance(actor, ActorHandle):
            raise TypeError(
                f"a pool takes the handles of actors, which Class.remote() gives, not "
                f"{actor!r} ({type(actor).__name__})"
            )
        handle = cast("ActorHandle[Any]", actor)
        if handle in self.members:
            raise ValueError(f"{handle!r} is in the pool already: give each actor once")
        self.members.add(handle)
        self._idle.append(handle)

    def dismiss(self) -> ActorHandle[Any] | None:
        """Removes and returns an idle actor; None if there is none."""
        if not self.has_free():
            return None
        actor = self._idle.pop()
        self.members.discard(actor)
        return actor

    def has_free(self) -> bool:
        """Whether an actor is idle, and no value waits for one."""
        self.collect()
        return bool(self._idle)

    def submit(self, task: PoolTask) -> None:
        """Gives a value to an actor that is free, or to the next one that will be.

        Raises:
            Exception: What the function raised, if it was called at once.
        """
        if self.has_free():
            self.begin(task)
            if task.error is not None:
                self._running.remove(task)
                self._free(task)
                raise task.error
        else:
            self._waiting.append(task)
        self.tasks[task] = None
        self.collect()

    def begin(self, task: PoolTask) -> None:
        """Gives a value to an idle actor; an error of the function is its result."""
        actor = task.actor = self._idle.popleft()
        self._running.append(task)
        try:
            task.begun(task.function(actor, task.value))
        except Exception as error:  # noqa: BLE001  # the user's function
            task.error = error
        for ref in task.refs:
            watch(ref, self.wakeup.notify)
        self.wakeup.notify()  # this result may be the first to come

    def fail(self, task: PipelineTask, error: BaseException) -> None:
        """Makes an error the result of a task that gets no actor."""
        task.error = error
        self.tasks[task] = None
        self._done[task] = None

    def collect(self) -> None:
        """Frees the actors of tasks that are done, and gives them values that wait."""
        while True:
            done = [task for task in self._running if task.is_done]
            for task in done:
                self._running.remove(task)
                self._free(task)
                if task in self.tasks:
                    self._done[task] = None
            if not done and not (self._waiting and self._idle):
                break
            while self._waiting and self._idle:
                self.begin(self._waiting.popleft())
        while self._waiting and not self.members and self._death is not None:
            self.fail(self._waiting.popleft(), self.stuck())

    def _free(self, task: PoolTask) -> None:
        """Makes the actor of a task idle again, or removes it if it has died."""
        actor, task.actor = task.actor, None
        if actor is None:
            return
        death = _death_of(actor, task)
        if death is None:
            self._idle.append(actor)
        else:
            # It fails each call at once, and would be given all values that wait.
            self.members.discard(actor)
            self._death = death

    def take(self, *, is_ordered: bool) -> PipelineTask | None:
        """Removes and returns the next task that is done, if it is there."""
        self.collect()
        task = next(iter(self.tasks if is_ordered else self._done), None)
        if task is None or task not in self._done:
            return None
        self.drop(task)
        return task

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs of all running calls, also of those that were given up."""
        return [ref for task in self._running for ref in task.pending()]

    def drop(self, task: PipelineTask) -> None:
        """Gives up the result of a task; its call goes on."""
        self.tasks.pop(task, None)
        self._done.pop(task, None)
        if task in self._waiting:
            self._waiting.remove(cast("PoolTask", task))

    def start_run(
        self,
        function: Callable[[Any, Any], object],
        order: bool,  # noqa: FBT001  # as a MapRun has it
    ) -> MapRun:
        """Gives up all tasks whose result was not taken, and begins a ``map()``."""
        self.tasks.clear()
        self._done.clear()
        self._waiting.clear()
        self.run = MapRun(self, function, is_ordered=order)
        self.wakeup.notify()
        return self.run

    def stuck(self) -> Exception:
        """The error to raise if values wait and no actor is left."""
        if self._death is None:
            return RuntimeError(
                "the pool has no actor, so nothing can be called: push() a handle"
            )
        error = ActorError(
            f"no actor of the pool is left, push() a new one. The last died: "
            f"{self._death}",
            actor_id=self._death.actor_id,
        )
        error.__cause__ = self._death
        return error


class MapRun:
    """Makes the calls of one ``map()`` of a pool; see PipelineWorkers.

    Args:
        state: The state of the pool.
        function: What is called with an actor and a value.
        is_ordered: Whether results are given in the order of the values.
    """

    def __init__(
        self,
        state: PoolState,
        function: Callable[[Any, Any], object],
        *,
        is_ordered: bool,
    ) -> None:
        self.wakeup = state.wakeup
        self._state = state
        self._function = function
        self._is_ordered = is_ordered

    def has_room(self) -> bool:
        """Whether an actor is idle, and not too many results wait to be taken."""
        state = self._state
        if state.run is not self:
            raise RuntimeError(
                "another map() of the pool was begun, which gave this one up: take the "
                "results of one before the next, or use a pool for each"
            )
        return state.has_free() and len(state.tasks) < _UNTAKEN_PER_ACTOR * len(
            state.members
        )

    def begin(self, value: Any) -> None:
        """Gives a value to an idle actor."""
        task = PoolTask(self._function, value)
        self._state.tasks[task] = None
        self._state.begin(task)

    def fail(self, error: BaseException) -> None:
        """Makes an error the result of the next value."""
        self._state.fail(PipelineTask(), error)

    def take(self) -> PipelineTask | None:
        """Removes and returns the next task that is done."""
        return self._state.take(is_ordered=self._is_ordered)

    def pending(self) -> list[ObjectRef[Any]]:
        """The refs of all running calls."""
        return self._state.pending()

    def ready(self) -> int:
        """How many values are done whose results nobody has taken."""
        return sum(task.is_done for task in self._state.tasks)

    def stuck(self) -> Exception:
        """The error to raise if values wait and no actor is left."""
        return self._state.stuck()


def _death_of(actor: ActorHandle[Any], task: PipelineTask) -> ActorError | None:
    """The error that says an actor has died, if its task failed with that."""
    actor_id = pin_of(actor).actor_id.hex()
    for ref in task.refs:
        error = None if ref.cancelled() else ref.exception()
        if (
            isinstance(error, ActorDiedError | ActorUnschedulableError)
            and error.actor_id == actor_id
        ):
            return error
    return None


A = TypeVar("A")
V = TypeVar("V")
R = TypeVar("R")


@public("actorlib")
class ActorPool(Generic[A]):
    """Spreads work over actors: each has one call at a time, and the rest waits.

    ``async for value in pool.map(lambda a, v: a.double.remote(v), range(100))``. Await
    what takes time; in plain methods of actors write ``pool.get_next().get()`` and a
    plain ``for``. A call that fails gives its error in place of its result, and its
    actor goes on; an actor that has died leaves the pool.

    Args:
        actors: Handles, each of them once. More may be given later by ``push``.

    Raises:
        TypeError: It was given something else than handles.
        ValueError: A handle is there twice. The actors are left as they were.

    Example:
        >>> @actorlib.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> pool = actorlib.ActorPool([Doubler.remote(), Doubler.remote()])
        >>> results = pool.map(lambda actor, x: actor.double.remote(x), range(4))
        >>> [value async for value in results]
        [0, 2, 4, 6]
    """

    def __init__(self, actors: Iterable[A]) -> None:
        if not isinstance(cast("object", actors), Iterable):
            raise TypeError(
                "a pool takes a list of handles of actors, not "
                f"{actors!r} ({type(actors).__name__})"
            )
        self._state = PoolState()
        for actor in actors:
            self._state.admit(actor)

    def __repr__(self) -> str:
        return f"<ActorPool of {self._state}>"

    # Values, one by one.

    def submit(self, fn: Callable[[A, V], Any], value: V) -> None:
        """Gives a value to an actor that is free, or to the next one that will be.

        Args:
            fn: Called here with an actor and the value; it gives the ref of a call, or
                a list of refs.
            value: The value.

        Raises:
            TypeError: ``fn`` is no function, or gives no ref.
            Exception: What ``fn`` raised, if it was called at once. Else it is raised
                where the result would be.
        """
        _check_function("submit()", fn)
        self._state.submit(PoolTask(fn, value))

    def get_next(
        self, timeout: float | None = None, *, ignore_if_timedout: bool = False
    ) -> Waiting[Any]:
        """Gives the next result, in the order in which the values were given.

        Args:
            timeout: Seconds to wait at the most, or None. Default: None.
            ignore_if_timedout: If True, a result that does not come in time is skipped;
                its actor is free when the call is done. Default: False.

        Returns:
            To be awaited, or ``get()``, which raises what the call raised, and
            GetTimeoutError if it does not come in time.

        Raises:
            StopIteration: No value is under way.
        """
        return self._next(timeout, ignores=ignore_if_timedout, is_ordered=True)

    def get_next_unordered(
        self, timeout: float | None = None, *, ignore_if_timedout: bool = False
    ) -> Waiting[Any]:
        """Gives whichever result comes first; else like ``get_next``.

        Args:
            timeout: Seconds to wait at the most, or None. Default: None.
            ignore_if_timedout: If True and no result comes in time, the value that was
                given first is skipped. Default: False.

        Raises:
            StopIteration: No value is under way.
        """
        return self._next(timeout, ignores=ignore_if_timedout, is_ordered=False)

    def has_next(self) -> bool:
        """Tells whether there is a value whose result was not taken yet."""
        return bool(self._state.tasks)

    # Values by the dozen.

    @overload
    def map(
        self,
        fn: Callable[[A, V], ObjectRef[R]],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = ...,
    ) -> Results[R]: ...
    @overload
    def map(
        self,
        fn: Callable[[A, V], Sequence[ObjectRef[R]]],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = ...,
    ) -> Results[list[R]]: ...
    def map(
        self,
        fn: Callable[[A, V], Any],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = False,
    ) -> Results[Any]:
        """Gives the results for values, in their order, each as soon as it is there.

        Results of earlier values that were not taken are dropped. Idle actors get
        values at once, and the others as you ask for results, so values may be endless.
        An asynchronous iterable is read once a result is awaited.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            progress: If True, or a label, a bar on standard error shows how many
                results have come, and how long the rest will take. The bar is
                wiped at the end. Nothing is shown if standard error is no terminal.
                Default: False.

        Returns:
            An iterator for ``async for``, or, in plain methods of actors, for ``for``.

        Raises:
            TypeError: An argument is of the wrong type.
        """
        return self._map("map()", fn, values, progress, is_ordered=True)

    @overload
    def map_unordered(
        self,
        fn: Callable[[A, V], ObjectRef[R]],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = ...,
    ) -> Results[R]: ...
    @overload
    def map_unordered(
        self,
        fn: Callable[[A, V], Sequence[ObjectRef[R]]],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = ...,
    ) -> Results[list[R]]: ...
    def map_unordered(
        self,
        fn: Callable[[A, V], Any],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = False,
    ) -> Results[Any]:
        """Gives results in the order in which they come; else like ``map``.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            progress: As for ``map``. Default: False.

        Raises:
            TypeError: An argument is of the wrong type.
        """
        return self._map("map_unordered()", fn, values, progress, is_ordered=False)

    # Actors.

    def has_free(self) -> bool:
        """Tells whether an actor is idle and no value waits for one."""
        return self._state.has_free()

    def pop_idle(self) -> A | None:
        """Takes an idle actor out of the pool; None if all are busy."""
        return cast("A | None", self._state.dismiss())

    def push(self, actor: A) -> None:
        """Adds an actor, which is given a value at once if one waits.

        Args:
            actor: Its handle.

        Raises:
            TypeError: It is no handle.
            ValueError: It is in the pool already.
        """
        self._state.admit(actor)
        self._state.collect()

    # Waiting.

    def _next(
        self, timeout: float | None, *, ignores: bool, is_ordered: bool
    ) -> Waiting[Any]:
        if timeout is not None:
            check_seconds("timeout", timeout)
        check_bool("ignore_if_timedout", ignores)
        if not self._state.tasks:
            raise StopIteration(
                "every result of the pool was taken: submit() a value first, or ask "
                "has_next()"
            )
        return Waiting(self._until_next(timeout, ignores, is_ordered))

    def _until_next(
        self,
        timeout: float | None,
        ignores: bool,  # noqa: FBT001  # of the one that makes it
        is_ordered: bool,  # noqa: FBT001  # likewise
    ) -> Steps[Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        left = timeout
        is_late = False
        while (task := self._state.take(is_ordered=is_ordered)) is None:
            if is_late:
                if ignores:
                    self._state.drop(next(iter(self._state.tasks)))
                raise GetTimeoutError(
                    f"no result of the pool came within {timeout:g} s; its call goes on"
                )
            if not self._state.tasks:
                raise RuntimeError(
                    "the last result of the pool was taken by another task or thread, "
                    "while this one waited: ask has_next() before each get_next()"
                )
            pending = self._state.pending()
            if not pending:
                raise self._state.stuck()
            yield WaitRequest(pending, timeout=left, wakeup=self._state.wakeup)
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic())
                is_late = not left
        return task.result()

    def _map(
        self,
        where: str,
        fn: Callable[[A, V], Any],
        values: object,
        progress: bool | str,  # noqa: FBT001  # of the one that is called
        *,
        is_ordered: bool,
    ) -> Results[Any]:
        _check_function(where, fn)
        shown = None if progress is False else pipeline_progress(progress, (values,))
        source = ValueSource(where, values)
        return Pipeline(source, self._state.start_run(fn, is_ordered), shown)


def _check_function(where: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(
            f"{where} takes a function of an actor and a value, for example 'lambda "
            f"actor, value: actor.method.remote(value)', not {fn!r}"
        )
