"""The engine of a worker: the same verbs as in the owner, as frames to it.

Ids are made here (the worker's prefix and a count), so ``A.remote()`` returns at once
inside an actor too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._arguments import Arguments
from actorlib._calling import running
from actorlib._engine import ActorExit, ActorId, ActorSpec, Hold, LoanId, ObjectId
from actorlib._pending import PendingCalls
from actorlib._propagation import MARKED
from actorlib._reading import Reading
from actorlib._telling import tell
from actorlib._window import bounds_of
from actorlib._wire.frames import (
    ASK,
    ASK_WITH,
    AT_ONCE,
    AWAIT,
    BEHIND_CALLS,
    CANCEL,
    END,
    FIND,
    HELD,
    LEAVE,
    LOOK,
    RETURN,
    TAKEN,
    TO_RESTART,
    WAITS,
    Frame,
)
from actorlib._worker.birth import interface_in
from actorlib._worker.calling import Calling
from actorlib._worker.carried import packed
from actorlib._worker.groups import GroupQuestions
from actorlib._worker.loans import LoanBook
from actorlib._worker.making import Making
from actorlib._worker.objects import Objects
from actorlib._worker.outbox import Outbox
from actorlib._worker.refs import Refs

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Generator, Mapping

    from actorlib._interface import Interface, Method
    from actorlib._ref import ObjectRef
    from actorlib._snapshot import ActorInfo
    from actorlib._wire.memory import Memory
    from actorlib._worker.birth import Start

TOO_LATE = "the result did not come in time; the call goes on"
MOMENT = 0.1
"""Seconds after which a wait is told of, as it may be for ever."""


class Uplink(ABC):
    """The engine of one worker.

    Args:
        start: What the worker was told first.
        loop: What refs take for their loop.
        memory: What large values are shared in.
    """

    def __init__(
        self, start: Start, loop: asyncio.AbstractEventLoop, memory: Memory
    ) -> None:
        self.memory = memory
        self.context = start.context(process=self)
        self.made: type = object
        self._name = start.name
        self._prefix = start.prefix
        self._source = start.source
        self._loop = loop
        self._refs = Refs(loop, self)
        self.outbox = Outbox(self)
        self._objects = Objects(self, start.prefix, self._refs.unasked)
        self._making = Making(self, start)
        calling = Calling(
            self, self._refs, loop, self._check_parent, is_inline=start.is_shared
        )
        self.run, self.run_stream = calling.run, calling.run_stream
        self.loans = LoanBook()
        self._is_forsaken = False
        self.pending = PendingCalls()
        self.groups = GroupQuestions(self)
        memory.belong(start.prefix, self, self.tidy)

    @abstractmethod
    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner, from any thread."""

    @abstractmethod
    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until the ref is done."""

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks any thread until the owner has answered; for short questions."""
        self.wait(ref, None)

    @abstractmethod
    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs here was cancelled; see Process."""

    def function_name(self, method: str) -> str:
        """A method of the actor, with its class and module; see Process."""
        return f"{self.made.__module__}.{self.made.__qualname__}.{method}"

    @contextmanager
    def waiting(self, ref: ObjectRef[Any], thread: int) -> Generator[None]:
        """Around a wait that has lasted: the owner is told who waits for what."""
        asking = running.get()
        method = "__init__" if asking is None else asking[1]
        self.post((WAITS, ref.call, thread, f"{self._name}.{method}"))
        try:
            yield
        except BaseException:  # of a signal handler, for example
            self.post((WAITS, 0, thread, ""))
            raise

    @abstractmethod
    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""

    @abstractmethod
    def return_loans_soon(self) -> None:
        """Gives back what can be given back; called from destructors, anywhere."""

    def tidy(self) -> None:  # noqa: B027  # most have nothing to do
        """Takes note of what others do not need any more, if it has come."""

    @abstractmethod
    def later(self, callback: Callable[[], object]) -> None:
        """Calls back where no other work of the engine is under way."""

    def returns(self, *, wait: bool = True) -> list[Frame]:
        """The frames that give loans back now."""
        returned = self.loans.returns(wait=wait)
        return [(RETURN, actor, count) for actor, count in returned]

    # The verbs.

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts an actor; see Engine."""
        self._check_parent()
        actor, _ = self._making.make(spec)
        return actor

    def obtain(self, spec: ActorSpec) -> Hold:
        """The actor that has a name, or a new one; see Engine."""
        self._check_parent()
        actor, taken = self._making.make(spec)
        return taken or Hold(self, actor, spec.interface)

    def find(self, name: str, namespace: str | None) -> Hold:
        """The actor of a name; see Engine."""
        found: Hold = self.asked(FIND, name, namespace)
        return found

    def names(self) -> list[tuple[str, str]]:
        """Who answers to a name; see Engine."""
        names: list[tuple[str, str]] = self.asked(LOOK, True)  # noqa: FBT003  # a field of the frame
        return names

    def actors(self) -> list[ActorInfo]:
        """What is known of each actor; see Engine."""
        infos: list[ActorInfo] = self.asked(LOOK, False)  # noqa: FBT003  # a field of the frame
        return infos

    def interface(self) -> Interface:
        """The face of this actor; see Engine."""
        return interface_in(self._source)

    def leave(self) -> NoReturn:
        """Ends this actor; see Engine."""
        self._check_parent()
        self.post((LEAVE, 0))
        raise ActorExit

    def asked(self, kind: int, *fields: object) -> Any:
        """What the owner answers to a frame, at once."""
        ref = self.ask(kind, *fields)
        self.wait_here(ref)
        return ref.result()

    def ask(self, kind: int, *fields: object) -> ObjectRef[Any]:
        """Sends a frame that the owner answers."""
        ref = self._new_ref()
        self.post((kind, ref.call, *fields))
        return ref

    def new_id(self) -> bytes:
        """An id for something that is made here."""
        return self._making.new_id()

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call to another actor; see Engine."""
        told = self._said(method)
        arguments = Arguments(self, method.name, args, kwargs)
        ref = self._new_ref()
        self._ask(ref.call, actor, method, arguments, told)
        return ref

    def stream(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        is_capped: bool,
    ) -> Reading:
        """Sends a call of another actor's generator; see Engine."""
        told = self._said(method)
        arguments = Arguments(self, method.name, args, kwargs)
        self._check_parent()
        bounds = bounds_of(method.options.backpressure or 0)
        reading = Reading(self._loop, self, bounds, is_capped=is_capped)
        self._refs.add(reading)
        self._ask(reading.call, actor, method, arguments, told)
        return reading

    def _said(self, method: Method) -> dict[str, Any] | None:
        """What is said of a call that is made here, besides its arguments."""
        asking = running.get()
        if method.told is None and not MARKED and (asking is None or not asking[2]):
            return None
        return packed(tell(method, asking, self._name))

    def _ask(
        self,
        call: int,
        actor: ActorId,
        method: Method,
        arguments: Arguments,
        told: dict[str, Any] | None,
    ) -> None:
        asking, name = running.get(), method.name
        asker = 0 if asking is None else asking[0]

        def frame() -> Frame | None:
            if call not in self._refs:  # cancelled while it waited
                return None
            try:
                payload, loans = arguments.payload()
            except Exception as error:  # noqa: BLE001  # it is the answer
                self._refs.fail(call, error)
                return (CANCEL, call, False)
            if told:
                return (ASK_WITH, call, asker, actor, name, loans, told, payload)
            return (ASK, call, asker, actor, name, loans, payload)

        held = (HELD, call, asker, actor, told and told.get("deadline"), name)
        passes = not method.keeps_order
        self.outbox.post(actor, frame, arguments, passes=passes, held=held)

    def put(self, value: object) -> ObjectRef[Any]:
        """Has the owner keep a value; see Engine."""
        self._check_parent()
        return self._objects.put(value)

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """The ref of an object that was sent here; see Engine."""
        return self._objects.borrow(object_id)

    def name(self) -> bytes:
        """An id for what a ref stands for; see Replier."""
        return self._objects.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled into a value that is being sent; see Replier."""
        return self._objects.travel(ref)

    def ready(self, actor: ActorId) -> ObjectRef[None]:
        """Asks to be told when the actor is ready; see Engine."""
        ref = self._new_ref()
        self.outbox.post(actor, lambda: (AWAIT, ref.call, actor))
        return ref

    def end(self, actor: ActorId) -> ObjectRef[None]:
        """Ends an actor behind what it was sent; see Engine."""
        return self._end(actor, BEHIND_CALLS)

    def kill(self, actor: ActorId, *, restart: bool = False) -> ObjectRef[None]:
        """Ends an actor at once; see Engine."""
        return self._end(actor, TO_RESTART if restart else AT_ONCE)

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call; see Replier."""
        if self._refs.drop(call):
            self.post((CANCEL, call, recursive))

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref any more."""
        call = ref.call

        def gone(_: object) -> None:
            self.later(partial(self.cancel, call))

        self._refs.loosen(ref, gone)

    # Counting handles.

    def retain(self, actor: LoanId) -> None:
        """Counts a holder; see Engine."""
        self.loans.retain(actor)

    def release(self, actor: LoanId) -> None:
        """Counts a holder less; the loans go back with the last one; see Engine."""
        if not self._is_forsaken:  # what a fork holds, its parent holds
            self.loans.release(actor)
            self.return_loans_soon()

    @contextmanager
    def borrowing(self, loans: Collection[LoanId] | None) -> Generator[None]:
        """Around the loading of a frame's payload: its handles are held meanwhile."""
        if not loans:
            yield
            return
        # Held first: what another thread lets go of meanwhile is not the last hold.
        for actor in loans:
            self.retain(actor)
        self.loans.arrived(loans)
        try:
            yield
        finally:
            for actor in loans:
                self.release(actor)

    def forsake(self) -> None:
        """Refuses everything from now on; see Engine."""
        self._is_forsaken = True

    # Answers.

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a RESULT or FAILURE frame answers."""
        with self.borrowing(frame[-2]):
            self._refs.settle(frame)

    def item(self, frame: Frame) -> None:
        """Takes an item of a stream that this worker reads."""
        with self.borrowing(frame[3]):
            self._refs.item(frame)

    def taken(self, number: int, count: int) -> None:
        """Tells how many items of a stream were taken; see Feed."""
        if not self._is_forsaken:
            self.post((TAKEN, number, count))

    def fail_all(self, error: Exception) -> None:
        """The owner is gone: nothing that was or will be asked is answered."""
        self._refs.fail_all(error)

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref the number under which its answer will come."""
        self._check_parent()
        self._refs.adopt(ref)

    def _new_ref(self) -> ObjectRef[Any]:
        self._check_parent()
        return self._refs.new()

    def _check_parent(self) -> None:
        if self._is_forsaken:
            raise RuntimeError(
                "this process is a fork of an actor's and cannot call actors: the pipe "
                "is its parent's"
            )

    def _end(self, actor: ActorId, manner: int) -> ObjectRef[None]:
        ref = self._new_ref()
        self.outbox.post(actor, lambda: (END, ref.call, actor, manner))
        return ref
