"""The embedded engine for threads that are not its loop's, such as scripts'.

Most verbs cross to the loop by ``@on_loop`` and wait there for their result, so an
error is raised in the line that caused it. Here is what other threads do of the verbs
that are frequent. A call with plain arguments needs no answer to be made, and is
posted: its ref is made here, and a burst of calls wakes the loop once. Everything
crosses in one line, so the calls of a thread keep their order, whichever way they go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import ActorId
from actorlib._core.propagation import PROPAGATED
from actorlib._options.callee import BoundMethod
from actorlib._owner.engine import LocalEngine
from actorlib._wire.call_headers import headers_of
from actorlib._wire.serialization import decode_call, encode_plain_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._base.ids import CountedId
    from actorlib._core.engine import ActorSpec
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._options.callee import Callee
    from actorlib._options.function_options import FunctionSpec
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.functions.task_worker import CalledFunction
    from actorlib._owner.machine import LocalNode
    from actorlib._shm.memory import Payload


class CrossingEngine(LocalEngine):
    """A LocalEngine that other threads call, create actors by and hold handles of."""

    def __init__(self, machine: LocalNode, options: RuntimeOptions) -> None:
        super().__init__(machine, options)
        self._home = self.portal.portal  # at hand for every call
        self._unheld: set[ActorId] = set()

    # What is posted.

    def _call_from_afar(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        if not isinstance(callee, BoundMethod):
            return self._call_function_from_afar(callee, args, kwargs)
        supervisor = self._supervisors.get(callee.actor)
        payload = None if kwargs else encode_plain_call(args)
        if payload is None or supervisor is None or self._refuses:
            return self.call_about(
                callee.actor, partial(self.call, callee, args, kwargs)
            )
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
        if self._heritage:
            spec = self._heritage.of(spec)
        entries = self.actor_table.pool.functions.entries
        entry = None if self._refuses else entries.get(spec)
        payload = None if kwargs else encode_plain_call(args)
        if payload is None or entry is None:
            return self.portal.call(partial(self.call, spec, args, kwargs))
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
        entry: CalledFunction,
        payload: Payload,
        headers: dict[str, object] | None,
    ) -> None:
        pool = self.actor_table.pool
        ref.bind(pool, pool.post(ref, entry, None, payload, headers))

    def _retain_from_afar(self, actor: CountedId) -> None:
        if actor in self._unheld:
            self._unheld.discard(ActorId(actor))
        else:
            self._home.post(self.retain, actor)

    # What is waited for.

    def _create_from_afar(self, spec: ActorSpec) -> ActorId:
        def create_held() -> ActorId:
            actor = self.create(spec)
            # For the hold that is about to be made: until that has crossed, nobody
            # else has one.
            self.retain(actor)
            return actor

        actor = self.portal.call(create_held)
        self._unheld.add(actor)
        return actor

    def _stream_from_afar(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        called = partial(self.stream, callee, args, kwargs)
        if isinstance(callee, BoundMethod):
            return self.call_about(callee.actor, called)
        return self.portal.call(called)
