"""A pool of actors that share out values: each actor has one value at a time.

A pool has no background task. Idle actors are given values whenever a method of the
pool is called, so the user's functions run in the caller's own code, and no lock is
needed.
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
from actorlib._base.validation import check_bool, check_seconds
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
"""Calls whose results were not taken, per actor: so many may overtake the slowest."""


class Member:
    """An actor of a pool, with the calls that keep it busy.

    Attributes:
        actor: Its handle.
        running: The calls, in order. One that is done counts until all before it are.
        is_alive: Whether it is in the pool.
    """

    __slots__ = ("actor", "is_alive", "running")

    def __init__(self, actor: ActorHandle[Any]) -> None:
        self.actor = actor
        self.running: deque[MapCall] = deque()
        self.is_alive = True


class PoolState:
    """Keeps the actors of a pool, and the calls of its values.

    Attributes:
        members: The actors.
        calls: The calls whose result was not taken, in order.
        wakeup: Wakes tasks that wait, when something is done.
    """

    def __init__(self) -> None:
        self.members: dict[ActorHandle[Any], Member] = {}
        self.wakeup = Wakeup()
        # Whoever waits for results waits for all running calls, which free actors.
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
        """Whether an actor is idle, and no value waits for one."""
        self.collect()
        return bool(self._idle)

    def submit(self, function: Callable[[Any, Any], object], value: object) -> None:
        """Gives a value to an actor that is free, or to the next one that will be.

        Raises:
            Exception: What the function raised, if it was called at once.
        """
        call = MapCall(None)
        if self.has_free():
            call.add(
                function(self._idle[0].actor, value)
            )  # if it raises, that stays idle
            self.calls.add(call)
            self.run(call)
            self.calls.begin(call)
        else:
            self.calls.add(call)
            self._waiting.append((call, function, value))
        self.collect()

    def has_room(self, depth: int) -> bool:
        """Whether an actor is idle, or has fewer calls than it may have."""
        return self.has_free() or any(
            member.is_alive and len(member.running) < depth for member in self._busy
        )

    def run(self, call: MapCall) -> Member:
        """Chooses an actor that has room, and keeps it busy until a call is done."""
        if self._idle:
            member = self._idle.popleft()
            self._busy[member] = None
        else:
            alive = [each for each in self._busy if each.is_alive]
            member = min(alive, key=_load_of)
        member.running.append(call)
        return member

    def collect(self) -> None:
        """Frees the actors of calls that are done, and gives them values that wait."""
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
        """Removes the calls of a member that are done, and itself if it has died."""
        death = None
        while member.running and member.running[0].is_done:
            death = _death_of(member.actor, member.running.popleft()) or death
        if death is not None:
            # It fails each call at once, and would be given all values that wait.
            member.is_alive = False
            self.members.pop(member.actor, None)
            self._death = death
        if not member.running:
            del self._busy[member]
            if member.is_alive:
                self._idle.append(member)

    def take(self, *, is_ordered: bool) -> MapCall | None:
        """Removes and returns the next call that is done, if it is there."""
        self.collect()
        return self.calls.take(is_ordered=is_ordered)

    def pending(self) -> list[ObjectRef[Any]]:
        """Returns the refs of all running calls, also of those that were given up."""
        calls = chain.from_iterable(member.running for member in self._busy)
        return [ref for call in calls for ref in call.refs if not ref.done()]

    def skip(self) -> None:
        """Gives up the result of the call that was made first; it goes on."""
        call = self.calls.first()
        if call is not None:
            self.calls.drop(call)
            self._waiting = deque(each for each in self._waiting if each[0] is not call)

    def start_map(self) -> MapCalls:
        """Gives up all calls whose result was not taken; returns those of a map."""
        self.calls = MapCalls(self.wakeup, is_watchable=False)
        self._waiting.clear()
        self.wakeup.notify()
        return self.calls

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


class PoolCalls:
    """Makes the calls of one ``map()`` of a pool; see CallMaker.

    Args:
        state: The state of the pool.
        function: What is called with an actor and a value.
        is_chunked: Whether a call is for several values.
    """

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
        """Whether an actor is idle, and not too many results wait to be taken."""
        state = self._state
        if state.calls is not calls:
            raise RuntimeError(
                "another map() of the pool was begun, which gave this one up: take the "
                "results of one before the next, or use a pool for each"
            )
        depth = 1 if self._stand_ins is None else queued_chunks(calls.seconds)
        limit = max(_UNTAKEN_PER_ACTOR, 2 * depth)
        is_ahead = len(calls) >= limit * len(state.members)
        return not is_ahead and state.has_room(depth)

    def make(self, call: MapCall, args: tuple[object, ...]) -> None:
        """Gives values to an idle actor; see CallMaker."""
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
        """The error to raise if values wait and no actor is left."""
        return self._state.stuck()


def _load_of(member: Member) -> int:
    return len(member.running)


def _death_of(actor: ActorHandle[Any], call: MapCall) -> ActorError | None:
    """The error that says an actor has died, if its call failed with that."""
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
        self._state.submit(fn, value)

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
        """Gives the results for values, in their order, each as soon as it is there.

        Results of earlier values that were not taken are dropped. Idle actors get
        values at once, and the others as you ask for results, so values may be endless.
        An asynchronous iterable is read once a result is awaited. ``await pool.map()``
        gives a list.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            ordered: False gives each result as soon as it is there. Default: True.
            chunksize: How many values an actor gets at a time, or ``"auto"``, for about
                5 ms of work. Above 1, ``fn`` is called with a stand-in for the actor,
                which gathers the calls of one method, and calls nothing itself: ``fn``
                has to return what ``actor.method.remote(...)`` gives, and cannot give
                that to another call. Default: 1.
            progress: If True, or a label, a bar on standard error shows how many
                results have come, and how long the rest will take. The bar is
                wiped at the end. Nothing is shown if standard error is no terminal.
                Default: False.
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

    @_signature_of(map)  # noqa: A003  # the method is meant
    def map_unordered(
        self,
        fn: Callable[[A, V], Any],
        values: Iterable[V] | AsyncIterable[V],
        **options: Any,
    ) -> Results[Any]:
        """Gives results in the order in which they come; else like ``map``.

        Args:
            fn: As for ``submit``.
            values: An iterable, or an asynchronous one.
            **options: Those of ``map``; ``ordered`` is False by default.

        Raises:
            TypeError: An argument is of the wrong type.
            ValueError: An option is out of range.
        """
        call: Any = self.map
        results: Results[Any] = call(fn, values, **{"ordered": False, **options})
        return results

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
        if not self._state.calls:
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
        while (call := self._state.take(is_ordered=is_ordered)) is None:
            if is_late:
                if ignores:
                    self._state.skip()
                raise GetTimeoutError(
                    f"no result of the pool came within {timeout:g} s; its call goes on"
                )
            if not self._state.calls:
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
        return call.result()


def _check_function(where: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(
            f"{where} takes a function of an actor and a value, for example 'lambda "
            f"actor, value: actor.method.remote(value)', not {fn!r}"
        )
