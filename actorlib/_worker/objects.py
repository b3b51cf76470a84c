"""The refs of a worker that are sent to others, and those that others send to it."""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._core.ids import OBJECT_KIND, ObjectId, new_id
from actorlib._core.object_ref import BorrowedRef, ObjectRef, object_id_of
from actorlib._wire.arguments import (
    BorrowedRefs,
    SendingEngine,
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
    Frame,
)
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._worker.refcount import LocalRefCount


class Link(SendingEngine, Protocol):
    """The engine of the worker."""

    loans: LocalRefCount

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done."""
        ...

    def later(self, callback: Callable[[], object]) -> None:
        """Calls back where no other work of the engine is under way."""
        ...

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref a number, under which an answer will come."""
        ...


class Objects:
    """The objects that this worker knows of.

    Args:
        link: The engine of the worker.
        prefix: How the ids of its own begin.
        new: Makes a ref of a class, that this worker's threads may wait for.
    """

    def __init__(
        self,
        link: Link,
        prefix: bytes,
        new: Callable[[type[ObjectRef[Any]]], ObjectRef[Any]],
    ) -> None:
        self._link = link
        self._prefix = prefix
        self._new = new
        self._names = itertools.count(1)
        self._spoken_of: set[ObjectId] = set()
        self._borrowed = BorrowedRefs(lambda: link)

    def name(self) -> ObjectId:
        """An id for what a ref of this worker stands for."""
        return ObjectId(new_id(self._prefix, OBJECT_KIND, next(self._names)))

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled; the owner is told of it first."""
        object_id = ObjectId(object_id_of(ref))
        reduced = reduce_ref(object_id)
        if object_id.startswith(self._prefix) and object_id not in self._spoken_of:
            self._link.post((OBJECT_ANNOUNCE, object_id, ref.call))
            self._hold(ref, object_id)
            self._link.watch(ref, partial(self._keep, ref, object_id))
        return reduced

    def put(self, value: object) -> ObjectRef[Any]:
        """Has the owner keep a value as it is now; see Engine."""
        link = self._link
        payload, loans = encode_shared(link, value)
        ref = self._new(ObjectRef)
        object_id = ObjectId(object_id_of(ref))
        link.post((OBJECT_ANNOUNCE, object_id, 0))
        self._hold(ref, object_id)
        link.post((OBJECT_PUT, object_id, True, loans or None, payload))
        fill_encoded(ref, payload, loans)
        return ref

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent to this worker."""
        known = self._borrowed.get(object_id)
        if known is not None:
            return known
        ref = self._new(BorrowedRef)
        assert isinstance(ref, BorrowedRef)
        want = partial(self._fetch, weakref.ref(ref), object_id)
        revoke = partial(self._link.post, (OBJECT_CANCEL, object_id))
        self._borrowed.add(ref, object_id, want, revoke)
        return ref

    def _hold(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """This worker holds its own object for as long as the ref is here."""
        self._spoken_of.add(object_id)
        self._link.loans.arrived((object_id,))
        self._link.retain(object_id)

        def gone() -> None:
            self._spoken_of.discard(object_id)
            self._link.release(object_id)

        weakref.finalize(ref, gone).atexit = False

    def _fetch(self, made: weakref.ref[BorrowedRef[Any]], object_id: ObjectId) -> None:
        ref = made()
        if ref is not None:
            self._link.adopt(ref)
            self._link.post((OBJECT_GET, ref.call, object_id))

    def _keep(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """Passes on what a ref was filled with."""
        error: BaseException | None
        if ref.cancelled():
            error = TaskCancelledError("the call was cancelled")
        else:
            error = ref.exception()
        loans: Collection[bytes] | None
        if error is None:
            try:
                payload, loans = payload_of(self._link, ref)
            except Exception as trouble:  # noqa: BLE001  # whoever asks for it is told
                error = trouble
            else:
                listed = [*(loans or ())] or None
                self._link.post((OBJECT_PUT, object_id, True, listed, payload))
                return
        else:
            # It was looked at: said once more, as a future without a loop tells its
            # callbacks before it takes note that nobody has.
            self._link.later(ref.exception)
        payload, loans = encode_error(self._link, error)
        self._link.post(
            (OBJECT_PUT, object_id, False, loans, payload or dump_exception(error))
        )
