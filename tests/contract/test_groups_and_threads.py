"""Concurrency groups, and on which thread and loop methods run."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.callees import AsyncRunner, Runner
from helpers.callers import all_items, error_of
from helpers.kinds import CONTRACT, FEW_KINDS, OWN_ENGINES
from helpers.one_thread import OneThread
from helpers.reused import Echo, Gate
from helpers.rooms import Room, visit

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorDiedError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from helpers.actors import Place, Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api


pytestmark = CONTRACT

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")

GROUPS = {"one": 1, "two": 2, "looped": 4}


class Plain:
    """Plain methods, in groups by their calls."""

    def __init__(self) -> None:
        self._local = threading.local()

    def stop(self, place: Place, value: Any = None) -> Any:
        place.stop_here()
        return value

    def mark(self, mark: str | None = None) -> tuple[str | None, int]:
        """The mark of this thread, which it keeps, and its number."""
        if mark is not None:
            self._local.mark = mark
        return getattr(self._local, "mark", None), threading.get_ident()

    def threads(self, count: int) -> Iterator[int]:
        for _ in range(count):
            yield threading.get_ident()

    def thread(self) -> int:
        return threading.get_ident()

    def leave(self, code: int) -> None:
        sys.exit(code)


class Looped(Plain):
    """The same with an event loop; the group ``looped`` has one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._thread, self._loop = threading.get_ident(), asyncio.get_running_loop()

    async def ping(self) -> tuple[bool, bool]:
        """Whether it runs on the thread and the loop of the constructor."""
        is_loop = asyncio.get_running_loop() is self._loop
        return threading.get_ident() == self._thread, is_loop

    async def block(self, place: Place) -> None:
        place.stop_here()

    @actorlib.method(concurrency_group="looped")
    async def check(self) -> tuple[bool, bool]:
        await asyncio.sleep(0)
        return await self.ping()

    @actorlib.method(concurrency_group="looped")
    def check_plain(self) -> int:
        return threading.get_ident()

    @actorlib.method(concurrency_group="looped")
    async def later_thread(self) -> int:
        return threading.get_ident()

    @actorlib.method(concurrency_group="looped")
    def set_variable(self) -> None:
        variable.set("of a plain method")

    @actorlib.method(concurrency_group="looped")
    async def variable(self) -> str:
        return variable.get()

    @actorlib.method(concurrency_group="looped")
    def ask_plainly(self, get: Any, echo: Any) -> Any:
        return get([echo.echo.remote(number) for number in range(3)])

    @actorlib.method(concurrency_group="looped")
    async def ask(self, echo: Any) -> list[Any]:
        refs = [echo.echo.remote(number) for number in range(3)]
        ready, _ = await actorlib.wait(refs, num_returns=3)
        return [*await asyncio.gather(*refs), len(ready), await refs[0]]

    @actorlib.method(concurrency_group="looped")
    async def items(self, count: int) -> AsyncIterator[int]:
        for item in range(count):
            yield item

    @actorlib.method(concurrency_group="looped")
    async def wait_at(self, gate: Any) -> None:
        try:
            await gate.wait.remote("begun")
        finally:
            await gate.open.remote("cleaned up")

    @actorlib.method(concurrency_group="looped")
    async def leave_later(self, code: int) -> None:
        sys.exit(code)


def new(cls: type) -> Any:
    return actorlib.remote(concurrency_groups=GROUPS)(cls).remote()


def pausing(engine: str) -> dict[str, Any]:
    """Options of a generator that pauses, which Ray has no way to do on a loop."""
    return {} if engine in ("ray", "client") else {"backpressure": 1}


CLASSES = pytest.mark.parametrize("cls", [Plain, Looped])


# Groups of plain methods.


@CLASSES
async def test_group_when_it_is_full_then_others_go_on(
    api: Api, cls: type, stop: Stop
) -> None:
    actor = new(cls)
    held = actor.stop.options(concurrency_group="two")
    refs = [held.remote(stop.place, number) for number in range(3)]
    await stop.reached()
    await stop.reached()
    cancelled = held.remote(stop.place, "never")
    api.cancel(cancelled)
    assert isinstance(await error_of(api, cancelled), TaskCancelledError)

    await api.get(actor.mark.options(concurrency_group="one").remote())
    await api.get(actor.thread.remote())
    assert not any(ref.done() for ref in refs)
    stop.release()
    await stop.reached()
    stop.release()
    stop.release()
    assert await api.get(refs) == [0, 1, 2]


@OWN_ENGINES
@CLASSES
async def test_group_when_it_has_plain_methods_then_its_threads_are_its_own(
    api: Api, cls: type
) -> None:
    actor = new(cls)
    one = actor.mark.options(concurrency_group="one")
    two = actor.mark.options(concurrency_group="two")
    _, thread = await api.get(one.remote("one"))
    await api.get([two.remote("two") for _ in range(100)])

    assert await api.get(one.remote()) == ("one", thread)
    marks = await api.get([two.remote() for _ in range(20)])
    assert {mark for mark, _ in marks} <= {"two"}
    threads = {number for _, number in marks}
    assert len(threads) <= 2
    assert not threads & {thread, await api.get(actor.thread.remote())}


@OWN_ENGINES
@CLASSES
async def test_group_when_a_generator_runs_in_it_then_all_steps_are_on_its_thread(
    api: Api, cls: type, engine: str
) -> None:
    actor = new(cls)
    threads = actor.threads.options(concurrency_group="one", **pausing(engine))
    thread = actor.thread.options(concurrency_group="one").remote()

    assert set(await all_items(api, threads.remote(3))) == {await api.get(thread)}


@OWN_ENGINES
@CLASSES
@pytest.mark.parametrize("group", ["one", "looped"])
async def test_group_when_its_plain_method_exits_then_the_actor_ends(
    api: Api, cls: type, group: str
) -> None:
    leave = new(cls).leave.options(concurrency_group=group)
    error = await error_of(api, leave.remote(3))

    assert isinstance(error, ActorDiedError)
    assert error.exit is not None
    assert error.exit.code == 3


# Calls in another group.


@pytest.mark.parametrize("cls", [Runner, AsyncRunner])
async def test_groups_when_calls_choose_them_then_each_has_its_own_limit(
    api: Api, cls: type
) -> None:
    sizes = {"small": 1, "large": 3}
    made = actorlib.remote(concurrency_groups=sizes, max_concurrency=2)(cls)
    actor = made.remote(is_blocking=api.is_blocking)
    rooms = [Room.remote(size) for size in (*sizes.values(), 2)]
    methods = [actor.run.options(concurrency_group=group) for group in sizes]
    refs = [
        method.remote(visit, room)
        for method, room in zip([*methods, actor.run], rooms, strict=True)
        for _ in range(10)
    ]
    await api.get(refs)

    assert await api.get([room.most.remote() for room in rooms]) == [1, 3, 2]


def call_in_group(actor: Any, method: Any, place: Place) -> Steps:
    """Calls in a group, by a method with options that is made here, and one given."""
    stop = actor.stop.options(concurrency_group="two")
    return (yield [stop.remote(place, "made here"), method.remote(place, "given")])


@FEW_KINDS
async def test_call_when_a_worker_chooses_the_group_then_it_runs_there(
    api: Api, callee: Callee, stop: Stop
) -> None:
    actor = new(Plain)
    held = actor.stop.options(concurrency_group="one").remote(stop.place, "held")
    await stop.reached()
    method = actor.stop.options(concurrency_group="two")
    asked = callee.run(call_in_group, actor, method, stop.place)
    await stop.reached()
    await stop.reached()
    assert "Plain.stop" in repr(method)

    for _ in range(3):
        stop.release()
    assert await api.get(asked) == ["made here", "given"]
    assert await api.get(held) == "held"


@OWN_ENGINES
async def test_call_when_its_group_is_undefined_then_refused_with_the_groups(
    api: Api,
) -> None:
    actor = new(Plain)
    with pytest.raises(ValueError, match=r"'nope'.*'one', 'two', 'looped'"):
        actor.thread.options(concurrency_group="nope")

    await api.get(actor.thread.remote())


@OWN_ENGINES
async def test_groups_when_options_change_them_then_those_hold(
    api: Api, stop: Stop
) -> None:
    made = actorlib.remote(concurrency_groups=GROUPS)(Plain)
    actor = made.options(concurrency_groups={"other": 2}).remote()
    held = actor.stop.options(concurrency_group="other")
    refs = [held.remote(stop.place, number) for number in range(2)]
    await stop.reached()
    await stop.reached()

    stop.release()
    stop.release()
    assert await api.get(refs) == [0, 1]


# Groups with coroutines.


@OWN_ENGINES
@pytest.mark.parametrize(
    ("method", "group"),
    [("block", None), ("stop", None), ("block", "two"), ("stop", "two")],
)
async def test_group_when_another_is_blocked_then_its_coroutines_go_on(
    api: Api, method: str, group: str | None, stop: Stop, engine: str
) -> None:
    actor, echo = new(Looped), Echo.remote()
    blocked = getattr(actor, method)
    if group is not None:
        blocked = blocked.options(concurrency_group=group)
    ref = blocked.remote(stop.place)
    await stop.reached()

    get = actorlib.blocking.get if api.is_blocking else actorlib.get
    assert await api.get(actor.check.remote()) == (False, False)
    assert await api.get(actor.ask_plainly.remote(get, echo)) == [0, 1, 2]
    assert await api.get(actor.ask.remote(echo)) == [0, 1, 2, 3, 0]
    items = actor.items.options(**pausing(engine)).remote(20)
    assert await all_items(api, items) == [*range(20)]
    assert not ref.done()
    stop.release()
    await api.get(ref)
    assert await api.get(actor.ping.remote()) == (True, True)


async def test_group_when_it_has_coroutines_then_its_methods_share_one_thread(
    api: Api, engine: str
) -> None:
    actor = new(Looped)
    thread = await api.get(actor.check_plain.remote())

    assert await api.get(actor.later_thread.remote()) == thread
    moved = actor.thread.options(concurrency_group="looped")
    assert await api.get([moved.remote() for _ in range(3)]) == [thread] * 3
    marks = actor.mark.options(concurrency_group="looped").map([None] * 3, chunksize=3)
    values = await (asyncio.to_thread(marks.get) if api.is_blocking else marks)
    assert values == [(None, thread)] * 3
    if engine != "client":  # it has no streams
        items = actor.threads.options(concurrency_group="looped", **pausing(engine))
        assert set(await all_items(api, items.remote(3))) == {thread}


@OWN_ENGINES
async def test_group_when_a_call_brings_its_first_coroutine_then_threads_end_first(
    api: Api, stop: Stop
) -> None:
    actor = new(Looped)
    plain = actor.thread.options(concurrency_group="two")
    held = actor.stop.options(concurrency_group="two").remote(stop.place)
    await stop.reached()
    before = await api.get(plain.remote())
    moved = actor.later_thread.options(concurrency_group="two").remote()

    await api.get(actor.ping.remote())
    assert not moved.done()
    stop.release()
    await api.get(held)
    thread = await api.get(moved)
    assert thread != before
    assert await api.get([plain.remote() for _ in range(3)]) == [thread] * 3


@OWN_ENGINES
async def test_group_when_its_plain_method_blocks_then_its_coroutines_wait(
    api: Api, stop: Stop
) -> None:
    actor = new(Looped)
    blocked = actor.stop.options(concurrency_group="looped").remote(stop.place, "on")
    await stop.reached()
    behind, cancelled = actor.check.remote(), actor.check_plain.remote()

    assert await api.get(actor.ping.remote()) == (True, True)
    api.cancel(cancelled)
    assert isinstance(await error_of(api, cancelled), TaskCancelledError)
    assert not behind.done()
    stop.release()
    assert await api.get([blocked, behind]) == ["on", (False, False)]


@OWN_ENGINES
async def test_group_when_a_plain_method_sets_a_variable_then_later_calls_see_it(
    api: Api,
) -> None:
    actor = new(Looped)
    await api.get(actor.set_variable.remote())

    assert await api.get(actor.variable.remote()) == "of a plain method"


async def test_group_when_its_coroutine_is_cancelled_then_it_cleans_up(
    api: Api,
) -> None:
    actor, gate = new(Looped), Gate.remote()
    ref = actor.wait_at.remote(gate)
    await api.get(gate.reached.remote("begun"))
    api.cancel(ref)

    assert isinstance(await error_of(api, ref), TaskCancelledError)
    assert await api.get(gate.wait.remote("cleaned up")) == "cleaned up"
    await api.get(actor.check.remote())


@OWN_ENGINES
@CLASSES
async def test_end_when_groups_have_calls_then_it_comes_behind_all(
    api: Api, cls: type, stop: Stop
) -> None:
    actor = new(cls)
    held = actor.stop.options(concurrency_group="one").remote(stop.place, "held")
    refs = [actor.mark.options(concurrency_group="one").remote() for _ in range(10)]
    refs += [actor.thread.remote() for _ in range(10)]
    if cls is Looped:
        refs += [actor.check.remote() for _ in range(100)]
    await stop.reached()
    end = actor.__ray_terminate__.remote()
    stop.release()

    assert await api.get(held) == "held"
    await api.get(refs)
    assert await api.get(end) is None


# On which thread and loop an actor's constructor and methods run.


class Located:
    """Says where it runs, in plain methods."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._local = threading.local()
        self._local.count = 0

    def place(self) -> tuple[bool, bool]:
        """Whether it is on the thread of the constructor, and on the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        return threading.get_ident() == self._thread, is_main

    def count(self) -> int:
        """How often it was called, kept on this thread."""
        self._local.count += 1
        return self._local.count

    def threads(self) -> int:
        return threading.active_count()

    def run_loop(self, echo: Any) -> list[int]:
        work = ask(echo)
        try:
            return asyncio.run(work)
        finally:
            work.close()


async def ask(echo: Any) -> list[int]:
    refs = [echo.echo.remote(number) for number in range(5)]
    return await asyncio.gather(*(wait_for(ref) for ref in refs))


async def wait_for(ref: Any) -> int:
    value: int = await ref
    return value


class LocatedOnLoop(Located):
    """The same with coroutines, and code that needs the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[int] = asyncio.Queue()
        self._lock = asyncio.Lock()
        variable.set("of the constructor")

    async def place_later(self) -> tuple[bool, bool]:
        return self.place()

    def places(self) -> Iterator[tuple[bool, bool]]:
        yield self.place()
        yield self.place()

    def is_on_loop(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    async def is_on_loop_later(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    async def put(self, value: int) -> None:
        async with self._lock:
            await self._queue.put(value)

    async def take(self) -> int:
        return await self._queue.get()

    def variable(self) -> str:
        return variable.get()

    async def variable_later(self) -> str:
        return variable.get()


class LocatedLater(LocatedOnLoop):
    """Sets the variable after an ``await`` of its constructor."""

    async def __init__(self) -> None:  # type: ignore[misc]
        super().__init__()
        await asyncio.sleep(0)
        variable.set("of the coroutine")


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Located, {}),
        pytest.param(Located, {"max_concurrency": 1}, marks=OWN_ENGINES),
        pytest.param(Located, {"max_concurrency": 0}, marks=OWN_ENGINES),
        (LocatedOnLoop, {}),
        (LocatedLater, {}),
    ],
)
async def test_methods_when_no_threads_are_asked_for_then_they_run_on_one(
    api: Api,
    cls: type,
    options: dict[str, Any],
    engine: str,
    is_on_ray: bool,  # noqa: FBT001  # a fixture
) -> None:
    decorate: Any = cast("Any", actorlib.remote(num_cpus=0, **options))
    actor = decorate(cls).remote()
    # Workers are threads there, and Ray runs loops beside the main thread.
    is_main = engine not in ("memory", "inline") and (cls is Located or not is_on_ray)
    methods = [actor.place] if cls is Located else [actor.place, actor.place_later]

    places = await api.get([method.remote() for method in methods for _ in range(3)])
    assert set(places) == {(True, is_main)}
    counts = await api.get([actor.count.remote() for _ in range(3)])
    # Ray starts the calls of an actor with coroutines in any order.
    assert (sorted(counts) if is_on_ray and cls is not Located else counts) == [1, 2, 3]


@pytest.mark.parametrize("cls", [LocatedOnLoop, LocatedLater])
async def test_methods_when_some_are_async_then_all_share_one_loop(
    api: Api, cls: type, engine: str
) -> None:
    actor = actorlib.remote(cls).remote()

    assert await api.get(actor.is_on_loop.remote())
    assert await api.get(actor.is_on_loop_later.remote())
    taken = actor.take.remote()
    await api.get(actor.put.remote(5))
    assert await api.get(taken) == 5
    if engine != "client":  # it has no streams
        places = await all_items(api, actor.places.remote())
        assert {is_same for is_same, _ in places} == {True}


@pytest.fixture
def loses_variables(request: pytest.FixtureRequest, *, is_on_ray: bool) -> None:
    """Marks the engines where methods do not see what the constructor sets."""
    if is_on_ray:
        reason = "on Ray, methods do not see context variables of the constructor"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


@OWN_ENGINES
@pytest.mark.usefixtures("loses_variables")
@pytest.mark.parametrize(
    ("cls", "value"),
    [(LocatedOnLoop, "of the constructor"), (LocatedLater, "of the coroutine")],
)
async def test_variable_when_the_constructor_sets_it_then_methods_see_it(
    api: Api, cls: type, value: str
) -> None:
    actor = actorlib.remote(cls).remote()

    assert await api.get(actor.variable.remote()) == value
    assert await api.get(actor.variable_later.remote()) == value


@OWN_ENGINES
async def test_threads_when_asked_for_then_they_start_when_needed_and_stay(
    api: Api, engine: str
) -> None:
    actor = actorlib.remote(max_concurrency=2)(Located).remote()
    first = await api.get(actor.threads.remote())
    await api.get([actor.place.remote() for _ in range(300)])

    assert await api.get(actor.place.remote()) == (False, False)
    if engine in ("local", "attached"):  # others have threads of their own there
        assert first == 2
        assert await api.get(actor.threads.remote()) <= 3


@OWN_ENGINES
async def test_state_when_plain_and_async_methods_change_it_then_nothing_is_lost(
    api: Api,
) -> None:
    actor = actorlib.remote(OneThread).remote()
    methods = [actor.add, actor.add_later]

    await api.get([method.remote(2_000) for _ in range(20) for method in methods])

    assert await api.get(actor.total.remote()) == 2 * 20 * 2_000


@OWN_ENGINES
async def test_tasks_when_the_constructor_and_methods_make_them_then_they_run(
    api: Api,
) -> None:
    actor = actorlib.remote(OneThread).remote()
    await api.get([actor.begin.remote(name) for name in ("first", "second")])

    assert sorted(await api.get(actor.made.remote())) == [
        "constructor",
        "first",
        "second",
    ]


@OWN_ENGINES
async def test_loop_when_a_plain_method_runs_its_own_then_only_where_none_runs(
    api: Api,
) -> None:
    plain, looped = (
        actorlib.remote(Located).remote(),
        actorlib.remote(LocatedOnLoop).remote(),
    )
    echo = Echo.remote()

    assert await api.get(plain.run_loop.remote(echo)) == [0, 1, 2, 3, 4]
    error = await error_of(api, looped.run_loop.remote(echo))
    assert "running event loop" in str(error)
