from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._loops.loop_thread import ThreadedLoop, block, new_loop
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Home:
    """A loop and its thread."""

    def __init__(self) -> None:
        self.loop: Any = new_loop(ThreadedLoop)
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._begun.wait()

    def _run(self) -> None:
        self.loop.begin()
        self.loop.call_soon(self._begun.set)
        self.loop.run_forever()
        self.loop.refusal = "it has ended"
        self.loop.close()

    def end(self) -> None:
        if self._thread.is_alive():
            self.loop.post(self.loop.stop)
        self._thread.join()


@pytest.fixture
def home() -> Iterator[Home]:
    made = Home()
    yield made
    made.end()


def test_posts_when_of_many_threads_then_each_keeps_its_order_and_none_is_lost(
    home: Home,
) -> None:
    seen: list[tuple[int, int]] = []

    def post(thread: int) -> None:
        for number in range(500):
            home.loop.post(seen.append, (thread, number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(post, range(8)))
    home.loop.call(list)
    assert len(seen) == 4000
    assert sorted(seen) == sorted(seen, key=lambda post: post[0])


def test_work_when_it_raises_then_who_asks_or_the_loop_is_told(home: Home) -> None:
    told: list[Any] = []
    home.loop.call(home.loop.set_exception_handler, lambda _, what: told.append(what))
    with pytest.raises(ValueError, match="no number"):
        home.loop.call(int, "no number")
    home.loop.post(int, "no number")
    assert home.loop.call(int, "7") == 7
    assert [type(what["exception"]) for what in told] == [ValueError]


def test_across_when_it_runs_then_in_the_callers_context(home: Home) -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("mine")
    assert home.loop.call(variable.get) == "mine"


def test_loop_when_it_has_ended_then_it_says_so(home: Home) -> None:
    home.end()
    with pytest.raises(RuntimeError, match="it has ended"):
        home.loop.call(list)


def test_waiter_when_the_loop_ends_then_it_does_not_wait_for_ever(home: Home) -> None:
    future: asyncio.Future[None] = home.loop.create_future()
    home.loop.post(home.loop.stop)
    with pytest.raises(RuntimeError, match="it has ended"):
        block(future, None, "not here")


def test_future_when_done_then_callbacks_run_on_its_loop(home: Home) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    where: list[int] = []
    early = threading.Event()
    late = threading.Event()

    def note(event: threading.Event) -> None:
        where.append(threading.get_ident())
        event.set()

    future.add_done_callback(lambda _: note(early))
    home.loop.post(future.set_result, 1)
    assert early.wait(20)
    future.add_done_callback(lambda _: note(late))
    assert late.wait(20)
    assert set(where) == {home.loop.call(threading.get_ident)}


def test_block_when_done_then_it_returns_and_leaves_nothing(home: Home) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    home.loop.post(home.loop.call_later, 0.01, future.set_result, 1)
    block(future, None, "not here")
    assert future.result() == 1


@pytest.mark.parametrize("timeout", [0, 0.01, math.nan])
def test_block_when_too_late_then_it_says_so(home: Home, timeout: float) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    with pytest.raises(GetTimeoutError, match="in time"):
        block(future, timeout, "not here")


async def test_block_when_the_loop_needs_the_thread_then_refused(home: Home) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    with pytest.raises(RuntimeError, match="not here"):
        home.loop.call(block, future, None, "not here")

    own: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="not here"):
        block(own, None, "not here")


def test_executor_when_it_takes_nothing_more_then_the_loop_does_it(home: Home) -> None:
    """As when the interpreter goes down: the runtime still has to be ended."""

    async def work() -> int:
        loop = asyncio.get_running_loop()
        await loop.shutdown_default_executor()
        return await asyncio.to_thread(int, "7")

    future = asyncio.run_coroutine_threadsafe(work(), home.loop)
    assert future.result(20) == 7


whose: ContextVar[str] = ContextVar("whose", default="nobody's")


def test_callback_when_an_actor_woke_the_loop_then_it_runs_in_its_own_context() -> None:
    loop: Any = new_loop(ThreadedLoop)
    loop.begin()
    seen: list[str] = []

    def post_as_an_actor() -> None:
        whose.set("an actor's")
        loop.post(lambda: seen.append(whose.get()))

    Context().run(post_as_an_actor)
    loop.call_soon_threadsafe(lambda: seen.append(whose.get()))
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    loop.close()

    assert seen == ["nobody's", "nobody's"]
