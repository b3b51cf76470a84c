"""Tells the owner of the refs that a worker sends, and fetches those sent to it."""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import OBJECT_KIND, ObjectId, new_id
from actorlib._futures.object_ref import BorrowedRef, ObjectRef
from actorlib._wire.arguments import (
    BorrowedRefs,
    encode_error,
    encode_shared,
    fill_encoded,
    payload_of,
    reduce_ref,
)
from actorlib._wire.errors import dump_exception
from actorlib._wire.messages import (
    OBJECT_ANNOUNCE,
    OBJECT_CANCEL,
    OBJECT_GET,
    OBJECT_PUT,
)
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._worker.requests.engine import WorkerEngine


class WorkerObjects:
    """Announces, keeps and fetches the objects that this worker knows of.

    Args:
        engine: The engine of the worker.
        prefix: How the ids of its own objects begin.
        new_ref: Makes a ref of a class, that this worker's threads may wait for.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        prefix: bytes,
        new_ref: Callable[[type[ObjectRef[Any]]], ObjectRef[Any]],
    ) -> None:
        self._engine = engine
        self._prefix = prefix
        self._new_ref = new_ref
        self._numbers = itertools.count(1)
        self._announced: set[ObjectId] = set()
        self._borrowed = BorrowedRefs(lambda: engine)

    def name(self) -> ObjectId:
        """An id for what a ref of this worker stands for."""
        return ObjectId(new_id(self._prefix, OBJECT_KIND, next(self._numbers)))

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled; the owner is told of it first."""
        object_id = ObjectId(ref.object_id)
        reduced = reduce_ref(object_id)
        if object_id.startswith(self._prefix) and object_id not in self._announced:
            self._engine.post((OBJECT_ANNOUNCE, object_id, ref.call))
            self._hold_while_alive(ref, object_id)
            self._engine.watch(ref, partial(self._put_result, ref, object_id))
        return reduced

    def put(self, value: object) -> ObjectRef[Any]:
        """Has the owner keep a value as it is now; see Engine."""
        engine = self._engine
        payload, lent = encode_shared(engine, value)
        ref = self._new_ref(ObjectRef)
        object_id = ObjectId(ref.object_id)
        engine.post((OBJECT_ANNOUNCE, object_id, 0))
        self._hold_while_alive(ref, object_id)
        engine.post((OBJECT_PUT, object_id, True, lent or None, payload))
        fill_encoded(ref, payload, lent)
        return ref

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent to this worker."""
        known = self._borrowed.get(object_id)
        if known is not None:
            return known
        ref = self._new_ref(BorrowedRef)
        assert isinstance(ref, BorrowedRef)
        want = partial(self._fetch, weakref.ref(ref), object_id)
        revoke = partial(self._engine.post, (OBJECT_CANCEL, object_id))
        self._borrowed.add(ref, object_id, want, revoke)
        return ref

    def _hold_while_alive(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """This worker holds its own object for as long as the ref is here."""
        self._announced.add(object_id)
        self._engine.refcount.borrow((object_id,))
        self._engine.retain(object_id)

        def gone() -> None:
            self._announced.discard(object_id)
            self._engine.release(object_id)

        weakref.finalize(ref, gone).atexit = False

    def _fetch(self, made: weakref.ref[BorrowedRef[Any]], object_id: ObjectId) -> None:
        ref = made()
        if ref is not None:
            self._engine.adopt(ref)
            self._engine.post((OBJECT_GET, ref.call, object_id))

    def _put_result(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """Passes on what a ref was filled with."""
        error: BaseException | None
        if ref.cancelled():
            error = TaskCancelledError("the call was cancelled")
        else:
            error = ref.exception()
        lent: Collection[bytes] | None
        if error is None:
            try:
                payload, lent = payload_of(self._engine, ref)
            except Exception as trouble:  # noqa: BLE001  # whoever asks for it is told
                error = trouble
            else:
                listed = [*(lent or ())] or None
                self._engine.post((OBJECT_PUT, object_id, True, listed, payload))
                return
        else:
            # It was looked at: said once more, as a future without a loop tells its
            # callbacks before it takes note that nobody has.
            self._engine.later(ref.exception)
        payload, lent = encode_error(self._engine, error)
        self._engine.post(
            (OBJECT_PUT, object_id, False, lent, payload or dump_exception(error))
        )
