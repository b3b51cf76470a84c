"""An engine without processes: it writes down what is asked and answers when told."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, final

from actorlib._base.ids import ActorId, CountedId, ObjectId
from actorlib._core.engine import (
    CallQueue,
    HandlePin,
    PendingCalls,
    PlacementGroups,
)
from actorlib._core.runtime_context import RuntimeContext
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import StreamOwner, StreamReader
from actorlib._options.callee import BoundMethod
from actorlib._options.shares import ActorShare
from actorlib._shm.memory import SharedMemory
from actorlib._wire.arguments import SendingEngine, reduce_ref
from actorlib.exceptions import ActorNotFoundError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._core.engine import ActorSpec
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.callee import Callee
    from actorlib._options.function_options import FunctionSpec
    from actorlib._options.group_spec import GroupId, GroupSpec
    from actorlib._rows.snapshot import ActorInfo, GroupInfo


class Sent(NamedTuple):
    """One call as the engine was given it.

    Attributes:
        actor: Whom it is for.
        method: The name of the method.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """

    actor: ActorId
    method: str
    args: tuple[object, ...]
    kwargs: dict[str, object]


@final
class NoGroups(PlacementGroups):
    """No placement groups, and no room for any."""

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Refuses."""
        raise AssertionError("a fake without groups is asked of one", spec)

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """Refuses."""
        raise AssertionError("a fake without groups is asked of one", group, value)

    def remove(self, group: GroupId) -> asyncio.Future[None]:
        """Refuses."""
        raise AssertionError("a fake without groups is asked of one", group)

    def find(self, name: str) -> GroupSpec:
        """Refuses."""
        raise AssertionError("a fake without groups is asked of one", name)

    def infos(self) -> list[GroupInfo]:
        """Nothing: there are none."""
        return []


@final
class FakeEngine(SendingEngine, StreamOwner):
    """The engine of handles, and the owner of refs and streams.

    Calls stay without an answer until the test gives them one by ``ref.set_result``, or
    by ``answer`` if a thread waits for it.

    Args:
        loop: What refs take for their loop; the running one if it is not given.

    Attributes:
        context: Where the code of this process is running.
        created: The actors that were made, in order.
        sent: The calls that were made, in order.
        runs: The calls of functions that were made, in order.
        cancelled: The numbers of the calls that were cancelled.
        told: What was told of streams: their numbers, and how many items were taken.
        holders: How many holders each actor has.
        ended: Actors that were ended, each with ``"end"``, ``"kill"`` or
            ``"restart"``.
        readiness: What ``ready`` gives, by actor, if it is not ready at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.context = RuntimeContext(job_id=bytes(4).hex())
        self.pending = PendingCalls()
        self.groups: PlacementGroups = NoGroups()
        self.is_over = False
        self.events: Any = None
        self.memory = SharedMemory()
        self.created: list[ActorSpec] = []
        self.sent: list[Sent] = []
        self.runs: list[tuple[FunctionSpec, tuple[object, ...], dict[str, object]]] = []
        self.cancelled: list[int] = []
        self.told: list[tuple[int, int]] = []
        self.holders: Counter[CountedId] = Counter()
        self.ended: list[tuple[ActorId, str]] = []
        self.readiness: dict[ActorId, asyncio.Future[None]] = {}
        self._loop = loop or asyncio.get_running_loop()
        self._refs: dict[int, ObjectRef[Any] | weakref.ref[ObjectRef[Any]]] = {}
        self._calls = itertools.count(1)
        self._names = itertools.count(1)
        self._answered = threading.Condition()
        self._thread = None if loop is not None else threading.get_ident()

    # Engine.

    def create(self, spec: ActorSpec) -> ActorId:
        """Gives the next id: one byte of 1, 2, 3."""
        self.created.append(spec)
        return ActorId(bytes([len(self.created)]))

    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Writes the call down."""
        self._sent(callee, args, kwargs)
        return self.new_ref()

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Writes the call down; its items come when the test puts them in."""
        self._sent(callee, args, kwargs)
        return StreamReader.of(callee, self._loop, self)

    def _sent(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        if isinstance(callee, BoundMethod):
            self.sent.append(Sent(callee.actor, callee.name, args, dict(kwargs)))
        else:
            self.runs.append((callee, args, dict(kwargs)))

    def taken(self, number: int, count: int) -> None:
        """Writes down what was told of a stream."""
        self.told.append((number, count))

    def ready(self, actor: ActorId) -> asyncio.Future[None]:
        """Done at once, or when the test says so."""
        return self.readiness.get(actor) or self._done()

    def obtain(self, spec: ActorSpec) -> HandlePin:
        """Gives the actor of that name, or makes one."""
        name = spec.options.name
        made = [found.options.name for found in self.created]
        if name in made:
            actor = ActorId(bytes([1 + made.index(name)]))
            return HandlePin(self, actor, self.created[made.index(name)].interface)
        return HandlePin(self, self.create(spec), spec.interface)

    def find(self, name: str, namespace: str | None) -> HandlePin:
        """Gives the actor of that name, in any namespace."""
        del namespace
        made = [found.options.name for found in self.created]
        if name not in made:
            raise ActorNotFoundError(f"no actor is called {name!r}")
        place = made.index(name)
        actor = ActorId(bytes([1 + place]))
        return HandlePin(self, actor, self.created[place].interface)

    def names(self) -> list[tuple[str, str]]:
        """The names of the actors that were made."""
        return [
            (spec.options.namespace or "default", spec.options.name)
            for spec in self.created
            if spec.options.name is not None
        ]

    def actors(self) -> list[ActorInfo]:
        """Nothing: none of them is real."""
        return []

    def share(self, actor: ActorId) -> ActorShare:
        """Nothing: none of them holds a device."""
        del actor
        return ActorShare()

    def loads(self, actors: Sequence[ActorId]) -> list[int | None]:
        """None: they take no calls."""
        return [None for _ in actors]

    def backlogs(self, actors: Sequence[ActorId]) -> list[int]:
        """None: they take no calls."""
        return [0 for _ in actors]

    def call_queue(self, actor: ActorId) -> CallQueue:
        """Empty: they take no calls."""
        del actor
        return CallQueue(0, 0)

    def shortage(self, label: str, options: ActorOptions) -> str:
        """Nothing: there is no machine."""
        del label, options
        return ""

    def dead(self, actor: ActorId) -> asyncio.Future[None]:
        """Never done."""
        del actor
        return asyncio.get_running_loop().create_future()

    def available(self) -> dict[str, float]:
        """Nothing: there is no machine."""
        return {}

    def total(self) -> dict[str, float]:
        """Nothing: there is no machine."""
        return {}

    def end(self, actor: ActorId) -> asyncio.Future[None]:
        """Writes down that it was ended."""
        self.ended.append((actor, "end"))
        return self._done()

    def kill(self, actor: ActorId, *, restart: bool = False) -> asyncio.Future[None]:
        """Writes down that it was killed."""
        self.ended.append((actor, "restart" if restart else "kill"))
        return self._done()

    def suspend(self, actor: ActorId, patience: float | None) -> asyncio.Future[None]:
        """Refuses: there is no GPU."""
        raise UnsupportedOptionError(f"{actor.hex()} cannot be suspended: {patience}")

    def resume(self, actor: ActorId) -> asyncio.Future[None]:
        """Nothing: none is suspended."""
        del actor
        return self._done()

    def retain(self, actor: CountedId) -> None:
        """Counts a holder."""
        self.holders[actor] += 1

    def release(self, actor: CountedId) -> None:
        """Counts a holder less; the last one is forgotten."""
        self.holders[actor] -= 1
        self.holders = +self.holders

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back from the loop."""
        self._loop.call_soon_threadsafe(callback)

    def close_in_fork(self) -> None:
        """Does nothing: no test forks it."""

    # Replier.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Writes down that a call was cancelled."""
        del recursive
        if self._refs.pop(call, None) is not None:
            self.cancelled.append(call)

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Holds the ref weakly from now on; cancels its call when it is gone."""
        call = ref.call
        self._refs[call] = weakref.ref(ref, lambda _: self.cancel(call))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back when the ref is done."""
        ref.add_done_callback(lambda _: then())

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks until ``answer``; refuses on the thread of the loop."""
        if threading.get_ident() == self._thread:
            raise RuntimeError("this thread runs the event loop")
        with self._answered:
            if not self._answered.wait_for(ref.done, timeout):
                raise TimeoutError

    # For the test.

    def name(self) -> bytes:
        """An id for what a ref stands for; see ResultOwner."""
        return bytes(8) + next(self._names).to_bytes(8, "big")

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled into a value that is being sent; see ResultOwner."""
        return reduce_ref(ObjectId(ref.object_id))

    def put(self, value: object) -> ObjectRef[Any]:
        """A ref with a value; see Engine."""
        ref = self.new_ref()
        ref.set_result(value)
        return ref

    def borrow(self, object_id: ObjectId) -> ObjectRef[Any]:
        """A ref that came; see Engine."""
        ref = self.new_ref()
        ref._object_id = object_id  # pyright: ignore[reportPrivateUsage]  # as if it were known
        return ref

    def new_ref(self) -> ObjectRef[Any]:
        """A ref of a call of its own, held here as an engine holds it."""
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        ref.bind(self, next(self._calls))
        self._refs[ref.call] = ref
        return ref

    def answer(self, ref: ObjectRef[Any], value: object) -> None:
        """Gives a ref its value and wakes the threads that wait for one."""
        self._refs.pop(ref.call, None)
        with self._answered:
            ref.set_result(value)
            self._answered.notify_all()

    def fail(self, ref: ObjectRef[Any], error: Exception) -> None:
        """Gives a ref its error and wakes the threads that wait for one."""
        self._refs.pop(ref.call, None)
        with self._answered:
            ref.set_exception(error)
            self._answered.notify_all()

    def _done(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
