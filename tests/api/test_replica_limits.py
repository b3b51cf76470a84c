"""Calls with a key go to one replica, and calls beyond ``max_pending`` fail at once."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import end_of
from helpers.calls import raised
from helpers.marks import in_memory

import actorlib
from actorlib import Replicas
from actorlib._api.actor_handle import pin_of
from actorlib._api.replica_router import ReplicaRouter
from actorlib.exceptions import OverloadedError, UnknownOptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from helpers.actors import Place, Stop

    from actorlib.types import ReplicaInfo

pytestmark = in_memory(num_cpus=64, grace=0.5)


@actorlib.remote
class Model:
    """Holds calls until it is told to go on."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def me(self) -> str:
        return actorlib.get_runtime_context().actor_id or ""

    async def hold(self) -> str:
        await self.gate.wait()
        return await self.me()

    async def let_go(self) -> None:
        self.gate.set()

    async def items(self) -> AsyncIterator[str]:
        yield await self.me()

    async def leave(self) -> None:
        os._exit(3)


@actorlib.remote
class Plain:
    """Runs one call at a time, and stops where it is told to."""

    def me(self) -> str:
        return actorlib.get_runtime_context().actor_id or ""

    def hold(self, place: Place) -> str:
        place.stop_here()
        return self.me()


@actorlib.remote
class SlowToStart:
    """Stops in its constructor if a file exists."""

    def __init__(self, marker: str, place: Place) -> None:
        if Path(marker).exists():
            place.stop_here()

    def me(self) -> str:
        return actorlib.get_runtime_context().actor_id or ""


def id_of(replica: ReplicaInfo) -> str:
    return pin_of(replica.handle).actor_id.hex()


async def let_go(models: Replicas[Any]) -> None:
    for each in models.stats():
        await each.handle.let_go.remote()


async def until(holds: Any) -> None:
    while not holds():  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0.05)


# The limit of pending calls.


@pytest.mark.parametrize("count", [1, 2, 12])
@pytest.mark.usefixtures("runtime")
async def test_calls_when_all_replicas_are_full_then_one_more_is_refused(
    count: int,
) -> None:
    async with Replicas(Model, count, max_pending=2) as models:
        held = [models.hold.remote() for _ in range(2 * count)]
        with pytest.raises(
            OverloadedError, match="max_pending=2 for each replica"
        ) as refused:
            models.me.remote()
        assert f"has {2 * count} calls without an answer" in str(refused.value)
        assert refused.value.retry_after == 1.0  # none has ended yet
        with pytest.raises(OverloadedError):
            models.items.remote()

        await let_go(models)
        assert len(set(await asyncio.gather(*held))) == count
        assert await models.me.remote()


@pytest.mark.usefixtures("runtime")
async def test_calls_when_replicas_start_or_run_on_then_all_of_them_count() -> None:
    models = Replicas(Model, 2, max_pending=2)
    waiting = [models.hold.remote() for _ in range(4)]
    with pytest.raises(OverloadedError, match="has 4 calls without"):
        models.me.remote()
    assert [each.state for each in models.stats()] == ["starting"] * 2
    await models
    with pytest.raises(OverloadedError):
        models.me.remote()
    for ref in waiting[:2]:
        ref.cancel()
    await asyncio.wait(waiting[:2])
    assert await models.me.remote()
    await let_go(models)
    await asyncio.gather(*waiting[2:])
    await models.aclose()


@pytest.mark.usefixtures("runtime")
async def test_calls_when_their_replica_dies_then_the_limit_loses_none() -> None:
    async with Replicas(Model, 2, max_pending=3) as models:
        calls = [models.hold.options(max_task_retries=1).remote() for _ in range(6)]
        victim = models.stats()[0].handle
        await actorlib.kill(victim)
        await end_of(victim)
        await until(lambda: [e.state for e in models.stats()] == ["alive"] * 2)
        await let_go(models)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert not any(isinstance(each, OverloadedError) for each in outcomes)


class Late(float):
    """A time, at whose first use another thread begins, and may come first."""

    def begin(self, thread: threading.Thread) -> None:
        self._thread = thread

    def __sub__(self, other: float) -> float:
        if not self._thread.ident:
            self._thread.start()
            self._thread.join(0.1)
        return float(self) - other


async def test_estimate_when_another_thread_needs_one_too_then_both_have_one() -> None:
    late = Late(100.0)
    times = iter([0.0, late, 100.0])
    counts: Any = SimpleNamespace(engine=None, ended_calls=1)
    counts.loop = SimpleNamespace(time=lambda: next(times))
    router = ReplicaRouter(counts, 1, None)
    errors: list[OverloadedError] = []

    def estimate() -> None:
        errors.append(router._overloaded("full", 1))

    late.begin(threading.Thread(target=estimate))
    router._sample()
    estimate()
    late._thread.join()

    assert [error.retry_after for error in errors] == [1.0, 1.0]


@pytest.mark.usefixtures("runtime")
async def test_ended_calls_when_a_replica_ends_meanwhile_then_they_are_counted() -> (
    None
):
    async with Replicas(Model, 2, max_pending=1) as models:
        replicas = models._set
        engine = replicas.engine

        class Ending:
            """Reads the numbers of calls while the loop removes a replica."""

            def backlogs(self, actors: Any) -> list[int]:
                removed.append(replicas.replicas.pop())
                return engine.backlogs(actors)

        removed: list[Any] = []
        replicas.engine = cast("Any", Ending())
        try:
            assert replicas.ended_calls == 0
        finally:
            replicas.engine = engine
            replicas.replicas += removed


async def test_error_when_pickled_then_the_same() -> None:
    error = pickle.loads(pickle.dumps(OverloadedError("full", retry_after=2.5)))

    assert (str(error), error.retry_after) == ("full", 2.5)


# Calls with a key.


@pytest.mark.usefixtures("runtime")
async def test_calls_when_they_have_a_key_then_one_replica_gets_all() -> None:
    async with Replicas(Model, 4) as models:
        places: dict[object, str] = {}
        for key in ["user 7", b"user 7", 7, *range(100, 130)]:
            found = {await models.me.options(key=key).remote() for _ in range(3)}
            [places[key]] = found
        assert len(set(places.values())) == 4
        method = models.items.options(key=7, backpressure=1)
        assert [await ref async for ref in method.remote()] == [places[7]]
        method = models.me.options(key=7).options(timeout=10)
        assert await method.remote() == places[7]

        # Keys stay while others are added, and move from those that leave.
        await models.scale(6)
        for key, place in places.items():
            assert await models.me.options(key=key).remote() == place
        await models.scale(2)
        left = {id_of(each) for each in models.stats()}
        for key, place in places.items():
            now = await models.me.options(key=key).remote()
            assert now in left
            assert now == place or place not in left


@pytest.mark.usefixtures("runtime")
async def test_call_when_the_replica_of_its_key_is_full_then_refused() -> None:
    async with Replicas(Model, 3, max_pending=2) as models:
        held = [models.hold.options(key="k").remote() for _ in range(2)]
        with pytest.raises(OverloadedError, match=r"Model\[\d\], the replica of this"):
            models.me.options(key="k").remote()
        others = {await models.me.remote() for _ in range(6)}
        assert len(others) == 2

        await let_go(models)
        [place] = set(await asyncio.gather(*held))
        assert await models.me.options(key="k").remote() == place
        assert place not in others


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.usefixtures("runtime")
async def test_key_when_its_replica_ends_then_another_one_has_it_for_good(
    stop: Stop, restarts: int
) -> None:
    async with Replicas(Plain.options(max_restarts=restarts), 2) as models:
        keyed = models.me.options(key="k")
        first = await keyed.remote()
        by_id = {id_of(each): each.handle for each in models.stats()}
        [other] = by_id.keys() - {first}
        running = models.hold.options(key="k").remote(stop.place)
        await stop.reached()
        behind = [keyed.remote() for _ in range(3)]
        await actorlib.kill(by_id[first], no_restart=False)
        stop.release()

        assert await asyncio.gather(*behind) == [other] * 3
        await raised(running)
        await until(lambda: [e.state for e in models.stats()] == ["alive"] * 2)
        assert await keyed.remote() == other


@pytest.mark.usefixtures("runtime")
async def test_key_when_its_replica_has_died_then_it_does_not_wait_for_the_next(
    stop: Stop, tmp_path: Path
) -> None:
    marker = tmp_path / "starts again"
    async with Replicas(SlowToStart, 2, args=(str(marker), stop.place)) as models:
        keyed = models.me.options(key="k")
        first = await keyed.remote()
        by_id = {id_of(each): each.handle for each in models.stats()}
        [other] = by_id.keys() - {first}
        marker.touch()
        await actorlib.kill(by_id[first])
        await stop.reached()  # the constructor of the next one

        assert await keyed.remote() == other
        stop.release()
        await models
        assert await keyed.remote() == other


@pytest.mark.usefixtures("runtime")
async def test_key_when_replicas_are_replaced_then_its_slot_keeps_it() -> None:
    async with Replicas(Model, 3) as models:

        async def slots() -> list[int]:
            ids = {id_of(e): e.slot for e in models.stats()}
            keys = range(20)
            return [ids[await models.me.options(key=key).remote()] for key in keys]

        before = await slots()
        await models.replace()
        assert await slots() == before


@pytest.mark.usefixtures("runtime")
async def test_key_when_all_start_then_calls_wait_in_its_replica() -> None:
    models = Replicas(Model, 3)
    early = [models.me.options(key="k").remote() for _ in range(4)]
    [place] = set(await asyncio.gather(*early))
    await models
    assert await models.me.options(key="k").remote() == place
    await models.aclose()
    with pytest.raises(RuntimeError, match="it was closed"):
        models.me.options(key="k").remote()


@pytest.mark.usefixtures("runtime")
async def test_key_when_it_makes_no_sense_then_refused_where_it_was_given() -> None:
    async with Replicas(Model, 1) as models:
        for key in (1.5, ("a",), True):
            with pytest.raises(TypeError, match="key takes a str, bytes or an int"):
                models.me.options(key=key)
        with pytest.raises(ValueError, match="max_pending takes a whole number >= 1"):
            Replicas(Model, 1, max_pending=0)
        handle: Any = models.stats()[0].handle
        with pytest.raises(UnknownOptionError, match="key='k' chooses one of several"):
            handle.me.options(key="k")
        with pytest.raises(UnknownOptionError, match="key='k' is an option of one"):
            actorlib.method(key="k")
