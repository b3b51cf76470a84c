"""Implements the operations of an engine in a worker, by frames to the owner.

Ids are created here, from the worker's prefix and a counter, so ``A.remote()`` returns
at once inside an actor, too.

Most actors are called and make no calls. So the parts that only some of them need
(calls, creations, objects, links) are imported and created on demand: a fork copies
each page that it writes to, and that is most of the cost of a short life.
"""

from __future__ import annotations

import itertools
import os
import threading
from abc import abstractmethod
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from actorlib._base.ids import BLOCK_KIND, LINKED, new_id, prefix_of_kind
from actorlib._base.labels import own_name
from actorlib._core.current_call import running
from actorlib._core.engine import (
    ActorExit,
    ActorSpec,
    Engine,
    HandlePin,
    PendingCalls,
    PlacementGroups,
    Refusal,
    override,
)
from actorlib._options.callee import BoundMethod
from actorlib._shm.running_calls import RunningCalls, SharedRunningCalls
from actorlib._wire import messages
from actorlib._wire.serialization import decode_call
from actorlib._worker.os_process import exit_fork
from actorlib._worker.requests.refcount import LocalRefCount
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Generator, Mapping

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._options.callee import Callee
    from actorlib._options.interface import Interface
    from actorlib._rows.snapshot import ActorInfo
    from actorlib._shm.memory import Payload
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._wire.fd_passing import SegmentSharing
    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.run_events import RunEvents
    from actorlib._worker.features import WorkerFeatures
    from actorlib._worker.links.incoming_links import IncomingLinks
    from actorlib._worker.links.outgoing_links import OutgoingLinks
    from actorlib._worker.requests.actor_calls import ActorCalls
    from actorlib._worker.requests.actor_creation import ActorCreation
    from actorlib._worker.requests.inbox import Inbox
    from actorlib._worker.requests.objects import WorkerObjects
    from actorlib._worker.requests.pending import (
        OrderedSender,
        PendingResults,
        RefOwner,
    )
    from actorlib._worker.requests.placement_groups import GroupRequests
    from actorlib._worker.requests.task_calls import TaskCalls
    from actorlib._worker.startup import Start

TOO_LATE = "the result did not come in time; the call goes on"
WAIT_REPORT_DELAY = 0.1
"""Seconds after which a wait is reported to the owner, as it may be a deadlock."""


_making = threading.RLock()

if TYPE_CHECKING:
    lazy = property
else:

    class lazy(cached_property):  # noqa: N801  # a decorator
        """Creates an attribute on first access.

        It is created once, even if several threads access it; ``cached_property`` no
        longer guarantees that from Python 3.12 on. ``"name" in vars(client)`` is true
        after the creation.
        """

        def __get__(self, instance: Any, owner: type) -> Any:
            """Returns the attribute; called while the object has none of that name."""
            with _making:
                return super().__get__(instance, owner)


_REPLICAS = Refusal(
    "Replicas are for the program that started the runtime: create them there, and "
    "send handles of actors as arguments",
    RuntimeError,
)


class OwnerClient(Engine):
    """The engine of one worker: sends the requests of its code to the owner.

    Args:
        loop: The loop of refs; None if no loop runs.

    Attributes:
        inbox: Decides which thread reads.
        is_call_cancelled: Whether a call that runs was cancelled.
        is_call_quick: Whether the call that runs is known to be quick. References that
            the loading of its arguments releases are then returned with its answer.
        returns_late: Whether such arguments are being loaded.
    """

    is_call_cancelled: Callable[[int], bool]

    refusals: Mapping[str, Refusal] = {
        **Engine.refusals,
        "share": Refusal(
            "handle.share is known in the program that started the runtime: ask it "
            "there, and send what it says as an argument",
            RuntimeError,
        ),
        "loads": _REPLICAS,
        "backlogs": _REPLICAS,
        "call_queue": _REPLICAS,
        "shortage": _REPLICAS,
        "dead": _REPLICAS,
    }

    def __init__(
        self,
        start: Start,
        loop: asyncio.AbstractEventLoop | None,
        pipe: BlockingChannel,
        inbox: Inbox,
    ) -> None:
        self.memory = pipe.memory
        self._config = start.config
        self.inbox = inbox
        # The only thread that runs methods, if there is only one.
        self._method_thread: int | None = threading.get_ident()
        self.actor_class: type = object
        self._label = start.label
        self._prefix = start.config.prefix
        self._interface: Callable[[], Interface]
        self._loop = loop
        self.refcount = LocalRefCount()
        self._is_in_fork = False
        self.is_over = self.is_call_quick = self.returns_late = False
        self._exited_calls: set[int] = set()
        self.pipe = pipe
        self.events: RunEvents | None = None
        self.running_calls: RunningCalls | None = None
        for frame in start.config.attached:
            self.events = self._features.switch(frame)
        blocks = prefix_of_kind(self._prefix, BLOCK_KIND)
        self.memory.bind_to(blocks, self, self.receive_pending)

    # Parts that are created on demand.

    loop: asyncio.AbstractEventLoop
    context: RuntimeContext
    pending: PendingCalls
    groups: PlacementGroups
    if not TYPE_CHECKING:  # for type checkers they are attributes, as of any engine

        @lazy
        def loop(self) -> asyncio.AbstractEventLoop:
            if self._loop is not None:
                return self._loop
            from actorlib._futures.object_ref import immediate_loop

            return immediate_loop()

        @lazy
        def context(self) -> RuntimeContext:
            from actorlib._worker.startup import context_of

            return context_of(self._config, self)

        @lazy
        def pending(self) -> PendingCalls:
            return PendingCalls()

        @lazy
        def groups(self) -> GroupRequests:
            from actorlib._worker.requests.placement_groups import GroupRequests

            return GroupRequests(self)

    @lazy
    def sender(self) -> OrderedSender:
        from actorlib._worker.requests.pending import OrderedSender

        return OrderedSender(self, self._results, self.post)

    @lazy
    def outgoing_links(self) -> OutgoingLinks:
        from actorlib._worker.links.outgoing_links import OutgoingLinks

        return OutgoingLinks(self, self.inbox, *self._link_ends())

    @lazy
    def incoming_links(self) -> IncomingLinks:
        from actorlib._worker.links.incoming_links import IncomingLinks

        return IncomingLinks(self, self.inbox, *self._link_ends())

    def _link_ends(self) -> tuple[int, SegmentSharing | None]:
        """Returns the session's number, and the receiver of links if there is one."""
        config = self._config
        sharing = None if config.runs_functions else self.pipe.sharing
        return int.from_bytes(self._prefix[4:]), sharing

    @lazy
    def _results(self) -> PendingResults:
        from actorlib._worker.requests.pending import PendingResults

        return PendingResults(self.loop, self)

    @lazy
    def _actor_calls(self) -> ActorCalls:
        from actorlib._worker.requests.actor_calls import ActorCalls

        return ActorCalls(self, self._results, self.outgoing_links)

    @lazy
    def _async_owner(self) -> RefOwner:
        from actorlib._worker.requests.pending import RefOwner

        return RefOwner(self, self.stop)

    @lazy
    def _objects(self) -> WorkerObjects:
        from actorlib._worker.requests.objects import WorkerObjects

        return WorkerObjects(self, self._prefix, self._results.new_unasked)

    @lazy
    def _task_calls(self) -> TaskCalls:
        from actorlib._worker.requests.task_calls import TaskCalls

        return TaskCalls(self, self._results, is_inline=self._config.is_inline)

    @lazy
    def _creation(self) -> ActorCreation:
        from actorlib._worker.requests.actor_creation import ActorCreation

        return ActorCreation(self, is_inline=self._config.is_inline)

    @lazy
    def _ids(self) -> itertools.count[int]:
        return itertools.count(1)

    @abstractmethod
    def post(self, frame: Frame) -> None: ...

    def gather(self, frame: Frame) -> None:
        self.post(frame)

    @lazy
    def _features(self) -> WorkerFeatures:
        from actorlib._worker.features import WorkerFeatures

        return WorkerFeatures(self, self._config)

    @abstractmethod
    def offer(self, frame: Frame) -> bool:
        """Sends a frame if that does not block; for any thread, and for destructors.

        The frame has no borrowed references and a few KiB at most.

        Returns:
            False if it was not sent, because the pipe is full.

        Raises:
            EOFError: Nothing can be sent any longer.
            OSError: The same.
        """

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        if self.is_over:
            self.check_parent()
        read = self.inbox.read
        if timeout is not None or threading.get_ident() != self._method_thread:
            if not read(ref.done, timeout, ref):
                raise GetTimeoutError(TOO_LATE)
        elif not read(ref.done, WAIT_REPORT_DELAY, ref):
            with self.reporting_wait(ref):
                read(ref.done, None, ref)

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks any thread until the owner has answered; for short requests."""
        self.inbox.read(ref.done, None, ref)

    def was_canceled(self, call: int) -> bool:
        if not self.is_call_cancelled(call):
            self.inbox.read_available()
        return self.is_call_cancelled(call)

    def report_ready(self, instance: object) -> None:
        self.actor_class = type(instance)
        own = own_name(instance)
        self._label = self._label.with_own(own)
        self.post((messages.READY, own, os.getpid()))

    def where(self, method: str) -> str:
        return self._label.method(method, os.getpid())

    def function_name(self, method: str) -> str:
        """Returns the qualified name of a method of the actor; see CallLookup."""
        return f"{self.actor_class.__module__}.{self.actor_class.__qualname__}.{method}"

    @contextmanager
    def reporting_wait(self, ref: ObjectRef[Any]) -> Generator[None]:
        """Reports a wait of the only thread: the owner looks for deadlocks."""
        own_call, call = running.get(), ref.call
        method = "__init__" if own_call is None else own_call[1]
        sent_call = self.outgoing_links.call_sent(call)
        if sent_call is not None:
            self.post(sent_call)
        self.post((messages.WAITS, call, method))
        try:
            yield
        except BaseException:  # of a signal handler, for example
            self.post((messages.WAITS, 0, ""))
            raise
        finally:
            if sent_call is not None:
                self.post((messages.CANCEL, call, False))
                if call not in self._results:  # the owner may have failed the call
                    self.outgoing_links.cancel(call, recursive=True)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        self.inbox.call_when_done(ref, then)

    @abstractmethod
    def return_borrowed_soon(self) -> None: ...

    def receive_pending(self) -> None:
        """Reads frames when memory is short, as they may release some.

        Here it does nothing; clients without an event loop override it.
        """

    def later(self, callback: Callable[[], object]) -> None:
        self.inbox.later(callback)

    def release_frames(self, *, wait: bool = True) -> list[Frame]:
        """Creates the frames that return borrowed references now.

        Unless ``wait``, they are returned the next time if another thread is counting
        or sends a call.
        """
        if "outgoing_links" not in vars(self):
            returned = self.refcount.take_returned(wait=wait)
        elif self.sender.lock.acquire(blocking=wait):
            # A thread that sends a call holds this lock and then writes to the pipe. A
            # thread that holds the pipe must not wait for it.
            try:
                returned = self.refcount.take_returned(wait=wait)
                for actor, _ in returned:
                    self.outgoing_links.forget(actor)
            finally:
                self.sender.lock.release()
        else:
            returned = []
        return [(messages.RELEASE_REFS, actor, count) for actor, count in returned]

    # The operations of an engine.

    @override
    def create(self, spec: ActorSpec) -> ActorId:
        self.check_parent()
        actor, _ = self._creation.create(spec)
        return actor

    @override
    def obtain(self, spec: ActorSpec) -> HandlePin:
        self.check_parent()
        actor, existing = self._creation.create(spec)
        return existing or HandlePin(self, actor, spec.interface, spec.options.name)

    @override
    def find(self, name: str, namespace: str | None) -> HandlePin:
        pin: HandlePin = self.ask_and_wait(messages.FIND, name, namespace)
        return pin

    @override
    def names(self) -> list[tuple[str, str]]:
        return cast("list[tuple[str, str]]", self._list("names"))

    @override
    def actors(self) -> list[ActorInfo]:
        return cast("list[ActorInfo]", self._list("actors"))

    @override
    def available(self) -> dict[str, float]:
        return cast("dict[str, float]", self._list("available"))

    @override
    def total(self) -> dict[str, float]:
        return cast("dict[str, float]", self._list("total"))

    def _list(self, name: str) -> Any:
        return self.ask_and_wait(messages.LIST, name)

    def set_interface(self, interface: Callable[[], Interface]) -> None:
        self._interface = interface

    @override
    def interface(self) -> Interface:
        return self._interface()

    @override
    def leave(self) -> NoReturn:
        self.check_parent()
        own_call = running.get()
        self._exited_calls.add(0 if own_call is None else own_call[0])
        self.is_over = True
        self.post((messages.LEAVE, 0))
        raise ActorExit

    def check_over(self, call: int, error: BaseException | None = None) -> None:
        if self._is_in_fork:
            exit_fork(error)
        if call in self._exited_calls:
            raise ActorExit

    def ask_and_wait(self, kind: int, *fields: object) -> Any:
        ref = self.ask(kind, *fields)
        self.wait_here(ref)
        return ref.result()

    def ask(self, kind: int, *fields: object) -> ObjectRef[Any]:
        ref = self._new_ref()
        self.post((kind, ref.call, *fields))
        return ref

    def new_id(self, kind: int) -> bytes:
        return new_id(self._prefix, kind, next(self._ids))

    @override
    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        if not isinstance(callee, BoundMethod):
            self.check_parent()
            return self._task_calls.call(callee, args, kwargs)
        new_ref = self._new_async_ref if callee.method.is_async else self._new_ref
        return self._actor_calls.call(callee, args, kwargs, new_ref)

    @override
    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        self.check_parent()
        if not isinstance(callee, BoundMethod):
            return self._task_calls.stream(callee, args, kwargs)
        return self._actor_calls.stream(callee, args, kwargs)

    @override
    def put(self, value: object) -> ObjectRef[Any]:
        self.check_parent()
        return self._objects.put(value)

    @override
    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        return self._objects.borrow(object_id)

    def name(self) -> bytes:
        return self._objects.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        return self._objects.travel(ref)

    @override
    def ready(self, actor: ActorId) -> ObjectRef[None]:
        ref = self._new_ref()
        self.sender.post(actor, lambda: (messages.AWAIT, ref.call, actor))
        return ref

    @override
    def end(self, actor: ActorId) -> ObjectRef[None]:
        return self._end(actor, messages.BEHIND_CALLS)

    @override
    def kill(self, actor: ActorId, *, restart: bool = False) -> ObjectRef[None]:
        return self._end(actor, messages.TO_RESTART if restart else messages.AT_ONCE)

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        if self._is_in_fork or not self._results.drop(call):
            return
        if not self.outgoing_links.cancel(call, recursive=recursive):
            self.post((messages.CANCEL, call, recursive))

    def stop(self, call: int, *, recursive: bool = True) -> bool:
        """Cancels a call of an ``async def`` method; True if its end is awaited."""
        if call not in self._results or call in self.sender.deferred:
            self.cancel(call, recursive=recursive)
            return False
        if not self.outgoing_links.stop(call, recursive=recursive):
            self.post((messages.CANCEL, call, recursive))
        return True

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        call = ref.call

        def on_dropped(_: object) -> None:
            self.later(partial(self.cancel, call))

        self._results.release_if_unused(ref, on_dropped)

    @override
    def retain(self, actor: CountedId) -> None:
        self.refcount.retain(actor)

    @override
    def release(self, actor: CountedId) -> None:
        self.release_all((actor,))

    def release_all(self, actors: Collection[CountedId]) -> None:
        """Removes a holder of each, then returns references without holders."""
        if not self._is_in_fork:  # references belong to the parent process
            self.refcount.release_all(actors)
            self.return_borrowed_soon()

    @contextmanager
    def borrowing(self, borrowed: Collection[CountedId] | None) -> Generator[None]:
        if not borrowed:
            yield
            return
        self.refcount.arrived(borrowed)
        try:
            yield
        finally:
            self.release_all(borrowed)

    def arguments(
        self,
        borrowed: Collection[CountedId] | None,
        payload: Payload | tuple[Any, ...],
    ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
        """Loads the arguments of a call; its handles are held meanwhile."""
        if isinstance(payload, tuple):
            return payload, {}
        try:
            if not borrowed:
                return decode_call(payload)
            self.refcount.arrived(borrowed)  # like ``borrowing``, inlined
            self.returns_late = self.is_call_quick
            try:
                return decode_call(payload)
            finally:
                self.release_all(borrowed)
                self.returns_late = False
        except Exception as error:
            call = running.get()
            if call is not None:
                error.add_note(f"while the arguments of {call[1]} were loaded")
            raise

    def link_call_began(self, call: int, method: str) -> None:
        self.incoming_links.call_began(call, method)

    def close_in_fork(self) -> None:
        """Refuses all operations from now on; see Engine.

        Open descriptors belong to the worker. A fork closes its copies, so that it
        never reads frames of its parent, and acquires no lock that a thread of the
        parent may hold.
        """
        self._is_in_fork = self.is_over = True
        self.pipe.close_in_fork()
        if "outgoing_links" in vars(self):
            self.outgoing_links.close_in_fork()
        if "incoming_links" in vars(self):
            self.incoming_links.close_in_fork()

    def settle(self, frame: Frame) -> None:
        if frame[1] >= LINKED:
            frame = self.outgoing_links.answered(frame)
        if frame[-2] is None:
            self._results.settle(frame)
            return
        with self.borrowing(frame[-2]):
            self._results.settle(frame)

    def take_other(self, frame: Frame) -> list[Frame]:
        if frame[0] == messages.FEATURE:
            self.events = self._features.switch(frame)
            return []
        if frame[0] == messages.NOTE_CALLS:
            self._note_calls()
            return []
        if frame[0] == messages.LINK_CALLS:
            if frame[1:]:
                self.outgoing_links.report_answered()
                return []
            has_links = "outgoing_links" in vars(self)
            calls = self.outgoing_links.unanswered() if has_links else ()
            self.post((messages.LINK_CALLS, calls, len(calls), 0))
            return []
        is_outgoing = frame[0] in (messages.LINK_OPENED, messages.LINK_LOST) or (
            frame[0] == messages.CANCEL_CHILDREN and not frame[1]
        )
        return (self.outgoing_links if is_outgoing else self.incoming_links).take(frame)

    def _note_calls(self) -> None:
        """Records the calls that run from now on, or reports that it cannot."""
        cells = self.memory.call_cells()
        if cells is None:
            self.post((messages.NOTE_CALLS, 0))
            return
        has_threads = bool(self._config.limits)
        kind = SharedRunningCalls if has_threads else RunningCalls
        self.running_calls = kind(cells, LINKED)

    def item(self, frame: Frame) -> None:
        with self.borrowing(frame[3]):
            self._results.item(frame)

    def taken(self, number: int, count: int) -> None:
        """Reports the number of items of a stream that were taken; see StreamOwner."""
        if not self._is_in_fork:
            self.post((messages.STREAM_ACK, number, count))

    def fail_all(self, error: Exception) -> None:
        """Fails all current and later requests: the owner is gone."""
        self._results.fail_all(error)

    def adopt(self, ref: ObjectRef[Any]) -> None:
        self.check_parent()
        self._results.adopt(ref)

    def _new_ref(self) -> ObjectRef[Any]:
        self.check_parent()
        return self._results.new()

    def _new_async_ref(self) -> ObjectRef[Any]:
        self.check_parent()
        return self._results.new(self._async_owner)

    def check_parent(self) -> None:
        """Refuses operations that only the worker itself may do."""
        if self._is_in_fork:
            raise RuntimeError(
                "this process is a fork of an actor's and cannot call actors: the pipe "
                "is its parent's"
            )

    def _end(self, actor: ActorId, manner: int) -> ObjectRef[None]:
        ref = self._new_ref()

        def frame() -> Frame:
            if manner == messages.BEHIND_CALLS:
                self.outgoing_links.fence(actor)
            else:  # later calls go to the owner, behind this frame
                self.outgoing_links.leave(actor)
            return (messages.END, ref.call, actor, manner)

        self.sender.post(actor, frame)
        return ref
