"""Waiting for refs: get and wait, and what the standard library does with refs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Gate
from helpers.callees import LIMIT
from helpers.callers import error_of

import actorlib
import actorlib.blocking
from actorlib.exceptions import GetTimeoutError, TaskError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)

AWAIT = pytest.mark.usefixtures("awaiting_api")
BLOCKING = pytest.mark.usefixtures("blocking_api")


def fail(error: BaseException) -> None:
    raise error


def blocking_get(api: Api) -> Any:
    """The function that blocks until a ref is done."""
    return actorlib.blocking.get if api.is_blocking else actorlib.get


# get.


@KINDS
async def test_get_when_given_several_refs_then_their_values_in_that_order(
    api: Api, callee: Callee
) -> None:
    refs = [callee.first(number) for number in range(30)]

    assert await api.get([refs[3], refs[1], refs[3]]) == [3, 1, 3]
    assert await api.get(refs) == [*range(30)]
    assert await api.get(refs[7]) == 7
    assert await api.get([]) == []


@BLOCKING
@pytest.mark.parametrize("seconds", [0, 0.01])
@pytest.mark.usefixtures("runtime")
async def test_get_when_it_takes_too_long_then_the_call_goes_on(
    api: Api, seconds: float
) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("place")
    get = functools.partial(blocking_get(api), timeout=seconds)
    for refs in (ref, [ref]):
        with pytest.raises(GetTimeoutError):
            await asyncio.to_thread(get, refs)
    gate.open.remote("place")

    assert await api.get(ref) == "place"


@pytest.mark.parametrize("has_failed", [False, True], ids=["fails later", "has failed"])
@pytest.mark.usefixtures("runtime")
async def test_get_when_one_fails_then_it_does_not_wait_for_the_others(
    api: Api,
    has_failed: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    waiting = gate.wait.remote()
    bad = echo.fail.remote(ValueError("no"))
    if has_failed:
        await api.wait([bad])
    for refs in ([waiting, bad], [bad, waiting]):
        error = await error_of(api, refs)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)

    assert not waiting.done()
    await api.get(gate.open.remote())
    assert await api.get(waiting) == ""


def get_both(gate: Any, echo: Any, *, has_failed: bool) -> Steps:
    slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
    if has_failed:
        with suppress(ValueError):
            yield bad
    yield [slow, bad]


def get_both_blocking(gate: Any, echo: Any, *, has_failed: bool) -> None:
    """The same, which blocks the event loop of a coroutine, too."""
    slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
    if has_failed:
        with suppress(ValueError):
            actorlib.get(bad)
    actorlib.get([slow, bad])


@pytest.mark.parametrize("has_failed", [False, True], ids=["fails later", "has failed"])
async def test_get_when_one_fails_in_a_callee_then_it_does_not_wait_for_the_others(
    api: Api,
    callee: Callee,
    has_failed: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    for function in (get_both, get_both_blocking):
        ref = callee.run(function, gate, echo, has_failed=has_failed)
        assert isinstance(await error_of(api, ref), ValueError)

    await api.get(gate.open.remote("slow"))


@pytest.mark.parametrize("given", [3, [3], "refs", None, {1: 2}], ids=repr)
@pytest.mark.usefixtures("runtime")
async def test_get_when_given_what_is_not_a_ref_then_refused(
    api: Api, given: object
) -> None:
    with pytest.raises(TypeError, match=r"get\(\) takes"):
        blocking_get(api)(given)


def yield_once(value: int) -> Iterator[int]:
    yield value


@KINDS
async def test_get_when_given_a_generator_then_refused_with_what_to_write(
    api: Api, callee: Callee, engine: str
) -> None:
    if engine == "client":
        with pytest.raises(UnsupportedOptionError, match="passes no streams"):
            callee.items(yield_once, 0)
        return
    stream = callee.items(yield_once, 0)
    for value in (stream, [stream]):
        with pytest.raises(TypeError, match=r"\[get\(ref\) for ref in generator\]"):
            blocking_get(api)(value)

    assert await api.get(await api.next_item(stream)) == 0


@BLOCKING
@pytest.mark.usefixtures("runtime")
async def test_get_when_called_in_several_threads_then_each_has_the_value(
    api: Api,
) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("x")
    waits = [asyncio.to_thread(actorlib.blocking.get, ref) for _ in range(4)]
    waiting = asyncio.gather(*waits)
    await api.get(gate.reached.remote("x"))
    gate.open.remote("x")

    assert await waiting == ["x"] * 4


def add_many(counter: Any) -> list[int]:
    actorlib.blocking.wait([actorlib.blocking.put(1)], timeout=LIMIT)
    return actorlib.blocking.get([counter.add.remote() for _ in range(25)])


@BLOCKING
@pytest.mark.usefixtures("runtime")
async def test_calls_when_several_threads_make_them_then_all_are_answered(
    api: Api,
) -> None:
    counter = Counter.remote()
    totals = await asyncio.gather(
        *(asyncio.to_thread(add_many, counter) for _ in range(4))
    )

    assert sorted(total for part in totals for total in part) == [*range(1, 101)]
    assert await api.get(counter.add.remote(0)) == 100


# wait.


@pytest.mark.usefixtures("runtime")
async def test_wait_when_some_are_done_then_it_returns_them_apart(api: Api) -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    assert await api.wait(refs, limit=0) == ([], refs)
    await api.get(gate.open.remote("b"))

    assert await api.wait(refs) == ([refs[1]], [refs[0], refs[2]])
    done, left = await api.wait(refs, num_returns=2, limit=0.01)
    assert (done, left) == ([refs[1]], [refs[0], refs[2]])
    await api.get([gate.open.remote(name) for name in "ac"])
    assert await api.wait(refs, num_returns=3) == (refs, [])
    assert await api.wait([]) == ([], [])
    if api.is_blocking:
        wait = functools.partial(actorlib.blocking.wait, fetch_local=True)
        assert await asyncio.to_thread(wait, refs) == (refs[:1], refs[1:])


@KINDS
async def test_wait_when_a_ref_has_failed_then_it_is_done(
    api: Api, callee: Callee
) -> None:
    bad = callee.run(fail, ValueError("no"))

    assert await api.wait([bad]) == ([bad], [])
    assert isinstance(await error_of(api, bad), ValueError)


def wait_for_all(refs: list[Any]) -> list[Any]:
    done, left = actorlib.wait(refs, num_returns=len(refs), timeout=LIMIT).get()
    return [actorlib.get(done), left]


def wait_for_all_blocking(refs: list[Any]) -> list[Any]:
    done, left = actorlib.blocking.wait(refs, num_returns=len(refs), timeout=LIMIT)
    return [actorlib.blocking.get(done), left]


async def wait_for_all_on_loop(refs: list[Any]) -> list[Any]:
    done, left = await actorlib.wait(refs, num_returns=len(refs), timeout=LIMIT)
    return [await asyncio.gather(*done), left]


async def test_wait_when_a_callee_gets_refs_in_a_list_then_it_waits_for_them(
    api: Api, callee: Callee
) -> None:
    refs = [callee.run(divmod, 7, 3), api.put(3)]
    if callee.is_async:
        function: Any = wait_for_all_on_loop
    else:
        function = wait_for_all_blocking if api.is_blocking else wait_for_all

    assert await api.get(callee.run(function, refs)) == [[(2, 1), 3], []]


async def wait_blocking_on_loop() -> tuple[int, int]:
    ready, others = actorlib.blocking.wait([actorlib.put(1)])
    return len(ready), len(others)


@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_wait_when_it_blocks_a_loop_then_only_that_of_the_program_refuses(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(wait_blocking_on_loop)) == (1, 0)
    if not api.is_blocking:
        with pytest.raises(RuntimeError, match=r"await actorlib\.wait\(refs"):
            actorlib.blocking.wait([callee.first(1)])


# What the standard library does with refs.


@pytest.mark.usefixtures("runtime")
async def test_gather_when_given_refs_then_their_values_and_errors(api: Api) -> None:
    echo = Echo.remote()
    refs = [echo.echo.remote(number) for number in range(20)]
    assert await asyncio.gather(*refs) == [*range(20)]
    bad = echo.fail.remote(TypeError("bad"))
    results = await asyncio.gather(bad, echo.echo.remote(9), return_exceptions=True)

    assert isinstance(results[0], TypeError)
    assert results[1] == 9
    assert await api.get(echo.echo.remote(1)) == 1


@AWAIT
@KINDS
async def test_asyncio_wait_when_given_refs_then_it_returns_the_refs(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    refs = [callee.first(number) for number in range(3)]
    assert await asyncio.wait(refs) == (set(refs), set())
    assert sorted(ref.result() for ref in refs) == [0, 1, 2]
    first, second = gate.wait.remote("first"), gate.wait.remote("second")
    await api.get(gate.open.remote("second"))
    done, pending = await asyncio.wait(
        [first, second], return_when=asyncio.FIRST_COMPLETED
    )
    assert (done, pending) == ({second}, {first})

    done, pending = await asyncio.wait([first], timeout=0.001)

    assert pending == {first}
    await api.get(gate.open.remote("first"))
    assert await first == "first"


@pytest.mark.usefixtures("runtime")
async def test_as_completed_when_given_refs_then_in_the_order_of_their_ends(
    api: Api,
) -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    ends: list[str] = []
    order = iter("bca")
    await api.get(gate.open.remote(next(order)))
    for ref in asyncio.as_completed(refs):
        ends.append(await ref)
        if len(ends) < 3:
            await api.get(gate.open.remote(next(order)))

    assert ends == ["b", "c", "a"]


@pytest.mark.usefixtures("runtime")
async def test_wait_for_when_given_a_ref_then_its_value_or_a_timeout(api: Api) -> None:
    gate = Gate.remote()
    await api.get(gate.open.remote("open"))

    assert await asyncio.wait_for(gate.wait.remote("open"), LIMIT) == "open"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.wait.remote("shut"), 0.001)
    assert await asyncio.wait_for(gate.wait.remote("open"), LIMIT) == "open"


@pytest.mark.usefixtures("runtime")
async def test_task_group_when_its_tasks_await_refs_then_they_have_the_values(
    api: Api,
) -> None:
    counter = Counter.remote()

    async def add_twice() -> int:
        return await counter.add.remote() + await counter.add.remote()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add_twice()) for _ in range(2)]

    assert sum(task.result() for task in tasks) == 1 + 2 + 3 + 4
    assert await api.get(counter.add.remote(0)) == 4


@AWAIT
@KINDS
async def test_shield_and_callbacks_when_given_a_ref_then_as_with_any_future(
    api: Api, callee: Callee
) -> None:
    ref = callee.first(1)
    calls: list[Any] = []
    ref.add_done_callback(calls.append)

    assert await asyncio.shield(ref) == 1
    assert await api.get(ref) == ref.result() == 1
    assert ref.done()
    assert ref.exception() is None
    assert calls == [ref]
    assert isinstance(ref, asyncio.Future)


@pytest.mark.usefixtures("runtime")
async def test_ref_when_many_tasks_await_it_then_each_has_its_value(api: Api) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("it")

    async def wait() -> str:
        return await ref

    waiters = [asyncio.create_task(wait()) for _ in range(10)]
    await api.get(gate.reached.remote("it"))
    await api.get(gate.open.remote("it"))

    assert await asyncio.gather(*waiters) == ["it"] * 10
    assert (await ref, await ref) == ("it", "it")


@KINDS
async def test_future_of_a_ref_when_given_to_the_standard_library_then_its_result(
    callee: Callee,
) -> None:
    futures = [callee.first(number).future() for number in range(3)]
    ends = await asyncio.to_thread(concurrent.futures.wait, futures, LIMIT)
    bad = callee.run(fail, KeyError("k")).future()

    assert sorted(future.result() for future in ends.done) == [0, 1, 2]
    assert isinstance(await asyncio.to_thread(bad.exception, LIMIT), KeyError)
    assert await asyncio.wrap_future(callee.first(3).future()) == 3
