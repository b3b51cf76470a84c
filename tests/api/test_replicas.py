"""Alike actors behind one handle: who gets a call, and that there are always enough."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import end_of, running
from helpers.calls import raised
from helpers.marks import in_memory

import actorlib
from actorlib import Replicas
from actorlib._api.replica_routing import choose
from actorlib._api.replica_scaling import pause_before
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    ActorUnschedulableError,
    DeadlineExceededError,
    SerializationError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from helpers.actors import Place, Stop

    from actorlib import Runtime

pytestmark = in_memory(num_cpus=64, grace=0.5)


@actorlib.remote
class Model:
    """Answers, holds calls, and fails when it is told to."""

    def __init__(self, name: str = "first", refusing: str = "") -> None:
        if refusing and Path(refusing).exists():
            raise LookupError("no weights")
        self.name = name
        self.gate = asyncio.Event()
        self.is_well = True

    async def hello(self) -> str:
        return self.name

    async def me(self) -> str:
        return actorlib.get_runtime_context().actor_id or ""

    async def hold(self) -> str:
        await self.gate.wait()
        return await self.me()

    async def pause(self, seconds: float = 10) -> str:
        await asyncio.sleep(seconds)
        return await self.me()

    async def let_go(self) -> None:
        self.gate.set()

    async def items(self, count: int) -> AsyncIterator[str]:
        for _ in range(count):
            yield await self.me()

    async def leave(self, code: int = 3) -> None:
        os._exit(code)

    async def fall_ill(self) -> None:
        self.is_well = False

    async def check(self) -> None:
        if not self.is_well:
            raise RuntimeError("not well")


def states(replicas: Replicas[Any]) -> list[str]:
    return sorted(each.state for each in replicas.stats())


async def until(told: Any) -> None:
    """Lets the loop, whose clock jumps, go on until something holds."""
    while not told():  # noqa: ASYNC110  # nobody tells of it
        await asyncio.sleep(0.01)


# Who gets a call.


@pytest.mark.parametrize(
    ("loads", "turn", "place"),
    [
        ([], 5, None),
        ([None, None], 1, None),
        ([2, 1, 3], 0, 1),
        ([0, 0, 0], 1, 1),
        ([0, 0, 0], 5, 2),
        ([None, 4], 0, 1),
        ([1, None, 1], 1, 2),
    ],
)
async def test_choice_when_there_are_loads_then_the_least_and_in_turns(
    loads: list[int | None], turn: int, place: int | None
) -> None:
    assert choose(loads, turn) == place


async def test_pause_when_many_have_failed_then_it_doubles_up_to_a_limit() -> None:
    assert [pause_before(n) for n in (0, 1, 2, 3, 60)] == [0, 0.1, 0.2, 0.4, 30]


@pytest.mark.usefixtures("runtime")
async def test_calls_when_some_are_held_then_the_others_get_them() -> None:
    async with Replicas(Model, 3) as models:
        held = [models.hold.remote() for _ in range(2)]
        seen = {await models.me.remote() for _ in range(4)}
        assert len(seen) == 1

        for each in models.stats():
            await each.handle.let_go.remote()
        assert len({*seen, *await asyncio.gather(*held)}) == 3


@actorlib.remote
class Plain:
    """Stops where it is told to, also in the constructor of its next life.

    Args:
        path: The file that says that it has lived before.
        place: Where its next constructor stops.
    """

    def __init__(self, path: str = "", place: Place | None = None) -> None:
        self._path = Path(path)
        if place is not None and self._path.is_file():
            place.stop_here()

    def me(self) -> str:
        return actorlib.get_runtime_context().actor_id or ""

    def hold(self, place: Place) -> str:
        place.stop_here()
        return self.me()

    def items(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield self.me()

    def die(self) -> None:
        os._exit(3)

    async def answer_in_another_life(self, place: Place) -> str:
        if not self._path.is_file():
            self._path.touch()
            place.stop_here()
            await asyncio.Event().wait()
        return self.me()


def busy_and_idle(replicas: Replicas[Any]) -> tuple[Any, Any]:
    """The handles of two replicas, that of the one with more calls first."""
    first, second = sorted(
        replicas.stats(), key=lambda each: -(each.pending_calls or 0)
    )
    return first.handle, second.handle


@pytest.mark.usefixtures("runtime")
async def test_calls_when_one_runs_an_abandoned_call_then_the_others_get_them(
    stop: Stop,
) -> None:
    async with Replicas(Plain, 2) as models:
        held = models.hold.remote(stop.place)
        await stop.reached()
        _, idle = busy_and_idle(models)
        held.cancel()
        calls = [models.me.remote() for _ in range(2)]
        await idle.me.remote()
        are_done = [call.done() for call in calls]
        stop.release()

    assert are_done == [True, True]


@pytest.mark.usefixtures("runtime")
async def test_calls_when_their_replica_is_restarted_then_an_idle_one_gets_them(
    stop: Stop, tmp_path: Path
) -> None:
    lasting = Plain.options(max_restarts=1, restart_backoff=0, max_task_retries=1)
    args = str(tmp_path / "lived"), stop.place
    async with Replicas(lasting, 2, args=args) as models:
        call = models.answer_in_another_life.remote(stop.place)
        await stop.reached()
        stop.release()
        busy, idle = busy_and_idle(models)
        await actorlib.kill(busy, no_restart=False)
        await stop.reached()  # its constructor
        await idle.me.remote()
        is_done = call.done()
        stop.release()
        await call

    assert is_done


async def held_replicas(models: Replicas[Any], stop: Stop) -> dict[Any, Any]:
    """Holds both of two replicas; gives the call that each runs, by its handle."""
    held: dict[Any, Any] = {}
    for _ in range(2):
        before = {each.handle: each.calls for each in models.stats()}
        ref = models.hold.remote(stop.place)
        await stop.reached()
        [handle] = [e.handle for e in models.stats() if e.calls > before[e.handle]]
        held[handle] = ref
    return held


@pytest.mark.parametrize("restarts", [0, -1])
@pytest.mark.usefixtures("runtime")
async def test_calls_when_their_replica_dies_before_they_begin_then_another_has_them(
    stop: Stop, restarts: int
) -> None:
    async with Replicas(Plain.options(max_restarts=restarts), 2) as models:
        held = await held_replicas(models, stop)
        (victim, lost), (other, kept) = held.items()
        refs = [models.me.remote() for _ in range(4)]
        own = victim.me.remote()

        await actorlib.kill(victim, no_restart=False)
        stop.release()
        stop.release()

        me = await other.me.remote()
        assert await asyncio.gather(*refs, kept) == [me] * 5
        for ref in (lost, own):  # one has begun, and one was for this actor alone
            assert isinstance(await raised(ref), ActorError)


@pytest.mark.usefixtures("runtime")
async def test_calls_when_moved_then_their_deadlines_and_cancellations_go_along(
    stop: Stop,
) -> None:
    async with Replicas(Plain, 2) as models:
        held = await held_replicas(models, stop)
        victim = next(iter(held))
        late = [models.me.options(timeout=5).remote() for _ in range(2)]
        given_up, wanted = models.me.remote(), models.me.remote()

        await actorlib.kill(victim)
        given_up.cancel()

        for ref in late:
            assert isinstance(await raised(ref), DeadlineExceededError)
        stop.release()
        stop.release()
        assert isinstance(await wanted, str)
        assert given_up.cancelled()
        await raised(held[victim])


@pytest.mark.usefixtures("runtime")
async def test_streams_when_their_replica_dies_then_those_without_an_item_move(
    stop: Stop,
) -> None:
    async with Replicas(Plain, 2) as models:
        begun = [models.items.options(backpressure=1).remote(3) for _ in range(2)]
        for stream in begun:
            await (await anext(stream))
        held = await held_replicas(models, stop)
        unbegun = [models.items.remote(3) for _ in range(2)]

        victim, other = held
        await actorlib.kill(victim)
        stop.release()
        stop.release()

        me = await other.me.remote()
        for stream in unbegun:
            assert [await ref async for ref in stream] == [me] * 3
        ends = []
        for stream in begun:
            *_, last = [ref async for ref in stream]
            ends.append(await asyncio.wait([last]) and last.exception())
        assert sum(isinstance(end, ActorDiedError) for end in ends) == 1
        await raised(held[victim])


@pytest.mark.usefixtures("runtime")
async def test_calls_when_one_ends_each_replica_that_runs_it_then_no_other_is_lost(
    stop: Stop,
) -> None:
    cls = Plain.options(max_restarts=-1, restart_backoff=0)
    async with Replicas(cls, 2) as models:
        held = await held_replicas(models, stop)
        refs = [models.me.remote() for _ in range(5)]
        poison = models.die.options(max_task_retries=3).remote()
        refs += [models.me.remote() for _ in range(5)]
        stop.release()
        stop.release()

        assert isinstance(await raised(poison), ActorUnavailableError)
        await asyncio.gather(*refs, *held.values())


@pytest.mark.usefixtures("runtime")
async def test_calls_when_no_other_replica_is_there_then_they_fare_as_any(
    stop: Stop,
) -> None:
    async with Replicas(Plain, 1) as models:
        held = models.hold.remote(stop.place)
        await stop.reached()
        behind = models.me.remote()

        await actorlib.kill(models.stats()[0].handle)

        for ref in (held, behind):
            assert isinstance(await raised(ref), ActorDiedError)


@pytest.mark.usefixtures("runtime")
async def test_calls_when_there_are_many_replicas_then_all_have_their_part() -> None:
    async with Replicas(Model, 12) as models:
        refs = [models.hold.remote() for _ in range(120)]
        counts = [each.pending_calls or 0 for each in models.stats()]
        assert sum(counts) == 120
        assert max(counts) < 3 * 120 / 12
        for each in models.stats():
            await each.handle.let_go.remote()
        assert len(set(await asyncio.gather(*refs))) == 12


@pytest.mark.usefixtures("runtime")
async def test_calls_when_none_is_ready_yet_then_they_wait() -> None:
    models = Replicas(Model, 2, kwargs={"name": "it"})
    refs = [models.hello.remote() for _ in range(4)]

    assert states(models) == ["starting", "starting"]
    assert await asyncio.gather(*refs) == ["it"] * 4
    assert [each.calls for each in models.stats()] == [2, 2]
    await models.aclose()


@pytest.mark.usefixtures("runtime")
async def test_stream_when_it_has_begun_then_it_stays_where_it_is() -> None:
    async with Replicas(Model, 3) as models:
        for _ in range(3):
            stream: Any = models.items.options(backpressure=1).remote(5)
            assert len({await ref async for ref in stream}) == 1


# That there are enough.


@pytest.mark.usefixtures("runtime")
async def test_replica_when_it_is_restarted_then_passed_over() -> None:
    async with Replicas(Model.options(max_restarts=1), 2) as models:
        victim = models.stats()[0].handle
        await raised(victim.leave.remote())
        assert states(models) == ["alive", "unavailable"]
        refs = [models.me.remote() for _ in range(4)]
        assert len(set(await asyncio.gather(*refs))) == 1

        await victim
        assert states(models) == ["alive", "alive"]


@pytest.mark.usefixtures("runtime")
async def test_replica_when_it_is_dead_then_another_is_made() -> None:
    async with Replicas(Model, 2) as models:
        victim = models.stats()[0].handle
        await raised(victim.leave.remote())
        await end_of(victim)
        assert await models.hello.remote() == "first"
        await until(lambda: states(models) == ["alive", "alive"])
        assert victim not in [each.handle for each in models.stats()]


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_none_can_be_made_then_calls_say_why(
    tmp_path: Path,
) -> None:
    refusing = tmp_path / "refusing"
    models = Replicas(Model, 1, args=("it", str(refusing)))
    await models
    refusing.touch()
    await raised(models.leave.remote())
    await until(lambda: not models.stats())
    with pytest.raises(ActorUnavailableError, match="LookupError: no weights"):
        await until(lambda: models.hello.remote() and False)

    refusing.unlink()
    await until(lambda: states(models) == ["alive"])
    assert await models.hello.remote() == "it"
    await models.aclose()


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_they_can_never_be_placed_then_said_at_once() -> None:
    with pytest.raises(ActorUnschedulableError):
        async with Replicas(Model.options(num_cpus=100), 2):
            pass


@pytest.mark.usefixtures("runtime")
async def test_scale_when_fewer_then_those_that_leave_finish_their_calls() -> None:
    async with Replicas(Model, 1) as models:
        await models.scale(3)
        assert states(models) == ["alive"] * 3
        held = [models.pause.remote() for _ in range(3)]
        scaling = asyncio.create_task(models.scale(1))
        await until(lambda: "leaving" in states(models))
        assert states(models) == ["alive", "leaving", "leaving"]
        assert len({await models.me.remote() for _ in range(3)}) == 1

        assert len(set(await asyncio.gather(*held))) == 3
        await scaling
        assert (states(models), len(models)) == (["alive"], 1)


@pytest.mark.parametrize("surge", [True, False])
@pytest.mark.usefixtures("runtime")
async def test_replace_when_called_then_all_are_new_and_none_is_missed(
    *, surge: bool
) -> None:
    async with Replicas(Model, 2) as models:
        before = [each.handle for each in models.stats()]
        replacing = asyncio.create_task(models.replace(args=("second",), surge=surge))
        told = []
        while not replacing.done():
            told.append(await models.hello.remote())
        await replacing

        assert set(told) <= {"first", "second"}
        assert {await models.hello.remote() for _ in range(4)} == {"second"}
        assert states(models) == ["alive", "alive"]
        assert not {h.handle for h in models.stats()} & set(before)


@pytest.mark.usefixtures("runtime")
async def test_replace_when_a_new_one_cannot_be_made_then_the_old_stay(
    tmp_path: Path,
) -> None:
    async with Replicas(Model, 2) as models:
        with pytest.raises(ActorDiedError, match="no weights"):
            await models.replace(args=("second", str(tmp_path)))

        assert states(models) == ["alive", "alive"]
        assert {await models.hello.remote() for _ in range(4)} == {"first"}
        await models.scale(3)
        assert await models.hello.remote() == "first"


@pytest.mark.usefixtures("runtime")
async def test_replace_when_one_leaves_then_it_has_no_successor() -> None:
    async with Replicas(Model, 2) as models:
        held = [models.pause.remote() for _ in range(2)]
        scaling = asyncio.create_task(models.scale(1))
        await until(lambda: "leaving" in states(models))
        await models.replace()
        assert [each for each in states(models) if each != "leaving"] == ["alive"]
        await asyncio.gather(scaling, *held)


@pytest.mark.parametrize("surge", [True, False])
@pytest.mark.usefixtures("runtime")
async def test_replace_when_closed_meanwhile_then_nobody_is_made(
    *, surge: bool
) -> None:
    models = await Replicas(Model, 2)
    first, second = [each.handle for each in models.stats()]
    held = [first.pause.remote(1), second.pause.remote(10)]
    replacing = asyncio.create_task(models.replace(surge=surge))
    await until(lambda: "leaving" in states(models))
    await models.aclose()

    with pytest.raises(RuntimeError, match="it was closed"):
        await replacing
    assert (models.stats(), len(await asyncio.gather(*held))) == ([], 2)


@pytest.mark.usefixtures("runtime")
async def test_health_when_one_is_not_well_then_passed_over_and_restarted() -> None:
    cls = Model.options(max_restarts=-1)
    async with Replicas(cls, 2, health="check", health_interval=0.1) as models:
        ill = models.stats()[0].handle
        await ill.fall_ill.remote()
        await until(lambda: "unhealthy" in states(models))
        assert len({await models.me.remote() for _ in range(4)}) == 1

        await until(lambda: actorlib.list_actors()[0].restarts)
        await until(lambda: states(models) == ["alive", "alive"])
        assert len({await models.me.remote() for _ in range(4)}) == 2


@pytest.mark.usefixtures("runtime")
async def test_calls_when_nobody_takes_them_for_now_then_said_why() -> None:
    async with Replicas(Model, 1, health="check", health_interval=0.1) as models:
        await models.fall_ill.remote()
        await until(lambda: "unhealthy" in states(models))
        with pytest.raises(ActorUnavailableError, match=r"check\(\) fails"):
            models.hello.remote()

    async with Replicas(Model, 1) as models:
        held = models.pause.remote(1)
        replacing = asyncio.create_task(models.replace(surge=False))
        await until(lambda: states(models) == ["leaving"])
        with pytest.raises(ActorUnavailableError, match="the next is being made"):
            models.hello.remote()
        await asyncio.gather(held, replacing)


async def test_health_when_the_runtime_drains_then_calls_are_finished(
    own_runtime: Runtime,
) -> None:
    async with Replicas(Model, 2, health="check", health_interval=0.1) as models:
        ref = models.pause.remote()
        assert await own_runtime.drain() == []
        assert await ref
        assert states(models) == ["alive", "alive"]


# Their end.


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_nobody_has_them_then_they_end() -> None:
    models = Replicas(Model, 2, health="check")
    await models
    ends = [end_of(each.handle) for each in models.stats()]
    del models
    gc.collect()
    await asyncio.gather(*ends)


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_closed_then_refused_by_name() -> None:
    models = Replicas(Model, 2)
    await models.aclose()

    assert models.stats() == []
    with pytest.raises(RuntimeError, match="it was closed"):
        models.hello.remote()
    with pytest.raises(RuntimeError, match="no longer be changed: it was closed"):
        await models.scale(1)
    empty = Replicas(Model, 0)
    with pytest.raises(RuntimeError, match="scaled to 0"):
        empty.hello.remote()


async def test_replicas_when_their_runtime_is_over_then_none_in_the_next() -> None:
    async with running(num_cpus=4):
        models = await Replicas(Model, 2)
    async with running(num_cpus=4):
        await asyncio.sleep(1)
        assert actorlib.list_actors() == []
        with pytest.raises(RuntimeError, match="its runtime was shut down"):
            models.hello.remote()
        with pytest.raises(RuntimeError, match="its runtime was shut down"):
            await models.scale(3)
        await models.aclose()


# Changes that fail.


@actorlib.remote
class Better(Model.__wrapped__):
    """Replaces a Model."""


@pytest.mark.usefixtures("runtime")
async def test_replace_when_its_arguments_are_not_some_then_nothing_has_changed() -> (
    None
):
    async with Replicas(Model, 1) as models:
        for wrong in ({"args": 3}, {"kwargs": 3}):
            with pytest.raises(TypeError):
                await models.replace(Better, **wrong)
        first = models.stats()[0].handle
        await actorlib.kill(first)
        await until(lambda: states(models) == ["alive"])

        [after] = models.stats()
        assert after.handle != first
        assert repr(after.handle).startswith("Actor(Model")


@pytest.mark.usefixtures("runtime")
async def test_scale_when_one_of_several_cannot_be_sent_then_as_many_as_before() -> (
    None
):
    made: list[Replicas[Any]] = []

    class Name:
        def __reduce__(self) -> Any:
            if made and len(made[0].stats()) > 1:
                raise ArithmeticError("no more")
            return str, ("it",)

    async with Replicas(Model, 1, args=(Name(),)) as models:
        made.append(models)
        with pytest.raises(SerializationError, match="no more"):
            await models.scale(4)

        assert len(models) == 1
        await until(lambda: states(models) == ["alive"])
        assert await models.hello.remote() == "it"
    made.clear()


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_awaited_while_one_leaves_then_it_is_left_out() -> None:
    async with Replicas(Model.options(num_cpus=64), 1) as models:
        growing = asyncio.create_task(models.scale(2))
        await asyncio.sleep(0)
        shrinking = asyncio.create_task(models.scale(1))
        await asyncio.sleep(0)
        assert states(models) == ["alive", "leaving"]

        assert await models is models
        await shrinking
        assert isinstance(await raised(growing), ActorDiedError)


# Health checks.


class Strict(Model.__wrapped__):
    async def check(self, level: int) -> None: ...  # type: ignore[override]

    @actorlib.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return 1, 2

    def stream(self) -> Iterator[int]:
        yield 1


@pytest.mark.usefixtures("runtime")
async def test_health_when_its_method_is_not_fit_then_refused_where_it_was_named() -> (
    None
):
    strict, number = actorlib.remote(Strict), cast("Any", 3)
    for name, error, why in (
        (number, TypeError, "health takes a name"),
        ("stream", TypeError, r"one result, and Strict\.stream is a generator"),
        ("pair", TypeError, r"Strict\.pair has num_returns=2"),
        ("check", TypeError, "missing 1 required"),
    ):
        with pytest.raises(error, match=why):
            Replicas(strict, 1, health=name)
    async with Replicas(Model, 1, health="check") as models:
        with pytest.raises(TypeError, match="missing 1 required"):
            await models.replace(strict)
        assert await models.hello.remote() == "first"


@pytest.mark.usefixtures("runtime")
async def test_health_when_a_replica_has_as_many_calls_as_it_may_then_it_is_well() -> (
    None
):
    cls = Model.options(max_pending_calls=1)
    async with Replicas(cls, 1, health="check", health_interval=0.1) as models:
        held = models.pause.remote(5)
        await asyncio.sleep(3)  # the loop jumps over it
        assert states(models) == ["alive"]
        assert await held


# Ends in other places.


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_a_thread_drops_them_last_then_they_end() -> None:
    loop = asyncio.get_running_loop()
    models = [await Replicas(Model, 1, health="check")]
    ends = [end_of(each.handle) for each in models[0].stats()]
    loop.set_debug(True)  # it refuses what another thread does to its tasks
    try:
        await asyncio.to_thread(models.clear)
        await asyncio.gather(*ends)
    finally:
        loop.set_debug(False)


async def test_replicas_when_the_runtime_ends_in_their_block_then_its_error_stays() -> (
    None
):
    async with running(num_cpus=4, grace=0.5) as runtime:
        with pytest.raises(LookupError):  # noqa: PT012  # it is about the block
            async with Replicas(Model, 2) as models:
                held = models.pause.remote()
                ending = asyncio.create_task(runtime.shutdown())
                await asyncio.sleep(0)
                raise LookupError
        await models.aclose()
        await ending
        assert isinstance(await raised(held), ActorDiedError)


# What makes no sense.


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_asked_for_nonsense_then_refused_where_it_was_asked() -> (
    None
):
    plain: Any = Path
    with pytest.raises(TypeError, match=r"decorated with @actorlib\.remote"):
        Replicas(plain, 1)
    with pytest.raises(ValueError, match="n takes a whole number >= 0"):
        Replicas(Model, -1)
    with pytest.raises(ValueError, match="no method 'chek'; did you mean 'check'"):
        Replicas(Model, 1, health="chek")
    with pytest.raises(ValueError, match="cannot all have the name 'm'"):
        Replicas(Model.options(name="m"), 2)
    async with Replicas(Model, 1) as models:
        with pytest.raises(AttributeError, match="did you mean 'hello'"):
            models.helo  # noqa: B018  # that is it
        with pytest.raises(TypeError, match=r"hello\.remote"):
            models.hello()
        with pytest.raises(TypeError, match="takes"):
            models.hello.remote(1)
        with pytest.raises(ValueError, match="lacks its methods"):
            await models.replace(actorlib.remote(Path))
        with pytest.raises(TypeError, match="Send the handles"):
            pickle.dumps(models)
        assert "hello" in dir(models)
        assert repr(models) == "Replicas(Model, 1: 1 alive)"


@actorlib.remote
class Makes:
    """Makes replicas where that cannot be done."""

    def make(self) -> None:
        Replicas(Model, 1)


@pytest.mark.usefixtures("runtime")
async def test_replicas_when_made_in_an_actor_then_refused() -> None:
    error = await raised(Makes.remote().make.remote())
    assert "create them there" in str(error)
