from __future__ import annotations

import asyncio
import enum
import gc
import math
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Keeper,
    Log,
    MixedLog,
    Stop,
)
from helpers.calls import raised

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError, TaskError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


def logs() -> Any:
    kinds = [actorlib.remote(Log), actorlib.remote(MixedLog)]
    return pytest.mark.parametrize("log_class", kinds, ids=["serial", "mixed"])


async def arrived() -> None:
    """Waits until what was sent lies in the worker's socket, or was read there."""
    await asyncio.sleep(0)  # what a turn of the loop gathers leaves at its end
    await asyncio.sleep(0)


# Order.


@logs()
async def test_calls_of_one_caller_run_in_order(log_class: Any) -> None:
    log = log_class.remote()
    refs = [log.note.remote(number) for number in range(10_000)]
    assert await asyncio.gather(*refs) == list(range(10_000))
    assert await log.seen.remote() == list(range(10_000))


@logs()
async def test_a_plain_method_runs_alone(log_class: Any, stop: Stop) -> None:
    log = log_class.remote()
    first = log.stop.remote(stop.place, "first")
    second = log.note.remote("second")
    await stop.reached()
    assert not first.done()
    assert not second.done()
    stop.release()
    assert await second == "second"
    assert first.done()
    assert await log.seen.remote() == ["first", "second"]


@logs()
async def test_calls_before_readiness_run_in_order(log_class: Any, stop: Stop) -> None:
    log = log_class.remote(stop.place)
    early = [log.note.remote(number) for number in range(100)]
    await stop.reached()
    early += [log.note.remote(number) for number in range(100, 200)]
    stop.release()
    late = log.note.remote(200)
    assert await asyncio.gather(*early, late) == list(range(201))
    assert await log.seen.remote() == list(range(201))


async def test_order_holds_across_sizes() -> None:
    log = actorlib.remote(Log).remote()
    values = [bytes(size) for size in (0, 1, 70_000, 3, 2_000_000, 5, 65_536, 7)]
    refs = [log.note.remote(value) for value in values]
    assert await asyncio.gather(*refs) == values
    assert await log.seen.remote() == values


async def test_calls_of_several_callers_each_keep_their_order() -> None:
    log = actorlib.remote(Log).remote()

    def call(log: Any, name: str) -> None:
        actorlib.get([log.note.remote((name, number)) for number in range(300)])

    callers = [Caller.remote(), Caller.remote(), AsyncCaller.remote()]

    async def call_later(log: Any, name: str) -> None:
        await asyncio.gather(*(log.note.remote((name, n)) for n in range(300)))

    own = [log.note.remote(("own", number)) for number in range(300)]
    await asyncio.gather(
        callers[0].run.remote(call, log, "a"),
        callers[1].run.remote(call, log, "b"),
        callers[2].run.remote(call_later, log, "c"),
        *own,
    )
    seen = await log.seen.remote()
    for name in ("a", "b", "c", "own"):
        assert [n for who, n in seen if who == name] == list(range(300))


# Async methods.


async def test_async_calls_interleave_at_awaits() -> None:
    @actorlib.remote
    class Meeting:
        def __init__(self, size: int) -> None:
            self._size = size
            self._here = 0
            self._all = asyncio.Event()

        async def join(self) -> int:
            self._here += 1
            if self._here == self._size:
                self._all.set()
            await self._all.wait()
            return self._here

    meeting = Meeting.remote(3)
    assert await asyncio.gather(*(meeting.join.remote() for _ in range(3))) == [3] * 3


async def test_1000_async_calls_at_once() -> None:
    gate = Gate.remote()
    waiting = [gate.wait.remote("all") for _ in range(999)]
    await gate.reached.remote("all")  # the thousandth
    assert not any(ref.done() for ref in waiting)
    await gate.open.remote("all")
    assert await asyncio.gather(*waiting) == ["all"] * 999


async def test_async_calls_start_in_order() -> None:
    log = actorlib.remote(MixedLog).remote()
    refs = [log.note_later.remote(number) for number in range(1000)]
    assert await asyncio.gather(*refs) == list(range(1000))
    assert await log.seen_now.remote() == list(range(1000))


async def test_a_plain_method_blocks_async_ones_until_it_ends(stop: Stop) -> None:
    log = actorlib.remote(MixedLog).remote()
    blocked = log.stop.remote(stop.place, "blocked")
    await stop.reached()
    behind = log.note_later.remote("behind")
    stop.release()
    assert await asyncio.gather(blocked, behind) == ["blocked", "behind"]
    assert await log.seen_now.remote() == ["blocked", "behind"]


@pytest.mark.process
@pytest.mark.parametrize("is_mixed", [False, True], ids=["serial", "mixed"])
async def test_constructor_and_all_methods_share_one_thread(*, is_mixed: bool) -> None:
    class Threaded:
        def __init__(self) -> None:
            self._local = threading.local()
            self._local.value = 1

        def value(self) -> int:
            self._local.value += 1
            return self._local.value

        def is_main(self) -> bool:
            return threading.current_thread() is threading.main_thread()

    class WithLoop(Threaded):
        async def is_here_too(self) -> bool:
            return hasattr(self._local, "value") and self.is_main()

    actor = actorlib.remote(WithLoop if is_mixed else Threaded).remote()
    assert await asyncio.gather(*(actor.value.remote() for _ in range(3))) == [2, 3, 4]
    assert await actor.is_main.remote()
    if is_mixed:
        assert await actor.is_here_too.remote()


async def test_a_constructor_may_use_what_belongs_to_the_loop() -> None:
    @actorlib.remote
    class Queued:
        def __init__(self) -> None:
            self._queue: asyncio.Queue[int] = asyncio.Queue()
            self._lock = asyncio.Lock()

        async def put(self, value: int) -> None:
            async with self._lock:
                await self._queue.put(value)

        async def take(self) -> int:
            return await self._queue.get()

    queued = Queued.remote()
    taken = queued.take.remote()
    await queued.put.remote(5)
    assert await taken == 5


async def test_an_async_method_s_own_tasks_go_on_after_it() -> None:
    @actorlib.remote
    class Background:
        def __init__(self) -> None:
            self._go = asyncio.Event()
            self._task: Any = None

        async def start(self) -> None:
            self._task = asyncio.create_task(self._work())

        async def _work(self) -> str:
            await self._go.wait()
            return "worked"

        async def finish(self) -> str:
            self._go.set()
            return await self._task

    background = Background.remote()
    await background.start.remote()
    assert await background.finish.remote() == "worked"


# Payloads.


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
async def test_bytes_and_text_of_every_size_are_equal_after_the_trip(size: int) -> None:
    echo = Echo.remote()
    data = bytes(i % 251 for i in range(size))
    for value in (data, bytearray(data), "é" * size, [data], {"k": data}, (data, data)):
        back = await echo.echo.remote(value)
        assert type(back) is type(value)
        assert back == value


async def test_arrays_are_equal_after_the_trip() -> None:
    echo = Echo.remote()
    for array in (
        np.arange(0),
        np.arange(10),
        np.arange(300_000, dtype=np.float32).reshape(3, -1),
        np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
        np.arange(400_000)[::3],
        np.array(["a", None, 1], dtype=object),
        np.float64(3.5),
    ):
        back = await echo.echo.remote(array)
        assert type(back) is type(array)
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert np.array_equal(back, array)
    mixed = {"a": np.ones(100_000), "b": [np.zeros(3), "text"], 3: (None,)}
    back = await echo.echo.remote(mixed)
    assert list(back) == ["a", "b", 3]
    assert np.array_equal(back["a"], mixed["a"])


@actorlib.remote
def zeros(*sizes: int) -> Iterator[Any]:
    for size in sizes:
        yield np.zeros(size)


async def test_array_when_it_is_an_item_then_it_is_read_only_whatever_its_size() -> (
    None
):
    sizes = [10, 10_000, 100_000]
    items = [await ref async for ref in zeros.remote(*sizes)]
    assert [item.size for item in items if not item.flags.writeable] == sizes


@pytest.mark.slow
async def test_100_megabytes_are_equal_after_the_trip() -> None:
    echo = Echo.remote()
    array = np.arange(100_000_000 // 8, dtype=np.int64)
    assert np.array_equal(await echo.echo.remote(array), array)


async def test_large_payloads_both_ways_at_once_do_not_lock_up() -> None:
    for echo in (Echo.remote(), AsyncCaller.remote()):
        method = echo.echo if "Echo" in repr(echo) else None
        values = [bytes([number]) * 3_000_000 for number in range(10)]
        if method is None:
            refs = [echo.run.remote(bytes, value) for value in values]
        else:
            refs = [method.remote(value) for value in values]
        assert await asyncio.gather(*refs) == values


async def test_many_small_calls_with_large_answers() -> None:
    caller = AsyncCaller.remote()
    refs = [caller.run.remote(bytes, 500_000) for _ in range(40)]
    assert {len(data) for data in await asyncio.gather(*refs)} == {500_000}


# What the standard library does with refs.


async def test_gather_and_wait_take_refs() -> None:
    counter = Counter.remote()
    refs = [counter.add.remote() for _ in range(5)]
    assert await asyncio.gather(*refs) == [1, 2, 3, 4, 5]
    more = [counter.add.remote() for _ in range(3)]
    done, pending = await asyncio.wait(more)
    assert (done, pending) == (set(more), set())
    assert sorted(ref.result() for ref in done) == [6, 7, 8]
    failed = counter.add.remote("text")
    results = await asyncio.gather(failed, counter.add.remote(), return_exceptions=True)
    assert isinstance(results[0], TypeError)
    assert results[1] == 9


async def test_wait_for_the_first() -> None:
    gate = Gate.remote()
    first, second = gate.wait.remote("first"), gate.wait.remote("second")
    await gate.open.remote("second")
    done, pending = await asyncio.wait(
        [first, second], return_when=asyncio.FIRST_COMPLETED
    )
    assert (done, pending) == ({second}, {first})
    done, pending = await asyncio.wait([first], timeout=0.001)
    assert pending == {first}
    await gate.open.remote("first")
    assert await first == "first"


async def test_as_completed_gives_refs_as_they_come() -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    got = []
    order = iter("bca")
    await gate.open.remote(next(order))
    for ref in asyncio.as_completed(refs):
        got.append(await ref)
        if len(got) < 3:
            await gate.open.remote(next(order))
    assert got == ["b", "c", "a"]


async def test_wait_for_gives_the_value_or_times_out() -> None:
    gate = Gate.remote()
    await gate.open.remote("open")
    assert await asyncio.wait_for(gate.wait.remote("open"), 10) == "open"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.wait.remote("shut"), 0.001)
    assert await asyncio.wait_for(gate.wait.remote("open"), 10) == "open"


async def test_a_task_group_over_refs() -> None:
    counter = Counter.remote()

    async def twice() -> int:
        return await counter.add.remote() + await counter.add.remote()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(twice()) for _ in range(2)]
    assert sum(task.result() for task in tasks) == 1 + 2 + 3 + 4


async def test_a_task_group_gives_up_the_others_when_one_fails() -> None:
    gate, echo = Gate.remote(), Echo.remote()

    async def wait() -> None:
        await gate.wait.remote("never")

    async def fail() -> None:
        await gate.reached.remote("never")
        await echo.fail.remote(ValueError("x"))

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            group.create_task(fail())

    error = await raised(together())
    assert isinstance(error, ExceptionGroup)
    assert isinstance(error.exceptions[0], ValueError)
    # The wait that was given up was the only one, so the call is over too.
    await gate.wait.remote("never")
    assert await gate.left.remote() == ["never"]


async def test_shield_and_callbacks_work_on_refs() -> None:
    counter = Counter.remote()
    ref = counter.add.remote()
    seen: list[Any] = []
    ref.add_done_callback(seen.append)
    assert await asyncio.shield(ref) == 1
    assert ref.done()
    assert ref.result() == 1
    assert ref.exception() is None
    assert seen == [ref]
    assert isinstance(ref, asyncio.Future)


async def test_many_tasks_await_one_ref_again_and_again() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")

    async def wait() -> str:
        return await ref

    waiters = [asyncio.create_task(wait()) for _ in range(10)]
    await gate.reached.remote("it")
    await gate.open.remote("it")
    assert await asyncio.gather(*waiters) == ["it"] * 10
    assert (await ref, await ref) == ("it", "it")


async def test_a_failed_ref_fails_every_wait() -> None:
    ref = Echo.remote().fail.remote(ValueError("x"))
    for _ in range(3):
        assert isinstance(await raised(ref), ValueError)


# Cancelling, and waits that are given up.


async def test_a_cancelled_wait_spoils_no_other() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")

    async def wait() -> str:
        return await ref

    first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
    await gate.reached.remote("it")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await gate.open.remote("it")
    assert await second == "it"
    assert await ref == "it"
    assert await gate.left.remote() == []


async def test_an_abandoned_wait_cancels_the_call() -> None:
    gate = Gate.remote()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await gate.reached.remote("other")
    task = asyncio.create_task(waited(gate, "it"))
    await gate.reached.remote("it")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gate.wait.remote("it")  # opened by the wait that was given up
    assert await gate.left.remote() == ["it"]


async def waited(gate: Any, name: str) -> str:
    return await gate.wait.remote(name)


async def test_a_held_ref_goes_on_after_a_wait_was_given_up() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")
    await gate.reached.remote("it")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref
    assert not ref.done()
    await gate.open.remote("it")
    assert await ref == "it"
    assert await gate.left.remote() == []


async def test_a_ref_dropped_after_its_wait_was_given_up_cancels_the_call() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")
    await gate.reached.remote("it")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref
    del ref
    gc.collect()
    await gate.wait.remote("it")
    assert await gate.left.remote() == ["it"]


async def test_a_ref_dropped_without_a_wait_goes_on() -> None:
    gate = Gate.remote()
    gate.wait.remote("it")
    gc.collect()
    await gate.reached.remote("it")
    await gate.open.remote("it")
    await gate.wait.remote("it")
    assert await gate.left.remote() == []


async def test_an_abandoned_call_that_waits_for_its_argument_never_runs() -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    slow = gate.wait.remote("slow")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await log.note.remote(slow)
    gc.collect()
    await gate.open.remote("slow")
    await slow
    assert await log.seen.remote() == []


async def test_an_abandoned_call_before_readiness_never_runs(stop: Stop) -> None:
    log = actorlib.remote(Log).remote(stop.place)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await log.note.remote("given up")
    kept = log.note.remote("kept")
    await stop.reached()
    stop.release()
    assert await kept == "kept"
    assert await log.seen.remote() == ["kept"]


async def test_a_running_async_call_is_cancelled_at_its_await() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")
    await gate.reached.remote("it")
    actorlib.cancel(ref)
    assert isinstance(await raised(ref), TaskCancelledError)
    await gate.wait.remote("it")
    assert await gate.left.remote() == ["it"]


async def test_an_async_call_may_refuse_to_be_cancelled() -> None:
    @actorlib.remote
    class Stubborn:
        def __init__(self) -> None:
            self._reached = asyncio.Event()
            self._over = asyncio.Event()

        async def wait(self) -> str:
            self._reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self._over.set()
            return "anyway"

        async def reached(self) -> None:
            await self._reached.wait()

        async def over(self) -> str:
            await self._over.wait()
            return "over"

    stubborn = Stubborn.remote()
    ref = stubborn.wait.remote()
    await stubborn.reached.remote()
    actorlib.cancel(ref)
    assert isinstance(await raised(ref), TaskCancelledError)
    assert await stubborn.over.remote() == "over"


@logs()
async def test_a_running_plain_call_is_not_interrupted_and_its_result_dropped(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote()
    ref = log.stop.remote(stop.place, "ran")
    await stop.reached()
    actorlib.cancel(ref)
    assert isinstance(await raised(ref), TaskCancelledError)
    after = log.note.remote("after")
    stop.release()
    assert await after == "after"
    assert await log.seen.remote() == ["ran", "after"]


@logs()
async def test_a_call_cancelled_before_readiness_never_runs(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote(stop.place)
    refs = [log.note.remote(number) for number in range(5)]
    actorlib.cancel(refs[1])
    await stop.reached()
    actorlib.cancel(refs[3])
    stop.release()
    assert await asyncio.gather(*refs[::2]) == [0, 2, 4]
    for ref in (refs[1], refs[3]):
        assert isinstance(await raised(ref), TaskCancelledError)
    assert await log.seen.remote() == [0, 2, 4]


@logs()
async def test_a_call_cancelled_behind_a_running_one_never_runs(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote()
    running_call = log.stop.remote(stop.place, "running")
    await stop.reached()
    cancelled, kept = log.note.remote("cancelled"), log.note.remote("kept")
    actorlib.cancel(cancelled)
    assert isinstance(await raised(cancelled), TaskCancelledError)
    await arrived()
    stop.release()
    assert await asyncio.gather(running_call, kept) == ["running", "kept"]
    assert await log.seen.remote() == ["running", "kept"]


@logs()
async def test_a_call_cancelled_when_the_worker_has_it_already(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote()
    first = log.stop.remote(stop.place, "first")
    await stop.reached()
    # These two lie in the worker's socket together, and are read together.
    second = log.stop.remote(stop.place, "second")
    cancelled = log.note.remote("cancelled")
    kept = log.note.remote("kept")
    await arrived()
    stop.release()
    assert await first == "first"
    await stop.reached()
    actorlib.cancel(cancelled)
    await arrived()
    stop.release()
    assert await asyncio.gather(second, kept) == ["second", "kept"]
    assert isinstance(await raised(cancelled), TaskCancelledError)
    assert await log.seen.remote() == ["first", "second", "kept"]


async def test_cancelling_what_is_done_changes_nothing() -> None:
    counter = Counter.remote()
    ref = counter.add.remote()
    await ref
    actorlib.cancel(ref)
    assert ref.cancel() is False
    assert await ref == 1
    failed = Echo.remote().fail.remote(ValueError("x"))
    await raised(failed)
    actorlib.cancel(failed)
    assert isinstance(await raised(failed), ValueError)


async def test_cancelling_twice_or_by_the_ref_is_the_same() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")
    assert ref.cancel() is True
    assert ref.cancel() is False
    actorlib.cancel(ref)
    assert isinstance(await raised(ref), TaskCancelledError)
    assert ref.cancelled()


async def test_what_depends_on_a_cancelled_call_fails_too() -> None:
    gate, echo = Gate.remote(), Echo.remote()
    slow = gate.wait.remote("it")
    dependent = echo.echo.remote(slow)
    of_dependent = echo.echo.remote(dependent)
    await gate.reached.remote("it")
    actorlib.cancel(slow)
    for ref in (slow, dependent, of_dependent):
        assert isinstance(await raised(ref), TaskCancelledError)
    assert await echo.echo.remote(1) == 1


@logs()
async def test_many_cancelled_calls_leave_the_actor_healthy(
    log_class: Any,
) -> None:
    log = log_class.remote()
    refs = [log.note.remote(number) for number in range(2500)]
    for ref in refs:
        actorlib.cancel(ref)
    for ref in refs:
        assert ref.cancelled()
    assert await log.note.remote("healthy") == "healthy"


async def test_many_cancelled_async_calls_leave_the_actor_healthy() -> None:
    gate = Gate.remote()
    await gate
    refs = [gate.wait.remote("all") for _ in range(1000)]
    for ref in refs:
        actorlib.cancel(ref)
    await gate.open.remote("all")
    assert await gate.wait.remote("all") == "all"
    assert set(await gate.left.remote()) <= {"all"}


async def test_an_actor_cancels_its_own_call_that_waits_for_an_argument() -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()

    def plain(gate: Any, log: Any) -> str:
        slow = gate.wait.remote("slow")
        ref = log.note.remote(slow)
        ref.cancel()
        actorlib.get(gate.open.remote("slow"))
        actorlib.get(slow)
        try:
            actorlib.get(ref)
        except actorlib.exceptions.TaskCancelledError:
            return "cancelled"
        return "not cancelled"

    async def later(gate: Any, log: Any) -> str:
        slow = gate.wait.remote("later")
        ref = log.note.remote(slow)
        ref.cancel()
        await gate.open.remote("later")
        await slow
        try:
            await ref
        except actorlib.exceptions.TaskCancelledError:
            return "cancelled"
        return "not cancelled"

    assert await Caller.remote().run.remote(plain, gate, log) == "cancelled"
    assert await AsyncCaller.remote().run.remote(later, gate, log) == "cancelled"
    assert await log.seen.remote() == []


async def test_an_actor_cancels_a_call_that_runs() -> None:
    gate = Gate.remote()

    def plain(gate: Any) -> str:
        ref = gate.wait.remote("it")
        actorlib.get(gate.reached.remote("it"))
        actorlib.cancel(ref)
        try:
            actorlib.get(ref)
        except actorlib.exceptions.TaskCancelledError:
            return "cancelled"
        return "not cancelled"

    async def later(gate: Any) -> str:
        ref = gate.wait.remote("later")
        await gate.reached.remote("later")
        try:
            async with asyncio.timeout(0.001):
                await ref
        except TimeoutError:
            del ref
        return "given up"

    assert await Caller.remote().run.remote(plain, gate) == "cancelled"
    await gate.wait.remote("it")
    assert await AsyncCaller.remote().run.remote(later, gate) == "given up"
    await gate.wait.remote("later")
    assert await gate.left.remote() == ["it", "later"]


# Refs as arguments.


async def test_a_call_waits_for_its_argument_and_those_behind_it_wait_too() -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    other = actorlib.remote(Log).remote()
    slow = gate.wait.remote("slow")
    refs = [log.note.remote(0), log.note.remote(slow), log.note.remote(2)]
    refs.append(log.note.remote(refs[0]))
    # Another actor's calls do not wait with it.
    assert await other.note.remote("other") == "other"
    assert await refs[0] == 0
    assert await other.note.remote(refs[0]) == 0
    assert not any(ref.done() for ref in refs[1:])
    await gate.open.remote("slow")
    assert await asyncio.gather(*refs) == [0, "slow", 2, 0]
    assert await log.seen.remote() == [0, "slow", 2, 0]


async def test_order_behind_several_slow_arguments() -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()
    a, b = gate.wait.remote("a"), gate.wait.remote("b")
    refs = [
        log.note.remote(a),
        log.note.remote(1),
        log.note.remote(b),
        log.note.remote(3),
    ]
    await gate.open.remote("b")
    await b
    await gate.open.remote("a")
    assert await asyncio.gather(*refs) == ["a", 1, "b", 3]
    assert await log.seen.remote() == ["a", 1, "b", 3]
    assert await log.note.remote(4) == 4


async def test_a_failed_argument_fails_the_call_and_not_those_behind_it() -> None:
    echo, log = Echo.remote(), actorlib.remote(Log).remote()
    bad = echo.fail.remote(ValueError("bad"))
    failing = log.note.remote(bad)
    behind = log.note.remote("behind")
    assert isinstance(await raised(failing), ValueError)
    assert await behind == "behind"
    # One that has failed already.
    failing = log.note.remote(bad)
    assert isinstance(await raised(failing), ValueError)
    assert isinstance(await raised(bad), TaskError)
    assert await log.seen.remote() == ["behind"]


async def test_a_failed_argument_fails_the_constructor() -> None:
    bad = Echo.remote().fail.remote(ValueError("bad"))
    keeper = Keeper.remote(bad)
    ref = keeper.kept.remote()
    for waited_for in (keeper, ref):
        error = await raised(waited_for)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ValueError)

    def make(echo: Any) -> Any:
        keeper = Keeper.remote(echo.fail.remote(ValueError("bad")))
        try:
            actorlib.get(keeper.kept.remote())
        except actorlib.exceptions.ActorDiedError as error:
            return type(error.__cause__).__mro__
        return ()

    kinds = await Caller.remote().run.remote(make, Echo.remote())
    assert ValueError in kinds


async def test_an_argument_from_an_actor_that_dies_fails_the_call() -> None:
    gate, echo = Gate.remote(), Echo.remote()
    slow = gate.wait.remote("never")
    ref = echo.echo.remote(slow)
    await gate.reached.remote("never")
    await actorlib.kill(gate)
    assert isinstance(await raised(ref), ActorDiedError)
    assert await echo.echo.remote(1) == 1


async def test_a_chain_of_refs() -> None:
    echoes = [Counter.remote(), Counter.remote()]
    ref = echoes[0].add.remote(1)
    for number in range(100):
        ref = echoes[number % 2].add.remote(ref)
    assert await ref > 0


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
async def test_refs_as_arguments_inside_an_actor(caller_class: Any) -> None:
    gate, log = Gate.remote(), actorlib.remote(Log).remote()

    def call(gate: Any, log: Any) -> Any:
        slow = gate.wait.remote("slow")
        refs = [log.note.remote(slow), log.note.remote(2)]
        opened = gate.open.remote("slow")
        return [*refs, opened]

    def plain(gate: Any, log: Any) -> Any:
        return actorlib.get(call(gate, log))

    async def later(gate: Any, log: Any) -> Any:
        return await asyncio.gather(*call(gate, log))

    function = plain if "Async" not in repr(caller_class) else later
    got = await caller_class.remote().run.remote(function, gate, log)
    assert got == ["slow", 2, None]
    assert await log.seen.remote() == ["slow", 2]


# Calls from actors.


async def test_get_takes_one_or_several_and_a_timeout() -> None:
    gate, echo = Gate.remote(), Echo.remote()

    def use(gate: Any, echo: Any, name: str) -> Any:
        one = actorlib.get(echo.echo.remote(1))
        several = actorlib.get([echo.echo.remote(2), echo.echo.remote(3)])
        same = echo.echo.remote(4)
        twice = actorlib.get((same, same), timeout=20)
        none = actorlib.get([])
        late = gate.wait.remote(name)
        try:
            actorlib.get(late, timeout=0.001)
        except TimeoutError:
            timed_out = "one"
        try:
            actorlib.get([echo.echo.remote(5), late], timeout=0.001)
        except TimeoutError:
            timed_out += " and several"
        # It goes on, and so does this actor.
        gate.open.remote(name)
        return one, several, twice, none, timed_out, actorlib.get(late), late.get()

    class Plain:
        def use(self, gate: Any, echo: Any) -> Any:
            return use(gate, echo, type(self).__name__)

    class Mixed(Plain):
        async def other(self) -> None: ...

    for cls in (Plain, Mixed):
        name = cls.__name__
        expected = (1, [2, 3], [4, 4], [], "one and several", name, name)
        actor = actorlib.remote(cls).remote()
        assert await actor.use.remote(gate, echo) == expected


async def test_get_raises_what_the_first_failed_one_raised() -> None:
    def use(echo: Any) -> str:
        refs = [echo.echo.remote(1), echo.fail.remote(KeyError("k"))]
        try:
            actorlib.get(refs)
        except KeyError:
            return "key"
        return "nothing"

    assert await Caller.remote().run.remote(use, Echo.remote()) == "key"


async def test_get_refuses_what_is_no_ref() -> None:
    for wrong in (3, [3], "refs", None, {1: 2}):
        with pytest.raises(TypeError, match=r"get\(\) takes"):
            actorlib.get(wrong)  # type: ignore[call-overload]


async def test_get_is_refused_where_it_would_block_the_loop() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote(1)
    with pytest.raises(RuntimeError, match="await"):
        actorlib.get(ref)
    with pytest.raises(RuntimeError, match="await"):
        ref.get()
    assert await ref == 1
    assert actorlib.get(ref) == 1  # it is there already


async def test_answers_to_others_do_not_wait_for_a_nested_call() -> None:
    gate = Gate.remote()

    class Nested:
        def quick(self) -> str:
            return "quick"

        def nest(self, gate: Any) -> str:
            return actorlib.get(gate.wait.remote("nested"))

    nested = actorlib.remote(Nested).remote()
    quick, slow = nested.quick.remote(), nested.nest.remote(gate)
    behind = nested.quick.remote()
    await gate.reached.remote("nested")
    assert await quick == "quick"
    await gate.open.remote("nested")
    assert await asyncio.gather(slow, behind) == ["nested", "quick"]


async def test_calls_that_came_during_a_nested_call_keep_their_order() -> None:
    gate = Gate.remote()

    class Nesting(Log):
        def nest(self, gate: Any, name: str) -> str:
            self.note(f"{name} in")
            actorlib.get(gate.wait.remote(name))
            self.note(f"{name} out")
            return name

    nesting = actorlib.remote(Nesting).remote()
    first = nesting.nest.remote(gate, "a")
    await gate.reached.remote("a")
    rest = [nesting.note.remote(number) for number in range(50)]
    second = nesting.nest.remote(gate, "b")
    await gate.open.remote("a")
    await gate.reached.remote("b")
    rest.append(nesting.note.remote(50))
    await gate.open.remote("b")
    assert await asyncio.gather(first, second, *rest) == ["a", "b", *range(51)]
    expected = ["a in", "a out", *range(50), "b in", "b out", 50]
    assert await nesting.seen.remote() == expected


async def test_two_actors_call_each_other() -> None:
    @actorlib.remote
    class Player:
        def __init__(self) -> None:
            self._other: Any = None

        async def meet(self, other: Any) -> None:
            self._other = other

        async def play(self, left: int) -> int:
            return 0 if not left else 1 + await self._other.play.remote(left - 1)

    one, two = Player.remote(), Player.remote()
    await asyncio.gather(one.meet.remote(two), two.meet.remote(one))
    assert await one.play.remote(50) == 50
    await asyncio.gather(actorlib.kill(one), actorlib.kill(two))


async def test_an_actor_calls_itself_by_a_handle_it_was_given() -> None:
    @actorlib.remote
    class Self:
        async def down(self, own: Any, depth: int) -> int:
            return 0 if not depth else 1 + await own.down.remote(own, depth - 1)

        def plain(self) -> str:
            return "plain"

        async def both(self, own: Any) -> str:
            return await own.plain.remote()

    actor = Self.remote()
    assert await actor.down.remote(actor, 10) == 10
    assert await actor.both.remote(actor) == "plain"


@pytest.mark.parametrize("is_mixed", [False, True], ids=["serial", "mixed"])
async def test_an_actor_s_own_thread_makes_calls(*, is_mixed: bool) -> None:
    class Threading:
        def __init__(self) -> None:
            self._results: list[Any] = []
            self._thread: Any = None

        def start(self, echo: Any) -> None:
            def work() -> None:
                for number in range(20):
                    self._results.append(actorlib.get(echo.echo.remote(number)))

            self._thread = threading.Thread(target=work)
            self._thread.start()

        def join(self) -> list[Any]:
            self._thread.join()
            return self._results

    class Mixed(Threading):
        async def other(self) -> None: ...

    actor = actorlib.remote(Mixed if is_mixed else Threading).remote()
    await actor.start.remote(Echo.remote())
    assert await actor.join.remote() == list(range(20))


async def test_threads_and_the_method_make_calls_side_by_side() -> None:
    def work(echo: Any) -> Any:
        results: dict[str, list[int]] = {}

        def call(name: str) -> None:
            results[name] = [actorlib.get(echo.echo.remote(n)) for n in range(100)]

        threads = [threading.Thread(target=call, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        call("own")
        for thread in threads:
            thread.join()
        return results

    class Mixed:
        def work(self, echo: Any) -> Any:
            return work(echo)

        async def other(self) -> None: ...

    echo = Echo.remote()
    expected = {name: list(range(100)) for name in ("a", "b", "c", "own")}
    assert await Caller.remote().run.remote(work, echo) == expected
    assert await actorlib.remote(Mixed).remote().work.remote(echo) == expected


@pytest.mark.process
async def test_a_plain_method_may_run_a_loop_of_its_own_where_none_runs() -> None:
    def work(echo: Any) -> Any:
        async def main() -> Any:
            return await asyncio.gather(
                *(wait(echo.echo.remote(number)) for number in range(5))
            )

        async def wait(ref: Any) -> Any:
            return await ref

        gathers = main()
        try:
            return asyncio.run(gathers)
        finally:
            gathers.close()

    class Mixed:
        def work(self, echo: Any) -> Any:
            return work(echo)

        async def other(self) -> None: ...

    echo = Echo.remote()
    assert await Caller.remote().run.remote(work, echo) == [0, 1, 2, 3, 4]
    mixed = actorlib.remote(Mixed).remote()
    assert "running event loop" in str(await raised(mixed.work.remote(echo)))


async def test_refs_made_in_one_method_are_awaited_in_another() -> None:
    @actorlib.remote
    class Deferred:
        def __init__(self) -> None:
            self._refs: list[Any] = []

        def ask(self, echo: Any, value: int) -> None:
            self._refs.append(echo.echo.remote(value))

        def answers(self) -> list[int]:
            return actorlib.get(self._refs)

    deferred, echo = Deferred.remote(), Echo.remote()
    for number in range(5):
        deferred.ask.remote(echo, number)
    assert await deferred.answers.remote() == [0, 1, 2, 3, 4]


async def test_an_actor_waits_until_another_is_ready() -> None:
    def plain() -> Any:
        counter = Counter.remote()
        return actorlib.get(counter.add.remote())

    async def later() -> Any:
        counter = await Counter.remote()
        return await counter.add.remote()

    async def never() -> str:
        @actorlib.remote
        class Failing:
            def __init__(self) -> None:
                raise ValueError("no")

        try:
            await Failing.remote()
        except actorlib.exceptions.ActorDiedError as error:
            return type(error.__cause__).__name__
        return ""

    assert await Caller.remote().run.remote(plain) == 1
    caller = AsyncCaller.remote()
    assert await caller.run.remote(later) == 1
    assert await caller.run.remote(never) == "TaskError(ValueError)"


async def test_a_call_to_a_dead_actor_fails_by_its_ref() -> None:
    counter = Counter.remote()
    await counter
    await actorlib.kill(counter)
    ref = counter.add.remote()
    assert isinstance(await raised(ref), ActorDiedError)


# Scalars, which stand in their frames as they are.


class Whole(int):
    """A subclass, which is no scalar."""


class Letter(enum.IntEnum):
    """Likewise."""

    A = 1


SCALARS: list[Any] = [
    *(None, True, False, 0, 1, -1, 127, 128, 255, 256),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30),
    *(0.0, -0.0, 0.1, 5e-324, math.inf, -math.inf, math.nan),
    *("", "a", "\0", "x" * 256, "x" * 257, "\u00e4", "\ud800", "x" * 70_000),
    *(b"", b"x", Whole(3), Letter.A, [1], {"a": 1}, (1, 2)),
]


def shape(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)


class Shapes:
    """Says what came, and gives it back."""

    def shapes(self, *args: Any) -> list[tuple[str, str]]:
        return [shape(value) for value in args]

    def first(self, *args: Any) -> Any:
        return args[0] if args else None


class LaterShapes(Shapes):
    """The same, with an event loop."""

    async def first(self, *args: Any) -> Any:
        return args[0] if args else None


@pytest.fixture(params=["serial", "threaded", "looped"])
def shapes(request: pytest.FixtureRequest) -> Any:
    if request.param == "looped":
        return actorlib.remote(LaterShapes).remote()
    limit = 3 if request.param == "threaded" else None
    return actorlib.remote(Shapes).options(max_concurrency=limit).remote()


async def test_a_scalar_arrives_as_it_is_on_every_way(shapes: Any) -> None:
    await shapes
    caller = Caller.remote()
    for value in SCALARS:
        short, long = shapes.first.remote(value), shapes.first.remote(value, [])
        assert shape(await short) == shape(await long) == shape(value)
        assert shape(await caller.call.remote(shapes, "first", value)) == shape(value)
        named = shapes.first.options(name="first")
        assert shape(await named.remote(value)) == shape(value)


async def test_calls_of_scalars_and_of_others_keep_their_order(shapes: Any) -> None:
    chance = random.Random(7)  # nothing secret
    calls = [chance.choices(SCALARS, k=chance.randrange(20)) for _ in range(300)]
    calls.append([1] * 5000)
    refs = [shapes.shapes.remote(*args) for args in calls]
    firsts = [shapes.first.remote(*args) for args in calls]
    for args, ref, first in zip(calls, refs, firsts, strict=True):
        assert await ref == [shape(value) for value in args]
        assert shape(await first) == shape(args[0] if args else None)


async def test_a_ref_arrives_as_its_value_on_every_way(shapes: Any) -> None:
    await shapes
    for value in SCALARS:
        done = shapes.first.remote(value)
        await done
        seen = await asyncio.gather(
            shapes.shapes.remote(1, done, "x", done),
            shapes.shapes.remote(1, shapes.first.remote(value), "x", done),
            shapes.shapes.remote(1, shapes.first.remote(value), "x", done, []),
            shapes.shapes.options(name="n").remote(1, done, "x", done),
        )
        short = [shape(1), shape(value), shape("x"), shape(value)]
        assert seen == [short, short, [*short, shape([])], short]


async def test_calls_of_refs_and_of_others_are_in_their_order() -> None:
    chance = random.Random(3)  # nothing secret
    echo, log = Echo.remote(), actorlib.remote(Log).remote()
    done = echo.echo.remote(-1)
    await done
    refs: list[Any] = []
    for number in range(300):
        kind = chance.randrange(6)
        given = [
            number,
            echo.echo.remote(number),
            echo.echo.remote([number]),
            echo.fail.remote(ValueError(number)),
            [number],
            done,
        ][kind]
        refs.append(log.note.remote(given))
        if chance.random() < 0.1:
            await asyncio.wait(refs[-1:])
    ended = await asyncio.gather(*refs, return_exceptions=True)
    noted = [value for value in ended if not isinstance(value, ValueError)]
    assert len(noted) > 200
    assert await log.seen.remote() == noted
