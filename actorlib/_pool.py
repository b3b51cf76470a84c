"""A pool: values are shared out among actors, each of which has one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._checks import seconds, truth
from actorlib._flow import Flow
from actorlib._source import Source
from actorlib._waiting import Steps, Waiting, Wish
from actorlib._work import Given, Work
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from actorlib._flow import Progress
    from actorlib._handle import ActorHandle
    from actorlib._results import Results

A = TypeVar("A")
V = TypeVar("V")


class ActorPool(Generic[A]):
    """Shares out work among actors: each has one call at a time, the rest waits.

    ``async for value in pool.map(lambda a, v: a.double.remote(v), range(100))``. What
    takes time is awaited, or in plain methods of actors ``pool.get_next().get()`` and a
    plain ``for``. A call that fails gives its error in place of its result, and its
    actor goes on; an actor that has died leaves the pool.

    Args:
        actors: Handles, each of them once. More may be given later by ``push``.

    Raises:
        TypeError: It was given something else than handles.
        ValueError: A handle is there twice.
    """

    def __init__(self, actors: Iterable[ActorHandle[A]]) -> None:
        if not isinstance(cast("object", actors), Iterable):
            raise TypeError(f"a pool takes the handles of actors, not {actors!r}")
        self._work = Work()
        for actor in actors:
            self._work.admit(actor)

    def __repr__(self) -> str:
        return f"<ActorPool of {self._work}>"

    # Values, one by one.

    def submit(self, fn: Callable[[ActorHandle[A], V], Any], value: V) -> None:
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
        self._work.submit(Given(fn, value))

    def get_next(
        self, timeout: float | None = None, *, ignore_if_timedout: bool = False
    ) -> Waiting[Any]:
        """The next result, in the order in which the values were given.

        Args:
            timeout: Seconds to wait at the most, or None.
            ignore_if_timedout: Skips this result if it does not come in time; its actor
                is free when it is done.

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
        """Whichever result comes first; else like ``get_next``.

        Args:
            timeout: Seconds to wait at the most, or None.
            ignore_if_timedout: Skips the value that was given first if no result comes
                in time.

        Raises:
            StopIteration: No value is under way.
        """
        return self._next(timeout, ignores=ignore_if_timedout, is_ordered=False)

    def has_next(self) -> bool:
        """Whether a value was given whose result was not taken."""
        return bool(self._work.tasks)

    # Values by the dozen.

    def map(
        self,
        fn: Callable[[ActorHandle[A], V], Any],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = False,
    ) -> Results[Any]:
        """The results for values, in their order, each as soon as it is there.

        What was given before and not taken is given up. Actors that are idle are given
        values at once, and the others as results are asked for, so values may be
        endless. Asynchronous ones are taken from the first result on that is awaited.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            progress: Shows a bar on the standard error, by ``rich``; a text is its
                label.

        Returns:
            An iterator for ``async for``, or, in plain methods of actors, for ``for``.

        Raises:
            TypeError: An argument is of the wrong type.
        """
        return self._map("map()", fn, values, progress, is_ordered=True)

    def map_unordered(
        self,
        fn: Callable[[ActorHandle[A], V], Any],
        values: Iterable[V] | AsyncIterable[V],
        *,
        progress: bool | str = False,
    ) -> Results[Any]:
        """The results for values in the order in which they come; else like ``map``.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            progress: As for ``map``.

        Raises:
            TypeError: An argument is of the wrong type.
        """
        return self._map("map_unordered()", fn, values, progress, is_ordered=False)

    # Actors.

    def has_free(self) -> bool:
        """Whether an actor is idle and no value waits for one."""
        return self._work.has_free()

    def pop_idle(self) -> ActorHandle[A] | None:
        """Takes an idle actor out of the pool; None if all are busy."""
        return self._work.dismiss()

    def push(self, actor: ActorHandle[A]) -> None:
        """Adds an actor, which is given a value at once if one waits.

        Raises:
            TypeError: It is no handle.
            ValueError: It is in the pool already.
        """
        self._work.admit(actor)
        self._work.collect()

    # The work.

    def _next(
        self, timeout: float | None, *, ignores: bool, is_ordered: bool
    ) -> Waiting[Any]:
        if timeout is not None:
            seconds("timeout", timeout)
        truth("ignore_if_timedout", ignores)
        if not self._work.tasks:
            raise StopIteration("no value is under way: submit() one")
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
        while (task := self._work.take(is_ordered=is_ordered)) is None:
            if is_late:
                if ignores:
                    self._work.drop(next(iter(self._work.tasks)))
                raise GetTimeoutError(
                    f"no result of the pool came within {timeout:g} s; its call goes on"
                )
            if not self._work.tasks:
                raise RuntimeError("somebody else took the last result of the pool")
            pending = self._work.pending()
            if not pending:
                raise self._work.stuck()
            yield Wish(pending, timeout=left, bell=self._work.bell)
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic())
                is_late = not left
        return task.result()

    def _map(
        self,
        where: str,
        fn: Callable[[ActorHandle[A], V], Any],
        values: object,
        progress: bool | str,  # noqa: FBT001  # of the one that is called
        *,
        is_ordered: bool,
    ) -> Results[Any]:
        _check_function(where, fn)
        bar = _bar(progress, values)
        source = Source(where, values)
        return Flow(source, self._work.start_shift(fn, is_ordered), bar)


def _check_function(where: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(
            f"{where} takes a function of an actor and a value, for example 'lambda "
            f"actor, value: actor.method.remote(value)', not {fn!r}"
        )


def _bar(progress: object, values: object) -> Progress | None:
    if not isinstance(progress, bool | str):
        raise TypeError(
            f"progress takes True, False or a label, not {progress!r} "
            f"({type(progress).__name__})"
        )
    if progress is False:
        return None
    from actorlib._progress import Bar  # noqa: PLC0415  # it loads rich

    label = progress if isinstance(progress, str) else ""
    return Bar(label, len(values) if isinstance(values, Sized) else None)
