"""The embedded engine for threads that are not its loop's, such as scripts'.

Its verbs, called from any other thread, cross to the loop and wait there for what they
give, so what is wrong is raised in the line that is wrong. A call with plain arguments
needs no answer to be made, and is posted: its ref is made here, and a burst of calls
wakes the loop once. Everything crosses in one line, so the calls of a thread keep their
order, whichever way they go.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._core.callee import BoundMethod
from actorlib._core.ids import ActorId
from actorlib._core.loop_thread import ThreadedLoop
from actorlib._core.object_ref import ObjectRef, bind
from actorlib._core.propagation import PROPAGATED
from actorlib._core.runtime_portal import RuntimePortal
from actorlib._owner.engine import LocalEngine
from actorlib._owner.placement_groups import GroupVerbs
from actorlib._wire.call_headers import headers_of
from actorlib._wire.serialization import decode_call, encode_plain_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.callee import Callee
    from actorlib._core.engine import ActorSpec, HandlePin
    from actorlib._core.function_options import FunctionOptions, FunctionSpec
    from actorlib._core.group_spec import GroupId, GroupSpec
    from actorlib._core.ids import CountedId
    from actorlib._core.middleware import Middleware
    from actorlib._core.runtime_options import RuntimeOptions
    from actorlib._core.shares import ActorShare
    from actorlib._core.snapshot import (
        ActorInfo,
        CallInfo,
        GroupInfo,
        ObjectInfo,
        ObjectOrder,
        Snapshot,
    )
    from actorlib._core.stream_reader import StreamReader
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.task import FunctionEntry
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._shm.memory import Payload

T = TypeVar("T")


class CrossingEngine(LocalEngine):
    """A LocalEngine whose verbs may be called from any thread; see Engine."""

    def __init__(self, machine: LocalNode, options: RuntimeOptions) -> None:
        super().__init__(machine, options)
        self._owner = RuntimePortal(self.loop)
        self._home = self._owner.portal  # at hand for every call
        self._unheld: set[ActorId] = set()
        groups = self.actor_table.groups
        self.groups = _CrossingGroups(
            self._owner, groups, self.loop, self._new_group, self._check_taking
        )

    # What is posted.

    def _call_from_afar(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Makes a call from another thread; see LocalEngine."""
        if not isinstance(callee, BoundMethod):
            return self._call_function_from_afar(callee, args, kwargs)
        call = super().call
        supervisor = self._supervisors.get(callee.actor)
        payload = None if kwargs else encode_plain_call(args)
        if payload is None or supervisor is None or self._refuses:
            return self._about(callee.actor, partial(call, callee, args, kwargs))
        headers = callee.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(callee)
        ref = self._new_ref()
        ref.callee = callee  # until it has crossed
        self._home.post(self._send, supervisor, ref, callee, payload, headers)
        return ref

    def _send(
        self,
        supervisor: ActorSupervisor,
        ref: ObjectRef[Any],
        callee: BoundMethod,
        payload: bytes,
        headers: dict[str, object] | None,
    ) -> None:
        if self._order:  # others wait for their arguments, perhaps to the same actor
            args, kwargs = decode_call(payload)
            self._submitter.send(supervisor, ref, callee, tuple(args), kwargs, headers)
        else:
            supervisor.router.call(ref, callee.name, payload, headers)

    def _call_function_from_afar(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function, from another thread."""
        if self._heritage:
            spec = self._heritage.of(spec)
        entry = (
            None if self._refuses else self.actor_table.pool.functions.known_entry(spec)
        )
        payload = None if kwargs else encode_plain_call(args)
        if payload is None or entry is None:
            return self._across(partial(super().call, spec, args, kwargs))
        headers = spec.headers
        if headers is not None or PROPAGATED:
            headers = headers_of(spec)
        ref = self._new_ref()
        ref.callee = spec.name  # until it has crossed
        self._home.post(self._post, ref, entry, payload, headers)
        return ref

    def _post(
        self,
        ref: ObjectRef[Any],
        entry: FunctionEntry,
        payload: Payload,
        headers: dict[str, object] | None,
    ) -> None:
        pool = self.actor_table.pool
        bind(ref, pool, pool.post(ref, entry, None, payload, headers))

    def _new_ref(self) -> ObjectRef[Any]:
        """A ref that nobody fills yet; until it is sent it is that of any object."""
        self._owner.hide_refs()  # another loop may gather it
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        bind(ref, self.actor_table.objects, 0)
        return ref

    def retain(self, actor: CountedId) -> None:
        """Counts a holder in this process; see Engine."""
        if threading.get_ident() == self._thread:
            super().retain(actor)
        elif actor in self._unheld:
            self._unheld.discard(ActorId(actor))
        else:
            self._home.post(super().retain, actor)

    # What is waited for.

    def create(self, spec: ActorSpec) -> ActorId:
        """Creates an actor; see Engine."""
        create, retain = super().create, super().retain
        if threading.get_ident() == self._thread:
            return create(spec)

        def held() -> ActorId:
            actor = create(spec)
            # For the hold that is about to be made: until that has crossed, nobody
            # else has one.
            retain(actor)
            return actor

        actor = self._across(held)
        self._unheld.add(actor)
        return actor

    def obtain(self, spec: ActorSpec) -> HandlePin:
        """The actor that has a name, or a new one; see Engine."""
        return self._across(partial(super().obtain, spec))

    def find(self, name: str, namespace: str | None) -> HandlePin:
        """The actor of a name; see Engine."""
        return self._across(partial(super().find, name, namespace))

    def put(self, value: object) -> ObjectRef[Any]:
        """Keeps a value as it is now; see Engine."""
        return self._across(partial(super().put, value))

    def _stream_from_afar(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a generator from another thread; see LocalEngine."""
        called = partial(super().stream, callee, args, kwargs)
        if isinstance(callee, BoundMethod):
            return self._about(callee.actor, called)
        return self._across(called)

    def names(self) -> list[tuple[str, str]]:
        """Who answers to a name; see Engine."""
        return self._across(super().names)

    def actors(self) -> list[ActorInfo]:
        """What is known of each actor; see Engine."""
        return self._across(super().actors)

    def share(self, actor: ActorId) -> ActorShare:
        """What an actor holds of devices; see Engine."""
        return self._about(actor, partial(super().share, actor))

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Done when the actor is ready; see Engine."""
        ready = super().ready
        return ready(actor) if self._is_on_loop() else self._ref_of(actor, ready)

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Ends the actor behind what it was sent; see Engine."""
        end = super().end
        return end(actor) if self._is_on_loop() else self._ref_of(actor, end)

    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        """Ends the actor at once; see Engine."""
        kill = partial(super().kill, restart=restart)
        return kill(actor) if self._is_on_loop() else self._ref_of(actor, kill)

    def suspend(self, actor: ActorId, patience: float | None) -> asyncio.Future[None]:
        """Takes an actor off its GPU and gives its share back; see Engine."""
        suspend = partial(super().suspend, patience=patience)
        return suspend(actor) if self._is_on_loop() else self._ref_of(actor, suspend)

    def resume(self, actor: ActorId) -> asyncio.Future[None]:
        """Puts an actor back that was suspended; see Engine."""
        resume = super().resume
        return resume(actor) if self._is_on_loop() else self._ref_of(actor, resume)

    def snapshot(self) -> Snapshot:
        """The state of the runtime now."""
        return self._across(super().snapshot)

    def calls(self) -> list[CallInfo]:
        """The calls that have no answer yet; see RuntimeEngine."""
        return self._across(super().calls)

    def objects(
        self, sort: ObjectOrder = "size", limit: int | None = None
    ) -> list[ObjectInfo]:
        """What the object store keeps; see RuntimeEngine."""
        return self._across(partial(super().objects, sort, limit))

    def available(self) -> dict[str, float]:
        """What nobody holds; see RuntimeEngine."""
        return self._across(super().available)

    def total(self) -> dict[str, float]:
        """Everything that may be granted; see RuntimeEngine."""
        return self._across(super().total)

    def explain(self, actor: ActorId) -> str:
        """Why an actor is not placed yet, or where it is."""
        return self._across(partial(super().explain, actor))

    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Where an actor, or a call, would go now, or what stands in its way."""
        return self._across(partial(super().survey, label, options))

    def add_middleware(
        self, middleware: Middleware, *, in_workers: bool = True
    ) -> None:
        """Tells a middleware of every call from now on; see RuntimeEngine."""
        add = super().add_middleware
        self._across(partial(add, middleware, in_workers=in_workers))

    def remove_middleware(self, middleware: Middleware) -> None:
        """Tells a middleware of no further calls; see RuntimeEngine."""
        self._across(partial(super().remove_middleware, middleware))

    def _is_on_loop(self) -> bool:
        """Whether this code runs on the user's loop, which awaits futures as they are.

        Threads wait for what they get of any other.
        """
        if isinstance(self._home, ThreadedLoop):
            return False
        return asyncio._get_running_loop() is self.loop  # noqa: SLF001  # None, and no error, if there is none

    def _across(self, work: Callable[[], T]) -> T:
        return self._owner.call(work)

    def _about(self, actor: ActorId, work: Callable[[], T]) -> T:
        """Does something with an actor, or says why there is none any more."""
        if self._is_closed:
            self._supervisor_of(actor)
        return self._owner.call(work)

    def _ref_of(
        self, actor: ActorId, ask: Callable[[ActorId], asyncio.Future[Any]]
    ) -> ObjectRef[Any]:
        """What a future about an actor gives, for any thread to wait for."""
        ref = self._new_ref()

        def tell(future: asyncio.Future[Any]) -> None:
            if ref.done():
                return
            error = future.exception()
            if error is None:
                ref.set_result(future.result())
            else:
                ref.set_exception(error)

        self._about(actor, lambda: ask(actor).add_done_callback(tell))
        return ref


class _CrossingGroups(GroupVerbs):
    """Serves any thread of the owner what it asks of placement groups.

    Args:
        owner: The thread that it crosses to.
        groups: All of them.
        loop: The owner's loop.
        new_id: Gives a new group its id.
        check: Raises if the caller may not ask now.
    """

    def __init__(
        self,
        owner: RuntimePortal,
        groups: GroupTable,
        loop: asyncio.AbstractEventLoop,
        new_id: Callable[[], GroupId],
        check: Callable[[], None],
    ) -> None:
        super().__init__(groups, loop, new_id, check)
        self._owner = owner

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Starts to reserve a group; see PlacementGroups."""
        return self._across(partial(super().reserve, spec))

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """The value, when all bundles are reserved; see PlacementGroups."""
        return self._across(partial(super().ready, group, value))

    def remove(self, group: GroupId) -> asyncio.Future[None]:
        """Removes a group; see PlacementGroups."""
        return self._across(partial(super().remove, group))

    def find(self, name: str) -> GroupSpec:
        """The group of a name; see PlacementGroups."""
        return self._across(partial(super().find, name))

    def infos(self) -> list[GroupInfo]:
        """What is known of each group; see PlacementGroups."""
        return self._across(super().infos)

    def explain(self, group: GroupId) -> str:
        """Why a group is not reserved yet, or where it is."""
        return self._across(partial(super().explain, group))

    def _across(self, work: Callable[[], T]) -> T:
        return self._owner.call(work)
