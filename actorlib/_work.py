"""Who of a pool is busy with what: the bookkeeping behind ``ActorPool``.

Nothing happens behind the caller's back: actors that are done are given more whenever
the pool is asked for something, so the functions it is given run in the caller's own
code, and a pool needs neither a task nor a lock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

from actorlib._flow import Task
from actorlib._handle import ActorHandle, hold_of
from actorlib._ref import watch
from actorlib._waiting import Bell
from actorlib.exceptions import ActorDiedError, ActorError, ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._ref import ObjectRef

_AHEAD = 4
"""Values not taken yet, per actor: so many may overtake the one that is waited for."""


class Given(Task):
    """A value that was given to a pool, and what is to be done with it."""

    __slots__ = ("actor", "function", "value")

    def __init__(self, function: Callable[[Any, Any], object], value: object) -> None:
        super().__init__()
        self.function = function
        self.value = value
        self.actor: ActorHandle[Any] | None = None


class Work:
    """The actors of a pool, and the values that they were given.

    Attributes:
        members: The actors.
        tasks: What was given and not taken, in order.
        shift: The ``map`` that is being worked on.
        bell: Rung when something is done.
    """

    def __init__(self) -> None:
        self.members: set[ActorHandle[Any]] = set()
        self.tasks: dict[Task, None] = {}
        self.shift: Shift | None = None
        self.bell = Bell()
        self._idle: deque[ActorHandle[Any]] = deque()
        self._waiting: deque[Given] = deque()
        self._running: list[Given] = []
        self._done: dict[Task, None] = {}
        self._death: ActorError | None = None

    def __str__(self) -> str:
        return (
            f"{len(self.members)}: {len(self._running)} busy, "
            f"{len(self._waiting)} values wait"
        )

    def admit(self, actor: object) -> None:
        """Takes an actor in.

        Raises:
            TypeError: It is no handle.
            ValueError: It is in already.
        """
        if not isinstance(actor, ActorHandle):
            raise TypeError(
                f"a pool takes the handles of actors, not {actor!r} "
                f"({type(actor).__name__})"
            )
        handle = cast("ActorHandle[Any]", actor)
        if handle in self.members:
            raise ValueError(f"{handle!r} is in the pool already")
        self.members.add(handle)
        self._idle.append(handle)

    def dismiss(self) -> ActorHandle[Any] | None:
        """Lets an idle actor go; None if there is none."""
        if not self.has_free():
            return None
        actor = self._idle.pop()
        self.members.discard(actor)
        return actor

    def has_free(self) -> bool:
        """Whether an actor is idle, and no value waits for one."""
        self.collect()
        return bool(self._idle)

    def submit(self, task: Given) -> None:
        """Gives a value to an actor that is free, or to the next one that will be.

        Raises:
            Exception: What the function raised, if it was called at once.
        """
        if self.has_free():
            self.begin(task)
            if task.error is not None:
                self._running.remove(task)
                self._free(task)
                raise task.error
        else:
            self._waiting.append(task)
        self.tasks[task] = None
        self.collect()

    def begin(self, task: Given) -> None:
        """Gives a value to an idle actor; an error of the function is the task's."""
        actor = task.actor = self._idle.popleft()
        self._running.append(task)
        try:
            task.begun(task.function(actor, task.value))
        except Exception as error:  # noqa: BLE001  # the user's function
            task.error = error
        for ref in task.refs:
            watch(ref, self.bell.ring)
        self.bell.ring()  # whoever waits for any result may get this one first

    def fail(self, task: Task, error: BaseException) -> None:
        """A value has an error and never gets an actor."""
        task.error = error
        self.tasks[task] = None
        self._done[task] = None

    def collect(self) -> None:
        """Takes what is done, and begins what waits for an actor."""
        while True:
            done = [task for task in self._running if task.is_done]
            for task in done:
                self._running.remove(task)
                self._free(task)
                if task in self.tasks:
                    self._done[task] = None
            if not done and not (self._waiting and self._idle):
                break
            while self._waiting and self._idle:
                self.begin(self._waiting.popleft())
        while self._waiting and not self.members and self._death is not None:
            self.fail(self._waiting.popleft(), self.stuck())

    def _free(self, task: Given) -> None:
        """The actor of a task is idle again, unless it has died."""
        actor, task.actor = task.actor, None
        if actor is None:
            return
        death = _death_of(actor, task)
        if death is None:
            self._idle.append(actor)
        else:
            # It fails every call at once, and would take all values that wait.
            self.members.discard(actor)
            self._death = death

    def take(self, *, is_ordered: bool) -> Task | None:
        """The next result, if it is there; it is taken out."""
        self.collect()
        task = next(iter(self.tasks if is_ordered else self._done), None)
        if task is None or task not in self._done:
            return None
        self.drop(task)
        return task

    def pending(self) -> list[ObjectRef[Any]]:
        """What the actors are at, also what was given up."""
        return [ref for task in self._running for ref in task.pending()]

    def drop(self, task: Task) -> None:
        """Gives a result up; an actor that is at it goes on."""
        self.tasks.pop(task, None)
        self._done.pop(task, None)
        if task in self._waiting:
            self._waiting.remove(cast("Given", task))

    def start_shift(self, function: Callable[[Any, Any], object], order: bool) -> Shift:  # noqa: FBT001  # as a Shift has it
        """Gives up what was not taken, and begins anew."""
        self.tasks.clear()
        self._done.clear()
        self._waiting.clear()
        self.shift = Shift(self, function, is_ordered=order)
        self.bell.ring()
        return self.shift

    def stuck(self) -> Exception:
        """Why nothing goes on while nothing is under way."""
        if self._death is None:
            return RuntimeError("the pool has no actor: push() one")
        error = ActorError(
            f"no actor of the pool is left: {self._death}",
            actor_id=self._death.actor_id,
        )
        error.__cause__ = self._death
        return error


class Shift:
    """A pool at work on one ``map``; see Crew.

    Args:
        work: The pool's.
        function: What is called with an actor and a value.
        is_ordered: Whether results are given in the order of the values.
    """

    def __init__(
        self,
        work: Work,
        function: Callable[[Any, Any], object],
        *,
        is_ordered: bool,
    ) -> None:
        self.bell = work.bell
        self._work = work
        self._function = function
        self._is_ordered = is_ordered

    def has_room(self) -> bool:
        """Whether an actor is free, and not too much waits to be taken."""
        work = self._work
        if work.shift is not self:
            raise RuntimeError(
                "another map() of the pool was begun, which gave this one up"
            )
        return work.has_free() and len(work.tasks) < _AHEAD * len(work.members)

    def begin(self, value: Any) -> None:
        """Gives a value to a free actor."""
        task = Given(self._function, value)
        self._work.tasks[task] = None
        self._work.begin(task)

    def fail(self, error: BaseException) -> None:
        """Puts an error where the next value would be."""
        self._work.fail(Task(), error)

    def take(self) -> Task | None:
        """The next result, if it is there."""
        return self._work.take(is_ordered=self._is_ordered)

    def pending(self) -> list[ObjectRef[Any]]:
        """What the actors are at."""
        return self._work.pending()

    def stuck(self) -> Exception:
        """Why nothing goes on."""
        return self._work.stuck()


def _death_of(actor: ActorHandle[Any], task: Task) -> ActorError | None:
    """The end of an actor, if that is what its call failed of."""
    actor_id = hold_of(actor).actor_id.hex()
    for ref in task.refs:
        error = None if ref.cancelled() else ref.exception()
        if (
            isinstance(error, ActorDiedError | ActorUnschedulableError)
            and error.actor_id == actor_id
        ):
            return error
    return None
