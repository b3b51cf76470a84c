"""First steps of ``async def`` methods: when they run, in which task and what context.

All of it holds on every Python, also where the loop runs the first steps.
"""

from __future__ import annotations

import asyncio
import itertools
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Place, Stop
from helpers.calls import raised
from helpers.marks import in_memory

import actorlib
from actorlib._worker.executors import coroutines
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from actorlib import ObjectRef

pytestmark = [
    *in_memory(),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]

variable: ContextVar[int] = ContextVar("variable", default=0)


class Stepper:
    """Notes in which order its calls begin, and what their first steps see."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self._ref: ObjectRef[Any] | None = None
        self._done: asyncio.Future[None] | None = None

    def plain(self, number: int) -> None:
        """A plain method."""
        self.log.append(number)

    async def quick(self, number: int) -> int:
        """Ends in its first step."""
        self.log.append(number)
        return number

    async def pause(self, number: int) -> int:
        """Goes on in a later turn of the loop."""
        self.log.append(number)
        await asyncio.sleep(0)
        return number

    async def done(self, number: int) -> int:
        """Awaits what is done."""
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
            self._done.set_result(None)
        self.log.append(number)
        await self._done
        return number

    async def give(self, number: int) -> Any:
        """Gives what is no scalar, or none that a frame carries, or what raises."""
        self.log.append(number)
        if number % 3 == 0:
            raise LookupError(number)
        return [number] if number % 3 == 1 else 2**64 + number

    def logged(self) -> list[Any]:
        """Gives what was noted, once."""
        log, self.log = self.log, []
        return log

    async def hold(self, place: Place) -> None:
        """Blocks the loop, so that what comes meanwhile is read together."""
        place.stop_here()

    async def tasks(self) -> list[bool]:
        """Whether its task is one thing from its first step on."""
        first = asyncio.current_task()
        saw = [first in asyncio.all_tasks()]
        await asyncio.sleep(0)
        return [*saw, first is asyncio.current_task(), first in asyncio.all_tasks()]

    async def structured(self) -> list[str]:
        """Uses in its first step what asks for the current task."""
        saw: list[str] = []
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            saw.append("timeout")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fail())
                await asyncio.Event().wait()
        except* ValueError:
            saw.append("group")
        return saw

    async def _fail(self) -> None:
        raise ValueError

    async def cancels_itself(self) -> str:
        """Cancels itself in its first step, and awaits then."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.uncancel()
        return "uncancelled"

    async def sets(self, value: int) -> tuple[int, int, int]:
        """What a context variable was before, and is after a while."""
        before = variable.get()
        variable.set(value)
        now = variable.get()
        await asyncio.sleep(0)
        return before, now, variable.get()

    async def keep(self, actor: Any) -> None:
        """Calls another actor, and takes the answer later."""
        self._ref = actor.wait.remote("kept")

    async def take(self, number: int) -> Any:
        """Blocks its first step until that answer is there."""
        self.log.append(number)
        assert self._ref is not None
        value = actorlib.get(self._ref)
        self.log.append("taken")
        return value

    async def take_late(self, number: int, place: Place) -> Any:
        """The same in a later step, with the loop blocked before it and after it."""
        self.log.append(number)
        assert self._ref is not None
        await asyncio.sleep(0)
        place.stop_here()
        value = actorlib.get(self._ref)
        self.log.append("taken")
        place.stop_here()
        return value

    async def take_awaiting(self) -> None:
        """Awaits that answer."""
        assert self._ref is not None
        try:
            await self._ref
        finally:
            self.log.append("taken")

    def take_plainly(self, number: int) -> Any:
        """The same in a plain method."""
        self.log.append(number)
        assert self._ref is not None
        value = actorlib.get(self._ref)
        self.log.append("taken")
        return value

    async def until_cancelled(self, place: Place) -> None:
        """Sees in its first step that it was cancelled, and awaits then."""
        place.stop_here()
        self.log.append(actorlib.get_runtime_context().is_canceled())
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("cleaned up")

    async def cancelled_to_its_end(self, place: Place) -> str:
        """Sees it too, and ends."""
        place.stop_here()
        self.log.append(actorlib.get_runtime_context().is_canceled())
        return "not wanted"

    async def count_tasks(self) -> int:
        """How many tasks a factory of its own has made so far, after it set one."""
        loop = asyncio.get_running_loop()
        if loop.get_task_factory() is None:
            made: list[asyncio.Task[Any]] = []

            def make(
                loop: asyncio.AbstractEventLoop, work: Any, **options: Any
            ) -> asyncio.Task[Any]:
                made.append(asyncio.Task(work, loop=loop, **options))
                return made[-1]

            self.log = made
            loop.set_task_factory(make)
        return len(self.log)


@pytest.fixture
def stepper() -> Any:
    return actorlib.remote(Stepper).remote()


@pytest.mark.parametrize("long", [10.0, -1.0])
async def test_calls_of_all_kinds_when_sent_together_then_begin_in_their_order(
    stepper: Any, long: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coroutines, "_LONG", long)
    await stepper
    for program in itertools.product(("plain", "quick", "pause", "done"), repeat=4):
        refs = [getattr(stepper, kind).remote(i) for i, kind in enumerate(program)]
        await asyncio.gather(*refs)

        assert await stepper.logged.remote() == [0, 1, 2, 3], program


async def outcomes(stepper: Any, stop: Stop, program: Random, *, named: bool) -> Any:
    """What calls that are read together give, and in which order they have begun."""
    held = stepper.hold.remote(stop.place)
    await stop.reached()
    refs: list[ObjectRef[Any]] = []
    for number in range(program.randrange(1, 30)):
        method = getattr(stepper, program.choice(KINDS))
        refs.append(method.remote(number=number) if named else method.remote(number))
        if program.random() < 0.2:
            program.choice(refs).cancel()
    await asyncio.sleep(0)  # all of it leaves with the end of this turn of the loop
    stop.release()
    await held
    ended = await asyncio.gather(*refs, return_exceptions=True)
    return [*map(repr, ended)], await stepper.logged.remote()


KINDS = ("plain", "quick", "pause", "done", "give")


@pytest.mark.parametrize("seed", range(8))
async def test_calls_with_scalars_when_answered_then_as_those_with_a_payload(
    stepper: Any, stop: Stop, seed: int
) -> None:
    await stepper
    short = await outcomes(stepper, stop, Random(seed), named=False)
    long = await outcomes(stepper, stop, Random(seed), named=True)

    assert short == long


async def test_calls_when_the_loop_was_blocked_then_begin_in_their_order(
    stepper: Any, stop: Stop
) -> None:
    for program in (
        ("quick", "plain", "quick", "pause"),
        ("plain", "quick", "quick", "plain"),
        ("pause", "quick", "plain", "quick"),
    ):
        held = stepper.hold.remote(stop.place)
        await stop.reached()
        refs = [getattr(stepper, kind).remote(i) for i, kind in enumerate(program)]
        stop.release()
        await asyncio.gather(held, *refs)

        assert await stepper.logged.remote() == [0, 1, 2, 3], program


async def test_first_step_when_it_asks_for_its_task_then_that_goes_on(
    stepper: Any,
) -> None:
    assert await stepper.tasks.remote() == [True, True, True]
    assert await stepper.structured.remote() == ["timeout", "group"]
    assert await stepper.cancels_itself.remote() == "uncancelled"


async def test_context_variables_when_set_in_a_first_step_then_are_the_calls_own(
    stepper: Any,
) -> None:
    await stepper
    seen = await asyncio.gather(*(stepper.sets.remote(i) for i in (1, 2, 3)))

    assert seen == [(0, 1, 1), (0, 2, 2), (0, 3, 3)]


async def let_through(gate: Any) -> None:
    """Opens a gate, until the answer to who waits there already has left it.

    Waiters are answered in the order in which they came, and this comes last.
    """
    await gate.reached.remote("kept")
    last = gate.wait.remote("kept")
    await gate.open.remote("kept")
    await last


async def test_first_step_when_it_blocks_for_what_came_with_it_then_gets_it(
    stepper: Any, stop: Stop
) -> None:
    gate = Gate.remote()
    await stepper.keep.remote(gate)
    held = stepper.hold.remote(stop.place)
    await stop.reached()
    taking = stepper.take.remote(1)
    await let_through(gate)
    later = stepper.quick.remote(2)
    stop.release()

    assert await taking == "kept"
    await asyncio.gather(held, later)
    assert await stepper.logged.remote() == [1, "taken", 2]


@pytest.mark.parametrize("method", ["take", "take_plainly"])
async def test_calls_when_a_method_reads_for_the_loop_then_begin_after_it(
    stepper: Any, method: str
) -> None:
    gate = Gate.remote()
    await stepper.keep.remote(gate)
    taking = getattr(stepper, method).remote(1)
    later = [stepper.quick.remote(2), stepper.plain.remote(3), stepper.quick.remote(4)]
    await gate.reached.remote("kept")
    last = stepper.quick.remote(5)
    await gate.open.remote("kept")

    assert await taking == "kept"
    await asyncio.gather(*later, last)
    assert await stepper.logged.remote() == [1, "taken", 2, 3, 4, 5]


async def test_calls_when_read_in_a_task_then_begin_after_its_step_in_their_order(
    stepper: Any, stop: Stop
) -> None:
    gate = Gate.remote()
    await stepper.keep.remote(gate)
    taking = stepper.take_late.remote(1, stop.place)
    await stop.reached()
    later = [stepper.quick.remote(2)]
    await gate.open.remote("kept")
    stop.release()
    await stop.reached()
    later.append(stepper.quick.remote(3))
    stop.release()

    assert await taking == "kept"
    await asyncio.gather(*later)
    assert await stepper.logged.remote() == [1, "taken", 2, 3]


@pytest.mark.parametrize("way", ["answered", "cancelled"])
async def test_call_when_a_frame_before_it_wakes_a_task_then_begins_after_that(
    stepper: Any, stop: Stop, way: str
) -> None:
    gate = Gate.remote()
    await stepper.keep.remote(gate)
    taking = stepper.take_awaiting.remote()
    held = stepper.hold.remote(stop.place)
    await stop.reached()
    if way == "answered":
        await let_through(gate)
    else:
        taking.cancel()
    later = stepper.quick.remote(2)
    stop.release()

    await asyncio.wait([taking])
    await asyncio.gather(held, later)
    assert await stepper.logged.remote() == ["taken", 2]


async def test_call_when_cancelled_before_its_first_step_then_never_begins(
    stepper: Any, stop: Stop
) -> None:
    held = stepper.hold.remote(stop.place)
    await stop.reached()
    before, cancelled, after = (stepper.quick.remote(i) for i in (1, 2, 3))
    cancelled.cancel()
    stop.release()

    with pytest.raises(TaskCancelledError):
        await cancelled
    await asyncio.gather(held, before, after)
    assert await stepper.logged.remote() == [1, 3]


@pytest.mark.parametrize(
    ("method", "noted"),
    [
        ("until_cancelled", [True, "cleaned up"]),
        ("cancelled_to_its_end", [True]),
    ],
)
async def test_call_when_cancelled_in_its_first_step_then_sees_it_and_ends(
    stepper: Any, stop: Stop, method: str, noted: list[Any]
) -> None:
    ref = getattr(stepper, method).remote(stop.place)
    await stop.reached()
    ref.cancel()
    stop.release()

    with pytest.raises(TaskCancelledError):
        await ref
    assert await stepper.logged.remote() == noted
    assert await stepper.quick.remote(1) == 1


async def test_task_factory_when_the_user_has_set_one_then_it_makes_the_tasks(
    stepper: Any,
) -> None:
    assert await stepper.count_tasks.remote() == 0
    assert await stepper.count_tasks.remote() == 1
    assert await stepper.count_tasks.remote() == 2


class Unready:
    """Has one of its methods later."""

    def __init__(self) -> None:
        self.is_ready = False

    def __getattribute__(self, name: str) -> Any:
        if name == "quick" and not self.is_ready:
            raise RuntimeError("not yet")
        return super().__getattribute__(name)

    async def prepare(self) -> None:
        self.is_ready = True

    async def quick(self, number: int) -> int:
        return number


async def test_method_when_the_object_fails_to_give_it_then_its_call_fails_alone() -> (
    None
):
    actor: Any = actorlib.remote(Unready).remote()

    failed, prepared = actor.quick.remote(1), actor.prepare.remote()

    assert isinstance(await raised(failed), RuntimeError)
    await prepared
    assert await actor.quick.remote(2) == 2
