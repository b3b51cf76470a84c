from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

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


def test_posts_when_of_one_thread_then_they_keep_their_order(home: Home) -> None:
    seen: list[int] = []
    for number in range(1000):
        home.loop.post(seen.append, number)
    home.loop.call(list)
    assert seen == list(range(1000))


def test_posts_when_of_many_threads_then_none_is_lost(home: Home) -> None:
    seen: list[int] = []

    def post() -> None:
        for number in range(500):
            home.loop.post(seen.append, number)

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    home.loop.call(list)
    assert len(seen) == 4000


def test_post_when_it_raises_then_the_loop_is_told_and_goes_on(home: Home) -> None:
    told: list[Any] = []
    home.loop.call(home.loop.set_exception_handler, lambda _, what: told.append(what))
    home.loop.post(int, "no number")
    assert home.loop.call(int, "7") == 7
    assert isinstance(told[0]["exception"], ValueError)


def test_across_when_the_work_raises_then_so_does_it(home: Home) -> None:
    with pytest.raises(ValueError, match="no number"):
        home.loop.call(int, "no number")


def test_across_when_it_runs_then_in_the_callers_context(home: Home) -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("mine")
    assert home.loop.call(variable.get) == "mine"


def test_across_when_on_the_loops_thread_then_done_at_once(home: Home) -> None:
    thread = home.loop.call(lambda: home.loop.call(threading.get_ident))
    assert thread != threading.get_ident()


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


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_block_when_too_late_then_it_says_so(home: Home, timeout: float) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    with pytest.raises(GetTimeoutError, match="in time"):
        block(future, timeout, "not here")


def test_block_when_on_the_loops_thread_then_refused(home: Home) -> None:
    future: asyncio.Future[int] = home.loop.create_future()
    with pytest.raises(RuntimeError, match="not here"):
        home.loop.call(block, future, None, "not here")


async def test_block_when_the_loop_has_no_thread_of_its_own_then_refused() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="not here"):
        block(future, None, "not here")


def test_executor_when_it_takes_nothing_more_then_the_loop_does_it(home: Home) -> None:
    """As when the interpreter goes down: the runtime still has to be ended."""

    async def work() -> int:
        loop = asyncio.get_running_loop()
        await loop.shutdown_default_executor()
        return await asyncio.to_thread(int, "7")

    future = asyncio.run_coroutine_threadsafe(work(), home.loop)
    assert future.result(20) == 7


def test_loop_when_made_then_it_is_apart(home: Home) -> None:
    assert isinstance(cast("object", home.loop), ThreadedLoop)
