"""Replicas: equal actors behind one handle; a call goes to the one with the fewest.

Routing uses the engine's numbers of calls without an answer, and keeps none of its own.
Callbacks on the ends of replicas keep their number: there is no task, except for health
checks.
"""

from __future__ import annotations

import asyncio
import random
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from actorlib._api.actor_handle import no_such_method, pin_of
from actorlib._api.decorators import ActorClass, interface_and_options
from actorlib._base.public import public
from actorlib._base.validation import check_count, checked_duration, wrong_type
from actorlib._base.value import dataclass
from actorlib._core.engine import current_engine, find_engine
from actorlib._futures.object_ref import mark_seen
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    Exit,
    RuntimeDrainingError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from types import TracebackType

    from actorlib._api.actor_handle import ActorHandle, ActorMethod
    from actorlib._base.ids import ActorId
    from actorlib._options.call_options import CallKeywords

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

FEW = 8
"""Up to this number of replicas a call compares all; above it, two random ones."""
MOST_FAILED_CHECKS = 3
"""The number of failed health checks in a row after which a replica is killed."""
_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


def choose(loads: Sequence[int | None], turn: int) -> int | None:
    """Returns the index of a replica with the fewest calls without an answer.

    None if none accepts calls.

    Args:
        loads: The calls of each; None for one that accepts none now.
        turn: The index of the first comparison, so that equal replicas take turns.
    """
    count = len(loads)
    best = None
    least = 0
    for step in range(count):
        place = (turn + step) % count
        load = loads[place]
        if load is None or (best is not None and load >= least):
            continue
        best, least = place, load
        if not load:
            break
    return best


def pause_before(failures: int) -> float:
    """Returns the seconds before the next try, after a number of failed starts."""
    if not failures:
        return 0.0
    return min(_SHORTEST_PAUSE * 2.0 ** min(failures - 1, 20), _LONGEST_PAUSE)


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """The state of one replica.

    Attributes:
        handle: Its handle.
        state: ``starting`` until it is ready, ``alive``, ``unavailable`` while it is
            restarted, ``unhealthy`` after a failed check, ``leaving`` when it gets no
            more calls and finishes those it has.
        pending_calls: The number of its calls that have not ended, of all callers; one
            whose caller no longer waits counts twice. None while it accepts no calls.
        calls: The number of calls that this object has sent to it.
        failed_checks: The number of failed health checks in a row.
    """

    handle: ActorHandle[Any]
    state: str
    pending_calls: int | None
    calls: int
    failed_checks: int


class _Replica:
    def __init__(self, handle: ActorHandle[Any]) -> None:
        engine = pin_of(handle).engine
        self.handle = handle
        self.id: ActorId = pin_of(handle).actor_id
        self.ended = engine.dead(self.id)
        self.ready = engine.ready(self.id)
        self.calls = 0
        self.failed_checks = 0
        self.leaves = False
        # The methods without options, whose calls may go to another replica.
        self.methods: dict[str, ActorMethod[..., Any]] = {}

    @property
    def was_ready(self) -> bool:
        ready = self.ready
        return ready.done() and not ready.cancelled() and ready.exception() is None


@public("actorlib")
class Replicas(Generic[T]):
    """Several actors of one class behind one handle.

    ``replicas.method.remote(...)`` calls the replica with the fewest calls without an
    answer (with more than 8, the better of two random ones: Mitzenmacher, "The power of
    two choices in randomized load balancing", 2001). Replicas that are being restarted
    are skipped, unless there is no other. A stream stays with its replica. A replica
    that is dead for good is replaced by a new one; if it died before it was ready,
    after a pause that doubles up to 30 s.

    If a replica dies, calls that it has not begun go to another one at once, without
    using a retry. Calls that ran go to another one if ``max_task_retries`` allows it
    and no item of a stream has arrived. Deadlines do not change. If there is no other
    replica, calls are treated as with any actor. A call counts until it has ended in
    its replica; if its caller no longer waits, it counts twice, as it takes long.

    ``await replicas`` waits until all are ready; ``async with`` does so too, and ends
    them with the block. Without a block they end when this object is gone and their
    calls are done. It is for the program that started the runtime, on the local and on
    the inline engine; its methods may be called from any thread.

    Args:
        actor_class: A class decorated with ``@actorlib.remote``, with its options.
        n: The number of replicas, 0 or more.
        args: Positional arguments of each constructor.
        kwargs: Keyword arguments of each constructor.
        health: The name of a method without arguments that is called as a health check.
            A replica that raises or does not answer in time gets no calls until it
            answers again. After three failed checks in a row it is killed (and
            restarted, or replaced). A method in its own concurrency group, or an
            ``async def``, answers while others run. Default: None, for no checks.
        health_interval: Seconds between two checks, above 0. Default: 10.
        health_timeout: Seconds that a check may take, above 0. Default: 30.

    Raises:
        TypeError: It is not an actor class, or a value has the wrong type.
        ValueError: A number is out of range, the class has no such method, or its
            options have a name.
        RuntimeError: No runtime is running, or this is the code of an actor.
        UnsupportedOptionError: The engine is Ray's.

    Example:
        >>> @actorlib.remote(num_gpus=0.5)
        ... class Model:
        ...     def predict(self, x):
        ...         return 2 * x
        >>> async with actorlib.Replicas(Model, 2) as model:
        ...     print(await model.predict.remote(21))
        ...     await model.scale(1)
        42
    """

    def __init__(
        self,
        actor_class: ActorClass[..., T] | type[T],
        n: int,
        *,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        health: str | None = None,
        health_interval: float = 10.0,
        health_timeout: float = 30.0,
    ) -> None:
        self._class: ActorClass[..., Any] = _checked_class(actor_class)
        check_count("n", n, 0)
        self._interface = interface_and_options(self._class)[0]
        self._interval = checked_duration("health_interval", health_interval)
        self._timeout = checked_duration("health_timeout", health_timeout)
        self._health = health
        if health is not None:
            if health not in self._interface.methods:
                raise ValueError(f"health: {no_such_method(self._interface, health)}")
            self._interface.methods[health].check(0, {})
        self._engine = current_engine()
        self._args, self._kwargs = tuple(args), dict(kwargs or {})
        self._wanted = 0
        self._replicas: list[_Replica] = []
        # The replicas that get calls; replaced at each change, for other threads.
        self._routed: tuple[list[_Replica], list[ActorId]] = ([], [])
        self._mover = _weakly(self._route_again)
        self._turn = 0
        self._failures = 0
        self._last_death: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._changing = asyncio.Lock()
        self._checks: asyncio.Task[None] | None = None
        self._is_closed = False
        self._grow(n)
        if health is not None:
            watch = _watch_health(weakref.ref(self), self._interval)
            self._checks = asyncio.get_running_loop().create_task(watch)
            weakref.finalize(self, self._checks.cancel).atexit = False

    # Calls.

    def __getattr__(self, name: str) -> ReplicatedMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._interface.methods:
            raise no_such_method(self._interface, name)
        return ReplicatedMethod(self, name, {})

    def _route(self) -> _Replica:
        chosen = self._choose()
        if chosen is not None:
            return chosen
        # Calls wait for replicas that start; for others as their options say.
        routed, _ = self._routed
        waiting = [each for each in routed if not each.was_ready] or routed
        if not waiting:
            raise self._no_replica()
        return waiting[self._turn % len(waiting)]

    def _route_again(self) -> ActorId | None:
        """Chooses the replica for a call of a dead one; None if there is none."""
        if self._over:
            return None
        starting = (each for each in self._routed[0] if not each.was_ready)
        chosen = self._choose() or next(starting, None)
        if chosen is None:
            return None
        chosen.calls += 1
        return chosen.id

    def _choose(self) -> _Replica | None:
        """Chooses a replica that accepts calls now; None if none does."""
        routed, ids = self._routed
        count = len(routed)
        if count > FEW:
            one = int(random.random() * count)
            other = int(random.random() * (count - 1))
            other += other >= one
            place = choose(self._engine.loads((ids[one], ids[other])), 0)
            if place is not None:
                return routed[other if place else one]
        turn = self._turn = self._turn + 1
        place = choose(self._engine.loads(ids), turn)
        return None if place is None else routed[place]

    def _no_replica(self) -> BaseException:
        problem = f"{self!r} has no replica that accepts calls"
        if self._over:
            return RuntimeError(f"{problem}: {self._over}")
        if not self._wanted:
            return RuntimeError(f"{problem}: it was scaled to 0")
        death = self._last_death
        if isinstance(death, ActorDiedError):
            message = f"{problem}. The last death: {death}"
            actor = death.actor_id
            return ActorUnavailableError(message, exit=death.exit, actor_id=actor)
        if death is not None:
            return RuntimeError(f"{problem}. The last could not be made: {death}")
        here = [each for each in self._replicas if not each.leaves]
        is_ill = any(each.failed_checks for each in here)
        reason = f"{self._health}() fails" if is_ill else "the next is being made"
        end = Exit(cause="restarted", reason=reason)
        return ActorUnavailableError(f"{problem}: {reason}", exit=end)

    # The number of replicas.

    def __await__(self) -> Generator[Any, None, Replicas[T]]:
        """Waits until all present replicas are ready.

        Raises:
            ActorDiedError: The constructor of one raised, or it ended before that.
            ActorUnschedulableError: They ask for more than this machine can ever grant.
        """
        yield from self._all_ready(self._replicas).__await__()
        return self

    async def scale(self, n: int) -> None:
        """Changes the number of replicas, and waits for the change.

        New ones are ready then. If there are too many, those with the fewest calls get
        no more from now on, finish the ones they have, and end.

        Args:
            n: The new number, 0 or more.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is negative.
            RuntimeError: The replicas were closed.
            ActorDiedError: A new one could not be made; others go on.
        """
        check_count("n", n, 0)
        async with self._changing:
            self._check_open()
            new = self._grow(n)
            stay = [each for each in self._replicas if not each.leaves]
            stay.sort(key=lambda each: self._load_of(each) or 0)
            leaving = stay[: max(0, len(stay) - n)]
            for each in leaving:
                self._stop_routing(each)
        await self._leave(leaving)
        await self._all_ready(new)

    async def replace(
        self,
        actor_class: ActorClass[..., Any] | type[object] | None = None,
        *,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        surge: bool = True,
    ) -> None:
        """Replaces all replicas, one after the other, while calls go on.

        A new one is ready before an old one ends, so one more share is needed
        meanwhile. If a new one cannot be made, the remaining old ones stay.

        Args:
            actor_class: The class of the new ones, with the same methods or more.
                Default: None, for the same.
            args: Positional arguments of the new ones. Default: None, for the same.
            kwargs: Keyword arguments of the new ones. Default: None, for the same.
            surge: If False, each old one ends before its successor is made: no more
                share is needed, and there is one replica fewer meanwhile. Default:
                True.

        Raises:
            TypeError: It is not an actor class.
            ValueError: The new class lacks methods of the old one.
            RuntimeError: The replicas were closed.
            ActorDiedError: A new one could not be made.
        """
        async with self._changing:
            self._check_open()
            new_class = self._class
            if actor_class is not None:
                new_class = self._checked_successor(actor_class)
            before = self._class, self._args, self._kwargs
            self._class = new_class
            self._args = self._args if args is None else tuple(args)
            self._kwargs = self._kwargs if kwargs is None else dict(kwargs)
            try:
                for old in [each for each in self._replicas if not each.leaves]:
                    await self._replace_one(old, surge=surge)
            except BaseException:
                self._class, self._args, self._kwargs = before
                raise
            finally:
                self._plan_to_grow()  # replaces those that died meanwhile

    def stats(self) -> list[ReplicaInfo]:
        """Returns the state of each replica, including those that are ending."""
        return [
            ReplicaInfo(
                handle=each.handle,
                state=self._state_of(each),
                pending_calls=self._load_of(each),
                calls=each.calls,
                failed_checks=each.failed_checks,
            )
            for each in self._replicas
        ]

    async def aclose(self) -> None:
        """Ends all replicas after their calls."""
        self._close()
        await self._leave(list(self._replicas))

    async def __aenter__(self) -> Replicas[T]:
        """Waits until all are ready; they end with the block."""
        try:
            return await self
        except BaseException:
            await self._kill_all()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends them after their calls, or at once after an exception."""
        if kind is None:
            await self.aclose()
        else:
            await self._kill_all()

    def __len__(self) -> int:
        """The number of replicas."""
        return self._wanted

    def __repr__(self) -> str:
        states = [self._state_of(each) for each in self._replicas]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in dict.fromkeys(states)
        )
        suffix = f": {counts}" if counts else ""
        return f"Replicas({self._interface.class_name}, {self._wanted}{suffix})"

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._interface.methods})

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"{self!r} cannot be sent: it works in the program that started the "
            "runtime. Send the handles, [each.handle for each in replicas.stats()]"
        )

    # Creation and end of replicas.

    def _grow(self, n: int) -> list[_Replica]:
        """Makes replicas until there are ``n``; returns the new ones."""
        self._wanted = n
        new: list[_Replica] = []
        while sum(not each.leaves for each in self._replicas) < n:
            new.append(self._make())
        return new

    def _make(self) -> _Replica:
        handle = cast("Any", self._class).remote(*self._args, **self._kwargs)
        new = _Replica(handle)
        new.ready.add_done_callback(_weakly(self._on_ready))
        new.ended.add_done_callback(partial(_weakly(self._on_end), new.id))
        self._replicas.append(new)
        self._route_to([*self._routed[0], new])
        return new

    def _replace_missing(self) -> None:
        self._timer = None
        if self._over or self._changing.locked():
            return  # the change plans it again at its end
        try:
            self._grow(self._wanted)
        except Exception as error:  # noqa: BLE001  # the class or an argument can no longer be sent
            self._last_death = error
            self._failures += 1
            self._plan_to_grow()

    def _plan_to_grow(self) -> None:
        if self._timer is None:
            pause = pause_before(self._failures)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(pause, _weakly(self._replace_missing))

    def _on_ready(self, ready: asyncio.Future[None]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self._failures, self._last_death = 0, None

    def _on_end(self, actor: ActorId, _: asyncio.Future[None]) -> None:
        gone = next((each for each in self._replicas if each.id == actor), None)
        if gone is None:
            return
        self._replicas.remove(gone)
        self._route_to([each for each in self._routed[0] if each is not gone])
        if gone.leaves or self._is_closed:
            return
        if not gone.was_ready:
            self._failures += 1
            if gone.ready.done() and not gone.ready.cancelled():
                self._last_death = gone.ready.exception()
        self._plan_to_grow()

    async def _replace_one(self, old: _Replica, *, surge: bool) -> None:
        if old not in self._replicas:
            return  # it has died and was replaced
        if surge:
            await self._make_ready()
        await self._leave([old])
        if not surge:
            await self._make_ready()

    async def _make_ready(self) -> None:
        self._check_open()  # they may have been closed meanwhile
        new = self._make()
        try:
            await asyncio.shield(new.ready)
        except BaseException:
            self._stop_routing(new)
            self._replicas = [each for each in self._replicas if each is not new]
            raise

    async def _leave(self, leaving: list[_Replica]) -> None:
        for each in leaving:
            self._stop_routing(each)
        ends = [self._engine.end(each.id) for each in leaving]
        await _all_done(ends)

    async def _kill_all(self) -> None:
        self._close()
        replicas = list(self._replicas)
        for each in replicas:
            self._stop_routing(each)
        await _all_done([self._engine.kill(each.id) for each in replicas])

    def _stop_routing(self, replica: _Replica) -> None:
        replica.leaves = True
        self._route_to([each for each in self._routed[0] if each is not replica])

    def _route_to(self, replicas: list[_Replica]) -> None:
        self._routed = replicas, [each.id for each in replicas]

    def _close(self) -> None:
        self._is_closed = True
        self._wanted = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._checks is not None:
            self._checks.cancel()

    async def _all_ready(self, replicas: Sequence[_Replica]) -> None:
        await _all_done([asyncio.shield(each.ready) for each in replicas])

    @property
    def _over(self) -> str:
        """Why there can be no replicas; empty if there can be."""
        if self._is_closed:
            return "it was closed"
        # Another runtime may run by now, which must not get these actors.
        if find_engine() is not self._engine:
            return "its runtime was shut down"
        return ""

    def _check_open(self) -> None:
        if self._over:
            raise RuntimeError(f"{self!r} can no longer be changed: {self._over}")

    def _checked_successor(self, actor_class: object) -> ActorClass[..., Any]:
        new_class = _checked_class(actor_class)
        methods = interface_and_options(new_class)[0].methods
        if missing := sorted(self._interface.methods.keys() - methods.keys()):
            raise ValueError(
                f"{actor_class!r} would replace {self._interface.class_name} and lacks "
                f"its methods {', '.join(missing)}"
            )
        return new_class

    def _load_of(self, replica: _Replica) -> int | None:
        return self._engine.loads([replica.id])[0]

    def _state_of(self, replica: _Replica) -> str:
        if replica.leaves:
            return "leaving"
        if not replica.was_ready:
            return "starting"
        if self._load_of(replica) is None:
            return "unavailable"
        return "unhealthy" if replica.failed_checks else "alive"

    # Health checks.

    async def _check_all(self) -> None:
        checked = [
            each
            for each in self._replicas
            if not each.leaves and self._load_of(each) is not None
        ]
        await asyncio.gather(*map(self._check, checked))

    async def _check(self, replica: _Replica) -> None:
        assert self._health is not None
        method = getattr(replica.handle, self._health)
        try:
            await method.options(timeout=self._timeout).remote()
        except RuntimeDrainingError:
            return  # the check was not sent
        except Exception:  # noqa: BLE001  # any error is a failed check
            replica.failed_checks += 1
        else:
            replica.failed_checks = 0
        if replica.leaves or replica not in self._replicas:
            return
        others = [each for each in self._routed[0] if each is not replica]
        self._route_to(others if replica.failed_checks else [*others, replica])
        if replica.failed_checks >= MOST_FAILED_CHECKS:
            replica.failed_checks = 0
            self._route_to([*others, replica])  # it is skipped until it is back
            self._engine.kill(replica.id, restart=True).add_done_callback(mark_seen)


class ReplicatedMethod:
    """A method of replicas; ``.remote(...)`` calls it on one of them."""

    __slots__ = ("_name", "_options", "_replicas")

    def __init__(
        self, replicas: Replicas[Any], name: str, options: CallKeywords
    ) -> None:
        self._replicas = replicas
        self._name = name
        self._options = options

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the method of the replica with the fewest calls; see ActorMethod.

        Returns:
            A ref of the result, or a stream.

        Raises:
            ActorUnavailableError: There is no replica; the message has the reason.
            TypeError: The arguments do not fit the method, or cannot be sent.
        """
        replica = self._replicas._route()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        method = replica.methods.get(self._name)
        if method is None or self._options:
            method = self._method_of(replica)
        ref = method.remote(*args, **kwargs)
        replica.calls += 1
        return ref

    def _method_of(self, replica: _Replica) -> ActorMethod[..., Any]:
        method: ActorMethod[..., Any] = getattr(replica.handle, self._name)
        if self._options:
            method = method.options(**self._options)
        mover = self._replicas._mover  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        method = method._moving(mover)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # only for replicas
        if not self._options:
            replica.methods[self._name] = method
        return method

    def options(self, /, **options: Any) -> ReplicatedMethod:
        """Returns the method with some options replaced; see ActorMethod.options."""
        changes = cast("CallKeywords", {**self._options, **options})
        method = ReplicatedMethod(self._replicas, self._name, changes)
        interface = self._replicas._interface  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        interface.with_options(interface.methods[self._name], changes)
        return method

    def __call__(self, *_: object, **__: object) -> None:
        """Refuses: a remote call does not look like a local one."""
        raise TypeError(
            f"{self._name}() runs in another process: write .{self._name}.remote(...) "
            "and await it"
        )

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._replicas!r}>"


def _checked_class(actor_class: object) -> ActorClass[..., Any]:
    if not isinstance(actor_class, ActorClass):
        raise wrong_type(
            "Replicas takes a class decorated with @actorlib.remote", actor_class
        )
    checked = cast("ActorClass[..., Any]", actor_class)
    options = interface_and_options(checked)[1]
    if options.name is not None:
        raise ValueError(
            f"replicas cannot all have the name {options.name!r}: a name belongs to "
            "one actor"
        )
    return checked


async def _watch_health(replicas: weakref.ref[Replicas[Any]], interval: float) -> None:
    """Checks all replicas in intervals, while the Replicas object exists."""
    while True:
        await asyncio.sleep(interval)
        owner = replicas()
        if owner is None:
            return
        await owner._check_all()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
        del owner


async def _all_done(futures: Sequence[asyncio.Future[None]]) -> None:
    """Waits for all futures, and then raises the first error."""
    for outcome in await asyncio.gather(*futures, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _weakly(method: Callable[P, R]) -> Callable[P, R | None]:
    """Returns a function that calls a method as long as its object exists."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        bound = reference()
        return None if bound is None else bound(*args, **kwargs)

    return call
