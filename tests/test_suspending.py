"""Actors that are taken off their GPU, and come back to it."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Stop, running
from helpers.calls import raised
from helpers.drivers import FakeDriver
from helpers.gpus import Model, OneCard
from helpers.invariants import check_actors, check_mailbox
from helpers.marks import USES_RUNTIME
from helpers.rare_cases import rarely
from helpers.turns import next_turn

import actorlib
from actorlib import placement_group, remove_placement_group
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib._owner.actors.actor_record import ActorState
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    ActorUnavailableError,
    SuspendError,
    UnsupportedOptionError,
)
from actorlib.types import PlacementGroupSchedulingStrategy as Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.engine import LocalEngine

pytestmark = pytest.mark.memory


@actorlib.remote(num_gpus=1)
class Log:
    """Writes down what it is asked."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    def note(self, value: Any) -> Any:
        """Writes a value down and gives it back."""
        self._seen.append(value)
        return value

    def stop(self, place: Any, value: Any) -> Any:
        """The same, once the test lets it go on."""
        place.stop_here()
        return self.note(value)

    def seen(self) -> list[Any]:
        """What was written down."""
        return self._seen


@actorlib.remote(num_gpus=1)
class AsyncLog(Log.__wrapped__):  # type: ignore[misc]  # the plain class
    """The same, on an event loop."""

    async def wait(self, place: Any, value: Any) -> Any:
        """Like ``stop``."""
        await asyncio.to_thread(place.stop_here)
        return self.note(value)


@pytest.fixture
def driver(card: OneCard, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return FakeDriver(card, monkeypatch)


@pytest.fixture
async def runtime(card: OneCard, driver: FakeDriver) -> AsyncIterator[Runtime]:
    del driver  # it is there before
    async with running(num_gpus=None) as runtime:
        yield runtime
        for supervisor in _table():
            card.let_go(supervisor.pid)
            supervisor.kill("the test is over")
            await asyncio.shield(supervisor.ended)
        while runtime.snapshot().draining:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.1)
        assert runtime.available_resources()["GPU"] == 1


def _table() -> list[ActorSupervisor]:
    """All supervisors, if nothing is wrong with what they keep."""
    engine = cast("LocalEngine", find_engine())
    check_actors(engine.actor_table)
    for supervisor in engine.actor_table:
        check_mailbox(supervisor.router._mailbox)  # pyright: ignore[reportPrivateUsage]  # nobody else asks
    return list(engine.actor_table)


def state_of(runtime: Runtime, handle: Any) -> str:
    actor = pin_of(handle).actor_id.hex()
    return next(a.state for a in runtime.snapshot().actors if a.actor_id == actor)


def free(runtime: Runtime) -> float:
    return runtime.available_resources().get("GPU", 0)


async def on_the_card(card: OneCard, log: Any = Log, **options: Any) -> Any:
    """An actor whose process has memory of the card."""
    actor = await log.options(**options).remote()
    card.use(_pid(actor))
    return actor


def _pid(actor: Any) -> int:
    engine = cast("LocalEngine", find_engine())
    return engine.actor_table.by_id[pin_of(actor).actor_id].pid


# There and back.


async def test_suspend_when_done_then_others_have_the_share_and_resume_waits_for_it(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    first = await on_the_card(card)
    assert await first.note.remote("before") == "before"

    await first.suspend()

    assert state_of(runtime, first) == "suspended"
    assert not first.share
    assert "what it had on GPU 0 is in the host's memory" in runtime.explain(first)
    second = await on_the_card(card)
    assert free(runtime) == 0
    held = first.note.remote("meanwhile")
    resumed = first.resume()
    assert "is suspended, and waits to be resumed: Log requests" in runtime.explain(
        first
    )
    assert "GPU=1 by Log" in runtime.explain(first)

    card.let_go(_pid(second))
    await actorlib.kill(second)
    await resumed

    assert await held == "meanwhile"
    assert await first.seen.remote() == ["before", "meanwhile"]
    assert state_of(runtime, first) == "alive"
    assert first.share.units == 1
    assert [verb for verb, _ in driver.asked] == ["save", "restore"]
    assert len({pid for _, pid in driver.asked}) == 1


async def test_suspend_when_nvml_still_lists_it_then_nobody_has_the_share_yet(
    card: OneCard, runtime: Runtime
) -> None:
    first = await on_the_card(card)
    child = _pid(first) + 1_000_000  # cannot be seen from here, and is nobody's

    await first.suspend()
    card.use(child)
    second = Log.remote()
    await asyncio.sleep(1)
    drains = runtime.snapshot().draining
    card.let_go(child)
    await second

    assert runtime.snapshot().draining == ()
    assert len(drains) <= 1


@pytest.mark.parametrize("log", [Log, AsyncLog])
async def test_suspend_when_calls_are_under_way_then_they_end_and_others_wait(
    log: Any, card: OneCard, runtime: Runtime, stop: Stop, driver: FakeDriver
) -> None:
    actor = await on_the_card(card, log)
    under_way = actor.stop.remote(stop.place, "first")
    await stop.reached()
    suspended = asyncio.ensure_future(actor.suspend())
    await next_turn()
    held = actor.note.remote("second")
    told = runtime.explain(actor)
    states = [call.state for call in runtime.calls()]

    stop.release()
    await suspended

    assert "GPU 0, and is to be suspended when 1 call has ended" in told
    assert states == ["running", "pending_actor"]
    assert await under_way == "first"
    assert not held.done()
    assert driver.asked == [("save", _pid(actor))]
    await actor.resume()
    assert await held == "second"
    assert await actor.seen.remote() == ["first", "second"]


async def test_suspend_when_async_calls_are_under_way_then_it_waits_for_all(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    actor = await on_the_card(card, AsyncLog)
    with Stop() as one, Stop() as two:
        first = actor.wait.remote(one.place, 1)
        second = actor.wait.remote(two.place, 2)
        await one.reached()
        await two.reached()
        suspended = asyncio.ensure_future(actor.suspend())
        one.release()
        assert await first == 1
        assert driver.asked == []
        two.release()
        assert await second == 2
        await suspended

    assert state_of(runtime, actor) == "suspended"


async def test_suspend_when_it_takes_too_long_then_said_and_all_goes_on(
    card: OneCard, runtime: Runtime, stop: Stop
) -> None:
    actor = await on_the_card(card)
    under_way = actor.stop.remote(stop.place, "first")
    await stop.reached()
    suspending = actor.suspend(timeout=0.05)
    held = actor.note.remote("second")

    error = await raised(suspending)

    assert isinstance(error, SuspendError)
    assert "1 call has not ended within 0.05 s. It goes on" in str(error)
    assert state_of(runtime, actor) == "alive"
    stop.release()
    assert await asyncio.gather(under_way, held) == ["first", "second"]


@USES_RUNTIME
async def test_suspend_when_held_calls_are_cancelled_then_they_never_run(
    card: OneCard,
) -> None:
    actor = await on_the_card(card)
    await actor.suspend()
    one, two = actor.note.remote(1), actor.note.remote(2)
    actorlib.cancel(one)
    late = actor.note.options(timeout=5).remote(3)
    await raised(late)

    await actor.resume()

    assert await two == 2
    assert await actor.seen.remote() == [2]


@USES_RUNTIME
async def test_suspend_when_asked_twice_then_both_are_told(
    card: OneCard, driver: FakeDriver
) -> None:
    actor = await on_the_card(card)
    driver.going_on.clear()
    one, two = actor.suspend(), actor.suspend()
    await asyncio.sleep(1)
    with pytest.raises(SuspendError, match="is being suspended: await that"):
        actor.resume()
    driver.going_on.set()
    await asyncio.gather(one, two)
    await actor.suspend()
    driver.going_on.clear()
    three, four = actor.resume(), actor.resume()
    await asyncio.sleep(1)
    with pytest.raises(SuspendError, match="is being resumed: await that"):
        actor.suspend()
    driver.going_on.set()
    await asyncio.gather(three, four)
    await actor.resume()

    assert [verb for verb, _ in driver.asked] == ["save", "restore"]


async def test_resume_when_its_calls_have_not_ended_then_it_goes_on(
    card: OneCard, runtime: Runtime, stop: Stop, driver: FakeDriver
) -> None:
    actor = await on_the_card(card)
    under_way = actor.stop.remote(stop.place, 1)
    await stop.reached()
    suspending = actor.suspend()
    held = actor.note.remote(2)
    await next_turn()

    await actor.resume()

    assert "it was resumed before" in str(await raised(suspending))
    stop.release()
    assert await asyncio.gather(under_way, held) == [1, 2]
    assert (driver.asked, state_of(runtime, actor)) == ([], "alive")


async def test_suspend_and_resume_when_taken_back_at_once_then_nothing_has_begun(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    actor = await on_the_card(card)
    suspending = actor.suspend()
    await actor.resume()
    assert "it was resumed before" in str(await raised(suspending))
    assert (await actor.note.remote(1), driver.asked) == (1, [])

    await actor.suspend()
    resuming = actor.resume()
    await actor.suspend()
    assert "it was suspended again" in str(await raised(resuming))
    assert state_of(runtime, actor) == "suspended"
    assert [verb for verb, _ in driver.asked] == ["save"]


async def test_suspend_when_it_waits_to_be_resumed_then_it_leaves_the_line(
    card: OneCard, runtime: Runtime
) -> None:
    first = await on_the_card(card)
    await first.suspend()
    second = await on_the_card(card)
    resuming = first.resume()
    await next_turn()

    await first.suspend()

    assert "it was suspended again before its turn" in str(await raised(resuming))
    card.let_go(_pid(second))
    await actorlib.kill(second)
    await asyncio.sleep(1)
    assert (free(runtime), state_of(runtime, first)) == (1, "suspended")
    await first.resume()
    assert await first.note.remote(1) == 1


async def test_resume_when_nobody_waits_any_more_then_it_stays_in_line(
    card: OneCard, runtime: Runtime
) -> None:
    first = await on_the_card(card)
    await first.suspend()
    second = await on_the_card(card)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await first.resume()
    assert state_of(runtime, first) == "suspended"

    card.let_go(_pid(second))
    await actorlib.kill(second)

    assert await first.note.remote(1) == 1


# What the driver does not do.


async def test_driver_when_it_refuses_then_the_actor_stays_as_it_was(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    actor = await on_the_card(card)
    driver.refuse("cuCheckpointProcessLock failed with error 801 (not supported)")
    error = await raised(actor.suspend())
    assert isinstance(error, SuspendError)
    assert "error 801 (not supported). It goes on" in str(error)
    assert (free(runtime), state_of(runtime, actor)) == (0, "alive")
    assert await actor.note.remote(1) == 1

    await actor.suspend()
    held = actor.note.remote(2)
    driver.refuse("out of memory")
    error = await raised(actor.resume())
    assert "out of memory. It stays suspended" in str(error)
    await asyncio.sleep(1)
    assert (free(runtime), state_of(runtime, actor)) == (1, "suspended")
    await actor.resume()
    assert await held == 2


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_driver_when_it_breaks_the_process_then_that_ends_and_may_be_restarted(
    verb: str, restarts: int, card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    options = {"max_restarts": restarts, "max_task_retries": restarts}
    actor = await on_the_card(card, **options)
    pid = _pid(actor)
    if verb == "resume":
        await actor.suspend()
    held = actor.note.remote("held") if verb == "resume" else None
    driver.refuse("CUDA calls the process failed", is_broken=True)

    error = await raised(getattr(actor, verb)())
    card.let_go(pid)

    assert isinstance(error, ActorUnavailableError if restarts else ActorDiedError)
    assert f"the driver lost it while it was {verb}" in str(error)
    if restarts:
        assert await actor.note.remote(1) == 1
        assert held is None or await held == "held"
        assert (free(runtime), state_of(runtime, actor)) == (0, "alive")
        assert _pid(actor) != pid
    else:
        for ref in (held, actor.note.remote(1)):
            assert ref is None or isinstance(await raised(ref), ActorDiedError)
        assert state_of(runtime, actor) == "dead"


# Ends.


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "phase", ["emptying", "saving", "suspended", "waiting", "restoring"]
)
@pytest.mark.parametrize("restarts", [0, 1])
async def test_kill_when_it_is_anywhere_on_its_way_then_nothing_is_lost(
    phase: str,
    restarts: int,
    card: OneCard,
    driver: FakeDriver,
    stop: Stop,
) -> None:
    actor = await on_the_card(card, max_restarts=restarts)
    pid = _pid(actor)
    waits: list[Any] = []
    other = None
    if phase == "emptying":
        waits.append(actor.stop.remote(stop.place, 1))
        await stop.reached()
    if phase in ("emptying", "saving"):
        driver.going_on.clear()
        waits.append(actor.suspend())
    else:
        await actor.suspend()
    if phase == "waiting":
        other = await on_the_card(card)
        waits.append(actor.resume())
    if phase == "restoring":
        driver.going_on.clear()
        waits.append(actor.resume())
    waits.append(actor.note.remote(2))
    await asyncio.sleep(1)

    killed = actorlib.kill(actor, no_restart=not restarts)
    card.let_go(pid)
    await killed
    driver.going_on.set()

    kind = ActorUnavailableError if restarts else ActorDiedError
    held = waits.pop()
    assert [type(await raised(wait)) for wait in waits] == [kind] * len(waits)
    if other is not None:
        card.let_go(_pid(other))
        await actorlib.kill(other)
    if restarts:
        await actor
        assert await held == 2
    else:
        assert isinstance(await raised(held), ActorDiedError)
        await Log.remote()


async def test_handle_when_the_last_one_is_gone_then_a_suspended_actor_ends(
    card: OneCard, runtime: Runtime
) -> None:
    actor = await on_the_card(card)
    await actor.suspend()
    held = actor.note.remote(1)

    del actor
    error = await raised(held)

    assert "no process held a handle of it, and it was suspended" in str(error)
    assert runtime.snapshot().actors == ()


async def test_handle_when_the_last_one_is_gone_meanwhile_then_it_ends_behind_that(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    actor = await on_the_card(card)
    driver.going_on.clear()
    suspended = actor.suspend()
    await asyncio.sleep(1)
    del actor
    await next_turn()
    error = await raised(suspended)
    driver.going_on.set()

    assert isinstance(error, ActorDiedError)
    assert runtime.snapshot().actors == ()


@USES_RUNTIME
async def test_block_when_it_ends_while_calls_end_then_all_of_them_do(
    card: OneCard, stop: Stop, driver: FakeDriver
) -> None:
    async with await on_the_card(card) as actor:
        first = actor.stop.remote(stop.place, 1)
        await stop.reached()
        suspending = actor.suspend()
        second = actor.note.remote(2)
        stop.release()
        ending = asyncio.ensure_future(raised(suspending))
        await next_turn()
        card.let_go(_pid(actor))

    assert await asyncio.gather(first, second) == [1, 2]
    assert isinstance(await ending, SuspendError) or driver.asked


async def test_shutdown_when_actors_are_suspended_then_they_end(
    card: OneCard, driver: FakeDriver
) -> None:
    async with running(num_gpus=None):
        actor = await on_the_card(card)
        await actor.suspend()
        held = actor.note.remote(1)
        waits = asyncio.ensure_future(raised(held))
        driver.going_on.clear()
        resuming = asyncio.ensure_future(raised(actor.resume()))
        await asyncio.sleep(1)

    assert isinstance(await waits, ActorDiedError)
    assert isinstance(await resuming, ActorDiedError)


async def test_group_when_removed_then_a_suspended_actor_inside_ends(
    card: OneCard, runtime: Runtime
) -> None:
    group = placement_group([{"GPU": 1}])
    await group.ready()
    strategy = Strategy(placement_group=group)
    actor = await on_the_card(card, scheduling_strategy=strategy)
    await actor.suspend()
    other = await on_the_card(card, scheduling_strategy=strategy)
    resuming = actor.resume()
    card.let_go(_pid(other))
    await actorlib.kill(other)
    await resuming
    await actor.suspend()

    await remove_placement_group(group)

    assert isinstance(await raised(actor.note.remote(1)), ActorDiedError)
    assert free(runtime) == 1


async def test_near_when_the_neighbour_is_suspended_then_it_waits_for_that(
    card: OneCard, runtime: Runtime
) -> None:
    first = await on_the_card(card, num_gpus=0.5)
    await first.suspend()
    second = Log.options(num_gpus=0.5, near=first).remote()
    await asyncio.sleep(1)
    assert "waits for a place for the actors" in runtime.explain(second)

    await first.resume()

    await second


# Anything, in any order.


class Walk:
    """Does to actors and their driver whatever may be done.

    Args:
        seed: Which walk it is.
        card: The card.
        driver: Its driver.

    Attributes:
        waits: What was given to be awaited.
    """

    def __init__(self, seed: int, card: OneCard, driver: FakeDriver) -> None:
        self.waits: list[Any] = []
        self._random = random.Random(seed)
        self._card = card
        self._driver = driver
        self._actors: list[Any] = []

    def step(self) -> None:
        """Does something."""
        for supervisor in _table():
            if supervisor.record.state is ActorState.ALIVE:
                self._card.use(supervisor.pid)
        if len(self._actors) < 3:
            log = self._random.choice([Log, AsyncLog]).options(
                num_gpus=self._random.choice([0.5, 1]),
                max_restarts=self._random.choice([0, 2]),
            )
            self._actors.append(log.remote())
            return
        words = [*["call"] * 4, *["suspend"] * 4, *["resume"] * 3, *_SELDOM]
        self._do(self._random.choice(words), self._random.choice(self._actors))
        if self._random.random() < 0.5:
            self._driver.going_on.set()

    def _do(self, what: str, actor: Any) -> None:
        match what:
            case "call":
                self.waits.append(actor.note.remote(1))
            case "suspend" | "resume":
                with suppress(SuspendError, ActorDiedError):
                    self.waits.append(getattr(actor, what)())
            case "cancel" if self.waits:
                self._random.choice(self.waits).cancel()
            case "refuse" | "break":
                self._driver.refuse("no", is_broken=what == "break")
            case "hold":
                self._driver.going_on.clear()
            case "kill" | "restart":
                self._card.let_go(_pid(actor))
                self.waits.append(actorlib.kill(actor, no_restart=what == "kill"))
            case "drop":
                self._actors.remove(actor)
            case _:
                pass

    async def end(self) -> None:
        """Lets everything go on, and has everything end."""
        self._driver.going_on.set()
        for supervisor in _table():
            self._card.let_go(supervisor.pid)
        await asyncio.sleep(1)
        for supervisor in _table():
            self._card.let_go(supervisor.pid)
            supervisor.kill("the walk is over")
        self._actors.clear()


_SELDOM = ["cancel", "refuse", "break", "hold", "kill", "restart", "drop"]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("seed", [*range(12), *rarely(*range(12, 40))])
async def test_walk_when_anything_is_done_then_all_are_told_and_nothing_is_lost(
    seed: int, card: OneCard, driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    walk = Walk(seed, card, driver)
    for _ in range(40):
        walk.step()
        for _ in range(seed % 4):
            await next_turn()
        if seed % 3 == 0:
            await asyncio.sleep(0.1)
    await walk.end()

    told = await asyncio.gather(*walk.waits, return_exceptions=True)

    errors = [one for one in told if isinstance(one, Exception)]
    assert [one for one in errors if not isinstance(one, ActorlibError)] == []
    assert "a bug in actorlib" not in caplog.text


# What cannot be.


async def test_suspend_when_it_cannot_be_then_refused_with_the_reason(
    card: OneCard, runtime: Runtime
) -> None:
    plain = await Log.options(num_gpus=0).remote()
    with pytest.raises(SuspendError, match="it holds no GPU"):
        plain.suspend()
    first = await on_the_card(card)
    second = Log.remote()
    with pytest.raises(SuspendError, match="is pending: it is suspended when"):
        second.suspend()
    with pytest.raises(TypeError, match="timeout takes a number of seconds"):
        first.suspend(timeout="1")
    await plain.resume()
    waiting = second.resume()  # until it is ready
    assert not waiting.done()
    waiting.cancel()
    await actorlib.kill(plain)
    with pytest.raises(ActorDiedError):
        await plain.suspend()
    assert free(runtime) == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "GPU 0 was declared and not found"),
        ({"engine": "inline"}, "inline actors are threads"),
    ],
)
async def test_suspend_when_nothing_could_do_it_then_refused(
    options: Any, reason: str
) -> None:
    async with running(num_gpus=1, **options):
        actor = await Model.options(num_gpus=0.5).remote()
        with pytest.raises(SuspendError, match=reason):
            actor.suspend()
        await actor.resume()


async def test_suspend_when_it_is_a_rank_then_refused(
    card: OneCard, runtime: Runtime
) -> None:
    group = placement_group([{"GPU": 1}])
    inside = Strategy(group, placement_group_bundle_index=0)
    rank = await on_the_card(card, torch=True, scheduling_strategy=inside)
    with pytest.raises(SuspendError, match="the other ranks would wait for it"):
        rank.suspend()
    assert state_of(runtime, rank) == "alive"
    card.let_go(_pid(rank))
    await remove_placement_group(group)


async def test_suspend_when_an_actor_asks_then_refused(card: OneCard) -> None:
    async with running(num_gpus=None):

        @actorlib.remote
        class Other:
            async def suspend_it(self, handle: Any) -> None:
                await handle.suspend()

            async def resume_it(self, handle: Any) -> None:
                await handle.resume()

        first, other = await on_the_card(card), Other.remote()
        for method in (other.suspend_it, other.resume_it):
            error = await raised(method.remote(first))
            assert isinstance(error, UnsupportedOptionError)
            assert "by the program that started the runtime" in str(error)


async def test_handle_when_the_class_has_methods_of_these_names_then_they_are_called(
    card: OneCard, runtime: Runtime, driver: FakeDriver
) -> None:
    @actorlib.remote(num_gpus=1)
    class Pump:
        def suspend(self) -> str:
            return "stopped"

        def resume(self) -> str:
            return "runs"

    pump: Any = await on_the_card(card, Pump)
    assert await pump.suspend.remote() == "stopped"
    assert await pump.resume.remote() == "runs"

    await actorlib.ActorHandle.suspend(pump)

    assert state_of(runtime, pump) == "suspended"
    assert driver.asked == [("save", _pid(pump))]
    await actorlib.ActorHandle.resume(pump)
