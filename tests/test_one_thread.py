"""One actor, one thread: what an actor with ``async def`` methods runs, and where."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Echo, Gate, end_of
from helpers.calls import raised
from helpers.one_thread import OneThread

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.actors import Place, Stop

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]

_said: contextvars.ContextVar[str] = contextvars.ContextVar("_said", default="")


@actorlib.remote
class Mixed(OneThread):
    """Tells besides where it runs and what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.loop = asyncio.get_running_loop()
        _said.set("constructor")

    def threads(self) -> list[bool]:
        """Whether it runs where the object was made, and on which loop."""
        return [
            threading.get_ident() == self.born_on,
            threading.current_thread() is threading.main_thread(),
            asyncio.get_running_loop() is self.loop,
        ]

    async def threads_later(self) -> list[bool]:
        return self.threads()

    def threads_of_items(self) -> Iterator[list[bool]]:
        yield self.threads()

    def note(self, value: Any) -> Any:
        self.seen.append(value)
        return value

    async def note_later(self, value: Any) -> Any:
        self.seen.append(value)
        return value

    async def noted(self) -> list[Any]:
        return self.seen

    def said(self) -> str:
        return _said.get()

    async def said_later(self) -> str:
        return _said.get()

    def get(self, actor: Any, method: str, *args: Any) -> Any:
        return actorlib.get(getattr(actor, method).remote(*args))

    def stop_at(self, place: Place) -> str:
        place.stop_here()
        return "stopped"

    def ends(self, code: int) -> None:
        sys.exit(code)

    def leaves(self) -> None:
        actorlib.exit_actor()


@pytest.mark.parametrize("method", ["threads", "threads_later"])
async def test_methods_when_called_then_all_run_on_the_main_thread(method: str) -> None:
    actor = Mixed.remote()

    assert await getattr(actor, method).remote() == [True, True, True]


async def test_plain_generator_when_called_then_it_runs_there_too() -> None:
    actor = Mixed.remote()

    items = [await ref async for ref in actor.threads_of_items.remote()]

    assert items == [[True, True, True]]


async def test_state_when_plain_and_async_methods_change_it_then_nothing_is_lost() -> (
    None
):
    actor = Mixed.remote()
    methods = [actor.add, actor.add_later]

    await asyncio.gather(*(m.remote(2000) for _ in range(20) for m in methods))

    assert await actor.total.remote() == 2 * 20 * 2000


async def test_tasks_when_plain_code_makes_them_then_they_run() -> None:
    actor = Mixed.remote()
    await actor.begin.remote("first")
    await actor.begin.remote("second")

    assert await actor.made.remote() == ["constructor", "first", "second"]


async def test_calls_when_plain_and_async_are_mixed_then_they_begin_as_they_came() -> (
    None
):
    actor = Mixed.remote()
    methods = [actor.note, actor.note_later]

    refs = [methods[number % 3 == 0].remote(number) for number in range(200)]
    await asyncio.gather(*refs)

    assert await actor.noted.remote() == [*range(200)]


@pytest.mark.parametrize("method", ["said", "said_later"])
async def test_context_when_the_constructor_sets_it_then_methods_have_it(
    method: str,
) -> None:
    actor = Mixed.remote()

    assert await getattr(actor, method).remote() == "constructor"


# A plain method that waits.


async def test_get_when_a_plain_method_waits_then_others_come_behind_it() -> None:
    actor, gate = Mixed.remote(), Gate.remote()
    waits = actor.get.remote(gate, "wait", "here")
    await gate.reached.remote("here")
    behind = [actor.note.remote(1), actor.note_later.remote(2), actor.note.remote(3)]
    await gate.open.remote("here")

    assert await waits == "here"
    assert await asyncio.gather(*behind) == [1, 2, 3]
    assert await actor.noted.remote() == [1, 2, 3]


async def test_get_when_a_plain_method_waits_for_several_then_it_has_them() -> None:
    def ask(echo: Any) -> tuple[list[int], int, int, list[int], list[Any]]:
        refs = [echo.echo.remote(number) for number in range(300)]
        ready, left = actorlib.wait(refs, num_returns=7).get()
        passed = actorlib.get(echo.echo.remote(echo.echo.remote(5)))
        several = list(actorlib.as_completed(refs[:3]))
        return actorlib.get(refs), len(ready), len(left), [passed], sorted(several)

    values = await Mixed.remote().run.remote(ask, Echo.remote())

    assert values == ([*range(300)], 7, 293, [5], [0, 1, 2])


async def test_stream_when_a_plain_method_reads_it_then_it_has_all_items() -> None:
    @actorlib.remote
    class Counts:
        def count(self, number: int) -> Iterator[int]:
            yield from range(number)

    def ask(counts: Any) -> int:
        stream = counts.count.options(backpressure=3).remote(50)
        return sum(ref.get() for ref in stream)

    assert await Mixed.remote().run.remote(ask, Counts.remote()) == sum(range(50))


async def test_get_when_a_plain_method_waits_for_parts_then_it_has_them() -> None:
    @actorlib.remote
    class Pairs:
        def pair(self) -> tuple[int, int]:
            return 1, 2

        def two(self) -> Iterator[int]:
            yield 3
            yield 4

    def ask(pairs: Any) -> list[int]:
        first, second = pairs.pair.options(num_returns=2).remote()
        third, fourth = pairs.two.options(num_returns=2).remote()
        return [actorlib.get(third), *actorlib.get([first, second]), fourth.get()]

    assert await Mixed.remote().run.remote(ask, Pairs.remote()) == [3, 1, 2, 4]


async def test_get_when_its_threads_ask_then_they_are_answered() -> None:
    def ask(echo: Any) -> list[int]:
        found: list[int] = []

        def run(number: int) -> None:
            found.extend(echo.echo.remote(number).get() for _ in range(20))

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    expected = sorted([number for number in range(4) for _ in range(20)])
    assert await Mixed.remote().run.remote(ask, Echo.remote()) == expected


async def test_get_when_a_signal_s_handler_raises_then_it_ends() -> None:
    def ask(gate: Any) -> str:
        def ring(*_: object) -> None:
            raise InterruptedError("rang")

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            actorlib.get(gate.wait.remote())
        except InterruptedError as error:
            return str(error)
        finally:
            signal.signal(signal.SIGALRM, before)
        return "nothing"

    assert await Mixed.remote().run.remote(ask, Gate.remote()) == "rang"


async def test_get_when_the_actor_it_waits_for_dies_then_an_error_says_so() -> None:
    actor, gate = Mixed.remote(), Gate.remote()
    waits = actor.get.remote(gate, "wait", "here")
    await gate.reached.remote("here")
    await actorlib.kill(gate)

    assert isinstance(await raised(waits), ActorDiedError)
    assert await actor.note.remote(1) == 1


# Cancelling, and ends.


async def test_cancel_when_a_plain_call_runs_then_it_may_ask() -> None:
    def ask(gate: Any) -> bool:
        context = actorlib.get_runtime_context()
        gate.open.remote("asked").get()
        while not context.is_canceled():
            pass
        gate.open.remote("seen").get()
        return True

    actor, gate = Mixed.remote(), Gate.remote()
    runs = actor.run.remote(ask, gate)
    await gate.wait.remote("asked")
    runs.cancel()

    assert await gate.wait.remote("seen") == "seen"


async def test_cancel_when_a_plain_call_waits_then_it_never_runs(stop: Stop) -> None:
    actor = Mixed.remote()
    held = actor.stop_at.remote(stop.place)
    await stop.reached()
    never, later = actor.note.remote("never"), actor.note_later.remote("never")
    never.cancel()
    later.cancel()
    await asyncio.sleep(0)  # what was said in this turn has left by now
    stop.release()

    assert isinstance(await raised(never), TaskCancelledError)
    assert isinstance(await raised(later), TaskCancelledError)
    assert await held == "stopped"
    assert await actor.noted.remote() == []


@pytest.mark.parametrize("method", ["ends", "leaves"])
async def test_end_when_a_plain_method_ends_the_actor_then_it_is_gone(
    method: str,
) -> None:
    actor = Mixed.remote()
    args = (3,) if method == "ends" else ()

    error = await raised(getattr(actor, method).remote(*args))

    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == (3 if args else None)


async def test_end_when_an_actor_is_ended_behind_calls_then_all_run() -> None:
    async with Mixed.remote() as actor:
        refs = [actor.note.remote(number) for number in range(50)]
        refs += [actor.note_later.remote(number) for number in range(50)]

    assert await asyncio.gather(*refs) == [*range(50), *range(50)]


async def test_constructor_when_it_calls_others_then_it_has_their_answers() -> None:
    @actorlib.remote
    class Asks:
        def __init__(self, echo: Any) -> None:
            self.value = actorlib.get(echo.echo.remote(7))
            self.ready = asyncio.Event()
            asyncio.get_running_loop().call_soon(self.ready.set)

        async def later(self) -> int:
            await self.ready.wait()
            return self.value

    assert await Asks.remote(Echo.remote()).later.remote() == 7


# Groups.


class Grouped:
    """Coroutines in groups, and in none."""

    def __init__(self) -> None:
        self.here = threading.get_ident()
        self.loop = asyncio.get_running_loop()

    async def block(self, place: Place) -> str:
        place.stop_here()
        return "went on"

    def block_plain(self, place: Place) -> str:
        place.stop_here()
        return "went on"

    @actorlib.method(concurrency_group="work")
    async def block_work(self, place: Place) -> str:
        place.stop_here()
        return "went on"

    @actorlib.method(concurrency_group="health")
    async def check(self) -> str:
        await asyncio.sleep(0)
        return "well"

    @actorlib.method(concurrency_group="health")
    def check_plain(self) -> str:
        return "well"

    @actorlib.method(concurrency_group="health")
    def block_check(self, place: Place) -> str:
        place.stop_here()
        return "went on"

    @actorlib.method(concurrency_group="health")
    def leave_plainly(self, code: int) -> None:
        sys.exit(code)

    @actorlib.method(concurrency_group="health")
    def set_variable(self) -> None:
        _said.set("plain")

    @actorlib.method(concurrency_group="health")
    async def variable(self) -> str:
        return _said.get()

    @actorlib.method(concurrency_group="health")
    def ask_plainly(self, echo: Any) -> list[Any]:
        refs = [echo.echo.remote(number) for number in range(3)]
        return [actorlib.get(ref) for ref in refs]

    @actorlib.method(concurrency_group="health")
    async def ask(self, echo: Any) -> list[Any]:
        refs = [echo.echo.remote(number) for number in range(3)]
        ready, _ = await actorlib.wait(refs, num_returns=3)
        return [*await asyncio.gather(*refs), len(ready), await refs[0]]

    @actorlib.method(concurrency_group="health")
    async def items(self, number: int) -> Any:
        for item in range(number):
            yield item

    @actorlib.method(concurrency_group="health")
    async def where(self) -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        return threading.get_ident() == self.here, loop is self.loop

    @actorlib.method(concurrency_group="health")
    async def thread(self) -> int:
        return threading.get_ident()

    @actorlib.method(concurrency_group="health")
    def threads_of_items(self, number: int) -> Iterator[int]:
        for _ in range(number):
            yield threading.get_ident()

    async def where_by_default(self) -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        return threading.get_ident() == self.here, loop is self.loop

    @actorlib.method(concurrency_group="health")
    async def for_ever(self, gate: Any) -> None:
        try:
            await gate.wait.remote("for ever")
        finally:
            await gate.open.remote("cleaned up")

    @actorlib.method(concurrency_group="health")
    async def leave(self, code: int) -> None:
        sys.exit(code)


def grouped() -> Any:
    groups = {"work": 2, "health": 4}
    return actorlib.remote(concurrency_groups=groups)(Grouped).remote()


@pytest.mark.parametrize("method", ["block", "block_plain", "block_work"])
async def test_group_when_another_blocks_then_its_coroutines_go_on(
    method: str, stop: Stop
) -> None:
    actor, echo = grouped(), Echo.remote()
    blocked = getattr(actor, method).remote(stop.place)
    await stop.reached()

    assert await actor.check.remote() == "well"
    assert await actor.check_plain.remote() == "well"
    assert await actor.ask.remote(echo) == [0, 1, 2, 3, 0]
    stream = actor.items.options(backpressure=2).remote(20)
    assert [await ref async for ref in stream] == [*range(20)]
    stop.release()
    assert await blocked == "went on"


async def test_group_when_asked_where_then_its_loop_is_its_own() -> None:
    actor = grouped()

    assert await actor.where.remote() == (False, False)
    assert await actor.where_by_default.remote() == (True, True)


async def test_group_when_a_plain_generator_pauses_then_it_stays_on_its_loop() -> None:
    actor = grouped()
    items = actor.threads_of_items.options(backpressure=1).remote(3)

    assert {await ref async for ref in items} == {await actor.thread.remote()}


async def test_group_when_a_plain_method_blocks_it_then_its_coroutines_wait(
    stop: Stop,
) -> None:
    actor = grouped()
    blocked = actor.block_check.remote(stop.place)
    await stop.reached()
    waits = actor.check.remote()

    assert await actor.where_by_default.remote() == (True, True)
    cancelled = actor.check_plain.remote()
    cancelled.cancel()
    assert isinstance(await raised(cancelled), TaskCancelledError)
    assert not waits.done()
    stop.release()
    assert await asyncio.gather(blocked, waits) == ["went on", "well"]


async def test_group_when_plain_methods_ask_others_then_they_may_block() -> None:
    actor, echo = grouped(), Echo.remote()

    assert await actor.ask_plainly.remote(echo) == [0, 1, 2]


async def test_group_when_a_plain_method_sets_a_variable_then_later_ones_see_it() -> (
    None
):
    actor = grouped()
    await actor.set_variable.remote()

    assert await actor.variable.remote() == "plain"


async def test_group_when_a_plain_method_ends_the_actor_then_it_is_gone() -> None:
    error = await raised(grouped().leave_plainly.remote(3))

    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == 3


async def test_group_when_a_coroutine_is_cancelled_then_it_cleans_up() -> None:
    actor, gate = grouped(), Gate.remote()
    runs = actor.for_ever.remote(gate)
    await gate.reached.remote("for ever")
    runs.cancel()

    assert isinstance(await raised(runs), TaskCancelledError)
    assert await gate.wait.remote("cleaned up") == "cleaned up"
    assert await actor.check.remote() == "well"


async def test_group_when_a_coroutine_ends_the_actor_then_it_is_gone() -> None:
    error = await raised(grouped().leave.remote(3))

    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == 3


async def test_group_when_its_actor_is_ended_then_it_finishes_first() -> None:
    async with grouped() as actor:
        refs = [actor.check.remote() for _ in range(100)]
        refs += [actor.where_by_default.remote() for _ in range(10)]

    assert (await asyncio.gather(*refs))[:100] == ["well"] * 100


async def test_caller_when_a_mixed_actor_calls_back_then_it_may_await() -> None:
    @actorlib.remote
    class Both:
        async def outer(self, caller: Any) -> Any:
            me = actorlib.get_runtime_context().current_actor
            return await caller.call.remote(me, "inner")

        def inner(self) -> str:
            return "inner"

    assert await Both.remote().outer.remote(Caller.remote()) == "inner"


# Constructors that are an ``async def``.


@actorlib.remote
class BegunLater:
    """Sets a variable in its constructor, or leaves there."""

    async def __init__(self, *, leaves: bool = False) -> None:  # type: ignore[misc]
        await asyncio.sleep(0)
        _said.set("constructor")
        if leaves:
            actorlib.exit_actor()

    def said(self) -> str:
        return _said.get()

    async def said_later(self) -> str:
        return _said.get()


async def test_constructor_when_async_then_later_code_sees_its_variables() -> None:
    actor = BegunLater.remote()

    assert await actor.said.remote() == "constructor"
    assert await actor.said_later.remote() == "constructor"


async def test_constructor_when_async_and_it_leaves_then_the_actor_is_gone() -> None:
    actor = BegunLater.remote(leaves=True)

    assert isinstance(await raised(actor.said.remote()), ActorDiedError)


# Leaving by itself.


@actorlib.remote
class Leaves:
    """Leaves in a task of its own, and cleans up."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        actorlib.exit_actor()

    async def __ray_shutdown__(self) -> None:
        await asyncio.sleep(0)
        with open(self._path, "a") as file:  # noqa: ASYNC230, PTH123  # in the actor
            file.write("cleaned up")


async def test_end_when_a_task_leaves_then_the_actor_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "said"
    actor = Leaves.remote(str(path))
    end = end_of(actor)
    await actor.begin.remote()
    await end

    assert path.read_text() == "cleaned up"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
async def test_signal_when_the_actor_handles_it_then_it_is_handled_while_idle(
    number: signal.Signals,
) -> None:
    @actorlib.remote
    class Handles:
        def __init__(self) -> None:
            self.heard = asyncio.Event()
            signal.signal(number, self._hear)

        def _hear(self, *_: object) -> None:
            self.heard.set()

        def pid(self) -> int:
            return os.getpid()

        async def was_heard(self) -> bool:
            return await self.heard.wait()

    actor = Handles.remote()
    pid = await actor.pid.remote()
    heard = actor.was_heard.remote()
    os.kill(pid, number)

    assert await heard


@actorlib.remote
class Endless:
    """A plain generator without an end, over a state that others look at."""

    def __init__(self) -> None:
        self.number = 0
        self.turns = 0
        self.task = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def count(self, path: str) -> Iterator[int]:
        try:
            while True:
                self.number += 1
                yield self.number
        finally:
            with open(path, "a") as file:  # noqa: PTH123  # in the actor
                file.write("closed")

    async def so_far(self) -> tuple[int, int]:
        return self.number, self.turns


async def test_stream_when_endless_and_unread_then_the_loop_and_the_end_go_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "said"
    async with Endless.remote() as actor:
        items = actor.count.options(detach=True).remote(str(path))
        await anext(items)
        del items
        number, turns = await actor.so_far.remote()
        while True:
            later, turned = await actor.so_far.remote()
            if later > number + 100 and turned > turns:
                break

    assert path.read_text() == "closed"
