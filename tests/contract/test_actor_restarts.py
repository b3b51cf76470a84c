"""Restarts of actors: how often, with which state, and what calls raise meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Keeper, Log, Target
from helpers.callers import error_of
from helpers.kinds import ACTORS, CONTRACT, OWN_ENGINES, PLAIN, TWO_KINDS
from helpers.lives import (
    add,
    end_of,
    id_of,
    keep,
    leave,
    ready_again,
    remote,
    restarted,
)
from helpers.reused import Gate

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = CONTRACT


@pytest.fixture
def at_once(*, is_on_ray: bool) -> dict[str, Any]:
    """The options of an actor whose restarts all follow at once; on Ray they do."""
    return {} if is_on_ray else {"restart_backoff": 0}


def is_restarted() -> bool:
    return actorlib.get_runtime_context().was_current_actor_reconstructed


# How often.


@ACTORS
async def test_restart_when_the_actor_died_then_its_state_is_fresh(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    target = callee.new(max_restarts=1)
    numbers = [target.actor.__ray_call__.remote(add) for _ in range(2)]
    assert await api.get(numbers) == [1, 2]
    assert await api.get(target.run(is_restarted)) is False
    error = await error_of(api, target.run(leave, 3))
    assert isinstance(error, ActorUnavailableError)
    assert isinstance(error, ActorError)
    assert not isinstance(error, ActorDiedError)
    assert (error.exit.code, error.actor_id) == (3, id_of(target.actor))
    await restarted(api, target.actor)

    assert await api.get(target.actor.__ray_call__.remote(add)) == 1
    assert await api.get(target.run(is_restarted)) is True
    error = await error_of(api, target.run(leave, 3))
    assert isinstance(error, ActorDiedError)
    if not is_on_ray:
        assert "is dead after 1 restart (max_restarts=1)" in str(error)
    assert isinstance(await error_of(api, target.run(len, "ab")), ActorDiedError)


@OWN_ENGINES
@PLAIN
async def test_restarts_when_without_a_limit_then_kill_is_final(
    api: Api, callee: Callee, at_once: dict[str, Any]
) -> None:
    target = callee.new(max_restarts=-1, **at_once)
    for _ in range(3):
        error = await error_of(api, target.run(leave, 3))
        assert isinstance(error, ActorUnavailableError)
        await restarted(api, target.actor)
    await api.kill(target.actor)

    assert isinstance(await error_of(api, target.run(len, "ab")), ActorDiedError)


@OWN_ENGINES
@PLAIN
async def test_restart_window_when_it_is_over_then_earlier_deaths_do_not_count(
    api: Api, callee: Callee
) -> None:
    target = callee.new(max_restarts=1, restart_window=0, restart_backoff=0)
    for _ in range(3):
        error = await error_of(api, target.run(leave, 3))
        assert isinstance(error, ActorUnavailableError)
        await restarted(api, target.actor)

    assert await api.get(target.run(len, "ab")) == 2


# Calls meanwhile.


def leave_after(gate: Any) -> Any:
    yield gate.wait.remote("death")
    raise SystemExit(3)


@OWN_ENGINES
@PLAIN
async def test_calls_when_they_wait_behind_a_death_then_they_fail(
    api: Api, callee: Callee
) -> None:
    gate, target = Gate.remote(), callee.new(max_restarts=1)
    refs = [target.run(leave_after, gate), *[target.run(len, "ab") for _ in range(3)]]
    await api.get(gate.reached.remote("death"))
    await api.get(gate.open.remote("death"))

    for ref in refs:
        assert isinstance(await error_of(api, ref), ActorUnavailableError)
    await restarted(api, target.actor)
    assert await api.get(target.run(len, "ab")) == 2


@OWN_ENGINES
@PLAIN
async def test_calls_when_they_wait_with_a_retry_then_they_run_after_the_restart(
    api: Api, callee: Callee
) -> None:
    gate, target = Gate.remote(), callee.new(max_restarts=1)
    lost = target.run(leave_after, gate)
    again = target.method("run", max_task_retries=1)
    refs = [again.remote(len, "x" * number) for number in range(10)]
    await api.get(gate.reached.remote("death"))
    await api.get(gate.open.remote("death"))

    assert isinstance(await error_of(api, lost), ActorUnavailableError)
    assert await api.get(refs) == [*range(10)]


def see_restart(other: Any) -> Generator[Any, Any, Any]:
    code = None
    try:
        yield other.run.remote(leave, 3)
    except ActorUnavailableError as error:
        code = error.exit.code
    yield ready_again(other)
    return code, (yield other.run.remote(is_restarted))


@actorlib.remote
class Running:
    def run(self, function: Any, *args: Any) -> Any:
        return function(*args)


@OWN_ENGINES
@TWO_KINDS
async def test_restart_when_a_callee_has_the_handle_then_it_sees_it_too(
    api: Api, callee: Callee
) -> None:
    other = Running.options(max_restarts=1).remote()

    assert await api.get(callee.run(see_restart, other)) == (3, True)


def note(log: Any, value: int) -> Any:
    yield log.note.remote(value)
    if value == 2:
        raise SystemExit(3)


@OWN_ENGINES
@TWO_KINDS
async def test_calls_of_the_actor_when_it_was_restarted_then_they_keep_their_order(
    api: Api, callee: Callee
) -> None:
    log = actorlib.remote(Log).remote()
    target = callee.new(max_restarts=1)
    await api.get(target.run(note, log, 1))
    assert isinstance(
        await error_of(api, target.run(note, log, 2)), ActorUnavailableError
    )
    await restarted(api, target.actor)
    await api.get(target.run(note, log, 3))

    assert await api.get(log.seen.remote()) == [1, 2, 3]


# Constructors.


@OWN_ENGINES
async def test_arguments_when_they_changed_then_each_restart_has_the_first_ones(
    api: Api, at_once: dict[str, Any]
) -> None:
    items = [1, 2]
    value = {"items": items, "data": bytearray(b"x" * 200_000), "actor": Echo.remote()}
    keeper = Keeper.options(max_restarts=2, **at_once).remote(value)
    await api.ready(keeper)
    items.append(3)
    del value
    for _ in range(2):
        await api.get(keeper.keep.remote(None))
        await api.kill(keeper, no_restart=False)
        await restarted(api, keeper)

    kept = await api.get(keeper.kept.remote())
    assert (kept["items"], kept["data"]) == ([1, 2], bytearray(b"x" * 200_000))
    assert await api.get(kept["actor"].echo.remote(1)) == 1


@OWN_ENGINES
async def test_handle_when_it_is_an_argument_then_it_is_held_until_the_last_restart(
    api: Api,
) -> None:
    target = Target.remote()
    await api.ready(target)
    end = end_of(api, target)
    keeper = Keeper.options(max_restarts=1).remote([target])
    del target
    await api.get(keeper.keep.remote(None))
    assert not end.done()  # the next process needs it
    await api.kill(keeper, no_restart=False)
    await restarted(api, keeper)
    assert len(await api.get(keeper.kept.remote())) == 1
    await api.get(keeper.keep.remote(None))

    gc.collect()
    await end


class FailingOnce:
    """Fails in its first process or in all later ones, and notes each."""

    def __init__(self, log: Any, fails: str) -> None:
        actorlib.get(log.note.remote(fails))
        if fails == "first" or is_restarted():
            raise ValueError(f"no {fails} life")

    def leave(self) -> None:
        raise SystemExit(3)


async def test_constructor_when_it_raises_the_first_time_then_it_runs_once(
    api: Api,
) -> None:
    log = actorlib.remote(Log).remote()
    failing = actorlib.remote(FailingOnce).options(max_restarts=-1).remote(log, "first")
    error = await error_of(api, failing.leave.remote())

    assert isinstance(error, ActorDiedError)
    assert isinstance(error.__cause__, ValueError)
    assert await api.get(log.seen.remote()) == ["first"]


@OWN_ENGINES
async def test_constructor_when_it_raises_in_restarts_then_it_runs_for_each(
    api: Api, at_once: dict[str, Any]
) -> None:
    log = actorlib.remote(Log).remote()
    options: dict[str, Any] = {"max_restarts": 3, **at_once}
    failing = actorlib.remote(FailingOnce).options(**options).remote(log, "later")
    await api.ready(failing)
    assert isinstance(
        await error_of(api, failing.leave.remote()), ActorUnavailableError
    )
    error = await error_of(api, ready_again(failing))

    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "failed to start"
    assert isinstance(error.__cause__, ValueError)
    assert await api.get(log.seen.remote()) == ["later"] * 4


class LeavingOnce:
    def __init__(self, log: Any) -> None:
        actorlib.get(log.note.remote("made"))
        if not is_restarted():
            os._exit(3)

    def ping(self) -> str:
        return "here"


@OWN_ENGINES
async def test_constructor_when_its_process_ends_then_calls_wait_for_the_next(
    api: Api, engine: str
) -> None:
    if engine == "inline":
        pytest.skip("an actor there has no process of its own")
    log = actorlib.remote(Log).remote()
    actor = actorlib.remote(LeavingOnce).options(max_restarts=1).remote(log)

    assert await api.get(actor.ping.remote()) == "here"
    assert await api.get(log.seen.remote()) == ["made", "made"]


class AsyncMade:
    async def __init__(self, number: int) -> None:  # type: ignore[misc]
        await asyncio.sleep(0)
        self.number = number

    def value(self) -> int:
        return self.number


@OWN_ENGINES
async def test_constructor_when_async_then_a_restart_awaits_it_again(api: Api) -> None:
    actor = remote(AsyncMade).options(max_restarts=1).remote(7)
    assert await api.get(actor.value.remote()) == 7
    await api.kill(actor, no_restart=False)
    await restarted(api, actor)

    assert await api.get(actor.value.remote()) == 7


# kill(no_restart=False).


@ACTORS
async def test_kill_when_restarts_are_left_then_the_actor_is_restarted(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    gate, target = Gate.remote(), callee.new(max_restarts=1)
    assert await api.get(target.actor.__ray_call__.remote(add)) == 1
    busy = target.run(leave_after, gate)
    await api.get(gate.reached.remote("death"))
    await api.kill(target.actor, no_restart=False)

    error = await error_of(api, busy)
    assert isinstance(error, ActorUnavailableError)
    if not is_on_ray:
        assert error.exit.cause == "restarted"
        assert re.search("it was killed.*, to be restarted", str(error))
    await restarted(api, target.actor)
    assert await api.get(target.actor.__ray_call__.remote(add)) == 1
    await api.kill(target.actor, no_restart=False)  # none is left
    error = await error_of(api, target.run(len, "ab"))
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"


def restart(other: Any) -> Generator[Any, Any, Any]:
    yield other.__ray_call__.remote(add)
    yield actorlib.kill(other, no_restart=False)
    yield ready_again(other)
    return (yield other.__ray_call__.remote(add))


@OWN_ENGINES
@TWO_KINDS
async def test_kill_when_a_callee_restarts_an_actor_then_its_state_is_fresh(
    api: Api, callee: Callee
) -> None:
    other = Echo.options(max_restarts=1).remote()

    assert await api.get(callee.run(restart, other)) == 1
    assert await api.get(other.__ray_call__.remote(add)) == 2


# What belongs to the actor.


@PLAIN
async def test_name_when_the_actor_is_restarted_then_it_stays(
    api: Api, callee: Callee
) -> None:
    target = callee.new(max_restarts=1, name="restarted")
    await error_of(api, target.run(leave, 3))
    found = actorlib.get_actor("restarted")
    await restarted(api, found)

    assert found == target.actor
    assert await api.get(found.run.remote(is_restarted)) is True


def make_child(instance: Any) -> Any:
    keep(instance, Echo.remote())
    return instance.value


@OWN_ENGINES
@TWO_KINDS
async def test_child_when_its_maker_is_restarted_then_it_has_ended(
    api: Api, callee: Callee
) -> None:
    target = callee.new(max_restarts=1)
    child = await api.get(target.actor.__ray_call__.remote(make_child))
    assert await api.get(child.echo.remote(1)) == 1
    end = end_of(api, child)
    await error_of(api, target.run(leave, 3))
    await asyncio.gather(end, restarted(api, target.actor))

    assert isinstance(await error_of(api, child.echo.remote(1)), ActorDiedError)


@OWN_ENGINES
@PLAIN
async def test_last_handle_when_it_is_gone_before_the_death_then_no_restart_follows(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    gate, target = Gate.remote(), callee.new(max_restarts=-1)
    ref = target.run(leave_after, gate)
    await api.get(gate.reached.remote("death"))
    end = None if is_on_ray else end_of(api, target.actor)
    del target
    await api.get(gate.open.remote("death"))

    error = await error_of(api, ref)
    if end is None:  # Ray counts handles later
        assert isinstance(error, (ActorDiedError, ActorUnavailableError))
        return
    assert isinstance(error, ActorDiedError)
    await end
