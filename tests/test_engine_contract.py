"""What every engine promises: the same tests for each of them.

What is here holds wherever an actor runs. What belongs to processes (signals, masks,
output) or to one process (threads, shared modules) has tests of its own.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import pytest_asyncio
from helpers.actors import (
    AsyncCaller,
    Caller,
    Cleaner,
    Counter,
    Echo,
    Gate,
    Keeper,
    Log,
    MixedLog,
    Stop,
    end_of,
    running,
    shared,
    shared_in_memory,
)
from helpers.attached import shared_by_attaching
from helpers.calls import raised
from helpers.on_ray import FROM_AFAR, ON_RAY, shared_on_ray

import actorlib
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorHandleNotFoundError,
    ActorNotFoundError,
    ActorUnavailableError,
    ActorUnschedulableError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    SerializationError,
    TaskCancelledError,
    TaskError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from typing import Literal

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]
    Engine = Literal["local", "inline", "ray"]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

CALLERS = pytest.mark.parametrize(
    "caller", [Caller, AsyncCaller], ids=["sync", "async"]
)
LOGS = pytest.mark.parametrize(
    "log",
    [actorlib.remote(Log), actorlib.remote(MixedLog)],
    ids=["serial", "mixed"],
)


ATTACHED = pytest.param("attached", marks=pytest.mark.thorough)
"""A client of the runtime of another process; ``test_attach.py`` has the essentials."""


@pytest.fixture(
    scope="module",
    params=["local", "memory", "inline", ATTACHED, ON_RAY, FROM_AFAR],
)
def way(request: pytest.FixtureRequest) -> str:
    """An engine; of that on Ray, the fixture with the address.

    What other tests have for processes in memory is to be like those, so it is here.
    """
    return cast("str", request.param)


@pytest.fixture(scope="module")
def engine(way: str) -> Engine:
    if way in ("memory", "attached"):
        return "local"
    return "ray" if way.startswith("ray") else cast("Engine", way)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend(
    way: str, engine: Engine, request: pytest.FixtureRequest
) -> AsyncIterator[Lend]:
    if engine == "ray":
        async with shared_on_ray(request.getfixturevalue(way)) as lend:
            yield lend
        return
    if way == "attached":
        async with shared_by_attaching() as lend:
            yield lend
        return
    if way == "memory":
        async with shared_in_memory(num_gpus=2) as lend:
            yield lend
        return
    async with shared(engine=engine, num_gpus=2) as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Runtime]:
    async with lend() as runtime:
        yield runtime


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as stop:
        yield stop


async def arrived(runtime: Runtime, engine: Engine) -> None:
    """Waits until what was sent lies in the actor's socket, or was read there."""
    await asyncio.sleep(0)  # what a turn of the loop gathers leaves at its end
    await asyncio.sleep(0)
    if engine != "ray":  # an owner elsewhere has passed on what came before a question
        runtime.snapshot()


@actorlib.remote(max_concurrency=2)
class Threaded(Caller.__wrapped__):  # type: ignore[misc]  # the plain class
    """Calls others from several threads."""


@actorlib.remote
class Mixed(Caller.__wrapped__):  # type: ignore[misc]  # the plain class
    """Calls others on an event loop."""

    async def idle(self) -> None:
        """Does nothing."""


@actorlib.remote
class Mortal:
    """Ends in several ways.

    Args:
        value: What it starts from.
    """

    def __init__(self, value: int = 0) -> None:
        self._value = value

    def add(self) -> int:
        self._value += 1
        return self._value

    def leave(self, code: int | None = None) -> None:
        if code is None:
            actorlib.exit_actor()
        raise SystemExit(code)

    def was_restarted(self) -> bool:
        return actorlib.get_runtime_context().was_current_actor_reconstructed

    def leave_once(self) -> str:
        if not self.was_restarted():
            raise SystemExit(4)
        return "back"


@actorlib.remote
class AsyncMortal(Mortal.__wrapped__):  # type: ignore[misc]  # the plain class
    """The same on an event loop."""

    async def nothing(self) -> None:
        """Makes it have one."""


MORTALS = pytest.mark.parametrize("mortal", [Mortal, AsyncMortal])


@actorlib.remote
class Unborn:
    def __init__(self) -> None:
        raise ValueError("not today")

    def ping(self) -> None:
        """Never runs."""


@actorlib.remote
class Meeting:
    """Where calls wait until several are there at once."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)
        self._most = 0
        self._now = 0
        self._lock = threading.Lock()

    def meet(self) -> None:
        self._barrier.wait()

    def most(self) -> int:
        return self._most

    def count(self) -> None:
        with self._lock:
            self._now += 1
            self._most = max(self._most, self._now)
        with self._lock:
            self._now -= 1


def here() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return (
        context.get_actor_id(),
        context.get_actor_name(),
        actorlib.get_gpu_ids(),
        context.get_assigned_resources(),
    )


# Order.


@pytest.mark.usefixtures("runtime")
@LOGS
async def test_calls_when_made_then_they_run_in_that_order(
    log: Any, engine: Engine
) -> None:
    actor = log.remote()
    refs = [actor.note.remote(number) for number in range(300)]
    if (engine, log.__name__) == ("ray", "MixedLog"):
        # Ray promises no order for actors with async methods.
        assert await asyncio.gather(*refs) == list(range(300))
        assert sorted(await actor.seen.remote()) == list(range(300))
        return

    assert await actor.seen.remote() == list(range(300))


@pytest.mark.usefixtures("runtime")
async def test_call_when_its_argument_is_not_there_then_later_ones_wait() -> None:
    gate, actor = Gate.remote(), actorlib.remote(Log).remote()
    first = actor.note.remote(gate.wait.remote("late"))
    second = actor.note.remote("early")
    await gate.reached.remote("late")
    await gate.open.remote("late")

    assert await asyncio.gather(first, second) == ["late", "early"]
    assert await actor.seen.remote() == ["late", "early"]


@pytest.mark.usefixtures("runtime")
@LOGS
async def test_remote_when_the_actor_is_busy_then_it_returns_at_once(
    log: Any, stop: Stop
) -> None:
    actor = log.remote(stop.place)  # its constructor stops
    refs = [actor.stop.remote(stop.place, 1), actor.note.remote(2)]
    await stop.reached()
    assert not any(ref.done() for ref in refs)
    stop.release()
    await stop.reached()
    stop.release()

    assert await asyncio.gather(*refs) == [1, 2]


# Values and errors.


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("value", [[1, [2]], ["flat"]])
async def test_argument_when_changed_after_the_call_then_nobody_sees_it(
    value: list[Any],
) -> None:
    keeper = Keeper.remote()
    kept = keeper.keep.remote(value)
    value.append("changed")
    await kept
    result = await keeper.kept.remote()
    result.append("changed")

    assert value[:-1] == result[:-1] == await keeper.kept.remote()


@pytest.mark.usefixtures("runtime")
async def test_error_when_raised_then_it_is_of_its_own_class_too() -> None:
    error = await raised(Echo.remote().fail.remote(KeyError("lost")))

    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert (error.args, type(error.cause)) == (("lost",), KeyError)
    assert "raise error" in error.traceback_str
    assert "Echo.fail" in error.where


@pytest.mark.usefixtures("runtime")
async def test_constructor_when_it_raises_then_every_call_says_so() -> None:
    actor = Unborn.remote()
    error = await raised(actor.ping.remote())

    assert isinstance(error, ActorDiedError)
    assert isinstance(error.__cause__, ValueError)
    assert error.exit.cause == "failed to start"
    assert isinstance(await raised(actor), ActorDiedError)


@pytest.mark.usefixtures("runtime")
async def test_argument_when_it_cannot_be_sent_then_the_call_is_refused() -> None:
    echo = Echo.remote()
    with pytest.raises(SerializationError, match=r"Echo\.echo"):
        echo.echo.remote(threading.Lock())

    assert await echo.echo.remote(1) == 1


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_result_when_it_cannot_be_sent_then_the_call_alone_fails(
    caller: Any,
) -> None:
    actor = caller.remote()
    error = await raised(actor.run.remote(threading.Lock))

    assert isinstance(error, TaskError)
    assert isinstance(error, TypeError)
    assert await actor.run.remote(len, "ab") == 2


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_error_when_it_crosses_two_actors_then_it_stays_itself(
    caller: Any,
) -> None:
    error = await raised(
        caller.remote().call.remote(Echo.remote(), "fail", LookupError("far"))
    )

    assert isinstance(error, LookupError)
    assert str(error) == "far"


def first_item(value: Any) -> Any:
    """The first item of a value as it came, or of one behind a ref in a tuple."""
    return (actorlib.get(value[0]) if isinstance(value, tuple) else value)[0]


def change_and_give(value: Any, echo: Any, other: Any, *, puts: bool) -> list[Any]:
    """What another actor sees of a ref whose value was changed, from plain code."""
    ref = actorlib.put(value) if puts else echo.echo.remote(value)
    ref.get()[0] = 1
    return actorlib.get(
        [other.run.remote(first_item, given) for given in (ref, (ref,))]
    )


async def change_and_give_async(
    value: Any, echo: Any, other: Any, *, puts: bool
) -> list[Any]:
    """The same on an event loop."""
    ref = actorlib.put(value) if puts else echo.echo.remote(value)
    (await ref)[0] = 1
    return [await other.run.remote(first_item, given) for given in (ref, (ref,))]


@pytest.mark.parametrize("puts", [False, True], ids=["calls", "puts"])
@pytest.mark.parametrize(
    "value",
    [[0], [0, (1,)], [0] * 20_000],
    ids=["plain", "pickled", "long"],
)
@pytest.mark.usefixtures("runtime")
async def test_value_when_changed_then_others_get_it_as_it_was_made(
    value: Any,
    puts: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    echo, other = Echo.remote(), Caller.remote()
    here = await change_and_give_async(value, echo, other, puts=puts)
    plain = await Caller.remote().run.remote(
        partial(change_and_give, puts=puts), value, echo, other
    )
    looped = await AsyncCaller.remote().run.remote(
        partial(change_and_give_async, puts=puts), value, echo, other
    )

    assert here == plain == looped == [0, 0]
    assert value[0] == 0


@CALLERS
@pytest.mark.usefixtures("runtime")
async def test_ref_when_it_is_pending_then_it_names_its_call(caller: Any) -> None:
    gate, asking = Gate.remote(), caller.remote()

    waiting = gate.wait.remote()
    assert repr(waiting).startswith("<ObjectRef pending: Gate.wait")
    shown = await asking.run.remote(_shown_call, gate)
    assert shown.startswith("<ObjectRef pending: Gate.wait")

    await gate.open.remote()
    assert await waiting == ""
    assert "Gate" not in repr(waiting)


def _shown_call(gate: Any) -> str:
    return repr(gate.wait.remote("there"))


# Cancelling.


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_a_coroutine_runs_then_it_is_told() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("a")
    await gate.reached.remote("a")
    actorlib.cancel(ref)

    assert isinstance(await raised(ref), TaskCancelledError)
    assert await gate.wait.remote("a") == "a"  # opened by who gave up
    assert await gate.left.remote() == ["a"]


async def cleaning() -> tuple[Any, Any]:
    """An actor and the ref of a call that was cancelled and cleans up."""
    cleaner = Cleaner.remote()
    ref = cleaner.work.remote("it")
    await cleaner.began.remote()
    assert ref.cancel()
    await cleaner.cleans.remote()
    return cleaner, ref


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_a_coroutine_cleans_up_then_its_ref_waits_for_that() -> None:
    cleaner, ref = await cleaning()
    assert not ref.done()
    assert ref.cancel()  # once more interrupts no cleaning up

    await cleaner.end.remote()

    assert isinstance(await raised(ref), TaskCancelledError)
    assert ref.cancelled()
    assert await cleaner.ended.remote() == ["it"]


async def test_cancel_when_a_coroutine_cleans_up_then_its_call_is_told_of(
    runtime: Runtime,
) -> None:
    cleaner, ref = await cleaning()
    assert [call.method for call in runtime.calls()] == ["work"]
    await cleaner.end.remote()
    assert isinstance(await raised(ref), TaskCancelledError)

    assert runtime.calls() == []


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_the_actor_dies_cleaning_up_then_it_was_cancelled() -> None:
    cleaner, ref = await cleaning()

    await actorlib.kill(cleaner)

    assert isinstance(await raised(ref), TaskCancelledError)


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_the_actor_is_restarted_then_it_is_not_made_again() -> None:
    cleaner = Cleaner.options(max_restarts=1, max_task_retries=-1).remote()
    ref = cleaner.work.remote("it")
    await cleaner.began.remote()
    ref.cancel()
    await cleaner.cleans.remote()

    await actorlib.kill(cleaner, no_restart=False)

    assert isinstance(await raised(ref), TaskCancelledError)
    assert await cleaner.ended.remote() == []


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_a_coroutine_waits_for_a_place_then_it_never_runs() -> None:
    cleaner = Cleaner.options(concurrency_groups={"one": 1}).remote()
    work = cleaner.work.options(concurrency_group="one")
    first = work.remote("first")
    await cleaner.began.remote()  # on Ray calls may begin in another order
    second = work.remote("second")

    second.cancel()

    assert isinstance(await raised(second), TaskCancelledError)
    first.cancel()
    await cleaner.end.remote()
    assert isinstance(await raised(first), TaskCancelledError)
    assert await cleaner.ended.remote() == ["first"]


@pytest.mark.usefixtures("runtime")
async def test_cancel_when_its_argument_is_not_there_then_it_is_told_at_once() -> None:
    gate, cleaner = Gate.remote(), Cleaner.remote()
    ref = cleaner.work.remote(gate.wait.remote("never"))

    ref.cancel()

    assert isinstance(await raised(ref), TaskCancelledError)
    await gate.open.remote("never")


def cancel_and_wait(cleaner: Any) -> list[Any]:
    """Says whether the ref of a call that cleans up was done too early."""
    ref = cleaner.work.remote("it")
    actorlib.get(cleaner.began.remote())
    ref.cancel()
    actorlib.get(cleaner.cleans.remote())
    was_done = ref.done()
    cleaner.end.remote()
    try:
        actorlib.get(ref)
    except TaskCancelledError:
        return [was_done, actorlib.get(cleaner.ended.remote())]
    return ["not cancelled"]


async def cancel_and_wait_later(cleaner: Any) -> list[Any]:
    """The same in an ``async def``."""
    ref = cleaner.work.remote("it")
    await cleaner.began.remote()
    ref.cancel()
    await cleaner.cleans.remote()
    was_done = ref.done()
    await cleaner.end.remote()
    try:
        await ref
    except TaskCancelledError:
        return [was_done, await cleaner.ended.remote()]
    return ["not cancelled"]


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_cancel_when_an_actor_has_called_then_its_ref_waits_likewise(
    caller: Any,
) -> None:
    function = cancel_and_wait if caller is Caller else cancel_and_wait_later

    told = await caller.remote().run.remote(function, Cleaner.remote())

    assert told == [False, ["it"]]


@LOGS
async def test_cancel_when_a_call_waits_then_it_never_runs(
    runtime: Runtime, log: Any, stop: Stop, engine: Engine
) -> None:
    actor = log.remote()
    running = actor.stop.remote(stop.place, "runs")
    await stop.reached()
    waiting, behind = actor.note.remote("waits"), actor.note.remote("behind")
    actorlib.cancel(waiting)
    await arrived(runtime, engine)
    stop.release()

    assert await asyncio.gather(running, behind) == ["runs", "behind"]
    assert isinstance(await raised(waiting), TaskCancelledError)
    if engine != "ray":  # there the request may come after its turn
        assert await actor.seen.remote() == ["runs", "behind"]


@pytest.mark.usefixtures("runtime")
async def test_wait_when_given_up_and_nobody_has_the_ref_then_so_is_the_call() -> None:
    gate = Gate.remote()

    async def wait() -> None:
        await gate.wait.remote("a")

    waiting = asyncio.create_task(wait())
    await gate.reached.remote("a")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert await gate.wait.remote("a") == "a"  # opened by who gave up
    assert await gate.left.remote() == ["a"]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("is_done", [False, True], ids=["fails later", "has failed"])
@pytest.mark.parametrize("caller", [Caller, AsyncCaller, Threaded, Mixed])
async def test_get_when_one_fails_then_it_waits_for_no_other(
    caller: Any,
    is_done: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate, echo, actor = Gate.remote(), Echo.remote(), caller.remote()

    def get_both(gate: Any, echo: Any) -> Any:
        slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
        if is_done:
            actorlib.wait([bad]).get()
        return actorlib.get([slow, bad])

    async def get_both_later(gate: Any, echo: Any) -> Any:
        slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
        if is_done:
            await actorlib.wait([bad])
        return await asyncio.gather(slow, bad)

    function = get_both_later if caller is AsyncCaller else get_both
    error = await raised(actor.run.remote(function, gate, echo))

    assert isinstance(error, ValueError)
    await gate.open.remote("slow")


# Names.


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_name_when_given_then_it_is_found_from_everywhere(caller: Any) -> None:
    counter = Counter.options(name="counter").remote(1)

    def find() -> Any:
        return actorlib.get_actor("counter")

    found = await caller.remote().run.remote(find)
    assert found == counter == actorlib.get_actor("counter")
    assert await found.add.remote() == 2
    assert actorlib.list_named_actors() == ["counter"]


@pytest.mark.usefixtures("runtime")
async def test_name_when_taken_then_nothing_is_made() -> None:
    counter = Counter.options(name="one", get_if_exists=True).remote(1)
    with pytest.raises(ActorAlreadyExistsError):
        Counter.options(name="one").remote()

    assert Counter.options(name="one", get_if_exists=True).remote() == counter
    await actorlib.kill(counter)
    with pytest.raises(ActorNotFoundError):
        actorlib.get_actor("one")


# What may be written.


@actorlib.remote
class ArrayLooker:
    """Tells which arrays of its arguments may be written, and gives some."""

    def __init__(self, array: Any = None) -> None:
        self._array = array

    def look(self, *values: Any, array: Any = None) -> list[bool]:
        arrays = [value if hasattr(value, "flags") else value[0] for value in values]
        return [each.flags.writeable for each in (*arrays, array, self._array)]

    def make(self, size: int) -> Any:
        return np.zeros(size)


@pytest.mark.parametrize("size", [10, 10_000, 100_000])
@pytest.mark.usefixtures("runtime")
async def test_array_when_it_travels_then_it_arrives_read_only_whatever_its_size(
    size: int,
) -> None:
    array = np.zeros(size)
    looker = ArrayLooker.remote(array)
    kept, made = actorlib.put(array), looker.make.remote(size)
    arguments = array, [array], {0: array}, (array, print), kept, made
    back = await made

    assert await looker.look.remote(*arguments, array=array) == [False] * 8
    assert not any(each.flags.writeable for each in (back, await kept))
    with pytest.raises(ValueError, match="read-only"):
        back += 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True  # to write then could end the process
    array += 1  # the sender's own


# What definitions capture.


def capturing(counter: Any, ref: Any) -> list[Any]:
    """Classes that mention a handle and a ref of those who define them."""

    class Captor:
        def use(self) -> Any:
            return actorlib.get([counter.add.remote(), ref])

    class AsyncCaptor:
        async def use(self) -> Any:
            return await asyncio.gather(counter.add.remote(), ref)

    return [actorlib.remote(Captor), actorlib.remote(AsyncCaptor)]


@pytest.mark.usefixtures("runtime")
async def test_class_when_it_mentions_a_handle_and_a_ref_then_it_captures_them() -> (
    None
):
    counter = Counter.remote(1)
    ref = counter.add.remote()
    await ref
    plain, asynchronous = capturing(counter, ref)

    assert await plain.remote().use.remote() == [3, 2]
    assert await asynchronous.remote().use.remote() == [4, 2]
    assert await plain.remote().use.remote() == [5, 2]


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_class_when_an_actor_defines_it_then_it_captures_what_is_there(
    caller: Any,
) -> None:
    def define() -> Any:
        mine = Counter.remote(1)
        return [captor.remote() for captor in capturing(mine, mine.add.remote())]

    definer = caller.remote()
    plain, asynchronous = await definer.run.remote(define)
    used, made = await plain.use.remote()
    assert {used, made} == {3, 2}  # two callers: no engine promises their order
    await definer.run.remote(gc.collect)  # what was defined there is gone

    assert await asynchronous.use.remote() == [4, made]
    assert await plain.use.remote() == [5, made]


@pytest.mark.usefixtures("runtime")
async def test_class_when_nobody_else_holds_what_it_captures_then_it_does() -> None:
    counter = Counter.remote(1)
    ended = end_of(counter)
    captor, other = capturing(counter, actorlib.put(0))
    user = captor.remote()
    assert await user.use.remote() == [2, 0]

    await actorlib.kill(user)
    del counter, other, user
    gc.collect()
    user = captor.remote()
    assert await user.use.remote() == [3, 0]

    del captor, user
    gc.collect()
    await ended


# Lifetimes and handles.


@pytest.mark.usefixtures("runtime")
async def test_actor_when_nobody_holds_it_then_it_ends_behind_its_calls() -> None:
    actor = actorlib.remote(Log).remote()
    ended = end_of(actor)
    last = actor.note.remote("last")
    del actor
    gc.collect()

    assert await last == "last"
    await ended


async def test_actor_when_another_holds_it_then_it_lives(
    runtime: Runtime, way: str
) -> None:
    counter, keeper = Counter.remote(1), Keeper.remote()
    await keeper.keep.remote([counter])
    ended = end_of(counter)
    del counter
    gc.collect()
    [again] = await keeper.kept.remote()
    assert await again.add.remote() == 2

    await keeper.keep.remote(None)
    del again
    gc.collect()
    await ended
    if way != "attached":  # the owner, which is asked, may hear of the end later
        assert [info.class_name for info in runtime.snapshot().actors] == ["Keeper"]


@pytest.mark.usefixtures("runtime")
async def test_actor_when_detached_then_it_lives_without_a_handle() -> None:
    Counter.options(name="kept", lifetime="detached").remote(4)
    gc.collect()

    assert await actorlib.get_actor("kept").add.remote() == 5


@pytest.mark.usefixtures("runtime")
async def test_block_when_left_then_the_actor_has_done_what_it_was_sent() -> None:
    async with actorlib.remote(Log).remote() as log:
        refs = [log.note.remote(number) for number in range(50)]

    assert [ref.result() for ref in refs] == list(range(50))
    assert isinstance(await raised(log.seen.remote()), ActorDiedError)


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_actor_when_it_calls_another_then_it_gets_its_answer(
    caller: Any,
) -> None:
    counter = Counter.remote(1)

    assert await caller.remote().call.remote(counter, "add", 2) == 3
    assert await counter.add.remote() == 4


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_actor_when_made_by_another_then_its_handle_works_here(
    caller: Any,
) -> None:
    maker = caller.remote()
    counter = await maker.make.remote(Counter, 7)

    assert await counter.add.remote() == 8
    assert await maker.call.remote(counter, "add") == 9


@pytest.mark.usefixtures("runtime")
async def test_actor_when_called_back_then_its_coroutines_go_on() -> None:
    outer, inner = AsyncCaller.remote(), Caller.remote()

    answer = await outer.call.remote(inner, "call", outer, "run", len, "abc")

    assert answer == 3


# Several calls at once.


@pytest.mark.usefixtures("runtime")
async def test_coroutines_when_called_then_they_run_at_the_same_time() -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(str(number)) for number in range(5)]
    for number in range(5):
        await gate.reached.remote(str(number))
    for number in reversed(range(5)):
        await gate.open.remote(str(number))

    assert await asyncio.gather(*refs) == [str(number) for number in range(5)]


@pytest.mark.usefixtures("runtime")
async def test_threads_when_asked_for_then_plain_methods_meet() -> None:
    meeting = Meeting.options(max_concurrency=3).remote(3)

    await asyncio.gather(*(meeting.meet.remote() for _ in range(6)))


@pytest.mark.usefixtures("runtime")
async def test_plain_methods_when_called_then_one_at_a_time() -> None:
    meeting = Meeting.remote(1)
    await asyncio.gather(*(meeting.count.remote() for _ in range(50)))

    assert await meeting.most.remote() == 1


@pytest.mark.usefixtures("runtime")
async def test_group_when_it_has_a_limit_then_others_pass_it() -> None:
    gate = Gate.options(concurrency_groups={"slow": 1}).remote()
    held = gate.wait.options(concurrency_group="slow").remote("a")
    await gate.reached.remote("a")
    behind = gate.wait.options(concurrency_group="slow").remote("b")
    await gate.open.remote("b")
    assert not behind.done()
    await gate.open.remote("a")

    assert await asyncio.gather(held, behind) == ["a", "b"]


class Grouped:
    """Says which thread runs its methods."""

    @actorlib.method(concurrency_group="mixed")
    async def mixed(self) -> int:
        return threading.get_ident()

    @actorlib.method(concurrency_group="mixed")
    def mixed_plain(self) -> int:
        return threading.get_ident()

    @actorlib.method(concurrency_group="plain")
    def plain(self, place: Any = None) -> int:
        if place is not None:
            place.stop_here()
        return threading.get_ident()

    async def ping(self) -> str:
        return "well"


def grouped() -> Any:
    groups = {"mixed": 2, "plain": 2}
    return actorlib.remote(concurrency_groups=groups)(Grouped).remote()


@pytest.mark.usefixtures("runtime")
async def test_group_when_it_has_coroutines_then_plain_methods_share_the_thread() -> (
    None
):
    actor = grouped()
    thread = await actor.mixed_plain.remote()

    assert await actor.mixed.remote() == thread
    moved = actor.plain.options(concurrency_group="mixed")
    assert await moved.map([None] * 3, chunksize=3) == [thread] * 3


@pytest.mark.usefixtures("runtime")
async def test_group_when_it_has_plain_methods_only_then_they_run_at_once(
    stop: Stop,
) -> None:
    actor = grouped()
    held = [actor.plain.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()

    assert await actor.ping.remote() == "well"
    for _ in held:
        stop.release()
    assert len(set(await asyncio.gather(*held))) == 2


@pytest.mark.usefixtures("runtime")
async def test_group_when_a_call_brings_its_first_coroutine_then_threads_end_first(
    stop: Stop,
) -> None:
    actor = grouped()
    held = actor.plain.remote(stop.place)
    await stop.reached()
    moved = actor.mixed.options(concurrency_group="plain").remote()

    assert await actor.ping.remote() == "well"
    assert not moved.done()
    stop.release()
    thread = await moved
    assert await held != thread
    assert await actor.plain.remote() == thread


@pytest.mark.usefixtures("runtime")
async def test_calls_when_too_many_have_no_answer_then_one_more_is_refused(
    stop: Stop,
) -> None:
    log = actorlib.remote(max_pending_calls=2)(Log).remote()
    refs = [log.stop.remote(stop.place), log.note.remote(1)]
    with pytest.raises(PendingCallsLimitExceeded):
        log.note.remote(2)
    await stop.reached()
    stop.release()
    await asyncio.gather(*refs)

    assert await log.note.remote(3) == 3


# Endings.


@pytest.mark.usefixtures("runtime")
@LOGS
async def test_kill_when_idle_then_every_call_fails(log: Any) -> None:
    actor = await log.remote()
    await actorlib.kill(actor)
    error = await raised(actor.note.remote(1))

    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"
    assert await actorlib.kill(actor) is None


@pytest.mark.usefixtures("runtime")
async def test_kill_when_coroutines_run_then_their_calls_fail_at_once() -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote("a"), gate.wait.remote("b")]
    await gate.reached.remote("b")
    await actorlib.kill(gate)

    for ref in refs:
        assert isinstance(await raised(ref), ActorDiedError)


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_kill_when_asked_by_an_actor_then_the_other_is_dead(caller: Any) -> None:
    counter = Counter.remote()

    def end(handle: Any) -> None:
        actorlib.kill(handle)

    ended = end_of(counter)
    await caller.remote().run.remote(end, counter)
    await ended

    assert isinstance(await raised(counter.add.remote()), ActorDiedError)


@pytest.mark.usefixtures("runtime")
@MORTALS
async def test_exit_actor_when_called_then_it_is_dead_as_asked(mortal: Any) -> None:
    actor = mortal.options(max_restarts=3).remote()
    error = await raised(actor.leave.remote())

    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"
    assert "exit_actor" in str(error)
    assert isinstance(await raised(actor.add.remote()), ActorDiedError)


@pytest.mark.usefixtures("runtime")
@MORTALS
async def test_method_when_it_leaves_then_the_exit_code_is_told(mortal: Any) -> None:
    actor = mortal.remote()
    error = await raised(actor.leave.remote(3))

    assert isinstance(error, ActorDiedError)
    assert (error.exit.cause, error.exit.code) == ("exited", 3)
    assert error.exit.method == "leave"


@pytest.mark.usefixtures("runtime")
@MORTALS
async def test_actor_when_it_may_be_restarted_then_its_state_is_fresh(
    mortal: Any,
) -> None:
    actor = mortal.options(max_restarts=1).remote(10)
    assert await actor.add.remote() == 11
    lost = await raised(actor.leave.remote(3))
    assert isinstance(lost, ActorUnavailableError)
    await actor

    assert await actor.add.remote() == 11
    assert await actor.was_restarted.remote()
    assert isinstance(await raised(actor.leave.remote(3)), ActorDiedError)


@pytest.mark.usefixtures("runtime")
@MORTALS
async def test_call_when_it_may_be_made_again_then_it_is(mortal: Any) -> None:
    actor = mortal.options(max_restarts=1, max_task_retries=1).remote()

    assert await actor.leave_once.remote() == "back"


@pytest.mark.usefixtures("runtime")
@MORTALS
async def test_kill_when_restarts_are_left_then_it_is_made_anew(mortal: Any) -> None:
    actor = mortal.options(max_restarts=1).remote(1)
    assert await actor.add.remote() == 2
    await actorlib.kill(actor, no_restart=False)
    await actor

    assert await actor.add.remote() == 2


# Resources.


async def test_actor_when_placed_then_it_knows_its_share(
    runtime: Runtime, engine: Engine, way: str
) -> None:
    caller = Caller.options(num_gpus=0.5, name="placed").remote()
    beside = AsyncCaller.options(num_gpus=0.5).remote()
    whole = Caller.options(num_gpus=1, num_cpus=1).remote()

    actor, name, gpus, resources = await caller.run.remote(here)
    assert (name, gpus, resources) == ("placed", [0], {"GPU": 0.5})
    assert (await beside.run.remote(here))[2] == [0]
    assert (await whole.run.remote(here))[2:] == ([1], {"CPU": 1.0, "GPU": 1.0})
    assert here() == (None, None, [], {})

    infos = {info.actor_id: info for info in runtime.snapshot().actors}
    if engine == "ray":  # it tells nobody else which devices, nor why
        assert (infos[actor].name, infos[actor].state) == ("placed", "alive")
        assert "is alive on the machine" in runtime.explain(caller)
        with pytest.raises(RuntimeError, match="on the local and the inline engine"):
            _ = caller.share
        return
    assert (caller.share.units, whole.share.units) == (0.5, 1)
    assert infos[actor].devices == {"0": 0.5}
    assert runtime.available_resources()["GPU"] == 0
    if way == "attached":
        with pytest.raises(UnsupportedOptionError, match="has started the runtime"):
            runtime.explain(caller)
        return
    placed, _, holds = runtime.explain(caller).partition("\n")
    assert placed.endswith("is alive on 0.5 of GPU 0")
    assert holds.startswith(
        ("  0.5 of GPU 0, enforced by ", "  0.5 of GPU 0, not enforced")
    )


async def test_actor_when_nothing_is_free_then_it_waits_in_line(
    runtime: Runtime, engine: Engine
) -> None:
    holders = [Echo.options(num_gpus=1).remote() for _ in range(2)]
    await asyncio.gather(*holders)  # what is asked for together Ray places in any order
    waiting = Echo.options(num_gpus=1).remote()
    ref = waiting.echo.remote("placed")
    assert await holders[1].echo.remote("meanwhile") == "meanwhile"
    assert not ref.done()
    if engine != "ray":  # it tells of nobody in line
        assert runtime.snapshot().waiting
    await actorlib.kill(holders[0])

    assert await ref == "placed"


@pytest.mark.usefixtures("runtime")
async def test_actor_when_it_asks_for_too_much_then_it_is_told() -> None:
    with pytest.raises(ActorUnschedulableError, match="GPU=3"):
        await Echo.options(num_gpus=3).remote()


# Other threads; more of them in test_threads.


@pytest.mark.usefixtures("runtime")
async def test_actor_when_called_from_another_thread_then_it_answers() -> None:
    echo = Echo.remote()

    assert await asyncio.to_thread(lambda: echo.echo.remote(1).get()) == 1
    assert await echo.echo.remote(2) == 2


# What is refused.


@pytest.mark.usefixtures("runtime")
async def test_get_when_it_would_block_the_loop_then_it_is_refused() -> None:
    ref = Echo.remote().echo.remote(1)
    with pytest.raises(RuntimeError, match="await"):
        actorlib.get(ref)

    assert await ref == 1


@pytest.mark.usefixtures("runtime")
async def test_get_when_it_takes_too_long_then_a_plain_method_is_told() -> None:
    gate = Gate.remote()

    def wait(handle: Any) -> None:
        actorlib.get(handle.wait.remote("a"), timeout=0.01)

    error = await raised(Caller.remote().run.remote(wait, gate))
    assert isinstance(error, GetTimeoutError)


@pytest.mark.usefixtures("runtime")
@CALLERS
async def test_init_when_a_runtime_runs_then_it_is_refused_also_in_actors(
    caller: Any,
) -> None:
    with pytest.raises(RuntimeError, match="already"):
        actorlib.init()

    assert isinstance(await raised(caller.remote().run.remote(init)), RuntimeError)


def init() -> None:
    actorlib.init()


# The end of the runtime; the guards of every test see that nothing is left.


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"engine": "local"}, id="local"),
        pytest.param(
            {"engine": "local", "start_method": "spawn"},
            id="spawn",
            marks=pytest.mark.slow,
        ),
        pytest.param({"engine": "inline"}, id="inline"),
    ],
)
async def test_shutdown_when_actors_are_busy_then_nothing_is_left(options: Any) -> None:
    threads = set(threading.enumerate())
    async with running(grace=0.1, **options) as runtime:
        assert actorlib.is_initialized()
        counter, gate = Counter.remote(1), Gate.remote()
        caller = AsyncCaller.remote()
        meeting = Meeting.options(max_concurrency=2).remote(2)
        await asyncio.gather(meeting.meet.remote(), meeting.meet.remote())
        assert await caller.call.remote(counter, "add") == 2
        error = await raised(Echo.remote().fail.remote(KeyError("lost")))
        assert isinstance(error, KeyError)
        waiting = gate.wait.remote()
        await gate.reached.remote()
        await actorlib.kill(counter)

    assert isinstance(await raised(waiting), ActorDiedError)
    with pytest.raises(ActorHandleNotFoundError):
        gate.reached.remote()
    with pytest.raises(RuntimeError, match="not running"):
        runtime.snapshot()
    assert not actorlib.is_initialized()
    left = set(threading.enumerate()) - threads
    assert not {thread.name for thread in left if "asyncio_" not in thread.name}


# Methods and attributes of one name.


class Shadowed:
    """Has attributes with the names of methods."""

    def __init__(self) -> None:
        for name in ("value", "later", "items", "items_later", "cls", "static"):
            setattr(self, name, 7)
        self.partial = self.__call__ = None
        self.replaced = lambda: "the instance's"

    def value(self) -> tuple[str, Any]:
        return "value", vars(self)["value"]

    async def later(self) -> str:
        return "later"

    def items(self) -> Iterator[str]:
        yield "items"

    async def items_later(self) -> AsyncIterator[str]:
        yield "items"

    @classmethod
    def cls(cls) -> str:
        return cls.__name__

    @staticmethod
    def static(*, wanted: str = "static") -> str:
        return wanted

    partial = functools.partialmethod(static, wanted="partial")

    def __call__(self) -> str:
        return "call"

    def replaced(self) -> str:
        return "the class's"


class ShadowedPlain(Shadowed):
    """The same without a loop."""

    later = items_later = None  # type: ignore[assignment]

    @actorlib.setup
    def begin(self) -> None:
        assert self.begin == 0

    def __new__(cls) -> Any:
        made = super().__new__(cls)
        made.begin = 0  # type: ignore[method-assign]
        return made


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Shadowed, {}),
        (Shadowed, {"concurrency_groups": {"other": 1}}),
        (ShadowedPlain, {}),
        (ShadowedPlain, {"max_concurrency": 2}),
    ],
    ids=["async", "groups", "serial", "threaded"],
)
async def test_method_when_an_attribute_has_its_name_then_the_method_is_called(
    cls: Any, options: dict[str, Any], way: str
) -> None:
    actor = actorlib.remote(cls).options(**options).remote()

    assert await actor.value.remote() == ("value", 7)
    assert await actor.static.remote(wanted="given") == "given"
    assert await actor.cls.remote() == cls.__name__
    assert await actor.partial.remote() == "partial"
    assert await actor.__call__.remote() == "call"
    assert await actor.replaced.remote() == "the instance's"
    if cls is Shadowed:
        assert await actor.later.remote() == "later"
    if way == "ray_client":  # it passes no streams
        return
    assert await actor.items.options(num_returns=1).remote() == "items"
    if cls is Shadowed:
        assert await actor.items_later.options(num_returns=1).remote() == "items"


# Constructors that are an ``async def``.


class Base:
    """Awaits in its constructor, with a gate if there is one."""

    async def __init__(self, number: int = 0, *, gate: Any = None) -> None:  # type: ignore[misc]
        self.thread = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        if gate is not None:
            await gate.open.remote("begun")
            await gate.wait.remote("go on")
        await asyncio.sleep(0)
        self.number = number

    def state(self) -> tuple[int, bool, bool]:
        is_own = asyncio.get_running_loop() is self.loop
        return self.number, is_own, threading.get_ident() == self.thread


class Derived(Base):
    """Awaits its base's constructor, and is set up behind it."""

    async def __init__(self, number: int) -> None:  # type: ignore[misc]
        await super().__init__(number)
        self.number += 1

    @actorlib.setup
    def begin(self) -> None:
        self.number *= 10


class Inherits(Derived):
    """Has its base's constructor."""

    def __new__(cls, number: int) -> Any:
        made = super().__new__(cls)
        made.made_with = number
        return made

    async def new(self) -> int:
        return self.made_with


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("options", [{}, {"concurrency_groups": {"other": 1}}])
async def test_constructor_when_async_then_awaited_on_the_loop(
    options: dict[str, Any],
) -> None:
    base = actorlib.remote(Base).options(**options).remote(number=1)
    await base
    derived = actorlib.remote(Inherits).options(**options).remote(2)

    assert await base.state.remote() == (1, True, True)
    assert await derived.state.remote() == (30, True, True)
    assert await derived.new.remote() == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        actorlib.remote(Base).remote(nope=1)


@pytest.mark.usefixtures("runtime")
async def test_constructor_when_async_then_calls_wait_for_it() -> None:
    gate = Gate.remote()
    actor = actorlib.remote(Base).remote(gate=gate)
    state = actor.state.remote()
    await gate.wait.remote("begun")

    assert not state.done()
    await gate.open.remote("go on")
    assert (await state)[0] == 0


@pytest.mark.usefixtures("runtime")
async def test_constructor_when_async_and_it_raises_then_every_call_says_so() -> None:
    @actorlib.remote
    class Fails:
        async def __init__(self) -> None:  # type: ignore[misc]
            await asyncio.sleep(0)
            raise LookupError("no such model")

        def ping(self) -> None: ...

    actor = Fails.remote()
    for ref in (actor, actor.ping.remote()):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert error.actor_init_failed
        assert "no such model" in str(error)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("kind", ["kill", "restart"])
async def test_constructor_when_async_and_killed_meanwhile_then_it_is_over(
    kind: str,
) -> None:
    gate = Gate.remote()
    actor = actorlib.remote(Base).options(max_restarts=1).remote(7, gate=gate)
    state = actor.state.remote()
    await gate.wait.remote("begun")

    if kind == "restart":
        await gate.open.remote("go on")
        await state
        await actorlib.kill(actor, no_restart=False)
        await actor
        assert (await actor.state.remote())[0] == 7
    else:
        await actorlib.kill(actor)
        assert isinstance(await raised(state), ActorDiedError)
