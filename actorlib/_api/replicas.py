"""Replicas: equal actors behind one handle; a call goes to the one with the fewest.

Routing uses the engine's numbers of calls without an answer, and keeps none of its own.
"""

from __future__ import annotations

import asyncio
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._api.actor_handle import no_such_method
from actorlib._api.decorators import ActorClass, interface_and_options
from actorlib._api.replica_autoscaler import Autoscaler
from actorlib._api.replica_health import HealthCheck, check_health_method, watch_health
from actorlib._api.replica_router import ReplicaRouter
from actorlib._api.replica_scaling import scaling_limits
from actorlib._api.replica_set import ReplicaSet, all_done, all_ready
from actorlib._api.replicated_method import ReplicatedMethod
from actorlib._base.public import public
from actorlib._base.validation import check_count, checked_duration, wrong_type
from actorlib._base.value import dataclass
from actorlib._core.engine import current_engine

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from types import TracebackType

    from actorlib._api.actor_handle import ActorHandle

T = TypeVar("T")


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """The state of one replica.

    Attributes:
        handle: Its handle.
        slot: Its number, from 0. Its label is ``Model[2]``. A replica that replaces
            another one has the same number.
        state: ``starting`` until it is ready, ``alive``, ``unavailable`` while it is
            restarted, ``unhealthy`` after a failed check, ``leaving`` when it gets no
            more calls and finishes those it has.
        pending_calls: The number of its calls that have not ended, of all callers; one
            whose caller no longer waits counts twice. None while it accepts no calls.
        calls: The number of calls that this object has sent to it.
        failed_checks: The number of failed health checks in a row.
    """

    handle: ActorHandle[Any]
    slot: int
    state: str
    pending_calls: int | None
    calls: int
    failed_checks: int


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

    With ``max`` their number follows the load. It grows when a call has waited in a
    replica for more than ``target_wait`` and each replica runs as many calls as it can.
    That is the ``max_concurrency`` of its class: 1, or 1000 with ``async def`` methods,
    so set it there. It grows by as many as the waiting calls need, and at most doubles.
    Calls that wait in a replica stay there, so only later ones count from then on. It
    shrinks to the number that the calls of the last ``idle`` seconds needed at most. A
    replica that leaves finishes its calls first. If no further one can be placed now, a
    warning in the log says once what is missing, and calls go on in the present ones.

    ``replicas.method.options(key="user 7").remote(...)`` sends all calls with one key
    to one replica, for example because it has data of that user in a cache. A key is a
    ``str``, ``bytes`` or an ``int``. It stays with its replica while others are added
    and removed. If that replica dies, is restarted or fails a health check, the key
    goes to another one. The places of the 10 000 most recent keys are kept; an older
    key may move when the number of replicas changes.

    ``await replicas`` waits until all are ready; ``async with`` does so too, and ends
    them with the block. Without a block they end when this object is gone and their
    calls are done. It is for the program that started the runtime, on the local and on
    the inline engine; its methods may be called from any thread. Methods of the class
    that are named ``scale``, ``replace``, ``stats`` or ``aclose`` cannot be called.

    Args:
        actor_class: A class decorated with ``@actorlib.remote``, with its options.
        n: The number of replicas, 0 or more, if it is fixed.
        min: The smallest number, 1 or more, with which it starts. Default: 1.
        max: The largest number, ``min`` or more. Default: None, for a fixed number.
        target_wait: Seconds that a call may wait in a replica before it begins, above
            0; only with ``max``. Default: 0.1.
        idle: Seconds after which replicas end that were not needed, above 0; only with
            ``max``. Default: 30.
        max_pending: The calls without an answer that a replica may have, 1 or more. If
            all replicas have so many, a call raises OverloadedError at once; a call
            with a key does so if the replica of its key has so many. Counted are the
            calls of all callers that the replica runs or that wait for it, also while
            it starts, and twice those that run on without a caller. Calls that come
            from a replica that died are never refused. A call from another thread
            counts when the event loop has received it. Default: None, for any number.
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
        TypeError: It is not an actor class, a value has the wrong type, or neither
            ``n`` nor ``max`` is given, or both.
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
        >>> async with actorlib.Replicas(Model, min=1, max=2, max_pending=8) as model:
        ...     print(await model.predict.options(key="user 7").remote(21))
        42
    """

    def __init__(
        self,
        actor_class: ActorClass[..., T] | type[T],
        n: int | None = None,
        *,
        min: int | None = None,  # noqa: A002  # the usual names
        max: int | None = None,  # noqa: A002  # the usual names
        target_wait: float | None = None,
        idle: float | None = None,
        max_pending: int | None = None,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        health: str | None = None,
        health_interval: float = 10.0,
        health_timeout: float = 30.0,
    ) -> None:
        checked = _checked_class(actor_class)
        limits = scaling_limits(n, min, max, target_wait, idle)
        if max_pending is not None:
            check_count("max_pending", max_pending, 1)
        self._interface = interface_and_options(checked)[0]
        interval = checked_duration("health_interval", health_interval)
        timeout = checked_duration("health_timeout", health_timeout)
        if health is not None:
            check_health_method(self._interface, health)
        engine = current_engine()
        engine.loads(())  # other engines refuse it
        self._set = ReplicaSet(engine, checked, args, kwargs or {})
        self._checks: asyncio.Task[None] | None = None
        self._autoscaler: Autoscaler | None = None
        if limits is not None:
            n = limits.least
            self._autoscaler = Autoscaler(self._set, limits)
        self._health = health
        self._router = ReplicaRouter(self._set, max_pending, health)
        self._set.grow(n or 0)
        if health is not None:
            check = HealthCheck(health, interval, timeout)
            watch = watch_health(weakref.ref(self._set), check)
            self._checks = asyncio.get_running_loop().create_task(watch)
            # Any thread may drop the last reference, even after the end of the loop.
            cancel = partial(_cancel, self._checks)
            weakref.finalize(self, engine.later, cancel).atexit = False

    # Calls.

    def __getattr__(self, name: str) -> ReplicatedMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._interface.methods:
            raise no_such_method(self._interface, name)
        return ReplicatedMethod(
            self, self._router, self._autoscaler, self._interface, name
        )

    # The number of replicas.

    def __await__(self) -> Generator[Any, None, Replicas[T]]:
        """Waits until all present replicas are ready.

        Raises:
            ActorDiedError: The constructor of one raised, or it ended before that.
            ActorUnschedulableError: They ask for more than this machine can ever grant.
        """
        yield from all_ready(self._set.staying).__await__()
        return self

    async def scale(self, n: int) -> None:
        """Changes the number of replicas, and waits for the change.

        New ones are ready then. If there are too many, those with the fewest calls get
        no more from now on, finish the ones they have, and end. With ``max`` the number
        follows the load again from there.

        Args:
            n: The new number, 0 or more; with ``max``, from ``min`` to ``max``.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is out of range.
            RuntimeError: The replicas were closed.
            ActorDiedError: A new one could not be made; others go on.
        """
        check_count("n", n, 0)
        limits = None if self._autoscaler is None else self._autoscaler.limits
        if limits is not None and not limits.least <= n <= limits.most:
            raise ValueError(
                f"scale({n}) is out of the limits of {self!r}, which are "
                f"min={limits.least} and max={limits.most}"
            )
        await self._set.scale(n)
        if self._autoscaler is not None:
            self._autoscaler.watch()

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
            actor_class: The class of the new ones, with the same methods or more; only
                those of the first class can be called here. Default: None, for the
                same.
            args: Positional arguments of the new ones. Default: None, for the same.
            kwargs: Keyword arguments of the new ones. Default: None, for the same.
            surge: If False, each old one ends before its successor is made: no more
                share is needed, and there is one replica fewer meanwhile. Default:
                True.

        Raises:
            TypeError: It is not an actor class, or its health check needs arguments.
            ValueError: The new class lacks methods of the old one.
            RuntimeError: The replicas were closed.
            ActorDiedError: A new one could not be made.
        """
        replicas = self._set
        new_class = replicas.actor_class
        if actor_class is not None:
            new_class = self._checked_successor(actor_class)
        await replicas.replace(new_class, args, kwargs, surge=surge)

    def stats(self) -> list[ReplicaInfo]:
        """Returns the state of each replica, including those that are ending."""
        return [
            ReplicaInfo(
                handle=each.handle,
                slot=each.slot,
                state=self._set.state_of(each),
                pending_calls=self._set.load_of(each),
                calls=each.calls,
                failed_checks=each.failed_checks,
            )
            for each in self._set.replicas
        ]

    async def aclose(self) -> None:
        """Ends all replicas after their calls."""
        self._close()
        await all_done(self._set.leave(self._set.replicas))

    async def __aenter__(self) -> Replicas[T]:
        """Waits until all are ready; they end with the block."""
        try:
            return await self
        except BaseException:
            self._close()
            await self._set.kill_all()
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
            self._close()
            await self._set.kill_all()

    def __len__(self) -> int:
        """The number of replicas."""
        return self._set.wanted

    def __repr__(self) -> str:
        return repr(self._set)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._interface.methods})

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            f"{self!r} cannot be sent: it works in the program that started the "
            "runtime. Send the handles, [each.handle for each in replicas.stats()]"
        )

    def _close(self) -> None:
        self._set.close()
        if self._autoscaler is not None:
            self._autoscaler.close()
        if self._checks is not None:
            self._checks.cancel()

    def _checked_successor(self, actor_class: object) -> ActorClass[..., Any]:
        new_class = _checked_class(actor_class)
        interface = interface_and_options(new_class)[0]
        if missing := sorted(self._interface.methods.keys() - interface.methods.keys()):
            raise ValueError(
                f"{actor_class!r} would replace {self._interface.class_name} and lacks "
                f"its methods {', '.join(missing)}"
            )
        if self._health is not None:
            check_health_method(interface, self._health)
        return new_class


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


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
