"""Objects: the values of refs that were sent inside of values, while they are held.

An object of the owner is the ref itself. An object of a worker is the answer that
filled its ref, sent by the worker and not decoded here. An actor is not idle before it
has sent the values of all refs that it has sent.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._base.ids import OBJECT_KIND, CountedId, ObjectId, new_id
from actorlib._futures.object_ref import BorrowedRef, ObjectRef
from actorlib._loops.loop_thread import add_done_callback, block
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.teardown import tear_down
from actorlib._shm.memory import SharedPayload
from actorlib._wire.arguments import (
    BorrowedRefs,
    SendingEngine,
    encode_shared,
    failure_frame,
    fill_encoded,
    payload_of,
    reduce_ref,
)
from actorlib._wire.errors import dump_exception, fill_future
from actorlib._wire.messages import CANCELLED, DIED, FAILURE, RESULT, Frame
from actorlib._wire.serialization import one_line
from actorlib.exceptions import ObjectLostError, OwnerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.objects.refcount import BorrowedReferences, UnsentResults
    from actorlib._shm.memory import Payload


class KeptObject(NamedTuple):
    """An object that is kept for its ref.

    Attributes:
        object_id: Its id.
        is_filled: Whether its ref has a value, or an error.
        payload: The value as it is sent; None if that was not kept, or does not exist.
    """

    object_id: ObjectId
    is_filled: bool
    payload: Payload | None


class WorkerObject:
    """An object of a worker.

    Attributes:
        answer: The answer that filled its ref, or None if there is none yet.
        waiting: The callbacks that wait for the answer.
        revoke: Cancels the call that it is the result of.
        unsent: Counts the values that the actor has to send, including this one.
    """

    def __init__(
        self, revoke: Callable[[], None], unsent: UnsentResults | None
    ) -> None:
        self.unsent = unsent
        if unsent is not None:
            unsent.add()
        self.answer: Frame | None = None
        self.waiting: list[Callable[[Frame], None]] = []
        self.revoke = revoke


class ObjectTable:
    """Keeps the objects of a runtime."""

    def __init__(
        self, engine: SendingEngine, prefix: bytes, references: BorrowedReferences
    ) -> None:
        self._prefix = prefix
        self.note_put: Callable[[int], None] | None = None
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._references = references
        self._names = itertools.count(1)
        self._own: dict[ObjectId, ObjectRef[Any]] = {}
        self._of_workers: dict[ObjectId, WorkerObject] = {}
        self._borrowed = BorrowedRefs(lambda: engine)

    def __len__(self) -> int:
        return len(self._own) + len(self._of_workers)

    def kept(self) -> Iterator[KeptObject]:
        for object_id, ref in self._own.items():
            value = ref.kept_value
            payload = None if value is None or callable(value[0]) else value[0]
            yield KeptObject(object_id, ref.done(), payload)
        for object_id, entry in self._of_workers.items():
            answer = entry.answer
            payload = None if answer is None else answer[-1]
            yield KeptObject(object_id, answer is not None, payload)

    # Refs of the owner.

    def name(self) -> ObjectId:
        """Makes an id for the object of a ref of this process."""
        return ObjectId(new_id(self._prefix, OBJECT_KIND, next(self._names)))

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """Returns how a ref is pickled; its object is kept from now on."""
        object_id = ObjectId(ref.object_id)
        reduced = reduce_ref(object_id)
        if object_id.startswith(self._prefix):
            self._own[object_id] = ref
        return reduced

    def put(self, value: object) -> ObjectRef[Any]:
        """Keeps a value as it is now; see Engine."""
        payload, borrowed = encode_shared(self._engine, value)
        if self.note_put is not None:
            self.note_put(_nbytes_of(payload))
        self._references.arrived(borrowed, OWNER)
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        ref.bind(self, 0)
        fill_encoded(ref, payload, borrowed)
        self._references.returned(borrowed, OWNER)
        return ref

    # Refs that the owner receives.

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """Returns the ref of an object that was sent to this process."""
        own = self._own.get(object_id)
        if own is None:
            own = self._borrowed.get(object_id)
        if own is not None:
            return own
        ref: BorrowedRef[Any] = BorrowedRef(loop=self._loop)
        ref.bind(self, 0)
        answer = partial(_answer, weakref.ref(ref))
        want = partial(self.fetch, object_id, answer)
        self._borrowed.add(ref, object_id, want, partial(self.revoke, object_id))
        return ref

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Does nothing, as there is no call; see ResultOwner."""

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Does nothing, as a wait holds nothing; see ResultOwner."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see ResultOwner."""
        add_done_callback(ref, lambda _: then())

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks another thread than that of the loop; see ResultOwner."""
        refusal = (
            "get() would block the event loop that the value comes through: await the "
            "ref instead"
        )
        block(ref, timeout, refusal)

    # Objects of workers, and requests for objects.

    def expect(
        self,
        object_id: ObjectId,
        revoke: Callable[[], None],
        unsent: UnsentResults | None,
    ) -> None:
        """Adds an object whose ref a worker is about to send."""
        if object_id not in self._of_workers:
            self._of_workers[object_id] = WorkerObject(revoke, unsent)

    def keep(
        self,
        object_id: ObjectId,
        is_good: bool,  # noqa: FBT001  # a field of the frame
        borrowed: Collection[CountedId] | None,
        payload: Payload,
    ) -> None:
        """Stores the value or the error of a worker's ref."""
        self._references.arrived(borrowed or (), OWNER)
        entry = self._of_workers.get(object_id)
        if entry is None or entry.answer is not None:  # it is no longer held
            self._references.returned(borrowed or (), OWNER)
            return
        if is_good:
            self._fill(entry, (RESULT, 0, borrowed, payload))
        else:
            # Not loaded here: only workers may know the classes in it.
            self._fill(entry, (FAILURE, 0, DIED, "", "", "", borrowed, payload))

    def fetch(self, object_id: ObjectId, then: Callable[[Frame], None]) -> None:
        """Passes the result frame of an object to ``then``, now or when it exists.

        Args:
            object_id: The object.
            then: Receives the frame, and counts the references in it.
        """
        own, entry = self._own.get(object_id), self._of_workers.get(object_id)
        if own is not None and own.done():
            # At once: a function that waits keeps its CPUs only if its answer was sent
            # before the owner reads that it waits.
            self._pass_result(own, then)
        elif own is not None:
            own.add_done_callback(lambda ref: self._pass_result(ref, then))
        elif entry is None:
            error = ObjectLostError(f"object {object_id.hex()} is no longer kept")
            then(_failure(error))
        elif entry.answer is not None:
            then(entry.answer)
        else:
            entry.waiting.append(then)

    def revoke(self, object_id: ObjectId) -> None:
        """Cancels the call that an object is the result of, if it has no result yet."""
        own, entry = self._own.get(object_id), self._of_workers.get(object_id)
        if own is not None:
            own.cancel()
        elif entry is not None and entry.answer is None:
            entry.revoke()

    def unheld(self, object_id: ObjectId) -> None:
        """Forgets an object that no other process holds."""
        self._own.pop(object_id, None)
        entry = self._of_workers.pop(object_id, None)
        if entry is None:
            return
        if entry.answer is not None:
            self._references.returned(entry.answer[-2] or (), OWNER)
        elif entry.unsent is not None:
            entry.unsent.remove()

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Fails the objects whose values a worker has not sent."""
        lost = [
            entry
            for object_id, entry in self._of_workers.items()
            if object_id.startswith(session.prefix) and entry.answer is None
        ]
        failure = _failure(OwnerDiedError(_LOST))
        tear_down(self, *(partial(self._fill, entry, failure) for entry in lost))

    def _fill(self, entry: WorkerObject, answer: Frame) -> None:
        entry.answer = answer
        if entry.unsent is not None:
            entry.unsent.remove()
        waiting, entry.waiting = entry.waiting, []
        tear_down(self, *(partial(then, answer) for then in waiting))

    def _pass_result(self, ref: ObjectRef[Any], then: Callable[[Frame], None]) -> None:
        """Passes the result frame of a ref of the owner to ``then``."""
        if ref.cancelled():
            then((FAILURE, 0, CANCELLED, "", "", "", None, b""))
            return
        answer = _answer_of(self._engine, ref)
        borrowed = answer[-2] or ()
        self._references.arrived(borrowed, OWNER)
        then(answer)
        self._references.returned(borrowed, OWNER)


_LOST = (
    "the actor that made this call ended before the call had a result, and the result "
    "is lost"
)


def _answer(weak: weakref.ref[BorrowedRef[Any]], frame: Frame) -> None:
    ref = weak()
    if ref is not None and not ref.done():
        fill_future(ref, frame)


def _answer_of(engine: SendingEngine, ref: ObjectRef[Any]) -> Frame:
    error = ref.exception()
    if error is not None:
        return failure_frame(engine, error)
    try:
        payload, borrowed = payload_of(engine, ref)
    except Exception as failure:  # noqa: BLE001  # it becomes the answer
        return failure_frame(engine, failure)
    return (RESULT, 0, borrowed or None, payload)


def _failure(error: BaseException) -> Frame:
    return (FAILURE, 0, DIED, one_line(error), "", "", None, dump_exception(error))


def _nbytes_of(payload: Payload) -> int:
    if isinstance(payload, SharedPayload):
        return sum(payload.sizes)
    return len(payload) if isinstance(payload, bytes) else sum(map(len, payload))
