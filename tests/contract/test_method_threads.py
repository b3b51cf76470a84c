"""On which thread and loop an actor's constructor and methods run."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Echo
from helpers.callers import all_items, error_of
from helpers.one_thread import OneThread

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")


class Plain:
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


class Looped(Plain):
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


class LoopedLater(Looped):
    """Sets the variable after an ``await`` of its constructor."""

    async def __init__(self) -> None:  # type: ignore[misc]
        super().__init__()
        await asyncio.sleep(0)
        variable.set("of the coroutine")


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Plain, {}),
        (Plain, {"max_concurrency": 1}),
        (Plain, {"max_concurrency": 0}),
        (Looped, {}),
        (LoopedLater, {}),
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
    is_main = engine not in ("memory", "inline") and (cls is Plain or not is_on_ray)
    methods = [actor.place] if cls is Plain else [actor.place, actor.place_later]

    places = await api.get([method.remote() for method in methods for _ in range(3)])
    assert set(places) == {(True, is_main)}
    counts = await api.get([actor.count.remote() for _ in range(3)])
    # Ray starts the calls of an actor with coroutines in any order.
    assert (sorted(counts) if is_on_ray and cls is not Plain else counts) == [1, 2, 3]


@pytest.mark.parametrize("cls", [Looped, LoopedLater])
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


@pytest.mark.usefixtures("loses_variables")
@pytest.mark.parametrize(
    ("cls", "value"),
    [(Looped, "of the constructor"), (LoopedLater, "of the coroutine")],
)
async def test_variable_when_the_constructor_sets_it_then_methods_see_it(
    api: Api, cls: type, value: str
) -> None:
    actor = actorlib.remote(cls).remote()

    assert await api.get(actor.variable.remote()) == value
    assert await api.get(actor.variable_later.remote()) == value


async def test_threads_when_asked_for_then_they_start_when_needed_and_stay(
    api: Api, engine: str
) -> None:
    actor = actorlib.remote(max_concurrency=2)(Plain).remote()
    first = await api.get(actor.threads.remote())
    await api.get([actor.place.remote() for _ in range(300)])

    assert await api.get(actor.place.remote()) == (False, False)
    if engine in ("local", "attached"):  # others have threads of their own there
        assert first == 2
        assert await api.get(actor.threads.remote()) <= 3


async def test_state_when_plain_and_async_methods_change_it_then_nothing_is_lost(
    api: Api,
) -> None:
    actor = actorlib.remote(OneThread).remote()
    methods = [actor.add, actor.add_later]

    await api.get([method.remote(2_000) for _ in range(20) for method in methods])

    assert await api.get(actor.total.remote()) == 2 * 20 * 2_000


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


async def test_loop_when_a_plain_method_runs_its_own_then_only_where_none_runs(
    api: Api,
) -> None:
    plain, looped = actorlib.remote(Plain).remote(), actorlib.remote(Looped).remote()
    echo = Echo.remote()

    assert await api.get(plain.run_loop.remote(echo)) == [0, 1, 2, 3, 4]
    error = await error_of(api, looped.run_loop.remote(echo))
    assert "running event loop" in str(error)
