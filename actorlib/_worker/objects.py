"""The refs of a worker that are sent to others, and those that others send to it."""

from __future__ import annotations

import itertools
import struct
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._engine import LoanId, ObjectId, collecting
from actorlib._ref import BorrowedRef, ObjectRef
from actorlib._values import Sharing, travelling
from actorlib._wire.answers import fill
from actorlib._wire.blame import encode_value
from actorlib._wire.frames import EXPECT, FETCH, KEEP, RESULT, REVOKE, Frame
from actorlib._wire.memory import shared
from actorlib._wire.payload import dump, encode, kept
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._worker.loans import LoanBook

_count = struct.Struct(">Q")


class Link(Sharing, Protocol):
    """The engine of the worker."""

    loans: LoanBook

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
        self._borrowed: weakref.WeakValueDictionary[ObjectId, BorrowedRef[Any]] = (
            weakref.WeakValueDictionary()
        )

    def name(self) -> ObjectId:
        """An id for what a ref of this worker stands for."""
        return ObjectId(self._prefix + _count.pack(next(self._names)))

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled; the owner is told of it first."""
        object_id = ObjectId(ref.named())
        reduced = travelling(object_id)
        if object_id.startswith(self._prefix) and object_id not in self._spoken_of:
            self._link.post((EXPECT, object_id, ref.call))
            self._hold(ref, object_id)
            self._link.watch(ref, partial(self._keep, ref, object_id))
        return reduced

    def put(self, value: object) -> ObjectRef[Any]:
        """Has the owner keep a value as it is now; see Engine."""
        link = self._link
        with collecting(link) as loans:
            payload = kept(shared(link.memory, encode_value(value), loans))
        ref = self._new(ObjectRef)
        object_id = ObjectId(ref.named())
        link.post((EXPECT, object_id, 0))
        self._hold(ref, object_id)
        link.post((KEEP, object_id, True, loans or None, payload))
        fill(ref, (RESULT, 0, loans or None, payload))
        if not ref.exception():
            ref.kept = payload, loans  # also a small one: it is encoded once
        return ref

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent to this worker."""
        known = self._borrowed.get(object_id)
        if known is not None:
            return known
        ref = self._new(BorrowedRef)
        assert isinstance(ref, BorrowedRef)
        ref.object_id = object_id
        ref.want = partial(self._fetch, weakref.ref(ref), object_id)
        ref.revoke = partial(self._link.post, (REVOKE, object_id))
        self._borrowed[object_id] = ref
        self._link.retain(object_id)
        weakref.finalize(ref, self._link.release, object_id).atexit = False
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
            self._link.post((FETCH, ref.call, object_id))

    def _keep(self, ref: ObjectRef[Any], object_id: ObjectId) -> None:
        """Passes on what a ref was filled with."""
        error: BaseException | None
        if ref.cancelled():
            error = TaskCancelledError("the call was cancelled")
        else:
            error = ref.exception()
        if error is not None:
            # It was looked at: said once more, as a future without a loop tells its
            # callbacks before it takes note that nobody has.
            self._link.later(ref.exception)
            self._link.post((KEEP, object_id, False, None, dump(error)))
            return
        loans: list[LoanId] | None
        try:
            payload, there = ref.kept
            loans = [*(there or ())]  # type: ignore[misc]  # pyright: ignore  # noqa: PGH003  # ids of any kind
        except AttributeError:
            with collecting(self._link) as loans:
                payload = kept(shared(self._link.memory, encode(ref.result()), loans))
        self._link.post((KEEP, object_id, True, loans or None, payload))
