"""Announces the refs that a worker sends, and fetches those that it receives."""

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
    """Announces, keeps and fetches the objects of this worker.

    Args:
        prefix: The prefix of the ids of its own objects.
        new_ref: Creates a ref of a class, for which this worker's threads may wait.
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
        return ObjectId(new_id(self._prefix, OBJECT_KIND, next(self._numbers)))

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """Pickles a ref, which is announced to the owner first."""
        object_id = ObjectId(ref.object_id)
        reduced = reduce_ref(object_id)
        if object_id.startswith(self._prefix) and object_id not in self._announced:
            self._engine.post((OBJECT_ANNOUNCE, object_id, ref.call))
            self._hold_while_alive(ref, object_id)
            self._engine.watch(ref, partial(self._put_result, ref, object_id))
        return reduced

    def put(self, value: object) -> ObjectRef[Any]:
        engine = self._engine
        payload, borrowed = encode_shared(engine, value)
        ref = self._new_ref(ObjectRef)
        object_id = ObjectId(ref.object_id)
        engine.post((OBJECT_ANNOUNCE, object_id, 0))
        self._hold_while_alive(ref, object_id)
        engine.post((OBJECT_PUT, object_id, True, borrowed or None, payload))
        fill_encoded(ref, payload, borrowed)
        return ref

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """Returns the ref of an object that was sent to this worker."""
        existing = self._borrowed.get(object_id)
        if existing is not None:
            return existing
        ref = self._new_ref(BorrowedRef)
        assert isinstance(ref, BorrowedRef)
        want = partial(self._fetch, weakref.ref(ref), object_id)
        revoke = partial(self._engine.post, (OBJECT_CANCEL, object_id))
        self._borrowed.add(ref, object_id, want, revoke)
        return ref

    def _hold_while_alive(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """Holds an object of this worker as long as the ref exists here."""
        self._announced.add(object_id)
        self._engine.refcount.borrow((object_id,))
        self._engine.retain(object_id)

        def gone() -> None:
            self._announced.discard(object_id)
            self._engine.release(object_id)

        weakref.finalize(ref, gone).atexit = False

    def _fetch(
        self, weak_ref: weakref.ref[BorrowedRef[Any]], object_id: ObjectId
    ) -> None:
        ref = weak_ref()
        if ref is not None:
            self._engine.adopt(ref)
            self._engine.post((OBJECT_GET, ref.call, object_id))

    def _put_result(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        error: BaseException | None
        if ref.cancelled():
            error = TaskCancelledError("the call was cancelled")
        else:
            error = ref.exception()
        borrowed: Collection[bytes] | None
        if error is None:
            try:
                payload, borrowed = payload_of(self._engine, ref)
            except Exception as encoding_error:  # noqa: BLE001  # readers of the object get it
                error = encoding_error
            else:
                listed = [*(borrowed or ())] or None
                self._engine.post((OBJECT_PUT, object_id, True, listed, payload))
                return
        else:
            # Retrieves the error once more: a future without a loop runs its callbacks
            # before it records that the error was not retrieved.
            self._engine.later(ref.exception)
        payload, borrowed = encode_error(self._engine, error)
        self._engine.post(
            (OBJECT_PUT, object_id, False, borrowed, payload or dump_exception(error))
        )
