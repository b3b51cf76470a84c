"""How many calls of an actor run at once, on what, and in which order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Echo,
    Gate,
    Log,
    MixedLog,
    Signal,
    Stop,
    end_of,
)
from helpers.calls import raised

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__]}


class Meeting(Log):
    """Where several threads wait for one another."""

    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 0:
            raise ValueError(f"nobody meets {size}")
        self._barrier = threading.Barrier(size)
        self._lock = threading.Lock()
        self._total = 0
        self.made_on = threading.current_thread().name

    def meet(self) -> str:
        self._barrier.wait()
        return threading.current_thread().name

    def add(self) -> int:
        with self._lock:
            self._total += 1
            return self._total

    def threads(self) -> tuple[str, str, int]:
        here = threading.current_thread().name
        return self.made_on, here, threading.active_count()

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def leave(self, code: int) -> None:
        sys.exit(code)


class Room:
    """Counts who is in it; async and plain."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.seen: list[str] = []
        self.opened = Signal()
        self.reached = Signal()

    async def visit(self, name: str = "") -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.seen.append(f"{name} in")
        self.reached.set()
        try:
            await self.opened.wait()
        finally:
            self.seen.append(f"{name} out")
            self.inside -= 1
        return name

    def glance(self, name: str) -> None:
        self.seen.append(name)

    @actorlib.method(concurrency_group="control")
    async def here(self) -> None:
        await self.reached.wait()

    @actorlib.method(concurrency_group="control")
    async def open(self) -> None:
        self.opened.set()

    @actorlib.method(concurrency_group="control")
    async def story(self) -> tuple[int, list[str]]:
        return self.most, list(self.seen)


def room(**options: Any) -> Any:
    groups = {"control": 100, **options.pop("groups", {})}
    return actorlib.remote(concurrency_groups=groups, **options)(Room).remote()


def threaded(size: int = 2, cls: Any = Log, *args: Any, **options: Any) -> Any:
    return actorlib.remote(max_concurrency=size, **options)(cls).remote(*args)


# Threads.


async def test_calls_that_wait_for_one_another_finish() -> None:
    meeting = threaded(3, Meeting, 3)
    names = await asyncio.gather(*(meeting.meet.remote() for _ in range(3)))
    assert len(set(names)) == 3


async def test_one_more_than_the_limit_waits(stop: Stop) -> None:
    log = threaded(2)
    refs = [log.stop.remote(stop.place, number) for number in range(3)]
    await stop.reached()
    await stop.reached()
    assert not any(ref.done() for ref in refs)
    stop.release()
    await stop.reached()
    stop.release()
    stop.release()
    assert await asyncio.gather(*refs) == [0, 1, 2]


@pytest.mark.process
async def test_threads_are_made_when_they_are_needed_and_kept() -> None:
    # No more than two: the first may not have laid its call down when the next come.
    meeting = threaded(2, Meeting, 2)
    made_on, first, count = await meeting.threads.remote()
    assert made_on == "MainThread"
    assert first != "MainThread"
    assert count == 2
    both = await asyncio.gather(meeting.meet.remote(), meeting.meet.remote())
    assert first in both
    await asyncio.gather(*(meeting.add.remote() for _ in range(1000)))
    assert (await meeting.threads.remote())[2] <= 4


async def test_calls_start_in_the_order_in_which_they_came(stop: Stop) -> None:
    log = threaded(2)
    held = [log.stop.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()
    refs = [log.note.remote(number) for number in range(500)]
    stop.release()  # one thread goes on, and runs them all
    assert await asyncio.gather(*refs) == list(range(500))
    stop.release()
    await asyncio.gather(*held)
    assert [n for n in await log.seen.remote() if n != "held"] == list(range(500))


async def test_every_call_runs_once() -> None:
    meeting = threaded(4, Meeting, 1)
    numbers = await asyncio.gather(*(meeting.add.remote() for _ in range(3000)))
    assert sorted(numbers) == list(range(1, 3001))


@pytest.mark.process
async def test_a_plain_actor_is_on_one_thread() -> None:
    for options in ({}, {"max_concurrency": 1}, {"max_concurrency": 0}):
        meeting = actorlib.remote(num_cpus=0, **options)(Meeting).remote(1)
        for _ in range(3):
            assert (await meeting.threads.remote())[:2] == ("MainThread", "MainThread")


async def test_a_method_that_raises_leaves_its_thread_to_others() -> None:
    meeting = threaded(2, Meeting, 1)

    def fail() -> None:
        raise ValueError("mine")

    for _ in range(5):
        error = await raised(meeting.run.remote(fail))
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)
    assert await meeting.add.remote() == 1


async def test_a_constructor_that_raises_on_a_threaded_actor() -> None:
    actor = threaded(2, Meeting, -1)
    error = await raised(actor.add.remote())
    assert isinstance(error, ActorDiedError)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("others", [0, 1])
async def test_leaving_ends_a_threaded_actor(others: int, stop: Stop) -> None:
    meeting = threaded(2, Meeting, 1)
    running = [meeting.stop.remote(stop.place) for _ in range(others)]
    for _ in running:
        await stop.reached()
    error = await raised(meeting.leave.remote(7))
    assert isinstance(error, ActorDiedError)
    assert error.exit.code == 7
    for ref in running:
        assert isinstance(await raised(ref), ActorDiedError)
    assert isinstance(await raised(meeting.add.remote()), ActorDiedError)


async def test_a_threaded_actor_that_is_killed_fails_every_call(
    stop: Stop,
) -> None:
    meeting = threaded(2, Meeting, 3)
    refs = [meeting.meet.remote(), meeting.stop.remote(stop.place)]
    refs += [meeting.add.remote() for _ in range(10)]
    await stop.reached()
    await actorlib.kill(meeting)
    for ref in refs:
        assert isinstance(await raised(ref), ActorDiedError)


async def test_sigkill_while_threads_run(stop: Stop) -> None:
    meeting = threaded(3, Meeting, 2)
    pid = await meeting.run.remote(os.getpid)
    refs = [meeting.meet.remote(), meeting.stop.remote(stop.place)]
    await stop.reached()
    os.kill(pid, signal.SIGKILL)
    for ref in refs:
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert error.exit.signal == signal.SIGKILL


async def test_an_unheld_threaded_actor_finishes_what_it_was_sent(stop: Stop) -> None:
    log = threaded(2)
    refs = [log.stop.remote(stop.place, number) for number in range(4)]
    ended = end_of(log)
    del log
    for _ in range(4):
        await stop.reached()
        stop.release()
    assert await asyncio.gather(*refs) == [0, 1, 2, 3]
    await ended


async def test_a_threaded_actor_that_is_stopped_answers_what_waits() -> None:
    # Its threads wait for another actor while the main one waits for them.
    gate = Gate.remote()
    async with threaded(2, Meeting, 1) as meeting:

        def ask(gate: Any, name: str) -> Any:
            return actorlib.get(gate.wait.remote(name))

        refs = [meeting.run.remote(ask, gate, f"{n}") for n in range(4)]
        await gate.reached.remote("1")
        await asyncio.gather(*(gate.open.remote(f"{n}") for n in range(4)))
    assert await asyncio.gather(*refs) == ["0", "1", "2", "3"]


async def test_threads_call_other_actors_at_the_same_time() -> None:
    echo, gate = Echo.remote(), Gate.remote()
    meeting = threaded(4, Meeting, 1)

    def ask(echo: Any, number: int) -> list[int]:
        return actorlib.get([echo.echo.remote(number + n) for n in range(50)])

    def wait(gate: Any) -> str:
        return actorlib.get(gate.wait.remote("here"))

    waiting = meeting.run.remote(wait, gate)
    await gate.reached.remote("here")
    refs = [meeting.run.remote(ask, echo, n * 50) for n in range(40)]
    for n, numbers in enumerate(await asyncio.gather(*refs)):
        assert numbers == list(range(n * 50, n * 50 + 50))
    assert not waiting.done()
    await gate.open.remote("here")
    assert await waiting == "here"


async def test_a_thread_gives_up_waiting_in_time() -> None:
    gate, meeting = Gate.remote(), threaded(2, Meeting, 1)

    def ask(gate: Any) -> str:
        try:
            actorlib.get(gate.wait.remote(), timeout=0.01)
        except GetTimeoutError:
            return "too late"
        return "in time"

    assert await meeting.run.remote(ask, gate) == "too late"
    await gate.open.remote()


async def test_handles_that_threads_let_go_are_given_back() -> None:
    meeting = threaded(3, Meeting, 1)

    def use(echo: Any) -> int:
        return actorlib.get(echo.echo.remote(1))

    for _ in range(5):
        echo = Echo.remote()
        ended = end_of(echo)
        refs = [meeting.run.remote(use, echo) for _ in range(3)]
        assert await asyncio.gather(*refs) == [1, 1, 1]
        del echo
        await ended


# Cancelling.


async def test_a_call_that_waits_for_a_thread_never_runs(stop: Stop) -> None:
    log = threaded(2, concurrency_groups={"control": 1})
    held = [log.stop.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()
    refs = [log.note.remote(number) for number in range(2500)]
    assert all(ref.cancel() for ref in refs)
    behind = log.note.remote("behind")
    for ref in refs:
        assert isinstance(await raised(ref), TaskCancelledError)
    # What was sent before has been read when this is answered.
    assert len(await log.seen.options(concurrency_group="control").remote()) == 2
    stop.release()
    assert await behind == "behind"
    stop.release()
    await asyncio.gather(*held)
    assert await log.seen.remote() == ["held", "held", "behind"]


async def test_a_running_threaded_method_is_not_interrupted(
    stop: Stop,
) -> None:
    log = threaded(2)
    running = log.stop.remote(stop.place, "ran")
    await stop.reached()
    running.cancel()
    assert isinstance(await raised(running), TaskCancelledError)
    assert await log.note.remote("next") == "next"
    stop.release()
    assert await log.seen.remote() == ["ran", "next"]
    again = [log.note.remote(number) for number in range(10)]
    assert await asyncio.gather(*again) == list(range(10))


async def test_a_call_that_waits_for_a_coroutine_never_begins() -> None:
    place = room(max_concurrency=1)
    first = place.visit.remote("first")
    await place.here.remote()
    refs = [place.visit.remote(f"{number}") for number in range(1000)]
    last = place.visit.remote("last")
    assert all(ref.cancel() for ref in refs)
    await place.open.remote()
    assert await first == "first"
    assert await last == "last"
    assert await place.story.remote() == (
        1,
        ["first in", "first out", "last in", "last out"],
    )


async def test_a_cancelled_coroutine_leaves_its_place_to_the_next() -> None:
    place = room(max_concurrency=1)
    first, second = place.visit.remote("first"), place.visit.remote("second")
    await place.here.remote()
    first.cancel()
    await place.open.remote()
    assert await second == "second"
    seen = (await place.story.remote())[1]
    assert seen == ["first in", "first out", "second in", "second out"]


# Coroutines.


async def test_one_at_a_time_starts_none_before_the_last_has_ended() -> None:
    place = room(max_concurrency=1)
    refs = [
        place.visit.remote("a"),
        place.glance.remote("b"),
        place.visit.remote("c"),
        place.glance.remote("d"),
    ]
    await place.here.remote()
    assert (await place.story.remote())[1] == ["a in"]
    await place.open.remote()
    await asyncio.gather(*refs)
    seen = (await place.story.remote())[1]
    assert seen == ["a in", "a out", "b", "c in", "c out", "d"]


async def test_never_more_coroutines_than_the_limit() -> None:
    place = room(max_concurrency=3)
    refs = [place.visit.remote(f"{number}") for number in range(500)]
    await place.here.remote()
    await place.open.remote()
    assert await asyncio.gather(*refs) == [f"{number}" for number in range(500)]
    most, seen = await place.story.remote()
    assert most == 3
    begun = [entry for entry in seen if entry.endswith(" in")]
    assert begun == [f"{number} in" for number in range(500)]


async def test_by_default_a_thousand_run_and_the_next_waits() -> None:
    gate = Gate.remote()
    waiting = [gate.wait.remote("all") for _ in range(1000)]
    behind = gate.open.remote("other")
    # A plain method would not wait with it; every coroutine does.
    echo = Echo.remote()
    await echo.echo.remote(None)
    assert not behind.done()
    waiting.pop().cancel()
    await behind
    for ref in waiting:
        ref.cancel()


async def test_more_coroutines_than_the_recursion_limit() -> None:
    count = 4 * sys.getrecursionlimit()
    gate = actorlib.remote(max_concurrency=count + 2)(Gate.__wrapped__).remote()
    refs = [gate.wait.remote() for _ in range(count)]
    await gate.reached.remote()
    await gate.open.remote()
    assert await asyncio.gather(*refs) == [""] * count


async def test_a_limited_actor_that_is_ended_runs_what_waits() -> None:
    async with room(max_concurrency=2) as place:
        refs = [place.visit.remote(f"{n}") for n in range(50)]
        refs += [place.glance.remote(f"{n}") for n in range(50)]
        await place.open.remote()
    assert (await asyncio.gather(*refs))[:50] == [f"{n}" for n in range(50)]


async def test_a_limited_actor_that_fails_leaves_its_places() -> None:
    echo = actorlib.remote(max_concurrency=2)(AsyncCaller.__wrapped__).remote()

    async def fail() -> None:
        raise ValueError("mine")

    refs = [echo.run.remote(fail) for _ in range(20)]
    for ref in refs:
        assert isinstance(await raised(ref), ValueError)


# Groups.


class Grouped:
    """Methods in two groups and in none."""

    def __init__(self) -> None:
        self._seen: list[str] = []

    @actorlib.method(concurrency_group="io")
    def read(self, place: Any, name: str) -> str:
        place.stop_here()
        return name

    @actorlib.method(concurrency_group="compute")
    def add(self, a: int, b: int) -> int:
        return a + b

    def plain(self) -> str:
        return "plain"

    @actorlib.method(concurrency_group="io")
    def leave(self, code: int) -> None:
        sys.exit(code)

    @actorlib.method(concurrency_group="one")
    def mark(self, mark: str | None = None) -> list[str | None]:
        """What this thread was marked with, and its name; the mark stays there."""
        if mark is not None:
            _local.mark = mark
        return [getattr(_local, "mark", None), threading.current_thread().name]

    @actorlib.method(concurrency_group="one")
    def items(self, number: int) -> Any:
        """The name of this thread, so often."""
        for _ in range(number):
            yield threading.current_thread().name

    def fail(self) -> None:
        raise ValueError("mine")


_local = threading.local()


class MixedGrouped(Grouped):
    """The same in an actor with a loop: none of the groups has a coroutine."""

    async def wait(self) -> None:
        await asyncio.Event().wait()


class AsyncGrouped:
    """The same with coroutines."""

    def __init__(self) -> None:
        self._inside: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._opened = Signal()
        # Each group has a thread of its own.
        self._lock = threading.Lock()
        self._entered = threading.Semaphore(0)

    async def _stay(self, group: str) -> str:
        with self._lock:
            inside = self._inside[group] = self._inside.get(group, 0) + 1
            self._most[group] = max(inside, self._most.get(group, 0))
        self._entered.release()
        await self._opened.wait()
        with self._lock:
            self._inside[group] -= 1
        return group

    @actorlib.method(concurrency_group="io")
    async def read(self) -> str:
        return await self._stay("io")

    @actorlib.method(concurrency_group="compute")
    async def add(self) -> str:
        return await self._stay("compute")

    async def plain(self) -> str:
        return await self._stay("default")

    @actorlib.method(concurrency_group="control")
    def entered(self, number: int) -> None:
        """Returns when so many calls have begun."""
        for _ in range(number):
            self._entered.acquire()

    @actorlib.method(concurrency_group="control")
    async def open(self) -> None:
        self._opened.set()

    @actorlib.method(concurrency_group="control")
    async def most(self) -> dict[str, int]:
        return self._most


GROUPS = {"io": 2, "compute": 4}
PLAIN_GROUPS = {**GROUPS, "one": 1, "other": 1}


def grouped(cls: Any = Grouped, **options: Any) -> Any:
    return actorlib.remote(concurrency_groups=PLAIN_GROUPS, **options)(cls).remote()


plain_and_mixed = pytest.mark.parametrize("cls", [Grouped, MixedGrouped])


@plain_and_mixed
async def test_a_full_group_holds_up_no_other(cls: Any, stop: Stop) -> None:
    actor = grouped(cls)
    refs = [actor.read.remote(stop.place, f"{number}") for number in range(3)]
    await stop.reached()
    await stop.reached()
    assert await actor.add.remote(1, 2) == 3
    assert await actor.plain.remote() == "plain"
    assert not any(ref.done() for ref in refs)
    stop.release()
    await stop.reached()
    stop.release()
    stop.release()
    assert await asyncio.gather(*refs) == ["0", "1", "2"]


@plain_and_mixed
async def test_the_threads_of_a_group_are_its_own_and_stay(cls: Any) -> None:
    actor = grouped(cls)
    other = actor.mark.options(concurrency_group="other")
    many = actor.mark.options(concurrency_group="compute")

    [_, name] = await actor.mark.remote("one")
    await other.remote("other")
    await asyncio.gather(*(many.remote("many") for _ in range(100)))

    assert await actor.mark.remote() == ["one", name]
    assert (await other.remote())[0] == "other"
    assert name != (await other.remote())[1]
    threads = {tuple(told) for told in await many.map([None] * 20, chunksize=1)}
    assert {mark for mark, _ in threads} == {"many"}
    assert len(threads) <= GROUPS["compute"]
    items = actor.items.options(backpressure=1).remote(3)
    assert {await ref async for ref in items} == {name}
    assert isinstance(await raised(actor.fail.remote()), ValueError)


@plain_and_mixed
async def test_an_actor_ends_behind_the_calls_of_its_groups(
    cls: Any, stop: Stop
) -> None:
    async with grouped(cls) as actor:
        ref = actor.read.remote(stop.place, "read")
        waiting = [actor.mark.remote() for _ in range(10)]
        await stop.reached()
        asyncio.get_running_loop().call_soon(stop.release)

    assert await ref == "read"
    await asyncio.gather(*waiting)


@plain_and_mixed
async def test_leaving_by_a_group_s_thread_ends_the_actor(cls: Any) -> None:
    actor = grouped(cls)

    error = await raised(actor.leave.remote(3))

    assert isinstance(error, ActorDiedError)
    assert error.exit.code == 3


@plain_and_mixed
async def test_a_call_that_waits_for_its_group_never_runs(cls: Any, stop: Stop) -> None:
    actor = grouped(cls)
    held = [actor.read.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()
    waiting = actor.read.remote(stop.place, "never")
    waiting.cancel()
    assert isinstance(await raised(waiting), TaskCancelledError)
    assert await actor.add.remote(1, 2) == 3
    for _ in held:
        stop.release()

    assert await asyncio.gather(*held) == ["held", "held"]
    assert await actor.plain.remote() == "plain"


@pytest.mark.process
async def test_each_group_has_its_own_limit() -> None:
    groups = {**GROUPS, "control": 1}
    made = actorlib.remote(concurrency_groups=groups, max_concurrency=3)(AsyncGrouped)
    actor = made.remote()
    methods = [actor.read, actor.add, actor.plain]
    refs = [method.remote() for method in methods for _ in range(20)]
    await actor.entered.remote(9)
    await actor.open.remote()
    await asyncio.gather(*refs)
    assert await actor.most.remote() == {"io": 2, "compute": 4, "default": 3}


async def test_one_call_in_another_group(stop: Stop) -> None:
    actor = grouped()
    held = [actor.read.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()
    moved = actor.read.options(concurrency_group="compute")
    other = moved.remote(stop.place, "moved")
    await stop.reached()
    assert "Grouped.read" in repr(moved)
    waiting = actor.read.remote(stop.place, "waiting")
    for _ in range(3):
        stop.release()
    await stop.reached()
    stop.release()
    assert await asyncio.gather(*held, other, waiting) == [
        "held",
        "held",
        "moved",
        "waiting",
    ]


@pytest.mark.parametrize("caller", [Caller, AsyncCaller])
async def test_a_worker_moves_a_call_and_passes_the_method_on(
    caller: Any, stop: Stop
) -> None:
    actor = grouped()
    held = [actor.read.remote(stop.place, "held") for _ in range(2)]
    await stop.reached()
    await stop.reached()

    async def there(actor: Any, place: Any) -> Any:
        return await actor.read.options(concurrency_group="compute").remote(place, "b")

    def here(actor: Any, place: Any) -> Any:
        moved = actor.read.options(concurrency_group="compute")
        return actorlib.get(moved.remote(place, "b"))

    def passed(method: Any, place: Any) -> Any:
        return actorlib.get(method.remote(place, "c"))

    run = there if caller is AsyncCaller else here
    asked = caller.remote().run.remote(run, actor, stop.place)
    await stop.reached()
    method = actor.read.options(concurrency_group="compute")
    other = Caller.remote().run.remote(passed, method, stop.place)
    await stop.reached()
    for _ in range(4):
        stop.release()
    assert await asked == "b"
    assert await other == "c"
    await asyncio.gather(*held)


async def test_an_async_call_in_another_group() -> None:
    groups = {**GROUPS, "control": 1}
    actor = actorlib.remote(concurrency_groups=groups)(AsyncGrouped).remote()
    refs = [actor.read.remote() for _ in range(2)]
    refs += [actor.read.options(concurrency_group="compute").remote() for _ in range(9)]
    await actor.entered.remote(6)
    await actor.open.remote()
    await asyncio.gather(*refs)
    assert (await actor.most.remote())["io"] == 6


async def test_an_undefined_group_of_a_call_is_named_with_the_others() -> None:
    actor = grouped()
    with pytest.raises(ValueError, match=r"'nope'.*'io', 'compute'"):
        actor.add.options(concurrency_group="nope")
    assert await actor.add.remote(1, 2) == 3


async def test_groups_of_one_class_may_be_changed_by_options() -> None:
    made = actorlib.remote(concurrency_groups=GROUPS)(Meeting)
    one = made.options(concurrency_groups={"other": 2}).remote(2)
    meet = one.meet.options(concurrency_group="other")
    assert len(set(await asyncio.gather(meet.remote(), meet.remote()))) == 2


# Order.


def many() -> Any:
    plain = actorlib.remote(max_concurrency=2)(Log)
    passing = actorlib.remote(allow_out_of_order_execution=True)(Log)
    return pytest.mark.parametrize(
        "log_class",
        [plain, actorlib.remote(MixedLog), passing],
        ids=["threaded", "async", "allowed"],
    )


@many()
async def test_a_slow_argument_holds_up_no_later_call(log_class: Any) -> None:
    gate, log = Gate.remote(), log_class.remote()
    slow = gate.wait.remote("slow")
    waiting = log.note.remote(slow)
    assert await log.note.remote("quick") == "quick"
    assert not waiting.done()
    await gate.open.remote("slow")
    assert await waiting == "slow"
    assert await log.seen.remote() == ["quick", "slow"]


@many()
@pytest.mark.parametrize("caller", [Caller, AsyncCaller])
async def test_nor_that_of_another_actor(log_class: Any, caller: Any) -> None:
    gate, log = Gate.remote(), log_class.remote()

    def ask(gate: Any, log: Any) -> Any:
        waiting = log.note.remote(gate.wait.remote("slow"))
        quick = log.note.remote("quick").get()
        actorlib.get(gate.open.remote("slow"))
        return quick, waiting.get()

    async def ask_later(gate: Any, log: Any) -> Any:
        waiting = log.note.remote(gate.wait.remote("slow"))
        quick = await log.note.remote("quick")
        await gate.open.remote("slow")
        return quick, await waiting

    run = ask_later if caller is AsyncCaller else ask
    answer = await caller.remote().run.remote(run, gate, log)
    assert answer == ("quick", "slow")


async def test_a_worker_ends_an_actor_behind_the_calls_that_others_passed() -> None:
    gate, log = Gate.remote(), actorlib.remote(MixedLog).remote()

    async def ask(gate: Any, log: Any) -> Any:
        waiting = log.note.remote(gate.wait.remote("slow"))
        opened = gate.open.remote("slow")
        async with log:
            await opened
        return await waiting

    assert await AsyncCaller.remote().run.remote(ask, gate, log) == "slow"


async def test_cancelled_while_it_waits_for_its_argument() -> None:
    gate, log = Gate.remote(), threaded(2)
    waiting = [log.note.remote(gate.wait.remote("slow")) for _ in range(10)]
    waiting[3].cancel()
    await gate.open.remote("slow")
    assert len(await asyncio.gather(*waiting, return_exceptions=True)) == 10
    assert await log.seen.remote() == ["slow"] * 9


# From several threads, and blocking.


@pytest.mark.parametrize("size", [1, 3])
async def test_background_threads_call_and_get(size: int) -> None:
    echo = Echo.remote()

    def start(echo: Any) -> list[int]:
        found: list[int] = []

        def ask(number: int) -> None:
            found.extend(echo.echo.remote(number).get() for _ in range(50))

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    expected = sorted([n for n in range(4) for _ in range(50)])
    actor = threaded(size, Meeting, 1)
    assert await actor.run.remote(start, echo) == expected
    assert await Caller.remote().run.remote(start, echo) == expected


@pytest.mark.parametrize("kind", ["plain", "threaded", "async"])
async def test_a_thread_goes_on_after_its_method(kind: str) -> None:
    keeper, echo = Gate.remote(), Echo.remote()

    def start(echo: Any, gate: Any) -> None:
        def ask() -> None:
            for number in range(200):
                assert echo.echo.remote(number).get() == number
            gate.open.remote("done").get()

        threading.Thread(target=ask).start()

    actor: Any = Caller.remote()
    if kind == "threaded":
        actor = threaded(2, Meeting, 1)
    if kind == "async":
        actor = AsyncCaller.remote()
    await actor.run.remote(start, echo, keeper)
    # The actor is idle: nothing wakes it but the answers to its thread.
    assert await keeper.wait.remote("done") == "done"


def _begin_at_once(loop: Any, work: Any, *, context: Any = None, **_: Any) -> Any:
    # As asyncio's own, which in 3.13.0 refuses options that newer uvloops give it.
    return asyncio.Task(work, loop=loop, context=context, eager_start=True)


@actorlib.remote(max_concurrency=2)
class Eager:
    """Its loop begins a task where it is made."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_task_factory(_begin_at_once)

    async def echo(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise LookupError("at once")

    async def count(self, number: int) -> Any:
        for value in range(number):
            yield value


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are newer")
async def test_async_actor_when_its_tasks_are_eager_then_calls_are_answered() -> None:
    actor = Eager.remote()
    refs = [actor.echo.remote(number) for number in range(2_000)]

    assert await asyncio.gather(*refs) == list(range(2_000))
    assert isinstance(await raised(actor.fail.remote()), LookupError)
    assert [await item async for item in actor.count.remote(9)] == list(range(9))
    unwanted = actor.echo.remote(1)
    unwanted.cancel()
    assert await actor.echo.remote(2) == 2


async def test_a_blocking_get_in_an_async_method_works_and_warns_once() -> None:
    async def ask(echo: Any, gate: Any) -> Any:
        seen: list[str] = []

        class Seen(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                seen.append(record.getMessage())

        logging.getLogger("actorlib").addHandler(Seen())
        one = actorlib.get(echo.echo.remote(1))
        big = actorlib.get(echo.echo.remote(bytes(3_000_000)))
        # Its argument is an answer that the loop has no time to tell of.
        passed = actorlib.get(echo.echo.remote(echo.echo.remote("x")))
        waiting = gate.wait.remote()
        try:
            waiting.get(timeout=0.01)
        except GetTimeoutError:
            seen.append("late")
        gate.open.remote()
        return one, len(big), passed, await waiting, seen

    asked = AsyncCaller.remote().run.remote(ask, Echo.remote(), Gate.remote())
    one, size, passed, waited, seen = await asked
    assert (one, size, passed, waited) == (1, 3_000_000, "x", "")
    assert seen[1:] == ["late"]
    assert "blocks the event loop" in seen[0]


async def test_a_blocking_get_takes_calls_that_come_meanwhile() -> None:
    gate, caller = Gate.remote(), AsyncCaller.remote()

    async def ask(gate: Any) -> str:
        return actorlib.get(gate.wait.remote("here"))

    async def quick() -> str:
        return "quick"

    asked = caller.run.remote(ask, gate)
    await gate.reached.remote("here")
    behind = [caller.run.remote(quick) for _ in range(100)]
    await gate.open.remote("here")
    assert await asked == "here"
    assert await asyncio.gather(*behind) == ["quick"] * 100


async def test_a_blocked_loop_learns_of_a_dead_actor() -> None:
    gate, caller = Gate.remote(), AsyncCaller.remote()

    async def ask(gate: Any) -> str:
        try:
            actorlib.get(gate.wait.remote("here"))
        except ActorDiedError:
            return "dead"
        return ""

    asked = caller.run.remote(ask, gate)
    await gate.reached.remote("here")
    await actorlib.kill(gate)
    assert await asked == "dead"


# Futures for threads.


async def test_a_ref_is_a_future_for_threads() -> None:
    echo = Echo.remote()
    futures = [echo.echo.remote(number).future() for number in range(10)]
    assert all(isinstance(f, concurrent.futures.Future) for f in futures)

    def collect() -> list[int]:
        done = concurrent.futures.as_completed(futures)
        return sorted(future.result() for future in done)

    assert await asyncio.to_thread(collect) == list(range(10))
    assert await asyncio.wrap_future(echo.echo.remote("x").future()) == "x"
    done = echo.echo.remote("y")
    assert await done == "y"
    assert await asyncio.wrap_future(done.future()) == "y"


async def test_errors_and_cancellations_arrive_in_it() -> None:
    echo, gate = Echo.remote(), Gate.remote()
    failed = echo.fail.remote(ValueError("mine")).future()
    assert isinstance(await raised(asyncio.wrap_future(failed)), ValueError)
    ref = gate.wait.remote()
    future, other = ref.future(), ref.future()
    assert other.cancel()
    assert not ref.done()
    ref.cancel()
    error = await raised(asyncio.wrap_future(future))
    assert isinstance(error, TaskCancelledError)


@pytest.mark.process
@pytest.mark.parametrize("size", [1, 2])
async def test_in_an_actor(size: int) -> None:
    def collect(echo: Any) -> list[int]:
        futures = [echo.echo.remote(number).future() for number in range(10)]
        if threading.current_thread() is threading.main_thread():
            # Nobody reads while this thread waits for something else.
            actorlib.get(echo.echo.remote(None))
        done = concurrent.futures.as_completed(futures)
        return sorted(future.result() for future in done)

    actor = threaded(size, Meeting, 1)
    assert await actor.run.remote(collect, Echo.remote()) == list(range(10))


# How many calls may be without an answer.


def limited(limit: int | None, cls: Any = Log) -> Any:
    return actorlib.remote(max_pending_calls=limit)(cls).remote()


async def test_one_call_too_many_is_refused_at_once(stop: Stop) -> None:
    log = limited(10)
    refs = [log.stop.remote(stop.place)] + [log.note.remote(n) for n in range(9)]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls=10") as full:
        log.note.remote(10)
    assert full.value.limit == 10
    await stop.reached()
    with pytest.raises(PendingCallsLimitExceeded):
        log.seen.remote()
    stop.release()
    await asyncio.gather(*refs)
    assert await asyncio.gather(*(log.note.remote(n) for n in range(10))) == [
        *range(10)
    ]


async def test_failed_cancelled_and_refused_calls_count_no_more(
    stop: Stop,
) -> None:
    log = limited(2)
    running = log.stop.remote(stop.place)
    await stop.reached()
    for _ in range(5):
        with pytest.raises(TypeError):
            log.note.remote()
        with pytest.raises(TypeError):
            log.note.remote(threading.Lock())
    waiting = log.note.remote(1)
    with pytest.raises(PendingCallsLimitExceeded):
        log.note.remote(2)
    waiting.cancel()
    assert isinstance(await raised(waiting), TaskCancelledError)
    waiting = log.note.remote(3)
    await actorlib.kill(log)
    for ref in (running, waiting):
        assert isinstance(await raised(ref), ActorDiedError)
    assert isinstance(await raised(log.note.remote(1)), ActorDiedError)


@pytest.mark.parametrize("caller", [Caller, AsyncCaller])
async def test_each_process_has_a_count_of_its_own(caller: Any, stop: Stop) -> None:
    log = limited(2)
    refs = [log.stop.remote(stop.place), log.note.remote(1)]

    def ask(log: Any) -> str:
        kept = [log.note.remote("theirs") for _ in range(2)]
        try:
            log.note.remote("too many")
        except PendingCallsLimitExceeded as error:
            return f"{error.limit} {len(kept)}"
        return ""

    assert await caller.remote().run.remote(ask, log) == "2 2"
    with pytest.raises(PendingCallsLimitExceeded):
        log.note.remote(2)
    await stop.reached()
    stop.release()
    await asyncio.gather(*refs)


@pytest.mark.parametrize("caller", [Caller, AsyncCaller])
async def test_a_worker_may_call_again_after_an_answer(caller: Any) -> None:
    def ask(log: Any) -> list[int]:
        return [log.note.remote(number).get() for number in range(50)]

    async def ask_later(log: Any) -> list[int]:
        return [await log.note.remote(number) for number in range(50)]

    run = ask_later if caller is AsyncCaller else ask
    assert await caller.remote().run.remote(run, limited(1)) == list(range(50))


@pytest.mark.parametrize("limit", [None, 0, -1])
async def test_thousands_are_accepted_without_a_limit(limit: Any) -> None:
    log = limited(limit)
    refs = [log.note.remote(number) for number in range(6000)]
    assert await asyncio.gather(*refs) == list(range(6000))
