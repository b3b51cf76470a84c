"""The definition, the state and the id of an actor."""

from __future__ import annotations

import enum
import itertools
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, new_id, prefix_of
from actorlib._base.labels import Label
from actorlib._base.value import dataclass
from actorlib._options.group_spec import GroupId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._base.ids import CountedId
    from actorlib._enforcement.tiers import Verdict
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.interface import Interface
    from actorlib._options.resources import Resources
    from actorlib._processes.launcher import WorkerProcess
    from actorlib._shm.memory import Payload
    from actorlib._wire.function_code import ClassDefinition
    from actorlib.accelerators.base import Lease
    from actorlib.exceptions import Exit


class ActorDefinition(NamedTuple):
    """The class and the options of an actor, ready to be sent.

    Attributes:
        definition: The class; None if it is a worker of functions.
        interface: The interface of the class.
        options: The options of the actor.
        runs: The resources of each call that it runs, if it is a worker of functions.
        slot: Its number among replicas, for its label; None if it is not one of them.
    """

    definition: ClassDefinition | None
    interface: Interface
    options: ActorOptions
    runs: Resources | None = None
    slot: int | None = None


class EncodedArguments(NamedTuple):
    """The arguments of a constructor or a method, ready to be sent.

    Attributes:
        payload: The arguments.
        borrowed: The borrowed references among them, or None.
    """

    payload: Payload
    borrowed: Collection[CountedId] | None


class ActorState(enum.Enum):
    """The states of an actor."""

    PENDING = "pending"
    """It waits for its arguments or for its share of the machine."""
    STARTING = "starting"
    """Its process is being started, and its constructor runs."""
    ALIVE = "alive"
    """It is ready for calls."""
    SUSPENDED = "suspended"
    """Its process lives on, its share is returned, and its GPU memory is in the host's
    memory. It is resumed on request."""
    RESTARTING = "restarting"
    """It died and is restarted; it may have kept its share, or wait for one."""
    DRAINING = "draining"
    """It ends: its process exits, and it still holds its share."""
    DEAD = "dead"
    """Its process is gone, and its share is returned, or drains until the driver has
    freed the memory."""

    # Enum's is written in Python, and each actor changes its state at least four times.
    __hash__ = object.__hash__


_MOVES: dict[ActorState, frozenset[ActorState]] = {
    ActorState.PENDING: frozenset({ActorState.STARTING, ActorState.DEAD}),
    ActorState.STARTING: frozenset(
        {ActorState.ALIVE, ActorState.RESTARTING, ActorState.DRAINING}
    ),
    ActorState.ALIVE: frozenset(
        {ActorState.SUSPENDED, ActorState.RESTARTING, ActorState.DRAINING}
    ),
    ActorState.SUSPENDED: frozenset(
        {ActorState.ALIVE, ActorState.RESTARTING, ActorState.DRAINING}
    ),
    ActorState.RESTARTING: frozenset({ActorState.STARTING, ActorState.DEAD}),
    ActorState.DRAINING: frozenset({ActorState.DEAD}),
    ActorState.DEAD: frozenset(),
}


@dataclass(slots=True, kw_only=True)
class ActorRecord:
    """The record of one actor.

    Attributes:
        id: Its id.
        interface: The interface of its class.
        options: The options of the actor.
        is_actor: False for a worker of functions.
        slot: Its number among replicas; None if it is not one of them.
        called: Its name in messages; more exact after its constructor.
        process: Its worker, or its last worker.
        is_nested: Whether a worker has created it.
        state: Its state; changed only by ``move``.
        lease: Its lease, while it has one.
        exit: How it ended.
        was_evicted: Whether it was ended because its placement group was removed.
        verdict: The reason for which a tier has ended its process, if one has.
        created_at: When it was created, in seconds since the epoch.
        started_at: When it was first ready, in seconds since the epoch.
        ended_at: When it was dead, in seconds since the epoch.
        watcher: Called when the state has changed, if set.
    """

    id: ActorId
    interface: Interface
    options: ActorOptions
    is_actor: bool = True
    slot: int | None = None
    called: Label = field(init=False)
    process: WorkerProcess | None = None
    is_nested: bool = False
    state: ActorState = ActorState.PENDING
    lease: Lease | None = None
    exit: Exit | None = None
    was_evicted: bool = False
    verdict: Verdict | None = None
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    watcher: Callable[[ActorRecord], None] | None = None

    def __post_init__(self) -> None:
        name = self.interface.class_name
        self.called = Label(name, self.options.name, slot=self.slot)

    @property
    def label(self) -> str:
        """Its name without a process: ``Model 'm1'``."""
        return str(self.called)

    @property
    def pid(self) -> int:
        """The id of its process or its last process, or 0."""
        return self.process.pid if self.process is not None else 0

    @property
    def title(self) -> str:
        """Its name with its process: ``Model 'm1' (pid 812)``."""
        return self.called.at(self.pid)

    def method(self, name: str) -> str:
        """Returns the name of one of its methods: ``Model.ping of 'm1' (pid 812)``."""
        return self.called.method(name, self.pid)

    def move(self, state: ActorState) -> None:
        """Changes the state.

        Raises:
            RuntimeError: The current state does not allow it: a bug.
        """
        if state not in _MOVES[self.state]:
            raise RuntimeError(
                f"{self!r} cannot become {state.value}; it may become "
                f"{', '.join(sorted(s.value for s in _MOVES[self.state])) or 'nothing'}"
            )
        self.state = state
        if self.watcher is not None:
            self.watcher(self)

    def __repr__(self) -> str:
        return f"<{self.label} {self.id.hex()} {self.state.value}>"


class RuntimeIds:
    """Makes the ids of one runtime.

    Args:
        runtime: Four bytes that distinguish this runtime from others on the machine.
    """

    def __init__(self, runtime: bytes) -> None:
        self._runtime = runtime
        self._own_prefix = prefix_of(runtime, 0)
        self._counter = itertools.count(1)

    def prefix(self, maker: int) -> bytes:
        """Returns the first eight bytes of the ids of what a process creates.

        Args:
            maker: 0 for the owner, else the number of the worker's session.
        """
        return prefix_of(self._runtime, maker)

    def new_id(self) -> ActorId:
        """Makes an id for an actor that the owner creates."""
        return ActorId(new_id(self._own_prefix, ACTOR_KIND, next(self._counter)))

    def new_group_id(self) -> GroupId:
        """Makes an id for a placement group that the owner creates."""
        return GroupId(new_id(self._own_prefix, GROUP_KIND, next(self._counter)))
