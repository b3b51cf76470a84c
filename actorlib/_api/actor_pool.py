"""A pool that distributes values among actors: each actor has one value at a time.

A pool has no background task. Idle actors get values when a method of the pool is
called, so the user's functions run in the caller's thread, and no lock is needed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.map_calls import MapCall, MapCalls
from actorlib._api.map_source import ValueSource
from actorlib._api.map_window import queued_chunks
from actorlib._api.pipeline import MapResults, map_options
from actorlib._api.recorded_calls import StandIn
from actorlib._api.waiting import Steps, Waiting, WaitRequest, Wakeup
from actorlib._base.public import public
from actorlib._base.validation import check_bool, check_seconds, wrong_type
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnschedulableError,
    GetTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Sequence

    from actorlib._api.pipeline import PoolRaises, PoolReturns
    from actorlib._api.results import Results
    from actorlib._futures.object_ref import ObjectRef


_UNTAKEN_PER_ACTOR = 4
"""Calls per actor whose results were not taken: so many may overtake a slow one."""


class Member:
    """An actor of a pool, with its calls."""

    __slots__ = ("actor", "is_alive", "running")

    def __init__(self, actor: ActorHandle[Any]) -> None:
        self.actor = actor
        # In order. A finished call counts until all before it are finished.
        self.running: deque[MapCall] = deque()
        self.is_alive = True


class PoolState:
    """Keeps the actors of a pool, and the calls whose results were not taken."""

    def __init__(self) -> None:
        self.members: dict[ActorHandle[Any], Member] = {}
        self.wakeup = Wakeup()
        # A wait for results waits for all running calls, as each frees an actor.
        self.calls = MapCalls(self.wakeup, is_watchable=False)
        self._idle: deque[Member] = deque()
        self._waiting: deque[tuple[MapCall, Callable[[Any, Any], object], object]] = (
            deque()
        )
        self._busy: dict[Member, None] = {}
        self._death: ActorError | None = None

    def __str__(self) -> str:
        return (
            f"{len(self.members)}: {len(self._busy)} busy, "
            f"{len(self._waiting)} values wait"
        )

    def admit(self, actor: object) -> None:
        """Adds an actor; see ``ActorPool.push``."""
        if not isinstance(actor, ActorHandle):
            raise wrong_type(
                "a pool takes the handles of actors, as from Class.remote()", actor
            )
        handle = cast("ActorHandle[Any]", actor)
        if handle in self.members:
            raise ValueError(f"{handle!r} is in the pool already: add each actor once")
        self.members[handle] = member = Member(handle)
        self._idle.append(member)

    def dismiss(self) -> ActorHandle[Any] | None:
        """Removes and returns an idle actor; None if there is none."""
        if not self.has_free():
            return None
        actor = self._idle.pop().actor
        del self.members[actor]
        return actor

    def has_free(self) -> bool:
        self.collect()
        return bool(self._idle)

    def submit(self, function: Callable[[Any, Any], object], value: object) -> None:
        """Passes a value to an idle actor, or to the next one; see ``ActorPool``."""
        call = MapCall(None)
        if self.has_free():
            # If the function raises, the actor remains idle.
            call.add(function(self._idle[0].actor, value))
            self.calls.add(call)
            self.run(call)
            self.calls.begin(call)
        else:
            self.calls.add(call)
            self._waiting.append((call, function, value))
        self.collect()

    def has_room(self, depth: int) -> bool:
        """Whether an actor is idle, or has fewer than ``depth`` calls."""
        return self.has_free() or any(
            member.is_alive and len(member.running) < depth for member in self._busy
        )

    def run(self, call: MapCall) -> Member:
        """Chooses an actor with room for a call, and adds the call to it."""
        if self._idle:
            member = self._idle.popleft()
            self._busy[member] = None
        else:
            alive = [each for each in self._busy if each.is_alive]
            member = min(alive, key=_load_of)
        member.running.append(call)
        return member

    def collect(self) -> None:
        """Frees the actors of finished calls, and passes waiting values to them."""
        while True:
            done = [member for member in self._busy if member.running[0].is_done]
            for member in done:
                self._free(member)
            if not done and not (self._waiting and self._idle):
                break
            while self._waiting and self._idle:
                self._begin_waiting(*self._waiting.popleft())
        while self._waiting and not self.members and self._death is not None:
            call, _, _ = self._waiting.popleft()
            call.add_error(self.stuck())
            self.calls.begin(call)

    def _begin_waiting(
        self, call: MapCall, function: Callable[[Any, Any], object], value: object
    ) -> None:
        member = self.run(call)
        try:
            call.add(function(member.actor, value))
        except Exception as error:  # noqa: BLE001  # the user's function
            call.add_error(error)
        self.calls.begin(call)

    def _free(self, member: Member) -> None:
        """Removes the finished calls of a member, and itself if it has died."""
        death = None
        while member.running and member.running[0].is_done:
            death = _death_of(member.actor, member.running.popleft()) or death
        if death is not None:
            # It fails each call at once, and would get all waiting values.
            member.is_alive = False
            self.members.pop(member.actor, None)
            self._death = death
        if not member.running:
            del self._busy[member]
            if member.is_alive:
                self._idle.append(member)

    def take(self, *, is_ordered: bool) -> MapCall | None:
        """Removes and returns the next finished call, or returns None."""
        self.collect()
        return self.calls.take(is_ordered=is_ordered)

    def pending(self) -> list[ObjectRef[Any]]:
        """Returns the refs of all running calls, including skipped ones."""
        calls = chain.from_iterable(member.running for member in self._busy)
        return [ref for call in calls for ref in call.refs if not ref.done()]

    def skip(self) -> None:
        """Drops the result of the oldest call, which goes on."""
        call = self.calls.first()
        if call is not None:
            self.calls.drop(call)
            self._waiting = deque(each for each in self._waiting if each[0] is not call)

    def start_map(self) -> MapCalls:
        """Drops all results that were not taken; returns the calls of a new map."""
        self.calls = MapCalls(self.wakeup, is_watchable=False)
        self._waiting.clear()
        self.wakeup.notify()
        return self.calls

    def stuck(self) -> Exception:
        if self._death is None:
            return RuntimeError("the pool has no actor to call: push() a handle")
        error = ActorError(
            f"no actor of the pool is left, push() a new one. The last died: "
            f"{self._death}",
            actor_id=self._death.actor_id,
        )
        error.__cause__ = self._death
        return error


class PoolCalls:
    """Makes the calls of one ``map()`` of a pool; see CallMaker."""

    def __init__(
        self,
        state: PoolState,
        function: Callable[[Any, Any], object],
        *,
        is_chunked: bool,
    ) -> None:
        self._state = state
        self._function = function
        self._stand_ins: dict[Member, StandIn] | None = None
        if is_chunked:
            self._stand_ins = {}

    def has_room(self, calls: MapCalls) -> bool:
        """Whether an actor is idle, and not too many results were not taken."""
        state = self._state
        if state.calls is not calls:
            raise RuntimeError(
                "another map() of the pool has begun, which ended this one: take the "
                "results of one before the next, or use a pool for each"
            )
        depth = 1 if self._stand_ins is None else queued_chunks(calls.seconds)
        limit = max(_UNTAKEN_PER_ACTOR, 2 * depth)
        is_ahead = len(calls) >= limit * len(state.members)
        return not is_ahead and state.has_room(depth)

    def make(self, call: MapCall, args: tuple[object, ...]) -> None:
        member = self._state.run(call)
        if self._stand_ins is None:
            call.add(self._function(member.actor, args[0]))
            return
        if member not in self._stand_ins:
            self._stand_ins[member] = StandIn(pin_of(member.actor))
        self._stand_ins[member].make_chunk(self._function, call, args)

    def pending(self, calls: MapCalls, *, is_ordered: bool) -> list[ObjectRef[Any]]:
        """Returns the refs of all running calls: each frees an actor."""
        del calls, is_ordered
        return self._state.pending()

    def stuck(self) -> Exception:
        return self._state.stuck()


def _load_of(member: Member) -> int:
    return len(member.running)


def _death_of(actor: ActorHandle[Any], call: MapCall) -> ActorError | None:
    """Returns the error of an actor's death, if its call failed with that."""
    actor_id = pin_of(actor).actor_id.hex()
    for ref in call.refs:
        error = None if ref.cancelled() else ref.exception()
        if (
            isinstance(error, ActorDiedError | ActorUnschedulableError)
            and error.actor_id == actor_id
        ):
            return error
    return None


A = TypeVar("A")
F = TypeVar("F")
V = TypeVar("V")
R = TypeVar("R")


def _signature_of(method: F) -> Callable[[Any], F]:
    """Declares that a method has the overloads of another, for type checkers."""
    del method
    return lambda other: other


@public("actorlib")
class ActorPool(Generic[A]):
    """Distributes work among actors: each has one call at a time, and others wait.

    ``async for value in pool.map(lambda a, v: a.double.remote(v), range(100))``. In
    async code its results are awaited; in plain methods of actors write
    ``pool.get_next().get()`` and a plain ``for``. The error of a call is raised in the
    place of its result, and its actor goes on; a dead actor is removed from the pool.

    Args:
        actors: Handles, each of them once. ``push`` adds more later.

    Raises:
        TypeError: They are not handles.
        ValueError: A handle is there twice. The actors do not change.

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
            raise wrong_type("a pool takes a list of handles of actors", actors)
        self._state = PoolState()
        for actor in actors:
            self._state.admit(actor)

    def __repr__(self) -> str:
        return f"<ActorPool of {self._state}>"

    # Values, one by one.

    def submit(self, fn: Callable[[A, V], Any], value: V) -> None:
        """Passes a value to an idle actor, or to the next one that becomes idle.

        While the results of a ``map`` are taken, its result comes among them, in the
        order of the calls. On Ray, which reads all values first, it comes after them.
        Here values are read one by one and may be endless.

        Args:
            fn: Called here with an actor and the value; it returns the ref of a call,
                or a list of refs.
            value: The value.

        Raises:
            TypeError: ``fn`` is not a function, or does not return a ref.
            Exception: The error of ``fn``, if it was called at once. Otherwise it is
                raised in the place of the result.
        """
        _check_function("submit()", fn)
        self._state.submit(fn, value)

    def get_next(
        self, timeout: float | None = None, *, ignore_if_timedout: bool = False
    ) -> Waiting[Any]:
        """Returns the next result, in the order of the values.

        Args:
            timeout: The limit in seconds, or None. Default: None.
            ignore_if_timedout: If True, a result that does not arrive in time is
                skipped; its actor is free when the call is done. Default: False.

        Returns:
            A wait: await it, or call ``get()``. It raises the error of the call, or
            GetTimeoutError if the result does not arrive in time.

        Raises:
            StopIteration: All results were taken.
        """
        return self._next(timeout, ignores=ignore_if_timedout, is_ordered=True)

    def get_next_unordered(
        self, timeout: float | None = None, *, ignore_if_timedout: bool = False
    ) -> Waiting[Any]:
        """Returns the result that is done first; otherwise like ``get_next``.

        Args:
            timeout: The limit in seconds, or None. Default: None.
            ignore_if_timedout: If True and no result arrives in time, the oldest value
                is skipped. Default: False.

        Raises:
            StopIteration: All results were taken.
        """
        return self._next(timeout, ignores=ignore_if_timedout, is_ordered=False)

    def has_next(self) -> bool:
        """Returns whether there is a value whose result was not taken."""
        return bool(self._state.calls)

    # Values by the dozen.

    @overload
    def map(
        self,
        fn: Callable[[A, V], ObjectRef[R]],
        values: Iterable[V] | AsyncIterable[V],
        **options: Unpack[PoolRaises],
    ) -> Results[R]: ...
    @overload
    def map(
        self,
        fn: Callable[[A, V], Sequence[ObjectRef[R]]],
        values: Iterable[V] | AsyncIterable[V],
        **options: Unpack[PoolRaises],
    ) -> Results[list[R]]: ...
    @overload
    def map(
        self,
        fn: Callable[[A, V], ObjectRef[R]],
        values: Iterable[V] | AsyncIterable[V],
        **options: Unpack[PoolReturns],
    ) -> Results[R | Exception]: ...
    def map(
        self,
        fn: Callable[[A, V], Any],
        values: Iterable[V] | AsyncIterable[V],
        *,
        ordered: bool = True,
        chunksize: int | Literal["auto"] = 1,
        progress: bool | str = False,
        on_error: Literal["raise", "return"] = "raise",
        return_exceptions: bool = False,
    ) -> Results[Any]:
        """Yields the results for values, in their order, each as soon as it is done.

        Results of earlier values that were not taken are dropped. Idle actors get
        values at once, and the others as results are taken, so values may be endless.
        An asynchronous iterable is read when a result is awaited. ``await pool.map()``
        returns a list.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            ordered: False yields each result as soon as it is done. Default: True.
            chunksize: The number of values that an actor gets at a time, or ``"auto"``,
                for about 5 ms of work. Above 1, ``fn`` is called with a stand-in for
                the actor, which records the calls of one method and makes them later:
                ``fn`` has to return the result of ``actor.method.remote(...)``, and
                cannot pass it to another call. Default: 1.
            progress: If True, or a label, a bar on standard error shows the number of
                results, and the remaining time. The bar is removed at the end. Nothing
                is shown if standard error is not a terminal. Default: False.
            on_error: See ``function.map``. Default: ``"raise"``.
            return_exceptions: The same as ``on_error="return"``. Default: False.

        Returns:
            An iterator for ``async for``, or, in plain methods of actors, for ``for``;
            ``await`` it, or ``get()`` it there, for a list of all results.

        Raises:
            TypeError: An argument is of the wrong type.
            ValueError: An option is out of range.
        """
        _check_function("map()", fn)
        checked = map_options(
            (values,),
            ordered=ordered,
            chunksize=chunksize,
            progress=progress,
            on_error=on_error,
            return_exceptions=return_exceptions,
        )
        source = ValueSource("map()", (values,))
        maker = PoolCalls(self._state, fn, is_chunked=checked.chunksize != 1)
        return MapResults(source, maker, checked, self._state.start_map())

    @_signature_of(map)  # noqa: A003  # the method and not the builtin
    def map_unordered(
        self,
        fn: Callable[[A, V], Any],
        values: Iterable[V] | AsyncIterable[V],
        **options: Any,
    ) -> Results[Any]:
        """Yields results in the order of their completion; otherwise like ``map``.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            **options: The options of ``map``; ``ordered`` is False by default.

        Raises:
            TypeError: An argument is of the wrong type.
            ValueError: An option is out of range.
        """
        call: Any = self.map
        results: Results[Any] = call(fn, values, **{"ordered": False, **options})
        return results

    # Actors.

    def has_free(self) -> bool:
        """Returns whether an actor is idle and no value waits for one."""
        return self._state.has_free()

    def pop_idle(self) -> A | None:
        """Removes an idle actor from the pool; returns None if all are busy."""
        return cast("A | None", self._state.dismiss())

    def push(self, actor: A) -> None:
        """Adds an actor, which gets a waiting value at once.

        Args:
            actor: Its handle.

        Raises:
            TypeError: It is not a handle.
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
        if not self._state.calls:
            raise StopIteration(
                "all results of the pool were taken: submit() a value first, or check "
                "has_next()"
            )
        return Waiting(self._until_next(timeout, ignores, is_ordered))

    def _until_next(
        self,
        timeout: float | None,
        ignores: bool,  # noqa: FBT001  # private
        is_ordered: bool,  # noqa: FBT001  # private
    ) -> Steps[Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        remaining = timeout
        is_late = False
        while (call := self._state.take(is_ordered=is_ordered)) is None:
            if is_late:
                if ignores:
                    self._state.skip()
                raise GetTimeoutError(
                    f"no result of the pool came within {timeout:g} s; its call goes on"
                )
            if not self._state.calls:
                raise RuntimeError(
                    "another task or thread has taken the last result of the pool "
                    "while this one waited: check has_next() before each get_next()"
                )
            pending = self._state.pending()
            if not pending:
                raise self._state.stuck()
            yield WaitRequest(pending, timeout=remaining, wakeup=self._state.wakeup)
            if deadline is not None:
                remaining = max(0.0, deadline - time.monotonic())
                is_late = not remaining
        return call.result()


def _check_function(where: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(
            f"{where} takes a function of an actor and a value, for example 'lambda "
            f"actor, value: actor.method.remote(value)', not {fn!r}"
        )
