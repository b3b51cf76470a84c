"""Calls that workers make, and what else they do while they wait for the answers."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from concurrent.futures import as_completed
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Counter, Log
from helpers.callees import LIMIT
from helpers.callers import error_of
from helpers.kinds import ASYNC, CONTRACT, OWN_ENGINES, kinds
from helpers.reused import Echo, Gate
from helpers.waiting_calls import wait_at

import actorlib
import actorlib.blocking
from actorlib.exceptions import ActorDiedError, GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.callees import Callee, Steps
    from helpers.callers import Api

    from actorlib import ObjectRef

pytestmark = CONTRACT

BLOCKS = kinds("function", "plain", "threaded", "group", "mixed")
"""What blocks a thread while it waits."""


@pytest.fixture
def get(api: Api) -> Callable[..., Any]:
    """What workers wait with that block."""
    return actorlib.blocking.get if api.is_blocking else actorlib.get


# Waiting.


def ask_many(echo: Any, gate: Any) -> Steps:
    refs = [echo.echo.remote(number) for number in range(300)]
    late = gate.wait.remote("late")
    passed = yield echo.echo.remote(echo.echo.remote("passed"))
    nothing = yield []
    values = yield refs
    same = yield [refs[0], refs[0]]
    opened = gate.open.remote("late")
    return values, passed, nothing, same, (yield [opened, late])


@kinds("function", "plain", "threaded", "async", "group", "mixed")
async def test_worker_when_it_waits_for_calls_then_it_has_their_values(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(ask_many, Echo.remote(), Gate.remote())

    assert await api.get(ref) == ([*range(300)], "passed", [], [0, 0], [None, "late"])


def get_late(get: Any, gate: Any, echo: Any) -> list[str]:
    """Gives up two waits, and then has the value all the same."""
    late = gate.wait.remote("late")
    results: list[str] = []
    for refs in (late, [echo.echo.remote(5), late]):
        try:
            get(refs, timeout=0.001)
        except GetTimeoutError:
            results.append("too late")
    gate.open.remote("late")
    return [*results, get(late, timeout=LIMIT)]


@BLOCKS
async def test_get_when_its_time_is_over_then_the_call_goes_on(
    api: Api, callee: Callee, get: Any
) -> None:
    ref = callee.run(get_late, get, Gate.remote(), Echo.remote())

    assert await api.get(ref) == ["too late", "too late", "late"]


def get_patiently(get: Any, echo: Any) -> list[int]:
    """Waits with limits that no system call has."""
    limits = (1e7, 1e20, math.inf)
    refs = [echo.echo.remote(number) for number in range(len(limits))]
    return [get(ref, timeout=limit) for ref, limit in zip(refs, limits, strict=True)]


@OWN_ENGINES
@BLOCKS
async def test_get_when_it_may_wait_for_ages_then_it_has_the_value(
    api: Api, callee: Callee, get: Any
) -> None:
    ref = callee.run(get_patiently, get, Echo.remote())

    assert await api.get(ref) == [0, 1, 2]


def get_parts(get: Any, pairs: Any) -> list[int]:
    first, second = pairs.pair.options(num_returns=2).remote()
    third, fourth = pairs.two.options(num_returns=2).remote()
    return [get(third), *get([first, second]), fourth.get()]


def get_first(pairs: Any) -> tuple[int, list[int]]:
    refs = [pairs.echo.remote(number) for number in range(20)]
    ready, others = actorlib.wait(refs, num_returns=7).get()
    return len(ready) + len(others), sorted(actorlib.as_completed(refs[:3]))


class Pairs:
    """Gives several values."""

    def pair(self) -> tuple[int, int]:
        return 1, 2

    def two(self) -> Iterator[int]:
        yield 3
        yield 4

    def echo(self, value: Any) -> Any:
        return value

    def items(self) -> Iterator[int]:
        yield from range(50)


@OWN_ENGINES
@BLOCKS
async def test_get_when_given_parts_then_their_values(
    api: Api, callee: Callee, get: Any
) -> None:
    pairs = actorlib.remote(Pairs).remote()

    assert await api.get(callee.run(get_parts, get, pairs)) == [3, 1, 2, 4]
    assert await api.get(callee.run(get_first, pairs)) == (20, [0, 1, 2])


@kinds("function", "plain", "threaded", "async", "group", "mixed")
async def test_worker_when_the_actor_it_waits_for_dies_then_an_error_says_so(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    ref = callee.run(wait_at, gate, "here")
    await api.get(gate.reached.remote("here"))
    await api.kill(gate)

    assert isinstance(await error_of(api, ref), ActorDiedError)
    assert await api.get(callee.run(len, "ab")) == 2


# What an actor does while it waits.


@OWN_ENGINES
@kinds("plain", "threaded", "async", "group", "mixed")
async def test_answers_when_a_later_call_waits_then_they_are_sent_before(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    before = callee.run(len, "a")
    waiting = callee.run(wait_at, gate, "here")
    behind = callee.run(len, "ab")
    await api.get(gate.reached.remote("here"))

    assert await api.get(before) == 1
    assert not waiting.done()
    await api.get(gate.open.remote("here"))
    assert await api.get([waiting, behind]) == ["here", 2]


def call_back(caller: Any, *args: Any) -> Steps:
    """Has another actor call this one."""
    me: Any = actorlib.get_runtime_context().current_actor
    return (yield caller.call.remote(me, "run", *args))


def call_itself(depth: int) -> Steps:
    me: Any = actorlib.get_runtime_context().current_actor
    return 0 if not depth else 1 + (yield me.run.remote(call_itself, depth - 1))


@kinds("threaded", "async", "group")
@pytest.mark.parametrize("caller", [Caller, AsyncCaller])
async def test_actor_when_it_is_called_back_while_it_waits_then_it_answers(
    api: Api, callee: Callee, caller: Any
) -> None:
    ref = callee.run(call_back, caller.remote(), len, "abc")

    assert await api.get(ref) == 3


@pytest.mark.parametrize(
    ("callee", "depth"),
    [("threaded", 1), ("group", 1), ("async", 20)],
    indirect=["callee"],
)
async def test_actor_when_it_calls_itself_and_has_a_place_then_it_answers(
    api: Api, callee: Callee, depth: int
) -> None:
    assert await api.get(callee.run(call_itself, depth)) == depth


def play(other: Any, own: Any, left: int) -> Steps:
    return 0 if not left else 1 + (yield other.run.remote(play, own, other, left - 1))


class Both:
    """A coroutine that awaits a plain method of its own actor."""

    async def outer(self, caller: Any) -> list[str]:
        me: Any = actorlib.get_runtime_context().current_actor
        return [await me.inner.remote(), await caller.call.remote(me, "inner")]

    def inner(self) -> str:
        return "inner"


@OWN_ENGINES
async def test_coroutine_when_a_plain_method_of_its_actor_is_called_then_it_runs(
    api: Api,
) -> None:
    both = actorlib.remote(Both).remote()

    assert await api.get(both.outer.remote(Caller.remote())) == ["inner", "inner"]


@ASYNC
async def test_actors_when_they_call_each_other_then_both_answer(
    api: Api, callee: Callee
) -> None:
    one, other = callee.actor, callee.new().actor

    assert await api.get(one.run.remote(play, other, one, 20)) == 20
    await api.kill(one)  # each has a handle of the other
    await api.kill(other)


# Constructors, and methods that take what others have asked for.


class Asks:
    """Asks in its constructor and in one method, and waits in another."""

    def __init__(self, get: Any, echo: Any) -> None:
        self._get = get
        self._refs = [echo.echo.remote(0)]
        self._first = get(echo.echo.remote("first"))

    def ask(self, echo: Any, value: int) -> None:
        self._refs.append(echo.echo.remote(value))

    def answers(self) -> list[Any]:
        return [self._first, *self._get(self._refs)]


class LoopedAsks(Asks):
    """The same with an event loop."""

    async def idle(self) -> None:
        """Gives it the loop."""


class AsyncAsks:
    """The same in coroutines."""

    async def __init__(self, _: Any, echo: Any) -> None:  # type: ignore[misc]
        self._refs = [echo.echo.remote(0)]
        self._first = await echo.echo.remote("first")

    async def ask(self, echo: Any, value: int) -> None:
        self._refs.append(echo.echo.remote(value))

    async def answers(self) -> list[Any]:
        return [self._first, *await asyncio.gather(*self._refs)]


@OWN_ENGINES
@pytest.mark.parametrize("cls", [Asks, LoopedAsks, AsyncAsks])
async def test_ref_when_one_method_makes_it_then_another_gets_it(
    api: Api, cls: type, get: Any
) -> None:
    echo = Echo.remote()
    asks = actorlib.remote(cls).remote(get, echo)
    for number in range(1, 5):
        await api.get(asks.ask.remote(echo, number))

    assert await api.get(asks.answers.remote()) == ["first", 0, 1, 2, 3, 4]


class Fails:
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no")


async def make_and_await() -> tuple[int, str]:
    """Awaits the readiness of two actors, of which one fails."""
    counter = await Counter.remote()
    value = await counter.add.remote()
    try:
        await actorlib.remote(Fails).remote()
    except ActorDiedError as error:
        return value, repr(error.__cause__)
    return value, ""


@ASYNC
async def test_actor_when_a_coroutine_awaits_its_handle_then_until_it_is_ready(
    api: Api, callee: Callee
) -> None:
    value, cause = await api.get(callee.run(make_and_await))

    assert value == 1
    assert "ValueError" in cause


# Threads of an actor.


def ask_in_threads(get: Any, pairs: Any, *, reads: bool) -> dict[str, list[int]]:
    """Calls in several threads and in this one, at once."""
    results: dict[str, list[int]] = {}

    def ask(name: str) -> None:
        values = [get(pairs.echo.remote(n), timeout=LIMIT) for n in range(50)]
        if reads:
            values += [get(ref, timeout=LIMIT) for ref in pairs.items.remote()]
        results[name] = values

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    ask("own")
    for thread in threads:
        thread.join()
    return results


@BLOCKS
async def test_threads_when_a_worker_starts_them_then_each_is_answered(
    api: Api, callee: Callee, get: Any, engine: str
) -> None:
    pairs, reads = actorlib.remote(Pairs).remote(), engine != "client"
    results = await api.get(callee.run(ask_in_threads, get, pairs, reads=reads))

    values = [*range(50), *(range(50) if reads else ())]
    assert results == dict.fromkeys(("a", "b", "c", "own"), values)


def begin_thread(get: Any, echo: Any, gate: Any) -> None:
    """Starts a thread that calls, when this actor is idle again."""

    def ask() -> None:
        for number in range(100):
            assert get(echo.echo.remote(number), timeout=LIMIT) == number
        get(gate.open.remote("done"), timeout=LIMIT)

    threading.Thread(target=ask).start()


@OWN_ENGINES
@kinds("plain", "threaded", "async", "group", "mixed")
async def test_thread_when_its_method_has_returned_then_its_calls_are_answered(
    api: Api, callee: Callee, get: Any
) -> None:
    gate = Gate.remote()
    await api.get(callee.run(begin_thread, get, Echo.remote(), gate))

    assert await api.get(gate.wait.remote("done")) == "done"


def ask_for_fifty(echo: Any, start: int) -> Steps:
    return (yield [echo.echo.remote(start + number) for number in range(50)])


@kinds("threaded")
async def test_threads_when_they_call_at_once_then_each_has_its_own_answers(
    api: Api, callee: Callee
) -> None:
    callee, echo, gate = callee.new(max_concurrency=4), Echo.remote(), Gate.remote()
    waiting = callee.run(wait_at, gate, "here")
    await api.get(gate.reached.remote("here"))
    refs = [callee.run(ask_for_fifty, echo, 50 * number) for number in range(40)]
    values = await api.get(refs)

    assert values == [[*range(50 * n, 50 * n + 50)] for n in range(40)]
    assert not waiting.done()
    await api.get(gate.open.remote("here"))
    assert await api.get(waiting) == "here"


# Blocking waits in coroutines.


async def block_and_warn(echo: Any, gate: Any) -> tuple[list[Any], list[str]]:
    """Blocks its loop for answers, and gives what was logged meanwhile."""
    messages: list[str] = []

    class Messages(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Messages()
    logging.getLogger("actorlib").addHandler(handler)
    values = [
        actorlib.get(echo.echo.remote(1)),
        len(actorlib.get(echo.echo.remote(bytes(3_000_000)))),
        # The answer that is an argument here comes while the loop is blocked.
        actorlib.get(echo.echo.remote(echo.echo.remote("x"))),
    ]
    waiting = gate.wait.remote()
    try:
        waiting.get(timeout=0.01)
    except GetTimeoutError:
        values.append("too late")
    gate.open.remote()
    values.append(await waiting)
    logging.getLogger("actorlib").removeHandler(handler)
    return values, messages


@ASYNC
async def test_get_when_a_coroutine_blocks_then_it_works_and_warns_once(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(block_and_warn, Echo.remote(), Gate.remote())
    values, messages = await api.get(ref)

    assert values == [1, 3_000_000, "x", "too late", ""]
    [message] = [text for text in messages if "blocks the event loop" in text]
    assert "Await it instead" in message


async def block_at(gate: Any) -> str:
    ref: ObjectRef[str] = gate.wait.remote("here")
    try:
        return actorlib.get(ref)
    except ActorDiedError:
        return "dead"


@ASYNC
async def test_get_when_a_coroutine_blocks_then_later_calls_run_behind_it(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    blocked = callee.run(block_at, gate)
    await api.get(gate.reached.remote("here"))
    behind = [callee.run(len, "ab") for _ in range(100)]
    await api.get(gate.open.remote("here"))

    assert await api.get(blocked) == "here"
    assert await api.get(behind) == [2] * 100


@ASYNC
async def test_get_when_a_coroutine_blocks_and_the_other_dies_then_it_raises(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    blocked = callee.run(block_at, gate)
    await api.get(gate.reached.remote("here"))
    await api.kill(gate)

    assert await api.get(blocked) == "dead"


# What is refused.


@OWN_ENGINES
async def test_get_when_it_would_block_the_loop_of_the_runtime_then_refused(
    api: Api,
) -> None:
    log = actorlib.remote(Log).remote()
    ref = log.note.remote(1)
    if not api.is_blocking:  # else, the loop of the runtime is another
        for get in (actorlib.get, actorlib.blocking.get, type(ref).get):
            with pytest.raises(RuntimeError, match="await"):
                get(ref)

    assert await api.get(ref) == 1
    assert actorlib.get(ref) == 1  # it is there already


def sum_of_futures(get: Any, echo: Any) -> int:
    """Takes answers from futures of the standard library."""
    futures = [echo.echo.remote(number).future() for number in range(10)]
    get(echo.echo.remote(None))  # a plain method reads while it waits, and then only
    return sum(future.result(LIMIT) for future in as_completed(futures))


@kinds("function", "plain", "threaded", "group")
async def test_futures_when_a_worker_waits_for_them_then_they_have_the_values(
    api: Api, callee: Callee, get: Any
) -> None:
    assert await api.get(callee.run(sum_of_futures, get, Echo.remote())) == 45
