"""``map`` of functions, methods and pools: order, chunks, errors, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Counter, Gate
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory
from helpers.terminal import Terminal
from helpers.turns import in_time

import actorlib
from actorlib import ActorPool
from actorlib.exceptions import (
    DeadlineExceededError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


pytestmark = [*in_memory(num_cpus=8), USES_RUNTIME]

colour = actorlib.propagate(ContextVar("test_maps.colour", default="none"))


# What is mapped: each is a function, and a method of an actor.


def add(left: int, right: int = 1) -> int:
    return left + right


def invert(value: int) -> float:
    return 12 / value


def wait_at(gate: Any, name: str) -> str:
    return actorlib.get(gate.wait.remote(name))


def fail_at(gate: Any, name: str) -> None:
    actorlib.get(gate.wait.remote(name))
    raise ArithmeticError(name)


def unsendable(value: int) -> Any:
    return (n for n in "") if value == 1 else value


def call_id(_: int) -> Any:
    return actorlib.get_runtime_context().get_task_id()


def pair(value: int) -> tuple[int, int]:
    return value, value


def items(value: int) -> Iterator[int]:
    yield value


MAPPED = (add, invert, wait_at, fail_at, unsendable, call_id, pair, items)
FUNCTIONS: dict[str, Any] = {
    function.__name__: actorlib.remote(num_cpus=0)(function) for function in MAPPED
}
METHODS: dict[str, Any] = {
    function.__name__: staticmethod(function) for function in MAPPED
}
Worker: Any = type("Worker", (), {**METHODS, "__module__": __name__})


class AsyncWorker:
    """The same in coroutines."""

    async def add(self, left: int, right: int = 1) -> int:
        await asyncio.sleep(0)
        return left + right

    async def invert(self, value: int) -> float:
        return 12 / value

    async def wait_at(self, gate: Any, name: str) -> Any:
        return await gate.wait.remote(name)

    async def fail_at(self, gate: Any, name: str) -> None:
        await gate.wait.remote(name)
        raise ArithmeticError(name)

    async def unsendable(self, value: int) -> Any:
        return unsendable(value)


def new_actor(kind: str) -> Any:
    if kind == "async":
        return actorlib.remote(AsyncWorker).remote()
    size = 1 if kind == "serial" else 6
    return actorlib.remote(max_concurrency=size)(Worker).remote()


def start(way: str, name: str, *iterables: Any, **options: Any) -> Any:
    """Begins a map.

    Args:
        way: ``function``, ``pool``, or the kind of the actor whose method is mapped.
        name: What is mapped.
        *iterables: One for each argument.
        **options: Those of ``map``.
    """
    if way == "function":
        return FUNCTIONS[name].map(*iterables, **options)
    if way != "pool":
        return getattr(new_actor(way), name).map(*iterables, **options)
    pool: ActorPool[Any] = ActorPool([new_actor("serial") for _ in range(6)])
    if len(iterables) == 1:
        return pool.map(lambda a, v: getattr(a, name).remote(v), *iterables, **options)
    rows = list(zip(*iterables, strict=False))
    return pool.map(lambda a, row: getattr(a, name).remote(*row), rows, **options)


ALL = pytest.mark.parametrize(
    "way", ["function", "pool", "serial", "threaded", "async"]
)
AT_ONCE = pytest.mark.parametrize("way", ["function", "pool", "threaded", "async"])
AS_TAKEN = pytest.mark.parametrize("way", ["function", "pool"])
"""Those that read items as results are taken."""


async def outcomes(results: Any) -> list[Any]:
    """The results, with the errors among them."""
    found: list[Any] = []
    while True:
        try:
            async for value in results:
                found.append(value)  # noqa: PERF401  # an error ends the loop
        except ArithmeticError as error:
            found.append(error)
        else:
            return found


def notes_of(*places: int) -> list[list[str]]:
    return [[f"in call {place} of a map, counted from 0"] for place in places]


# Order.


@ALL
@pytest.mark.parametrize("chunksize", [1, 3, 100, "auto"])
async def test_map_when_awaited_or_iterated_then_in_order(
    way: str, chunksize: Any
) -> None:
    def adds(*iterables: Any) -> Any:
        return start(way, "add", *iterables, chunksize=chunksize)

    assert await adds(range(50)) == [*range(1, 51)]
    assert [value async for value in adds(iter(range(50)))] == [*range(1, 51)]
    assert await adds([]) == []
    assert await adds([1, 2, 3], iter([10, 20])) == [11, 22]
    assert await adds([*map(actorlib.put, range(5)), 7]) == [1, 2, 3, 4, 5, 8]


@AT_ONCE
async def test_map_when_a_later_call_is_done_first_then_in_order(way: str) -> None:
    gate: Any = Gate.remote()
    results = aiter(start(way, "wait_at", [gate] * 3, "abc", chunksize=1))
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        await asyncio.gather(*(gate.reached.remote(name) for name in "abc"))
        await gate.open.remote("c")
        await gate.open.remote("b")
        assert not first.done()
        await gate.open.remote("a")
        assert await first == "a"
        assert await outcomes(results) == ["b", "c"]


@AS_TAKEN
@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_unordered_then_what_is_there_comes_first(
    way: str, chunksize: int
) -> None:
    gate: Any = Gate.remote()
    options: Any = {"chunksize": chunksize, "ordered": False}
    results = start(way, "wait_at", [gate] * 4, "abcd", **options)
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        await gate.open.remote("c")
        await gate.open.remote("d")
        assert await first in "cd"
        await gate.open.remote("a")
        await gate.open.remote("b")
        assert len(await results) == 3


@ALL
async def test_map_when_a_chunk_is_sent_then_it_is_one_call(way: str) -> None:
    if way == "async":  # tasks of one call have ids of their own
        return
    calls = await start(way, "call_id", range(5), chunksize=2)

    assert calls[0] == calls[1] != calls[2] == calls[3] != calls[4]


async def test_map_when_awaited_twice_then_the_same_list() -> None:
    results = start("function", "add", range(5), chunksize=2)

    assert await anext(results) == 1
    assert await results == [2, 3, 4, 5]
    assert await results == [2, 3, 4, 5]
    failing = start("function", "invert", [1, 0, 2])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await failing
    # Those of a method begin with the first result each time.
    batch = start("serial", "add", range(5), chunksize=2)
    for _ in range(2):
        assert [value async for value in batch] == [1, 2, 3, 4, 5]
        assert await batch == [1, 2, 3, 4, 5]


async def test_map_unordered_when_chunked_then_all_results() -> None:
    function = FUNCTIONS["add"]
    for fn in (function, function.remote):
        results = actorlib.map_unordered(fn, range(10), chunksize=3)
        assert sorted(await results) == list(range(1, 11))
    with pytest.raises(TypeError, match="one item at a time"):
        actorlib.map_unordered(lambda n: function.remote(2 * n), [1], chunksize=2)
    with pytest.raises(ValueError, match="on_error"):
        actorlib.map_unordered(function, [1], on_error="ignore")


async def test_map_when_calls_come_before_and_behind_then_all_are_in_order() -> None:
    counter = Counter.remote()
    before = counter.add.remote(1)
    batch = counter.add.map([1] * 600)
    behind = counter.add.remote(1)

    assert await behind == 602
    assert await batch == list(range(2, 602))
    assert await before == 1


# Items.


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_items_are_endless_then_only_so_many_are_taken(
    chunksize: int,
) -> None:
    taken: list[int] = []
    is_over = False

    def values() -> Iterator[int]:
        for value in itertools.takewhile(lambda _: not is_over, itertools.count()):
            taken.append(value)
            yield value

    options: Any = {"chunksize": chunksize, "backpressure_size": 3}
    results = start("function", "add", values(), itertools.repeat(0), **options)
    assert len(taken) == 3 * chunksize
    assert [await anext(results) for _ in range(6)] == list(range(6))
    assert len(taken) <= (6 + 3) * chunksize
    is_over = True
    assert await outcomes(results) == taken[6:]


@AS_TAKEN
@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_items_come_late_then_results_do_not_wait_for_them(
    way: str, chunksize: int
) -> None:
    more = asyncio.Event()

    async def values() -> AsyncIterator[int]:
        for value in range(3):
            yield value
        await more.wait()
        yield 3
        yield 4

    results = start(way, "add", values(), chunksize=chunksize)
    async with in_time():
        assert [await anext(results), await anext(results)] == [1, 2]
        more.set()
        assert await outcomes(results) == [3, 4, 5]


@AS_TAKEN
@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_left_then_it_takes_no_more_items(
    way: str, chunksize: int
) -> None:
    given_up = asyncio.Event()

    async def values() -> AsyncIterator[int]:
        yield 1
        yield 2
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    results = start(way, "add", values(), chunksize=chunksize)
    async with contextlib.aclosing(results):
        assert await anext(results) == 2
    assert given_up.is_set()
    assert await outcomes(results) == [3]  # its call was made
    given_up.clear()
    async for value in start(way, "add", values(), chunksize=chunksize):
        assert value == 2
        break
    async with in_time():
        await given_up.wait()


@AS_TAKEN
@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_the_items_fail_then_behind_those_that_came(
    way: str, chunksize: int
) -> None:
    def values() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ArithmeticError("no more")

    *found, error = await outcomes(start(way, "add", values(), chunksize=chunksize))

    assert found == [2, 3, 4]
    assert str(error) == "no more"


# Errors.


@AS_TAKEN
@pytest.mark.parametrize("chunksize", [1, 2, 3, "auto"])
async def test_map_when_a_call_fails_then_there_and_the_others_have_results(
    way: str, chunksize: Any
) -> None:
    values = [1, 2, 3, 0, 4, 6]
    found = await outcomes(start(way, "invert", values, chunksize=chunksize))

    assert found[:3] + found[4:] == [12.0, 6.0, 4.0, 3.0, 2.0]
    assert isinstance(found[3], ZeroDivisionError)
    assert [found[3].__notes__] == notes_of(3)


@pytest.mark.parametrize("kind", ["serial", "threaded", "async"])
async def test_map_of_a_method_when_a_call_fails_then_behind_those_before_it(
    kind: str,
) -> None:
    actor = new_actor(kind)
    batch = actor.invert.map([1] * 300 + [0] + [1] * 700)

    for _ in range(2):
        results: Any = aiter(batch)
        assert [await anext(results) for _ in range(300)] == [12] * 300
        with pytest.raises(ZeroDivisionError) as caught:
            await anext(results)
        assert caught.value.__notes__[-1:] == notes_of(300)[0]
    assert isinstance(await raised(batch), ZeroDivisionError)
    assert await actor.add.remote(1) == 2


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_of_a_method_when_asynchronous_items_fail_then_behind_those_before(
    chunksize: int,
) -> None:
    async def values(*, are_over: bool) -> AsyncIterator[Any]:
        yield 1
        yield 2
        if are_over:
            raise ArithmeticError
        yield (n for n in "")  # cannot be sent
        yield 3

    actor = new_actor("serial")
    for are_over, kind in ((True, ArithmeticError), (False, SerializationError)):
        batch = actor.add.map(values(are_over=are_over), chunksize=chunksize)
        async with in_time():
            for _ in range(2):
                results: Any = aiter(batch)
                assert [await anext(results) for _ in range(2)] == [2, 3]
                assert isinstance(await raised(anext(results)), kind)
            assert isinstance(await raised(batch), kind)


@ALL
@pytest.mark.parametrize("chunksize", [1, 3, "auto"])
async def test_map_when_errors_are_returned_then_in_their_places(
    way: str, chunksize: Any
) -> None:
    options: list[Any] = [{"on_error": "return"}, {"return_exceptions": True}]
    for option in options:
        results = start(way, "invert", [4, 0, 3, 0], chunksize=chunksize, **option)
        found: list[Any] = await results

        assert found[0::2] == [3.0, 4.0]
        assert all(isinstance(error, ZeroDivisionError) for error in found[1::2])
        assert [error.__notes__ for error in found[1::2]] == notes_of(1, 3)


@ALL
async def test_map_when_one_item_or_result_cannot_be_sent_then_the_others_are(
    way: str,
) -> None:
    options: Any = {"chunksize": 3, "on_error": "return"}
    found: list[Any] = await start(way, "unsendable", range(3), **options)
    assert (found[0], found[2]) == (0, 2)
    assert "generator" in str(found[1])

    found = await start(way, "add", [1, (n for n in ""), 3], **options)
    assert (found[0], found[2]) == (2, 4)
    assert [found[1].__notes__] == notes_of(1)


@AT_ONCE
@pytest.mark.parametrize("chunksize", [1, "auto"])
async def test_map_when_awaited_and_one_fails_then_the_others_are_not_waited_for(
    way: str, chunksize: Any
) -> None:
    gate: Any = Gate.remote()
    results = start(way, "fail_at", [gate] * 2, "ab", chunksize=chunksize)
    waiting = asyncio.ensure_future(results)
    async with in_time():
        await gate.open.remote("b")
        with pytest.raises(ArithmeticError, match="b"):
            await waiting
    await gate.open.remote("a")


async def test_map_when_interrupted_while_it_makes_a_call_then_the_others_go_on() -> (
    None
):
    def call(value: int) -> Any:
        if value == 2:
            raise KeyboardInterrupt
        return FUNCTIONS["add"].remote(value)

    options: Any = {"ordered": True, "backpressure_size": 1}
    results = actorlib.map_unordered(call, [1, 2, 3], **options)
    async with in_time():
        assert await anext(results) == 2
        with pytest.raises(KeyboardInterrupt):
            await anext(results)
        assert await results == [4]


# Progress.


@AT_ONCE
@pytest.mark.parametrize("chunksize", [1, 2])
async def test_progress_when_the_first_is_slow_then_it_counts_those_behind(
    monkeypatch: pytest.MonkeyPatch, way: str, chunksize: int
) -> None:
    terminal = Terminal.of(monkeypatch)
    gate: Any = Gate.remote()
    options: Any = {"chunksize": chunksize, "progress": "waits"}
    results = aiter(start(way, "wait_at", [gate] * 6, "abcdef", **options))
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        for name in "cdef":
            await gate.open.remote(name)
        await asyncio.sleep(5)  # the loop jumps over it
        assert "waits" in terminal.getvalue()
        assert "4/6" in terminal.getvalue()
        await gate.open.remote("a")
        await gate.open.remote("b")
        assert await first == "a"
        assert await outcomes(results) == list("bcdef")
    assert terminal.screen() == [""]


@AS_TAKEN
async def test_progress_when_a_call_fails_then_it_counts_it(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    terminal = Terminal.of(monkeypatch)
    gate: Any = Gate.remote()
    results = start(way, "fail_at", [gate] * 3, "abc", progress=True)
    async with in_time():
        await gate.open.remote("a")
        with pytest.raises(ArithmeticError):
            await anext(results)
        second = asyncio.ensure_future(anext(results))
        await asyncio.sleep(5)  # likewise
        assert "1/3" in terminal.getvalue()
        await gate.open.remote("b")
        await gate.open.remote("c")
        with pytest.raises(ArithmeticError):
            await second
        assert len(await outcomes(results)) == 1
    assert terminal.screen() == [""]


# In actors.


def map_here(way: str, chunksize: Any) -> tuple[list[int], list[int]]:
    got = start(way, "add", range(5), chunksize=chunksize).get(timeout=60)
    return got, list(start(way, "add", range(5), chunksize=chunksize))


async def map_on_loop(way: str, chunksize: Any) -> tuple[list[int], list[int]]:
    last = [n async for n in start(way, "add", range(5), chunksize=chunksize)]
    return await start(way, "add", range(5), chunksize=chunksize), last


@ALL
@pytest.mark.parametrize("chunksize", [1, 2, "auto"])
async def test_map_when_used_in_methods_of_actors_then_with_and_without_a_loop(
    way: str, chunksize: Any
) -> None:
    expected = ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])

    assert await Caller.remote().run.remote(map_here, way, chunksize) == expected
    assert await AsyncCaller.remote().run.remote(map_on_loop, way, chunksize) == (
        expected
    )


def give_up_once(way: str, gate: Any) -> list[str]:
    results = start(way, "wait_at", [gate] * 2, "ab")
    try:
        results.get(timeout=0.01)
    except GetTimeoutError:
        gate.open.map(["a", "b"]).get()
    return results.get()


@AT_ONCE
async def test_map_when_a_blocking_wait_takes_too_long_then_the_calls_go_on(
    way: str,
) -> None:
    found = await Caller.remote().run.remote(give_up_once, way, Gate.remote())

    assert found == ["a", "b"]


# What is refused.


@pytest.mark.parametrize("way", ["function", "serial"])
async def test_map_when_misused_then_it_fails_at_the_call(way: str) -> None:
    owner = new_actor(way) if way == "serial" else None
    added = FUNCTIONS["add"] if owner is None else owner.add
    paired = FUNCTIONS["pair"] if owner is None else owner.pair
    generator = FUNCTIONS["items"] if owner is None else owner.items
    for wrong, match in (
        (added.map, "an iterable for each argument"),
        (lambda: added.map(3), "takes its values from an iterable"),
        (lambda: added.map([1], 3), "several arguments from an iterable each"),
        (lambda: added.map([1], [2], [3]), "takes from 1 to 2 positional"),
        (lambda: added.map([1], chunksize="2"), "chunksize"),
        (lambda: added.map([1], progress=1), "progress takes True"),
        (lambda: generator.map([1]), "items is a generator"),
        (lambda: paired.options(num_returns=2).map([1]), "num_returns=2"),
    ):
        with pytest.raises(TypeError, match=match):
            wrong()
    with pytest.raises(ValueError, match="chunksize"):
        added.map([1], chunksize=0)


async def test_map_when_one_kind_refuses_more_then_it_fails_at_the_call() -> None:
    async def values() -> AsyncIterator[int]:
        yield 1

    function = FUNCTIONS["add"]
    for chunksize in (1, 2):
        with pytest.raises(TypeError, match="async for"):
            next(function.map(values(), chunksize=chunksize))
    with pytest.raises(ValueError, match="backpressure_size"):
        function.map([1], backpressure_size=0)
    with pytest.raises(SerializationError, match="generator"):
        new_actor("serial").add.map([1, (n for n in "")])


async def test_map_when_too_many_calls_wait_then_chunks_count_and_it_is_refused() -> (
    None
):
    actor = actorlib.remote(max_pending_calls=3)(Worker).remote()

    assert len(await actor.add.map(range(30), chunksize=10)) == 30
    with pytest.raises(PendingCallsLimitExceeded):
        actor.add.map(range(40), chunksize=10)
    await actor
    assert await actor.add.map([1]) == [2]


class NotAnError(BaseException):
    """What a framework may raise to get past ``except Exception``."""


class Odd:
    """Two of four calls end in another way than by an Exception."""

    def plain(self, number: int) -> int:
        if number == 1:
            raise asyncio.CancelledError
        if number == 2:
            raise NotAnError
        return number

    async def beside(self, number: int) -> int:
        return self.plain(number)


@pytest.mark.parametrize("method", ["plain", "beside"])
@pytest.mark.parametrize("places", [1, 8])
async def test_map_when_calls_raise_no_exceptions_then_the_others_have_results(
    method: str, places: int
) -> None:
    actor: Any = actorlib.remote(max_concurrency=places)(Odd).remote()
    for numbers in ([0, 1, 2, 3], [0, 3, 2, 1], [2, 1, 3, 0]):
        found = await getattr(actor, method).map(
            numbers, chunksize=4, on_error="return"
        )
        for number, result in zip(numbers, found, strict=True):
            assert result == number or isinstance(result, Exception)
        assert [n for n in found if type(n) is int] == [
            n for n in numbers if n in {0, 3}
        ]
        odd = found[numbers.index(2)]
        assert type(odd.cause) is NotAnError


# Methods that take long: limits, cancelling, deadlines, retries.


@actorlib.remote
class Meeting:
    """Counts how many calls run beside one another, and how many were given up."""

    def __init__(self) -> None:
        self.running = self.most = self.given_up = self.begun = 0
        self.changed = asyncio.Condition()

    async def meet(self, number: int) -> None:
        """Waits until so many calls were here at once."""
        async with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            await self.changed.wait_for(lambda: self.most >= number)
            self.running -= 1

    async def seen(self) -> int:
        """How many calls were here at once, at the most."""
        return self.most

    async def stay(self, number: int) -> None:
        """Refuses the third, and never ends for the others."""
        if number == 3:
            raise ValueError(number)
        async with self.changed:
            self.begun += 1
            self.changed.notify_all()
        try:
            await asyncio.Event().wait()
        finally:
            async with self.changed:
                self.given_up += 1
                self.changed.notify_all()

    async def entered(self, number: int) -> None:
        """Waits until so many calls stay."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.begun >= number)

    async def left(self, number: int) -> None:
        """Waits until so many calls were given up."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.given_up >= number)


@pytest.mark.parametrize("places", [1, 4, 200])
async def test_map_when_methods_are_async_then_as_many_run_as_may(places: int) -> None:
    actor = Meeting.options(max_concurrency=places).remote()
    await actor.meet.map([places] * 200, chunksize=50)

    assert await actor.seen.remote() == places


async def test_map_when_a_coroutine_fails_then_the_others_are_given_up() -> None:
    actor = Meeting.remote()

    error = await raised(actor.stay.map(range(10)))

    assert isinstance(error, ValueError)
    assert error.__notes__[-1:] == notes_of(3)[0]
    async with in_time():
        await actor.left.remote(3)


async def test_map_when_the_wait_is_cancelled_then_calls_stop_if_nobody_holds_it() -> (
    None
):
    actor, gate = await Meeting.remote(), await Gate.remote()
    kept = gate.wait.map(["kept"])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kept

    async def wait() -> None:
        await actor.stay.map(range(3), chunksize=1)

    waiting = asyncio.ensure_future(wait())
    await actor.entered.remote(3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await gate.open.remote("kept")

    assert await kept == ["kept"]
    await actor.left.remote(3)


class Slow:
    """Works until nobody wants the result any more."""

    def __init__(self) -> None:
        self.calls = 0

    def work(self, gate: Any) -> None:
        self.calls += 1
        gate.open.remote("begun")
        while not actorlib.get_runtime_context().is_canceled():
            pass

    def count(self) -> int:
        return self.calls


async def test_map_when_cancelled_then_plain_calls_stop_and_every_wait_says_so() -> (
    None
):
    gate = Gate.remote()
    slow = actorlib.remote(Slow).remote()
    batch = slow.work.map([gate] * 1000, chunksize=1000)
    await gate.wait.remote("begun")
    batch.cancel()

    for _ in range(2):
        assert isinstance(await raised(batch), TaskCancelledError)
    assert await slow.count.remote() < 1000
    waiting = gate.wait.map(["x"] * 3, chunksize=1)
    waiting.cancel()
    assert isinstance(await raised(waiting), TaskCancelledError)
    # The error of the first chunk ends the wait; the others are done a little later.
    while repr(waiting) != "<MapResult, 3 of 3 chunks done>":  # noqa: ASYNC110  # no event
        await asyncio.sleep(0)


class Fragile:
    """Fails at a number, once; knows the colour of its calls."""

    def __init__(self) -> None:
        self.is_broken = False

    def step(self, number: int) -> int:
        if number == 20 and not self.is_broken:
            self.is_broken = True
            raise ConnectionError(number)
        return number

    def colour(self, _: int) -> str:
        return colour.get()


async def test_map_when_calls_have_options_or_variables_then_chunks_have_them() -> None:
    fragile = actorlib.remote(Fragile)
    step = fragile.remote().step.options(max_task_retries=1, retry_exceptions=True)
    token = colour.set("red")
    try:
        colours = fragile.remote().colour.map(range(3))
    finally:
        colour.reset(token)
    late = Meeting.remote().stay.options(timeout=0.05).map(range(3))

    assert await step.map(range(40), chunksize=10) == list(range(40))
    error = await raised(fragile.remote().step.map(range(40)))
    assert isinstance(error, ConnectionError)
    assert await colours == ["red"] * 3
    assert isinstance(await raised(late), DeadlineExceededError)
