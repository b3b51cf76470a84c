"""Names and lists of actors, beside what the contract tests for every engine."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import Any

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
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    ActorUnschedulableError,
)

pytestmark = in_memory(preload=[__name__], num_cpus=2, grace=0.5)


CALLERS = [Caller, AsyncCaller]


class Broken:
    def __init__(self) -> None:
        raise ValueError("born to fail")


def find(name: str, namespace: str | None = None) -> Any:
    return actorlib.get_actor(name, namespace)


def named(name: str, **options: Any) -> Any:
    return Target.options(name=name, **options).remote()


# Finding.


class Mixed:
    """Asks for a name wherever its code may run."""

    def __init__(self) -> None:
        self.found = actorlib.get_actor("t")

    def plain(self) -> Any:
        return [self.found, actorlib.get_actor("t")]

    async def in_thread(self) -> Any:
        return [await asyncio.to_thread(actorlib.get_actor, "t")]

    async def many(self) -> list[Any]:
        async def one() -> Any:
            await asyncio.sleep(0)
            return actorlib.get_actor("t")

        return await asyncio.gather(*(one() for _ in range(20)))


@pytest.mark.usefixtures("runtime")
async def test_name_when_asked_for_by_any_code_of_an_actor_then_found() -> None:
    target = named("t")
    mixed: Any = actorlib.remote(Mixed).remote()

    for method in (mixed.plain, mixed.in_thread, mixed.many):
        assert set(await method.remote()) == {target}


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
async def test_get_actor_when_asked_wrongly_then_refused() -> None:
    target = named("t")
    for given, error in (
        ((1,), TypeError),
        ((None,), TypeError),
        (("",), ValueError),
        (("a", 1), TypeError),
        (("a", ""), ValueError),
        (("t", Broken), TypeError),  # the class is not decorated
    ):
        with pytest.raises(error) as caught:
            actorlib.get_actor(*given)  # type: ignore[call-overload]
        assert not isinstance(caught.value, ActorlibError)
    del target


async def test_names_when_no_runtime_is_running_then_it_says_so() -> None:
    for ask in (lambda: find("a"), actorlib.list_named_actors, actorlib.list_actors):
        with pytest.raises(RuntimeError, match="no runtime"):
            ask()


# Claiming.


# Get or create.


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
async def test_filter_when_it_is_wrong_then_refused() -> None:
    cases: list[tuple[Any, Any, type[Exception]]] = [
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
    ]
    for filters, limit, error in cases:
        with pytest.raises(error):
            actorlib.list_actors(filters=filters, limit=limit)
