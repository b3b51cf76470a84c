from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Log,
    Stop,
    Target,
    end_of,
    running,
)

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    ActorNotFoundError,
    ActorUnschedulableError,
)

if TYPE_CHECKING:
    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = [pytest.mark.memory, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 2, "grace": 0.5}


CALLERS = [Caller, AsyncCaller]


class Broken:
    def __init__(self) -> None:
        raise ValueError("born to fail")


def find(name: str, namespace: str | None = None) -> Any:
    return actorlib.get_actor(name, namespace)


def obtain(name: str) -> Any:
    return Counter.options(name=name, get_if_exists=True).remote()


def named(name: str, **options: Any) -> Any:
    return Target.options(name=name, **options).remote()


# Finding.


@pytest.mark.usefixtures("runtime")
async def test_actor_when_its_class_is_asked_for_then_it_has_to_be_of_that() -> None:
    target = named("t")

    assert actorlib.get_actor("t", Target) == target
    with pytest.raises(TypeError, match="'t' has the class Target, and not"):
        actorlib.get_actor("t", actorlib.remote(Broken))
    with pytest.raises(TypeError, match="takes a name, and then an actor class"):
        actorlib.get_actor("t", Broken)  # type: ignore[call-overload]
    with pytest.raises(ActorNotFoundError):
        actorlib.get_actor("t", Target, namespace="other")
    with pytest.raises(ActorNotFoundError):
        actorlib.get_actor("t", "other")


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime", "on_both_loops")
async def test_other_actors_find_it_too(caller_class: Any) -> None:
    target, caller = named("t"), caller_class.remote()

    found = await caller.run.remote(find, "t")

    assert found == target
    assert await caller.call.remote(found, "ping") == await target.ping.remote()


@pytest.mark.usefixtures("runtime")
async def test_a_plain_method_beside_a_loop_and_a_thread_find_it() -> None:
    @actorlib.remote
    class Mixed:
        def plain(self) -> Any:
            return actorlib.get_actor("t")

        async def in_thread(self) -> Any:
            return await asyncio.to_thread(actorlib.get_actor, "t")

        async def many(self) -> list[bool]:
            async def one() -> bool:
                await asyncio.sleep(0)
                return actorlib.get_actor("t") == actorlib.get_actor("t")

            return await asyncio.gather(*(one() for _ in range(20)))

    target, mixed = named("t"), Mixed.remote()

    assert await mixed.plain.remote() == target
    assert await mixed.in_thread.remote() == target
    assert await mixed.many.remote() == [True] * 20


@pytest.mark.usefixtures("runtime")
async def test_names_when_asked_in_a_constructor_then_found() -> None:
    @actorlib.remote
    class Asking:
        def __init__(self) -> None:
            self.found = actorlib.get_actor("t")

        async def give(self) -> Any:
            return self.found

    target = named("t")
    assert await Asking.remote().give.remote() == target


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime")
async def test_calls_that_come_while_a_name_is_asked_keep_their_order(
    caller_class: Any,
) -> None:
    @actorlib.remote
    class Both(Log):
        def ask(self, value: int) -> int:
            actorlib.get_actor("t")
            self._seen.append(value)
            return value

    @actorlib.remote
    class Looped:
        def __init__(self) -> None:
            self._seen: list[int] = []

        async def ask(self, value: int) -> int:
            self._seen.append(value)
            actorlib.get_actor("t")
            return value

        async def seen(self) -> list[int]:
            return self._seen

    asking = Both.remote() if caller_class is Caller else Looped.remote()
    target = named("t")
    refs = [asking.ask.remote(n) for n in range(200)]

    assert await asyncio.gather(*refs) == list(range(200))
    assert await asking.seen.remote() == list(range(200))
    del target


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1,), TypeError),
        ((None,), TypeError),
        (("",), ValueError),
        (("a", 1), TypeError),
        (("a", ""), ValueError),
    ],
)
async def test_get_actor_when_asked_wrongly_then_refused(
    given: tuple[Any, ...], error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        actorlib.get_actor(*given)
    assert not isinstance(caught.value, ActorlibError)


async def test_names_when_no_runtime_is_running_then_it_says_so() -> None:
    for ask in (lambda: find("a"), actorlib.list_named_actors, actorlib.list_actors):
        with pytest.raises(RuntimeError, match="no runtime"):
            ask()


# Claiming.


@pytest.mark.usefixtures("runtime")
async def test_names_when_its_block_ends_then_the_name_is_free() -> None:
    async with Target.options(name="t").remote() as target:
        assert actorlib.get_actor("t") == target
    assert await named("t").ping.remote()


@pytest.mark.parametrize("caller_class", [None, *CALLERS])
@pytest.mark.usefixtures("runtime")
async def test_names_when_it_lost_its_last_handle_and_works_then_it_is_found(
    caller_class: Any, stop: Stop
) -> None:
    log = actorlib.remote(Log).options(name="log").remote()
    caller = caller_class.remote() if caller_class else None
    await log
    ref = log.stop.remote(stop.place, 5)
    await stop.reached()
    del log
    gc.collect()
    await asyncio.sleep(0)  # a dropped handle is counted in the next turn
    if caller is None:
        found = actorlib.get_actor("log")
    else:
        found = await caller.run.remote(find, "log")
    stop.release()

    assert await ref == 5
    assert await found.seen.remote() == [5]


# Get or create.


async def test_get_if_exists_when_many_race_then_there_is_one(
    runtime: Runtime,
) -> None:
    callers = [cls.remote() for cls in CALLERS for _ in range(3)]
    refs = [caller.run.remote(obtain, "c") for caller in callers for _ in range(5)]
    counters = await asyncio.gather(*refs)

    assert len(set(counters)) == 1
    sums = await asyncio.gather(*(counter.add.remote() for counter in counters))
    assert sorted(sums) == list(range(1, 31))
    assert len(runtime.snapshot().actors) == 7


@pytest.mark.usefixtures("runtime")
async def test_get_if_exists_when_made_and_dropped_often_then_it_never_fails() -> None:
    for _ in range(30):
        counter = obtain("c")
        assert await counter.add.remote() >= 1
        del counter


@pytest.mark.usefixtures("runtime")
async def test_names_when_the_maker_is_killed_between_then_nobody_hangs(
    stop: Stop,
) -> None:
    def make_of(gate: Any) -> None:
        # Its argument is a ref that has no value yet: it is claimed, and waits.
        made = Counter.options(name="c").remote(gate.wait.remote())
        stopped.place.stop_here()
        del made

    class stopped:  # noqa: N801  # what the function sees of the test
        place = stop.place

    gate, caller = Gate.remote(), Caller.remote()
    ref = caller.run.remote(make_of, gate)
    await stop.reached()
    added = actorlib.get_actor("c").add.remote()
    actorlib.kill(caller)

    with pytest.raises(ActorDiedError):
        await added
    with pytest.raises(ActorDiedError):
        await ref
    assert await Counter.options(name="c").remote(1).add.remote() == 2


# Namespaces.


async def test_the_runtime_s_own_is_what_nothing_said_means() -> None:
    async with running(namespace="mine"):
        target, caller = named("t"), Caller.remote()
        assert actorlib.get_actor("t", "mine") == target
        assert await caller.run.remote(find, "t") == target
        assert await caller.run.remote(find, "t", "mine") == target
        assert actorlib.list_named_actors(all_namespaces=True) == [
            {"name": "t", "namespace": "mine"}
        ]


# Looking.


async def test_actors_are_listed_with_what_is_known(runtime: Runtime) -> None:
    target = named("t", num_cpus=1, lifetime="detached", namespace="there")
    echo = Echo.remote()
    await asyncio.gather(target, echo)

    rows = actorlib.list_actors()

    assert rows == list(runtime.snapshot().actors)
    row = rows[0]
    assert (row.class_name, row.state, row.name, row.namespace, row.is_detached) == (
        "Target",
        "alive",
        "t",
        "there",
        True,
    )
    assert row.pid == await target.ping.remote()
    assert row.resources == {"CPU": 1.0}
    assert row.death == ""
    assert (rows[1].name, rows[1].is_detached) == (None, False)


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime")
async def test_an_actor_sees_the_same(caller_class: Any) -> None:
    caller = caller_class.remote()
    rows = await caller.run.remote(actorlib.list_actors)

    assert [row.class_name for row in rows] == [caller_class.__name__]
    assert rows[0].pending_calls == 1


@pytest.mark.usefixtures("runtime")
async def test_the_dead_are_listed_while_somebody_holds_them() -> None:
    target = named("t")
    await target
    await actorlib.kill(target)

    (row,) = actorlib.list_actors()
    assert (row.state, row.name) == ("dead", "t")
    assert "it was killed" in row.death


async def test_the_dead_stay_listed_when_nobody_holds_them() -> None:
    async with running(num_cpus=2, num_gpus=1, actor_history=5) as runtime:
        alive = named("alive")
        caller = Caller.remote()
        await asyncio.gather(alive, caller)

        killed, left, crashed = named("killed"), named("left"), named("crashed")
        await asyncio.gather(killed, left, crashed)
        pid = await crashed.ping.remote()
        await actorlib.kill(killed)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ActorDiedError):
            await crashed.ping.remote()
        broken = actorlib.remote(Broken).options(name="broken").remote()
        with pytest.raises(ActorDiedError):
            await broken
        huge = named("huge", num_gpus=2)
        with pytest.raises(ActorUnschedulableError):
            await huge
        end = end_of(left)
        del killed, left, crashed, broken, huge
        gc.collect()
        await end

        for seen in (
            actorlib.list_actors(),
            list(runtime.snapshot().actors),
            await caller.run.remote(actorlib.list_actors),
        ):
            rows = {row.name: row for row in seen}
            assert [row.state for row in seen] == ["alive"] * 2 + ["dead"] * 5
            assert {row.state for row in seen[2:]} == {"dead"}
            assert "it was killed" in rows["killed"].death
            assert "no process held" in rows["left"].death
            assert "SIGKILL" in rows["crashed"].death
            assert "born to fail" in rows["broken"].death
            assert "GPU=2" in rows["huge"].death
            assert rows["crashed"].pid == pid
            assert rows["crashed"].ended_at is not None
        for _ in range(5):  # the oldest are forgotten
            await actorlib.kill(Target.remote())
        gc.collect()
        await alive.ping.remote()
        assert [row.name for row in actorlib.list_actors()[2:]] == [None] * 5


@pytest.mark.usefixtures("runtime")
async def test_filters_and_limit() -> None:
    actors = [named("a"), named("b"), Echo.remote()]
    await asyncio.gather(*actors)

    def names(*filters: Any, limit: int | None = None) -> list[str | None]:
        return [row.name for row in actorlib.list_actors(filters=filters, limit=limit)]

    assert names(("class_name", "=", "Target")) == ["a", "b"]
    assert names(("class_name", "=", "Target"), ("name", "!=", "a")) == ["b"]
    assert names(("state", "=", "ALIVE"), limit=2) == ["a", "b"]
    assert names(["name", "=", None]) == [None]
    assert names(("state", "=", "dead")) == []


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    ("filters", "limit", "error"),
    [
        ("state=alive", None, TypeError),
        (1, None, TypeError),
        (["state"], None, TypeError),
        ([("state", "=")], None, TypeError),
        ([("colour", "=", "red")], None, ValueError),
        ([("state", "<", "dead")], None, ValueError),
        ([("state", "=", "asleep")], None, ValueError),
        (None, 0, ValueError),
        (None, "1", TypeError),
        (None, True, TypeError),
    ],
)
async def test_a_wrong_filter_is_refused(
    filters: Any, limit: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        actorlib.list_actors(filters=filters, limit=limit)
