"""The engine of a worker: the same verbs as in the owner, as frames to it.

Ids are made here (the worker's prefix and a count), so ``A.remote()`` returns at once
inside an actor too.
"""

from __future__ import annotations

import itertools
import struct
import weakref
from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._arguments import Arguments
from actorlib._engine import ActorExit, ActorId, ActorSpec, Hold, LoanId, ObjectId
from actorlib._pending import PendingCalls
from actorlib._ref import ObjectRef
from actorlib._runtime_env import inherited
from actorlib._wire.answers import fill
from actorlib._wire.blame import Sources
from actorlib._wire.frames import (
    ASK,
    ASK_WITH,
    AT_ONCE,
    AWAIT,
    BEHIND_CALLS,
    CANCEL,
    CREATE,
    END,
    FIND,
    GIVE,
    LEAVE,
    LOOK,
    RETURN,
    TO_RESTART,
    Frame,
)
from actorlib._wire.payload import dump
from actorlib._worker.birth import interface_in
from actorlib._worker.calling import Calling
from actorlib._worker.loans import LoanBook
from actorlib._worker.objects import Objects
from actorlib._worker.outbox import Outbox

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Generator, Mapping

    from actorlib._function_options import FunctionSpec
    from actorlib._interface import Interface, Method
    from actorlib._options import ActorOptions
    from actorlib._snapshot import ActorInfo
    from actorlib._wire.memory import Memory
    from actorlib._worker.birth import Start

TOO_LATE = "the result did not come in time; the call goes on"

_count = struct.Struct(">I")
_Entry = ObjectRef[Any] | weakref.ref[ObjectRef[Any]]


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
        memory.belong(start.prefix, self, self.tidy)
        self.memory = memory
        self.context = start.context
        self._prefix = start.prefix
        self._source = start.source
        self._loop = loop
        self._calls = itertools.count(1)
        self._actors = itertools.count(1)
        self._refs: dict[int, _Entry] = {}
        self.outbox = Outbox(self)
        self._objects = Objects(self, start.prefix, self._unasked)
        self._calling = Calling(self, self._unasked)
        self._sources = Sources()
        self.loans = LoanBook()
        self._is_forsaken = False
        self.pending = PendingCalls()

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
        actor, _ = self._create(spec)
        return actor

    def obtain(self, spec: ActorSpec) -> Hold:
        """The actor that has a name, or a new one; see Engine."""
        actor, taken = self._create(spec)
        return taken or Hold(self, actor, spec.interface)

    def find(self, name: str, namespace: str | None) -> Hold:
        """The actor of a name; see Engine."""
        found: Hold = self._asked(FIND, name, namespace)
        return found

    def names(self) -> list[tuple[str, str]]:
        """Who answers to a name; see Engine."""
        names: list[tuple[str, str]] = self._asked(LOOK, True)  # noqa: FBT003  # a field of the frame
        return names

    def actors(self) -> list[ActorInfo]:
        """What is known of each actor; see Engine."""
        infos: list[ActorInfo] = self._asked(LOOK, False)  # noqa: FBT003  # a field of the frame
        return infos

    def interface(self) -> Interface:
        """The face of this actor; see Engine."""
        return interface_in(self._source)

    def leave(self) -> NoReturn:
        """Ends this actor; see Engine."""
        self._check_parent()
        self.post((LEAVE, 0))
        raise ActorExit

    def _asked(self, kind: int, *fields: object) -> Any:
        """What the owner answers to a frame, at once."""
        ref = self._new_ref()
        self.post((kind, ref.call, *fields))
        self.wait_here(ref)
        return ref.result()

    def _create(self, spec: ActorSpec) -> tuple[ActorId, Hold | None]:
        """Starts an actor, or finds who has its name: its id, or theirs."""
        name = spec.interface.class_name
        source = self._sources.dumped(name, spec.source)
        # Apart from the rest, as the owner may not have the modules they are of.
        listed = dump(spec.options.retry_exceptions)
        options = self._heir(spec.options).updated({"retry_exceptions": False})
        face = dump((spec.interface, options, listed))
        arguments = Arguments(self, name, spec.args, spec.kwargs)
        actor = ActorId(self._prefix + _count.pack(next(self._actors)))

        def frame() -> Frame:
            try:
                payload, loans = arguments.payload()
            except Exception as error:  # noqa: BLE001  # a ref that failed: so does the actor
                return (GIVE, actor, False, None, dump(error))
            return (GIVE, actor, True, loans, payload)

        self._check_parent()
        # At once, as whoever gets its handle may speak of it; the arguments may follow.
        if spec.options.name is None:
            self.post((CREATE, 0, actor, source, face))
        else:
            taken: Hold | None = self._asked(CREATE, actor, source, face)
            if taken is not None:
                return taken.actor_id, taken
        self.loans.arrived((actor,))
        self.outbox.post(actor, frame, arguments)
        return actor, None

    def _heir(self, options: ActorOptions) -> ActorOptions:
        """The options of an actor made here, with what it has from this one."""
        outer = self.context.runtime_env
        if not outer:
            return options
        return options.updated({"runtime_env": inherited(outer, options.runtime_env)})

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call to another actor; see Engine."""
        arguments = Arguments(self, method.name, args, kwargs)
        ref = self._new_ref()
        call, name, told = ref.call, method.name, method.told

        def frame() -> Frame | None:
            if call not in self._refs:  # cancelled while it waited
                return None
            try:
                payload, loans = arguments.payload()
            except Exception as error:  # noqa: BLE001  # it is the answer
                self._fail(call, error)
                return None
            if told:
                return (ASK_WITH, call, actor, name, loans, told, payload)
            return (ASK, call, actor, name, loans, payload)

        self.outbox.post(actor, frame, arguments, passes=not method.keeps_order)
        return ref

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        self._check_parent()
        return self._calling.run(spec, args, kwargs)

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

    def cancel(self, call: int) -> None:
        """Stops a call; see Replier."""
        if self._refs.pop(call, None) is not None:
            self.post((CANCEL, call))

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref any more."""
        call = ref.call

        def gone(_: object) -> None:
            self.later(partial(self.cancel, call))

        if call in self._refs:
            self._refs[call] = weakref.ref(ref, gone)

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
        self.loans.arrived(loans)
        for actor in loans:
            self.retain(actor)
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
        entry = self._refs.pop(frame[1], None)
        ref = entry() if isinstance(entry, weakref.ref) else entry
        with self.borrowing(frame[-2]):
            if ref is not None and not ref.done():
                fill(ref, frame)

    def awaits(self, call: int) -> bool:
        """Whether somebody wants the answer of a call; see Calling."""
        return call in self._refs

    def gives_up(self, call: int, error: BaseException) -> None:
        """A call could not be made; see Calling."""
        self._fail(call, error)

    def _fail(self, call: int, error: BaseException) -> None:
        entry = self._refs.pop(call, None)
        ref = entry() if isinstance(entry, weakref.ref) else entry
        if ref is not None and not ref.done():
            ref.set_exception(error)

    def fail_all(self, error: Exception) -> None:
        """The owner is gone: nothing that was asked will be answered."""
        for call in list(self._refs):
            self._fail(call, error)

    def _new_ref(self) -> ObjectRef[Any]:
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        self.adopt(ref)
        return ref

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref the number under which its answer will come."""
        self._check_parent()
        ref.bind(self, next(self._calls))
        self._refs[ref.call] = ref

    def _unasked(self, cls: type[ObjectRef[Any]]) -> ObjectRef[Any]:
        """A ref that no answer comes for yet."""
        ref = cls(loop=self._loop)
        ref.bind(self, 0)
        return ref

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
