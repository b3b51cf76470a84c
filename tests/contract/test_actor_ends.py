"""The ways in which an actor ends, and what its calls raise then."""

from __future__ import annotations

import abc
import asyncio
import signal
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Gate, Keeper
from helpers.callers import error_of
from helpers.lives import add, end_of, id_of, leave

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorNotFoundError,
    ActorUnschedulableError,
)

if TYPE_CHECKING:
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("runtime"),
    pytest.mark.asyncio(loop_scope="module"),
]

ACTORS = pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group"], indirect=True
)
TWO_KINDS = pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)


# kill().


@ACTORS
async def test_kill_when_the_actor_is_idle_then_each_call_fails(
    api: Api, callee: Callee
) -> None:
    await api.ready(callee.actor)
    await api.kill(callee.actor)

    for ref in (callee.run(len, "ab"), callee.actor.__ray_ready__.remote()):
        error = await error_of(api, ref)
        assert isinstance(error, ActorDiedError)
        assert error.actor_id == id_of(callee.actor)
        assert (error.exit.cause, error.actor_init_failed) == ("asked", False)
    await api.kill(callee.actor)


def pass_gate(gate: Any) -> Any:
    yield gate.wait.remote("the place")


@ACTORS
async def test_kill_when_calls_run_or_wait_then_they_fail(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    refs = [callee.run(pass_gate, gate) for _ in range(3)]
    await api.get(gate.reached.remote("the place"))
    await api.kill(callee.actor)

    for ref in refs:
        assert isinstance(await error_of(api, ref), ActorDiedError)


@pytest.mark.usefixtures("own_engines")
@TWO_KINDS
async def test_kill_when_it_was_called_then_no_later_call_is_answered(
    api: Api, callee: Callee
) -> None:
    for _ in range(3):
        target = callee.new()
        earlier = [target.run(len, "ab") for _ in range(20)]
        await api.get(earlier[0])
        killed = actorlib.kill(target.actor)
        later = [target.run(len, "ab") for _ in range(20)]
        for ref in later:
            assert isinstance(await error_of(api, ref), ActorDiedError)
        await api.get(killed)


async def test_kill_when_repeated_then_it_does_nothing(api: Api) -> None:
    idle, huge = Echo.remote(), Echo.options(num_gpus=3).remote()
    await api.get(idle.pid.remote())

    await asyncio.gather(api.kill(idle), api.kill(idle))
    await api.kill(idle)
    await api.kill(huge)
    await api.kill(Echo.remote())  # not ready yet


def kill_and_call(other: Any) -> Any:
    for _ in range(20):  # the two may get a connection of their own
        yield other.echo.remote(1)
    killed = actorlib.kill(other)
    causes: list[str] = []
    for ref in [other.echo.remote(2) for _ in range(10)]:
        try:
            yield ref
        except ActorDiedError as error:
            causes.append(error.exit.cause)
    yield killed
    yield actorlib.kill(other)
    return causes


async def test_kill_when_a_callee_calls_it_then_the_actor_is_dead(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    other = Echo.remote()

    causes = await api.get(callee.run(kill_and_call, other))

    assert set(causes) == {"asked"}
    assert len(causes) == 10 or is_on_ray  # there the first ones may be answered
    assert isinstance(await error_of(api, other.echo.remote(3)), ActorDiedError)


# Ends by itself.


@ACTORS
async def test_exit_actor_when_called_then_no_restart_follows(
    api: Api, callee: Callee
) -> None:
    target = callee.new(max_restarts=3)
    error = await error_of(api, target.run(leave))

    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"
    assert "exit_actor" in str(error)
    assert isinstance(await error_of(api, target.run(len, "ab")), ActorDiedError)


@ACTORS
async def test_ray_terminate_when_called_then_earlier_calls_are_finished(
    api: Api, callee: Callee
) -> None:
    earlier = [callee.run(len, "x" * number) for number in range(20)]
    ended = callee.actor.__ray_terminate__.remote()
    later = callee.run(len, "ab")

    assert await api.get(earlier) == [*range(20)]
    assert await api.get(ended) is None
    assert isinstance(await error_of(api, later), ActorDiedError)


@ACTORS
async def test_system_exit_when_raised_then_the_error_has_its_code(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(leave, 3))

    assert isinstance(error, ActorDiedError)
    assert (error.exit.cause, error.exit.code) == ("exited", 3)
    assert error.exit.method == "run"
    assert error.actor_id == id_of(callee.actor)
    assert isinstance(await error_of(api, callee.run(len, "ab")), ActorDiedError)


def call_until_it_leaves(other: Any) -> Any:
    try:
        yield other.run.remote(leave, 3)
    except ActorDiedError as error:
        return error.exit.cause, error.exit.code, error.actor_id


@TWO_KINDS
async def test_death_when_a_callee_waits_for_the_call_then_it_gets_the_same_error(
    api: Api, callee: Callee
) -> None:
    other = callee.new().actor
    expected = ("exited", 3, id_of(other))

    assert await api.get(callee.run(call_until_it_leaves, other)) == expected


# Constructors.


class Failing:
    def __init__(self) -> None:
        raise LookupError("no such model")

    def ping(self) -> None: ...


class AsyncFailing:
    async def __init__(self) -> None:  # type: ignore[misc]
        await asyncio.sleep(0)
        raise LookupError("no such model")

    async def ping(self) -> None: ...


@pytest.mark.parametrize("failing", [Failing, AsyncFailing])
async def test_constructor_when_it_raises_then_each_call_says_so(
    api: Api, failing: type, *, is_on_ray: bool
) -> None:
    actor = actorlib.remote(failing).options(name="f").remote()
    refs = [actor.ping.remote(), actor.__ray_ready__.remote()]
    errors = [await error_of(api, ref) for ref in refs]
    errors.append(await error_of(api, actor.ping.remote()))

    for error in errors:
        assert isinstance(error, ActorDiedError)
        assert (error.actor_init_failed, error.exit.cause) == (True, "failed to start")
        assert isinstance(error.__cause__, LookupError)
        assert "LookupError: no such model" in str(error)
    if not is_on_ray:  # where it takes a moment until the name is free
        with pytest.raises(ActorNotFoundError, match="'f'"):
            actorlib.get_actor("f")


class Abstract(abc.ABC):
    @abc.abstractmethod
    def ping(self) -> None: ...


async def test_class_when_it_is_abstract_then_its_actor_fails(api: Api) -> None:
    error = await error_of(api, actorlib.remote(Abstract).remote().ping.remote())

    assert isinstance(error, ActorDiedError)
    assert "abstract" in str(error)


async def test_constructor_when_its_argument_failed_then_the_actor_is_dead(
    api: Api,
) -> None:
    keeper = Keeper.remote(Echo.remote().fail.remote(KeyError("lost")))

    error = await error_of(api, keeper.kept.remote())

    assert isinstance(error, ActorDiedError)
    assert "lost" in str(error)


class Slow:
    def __init__(self, gate: Any) -> None:
        actorlib.get(gate.wait.remote("constructor"))

    def ping(self) -> str:
        return "pong"


class AsyncSlow:
    async def __init__(self, gate: Any) -> None:  # type: ignore[misc]
        await gate.wait.remote("constructor")

    async def ping(self) -> str:
        return "pong"


@pytest.mark.parametrize("slow", [Slow, AsyncSlow])
async def test_kill_when_the_constructor_runs_then_its_calls_fail(
    api: Api, slow: type
) -> None:
    gate = Gate.remote()
    actor = actorlib.remote(slow).options(max_restarts=1).remote(gate)
    ref = actor.ping.remote()
    await api.get(gate.reached.remote("constructor"))
    await api.kill(actor)

    assert isinstance(await error_of(api, ref), ActorDiedError)


async def test_actor_when_it_asks_for_too_much_then_its_calls_say_so(
    api: Api, engine: str
) -> None:
    huge = Echo.options(num_gpus=3).remote()

    for ref in (huge.echo.remote(1), huge.__ray_ready__.remote()):
        error = await error_of(api, ref)
        assert isinstance(error, ActorUnschedulableError)
        assert isinstance(error, ActorError)
        assert "GPU=3" in str(error)
        if engine not in ("ray", "client"):
            assert error.actor_id == id_of(huge)


# Ready handles, and blocks.


async def test_handle_when_awaited_then_it_is_the_handle_of_a_ready_actor(
    api: Api,
) -> None:
    gate = Gate.remote()
    actor = actorlib.remote(Slow).remote(gate)
    ready = asyncio.ensure_future(_ready(actor))
    await api.get(gate.reached.remote("constructor"))
    assert not ready.done()
    await api.get(gate.open.remote("constructor"))

    assert await ready is actor
    assert await api.get(actor.__ray_ready__.remote()) is True


async def _ready(actor: Any) -> Any:
    return await actor


@TWO_KINDS
async def test_block_when_left_then_its_actor_has_finished_its_calls(
    api: Api, callee: Callee
) -> None:
    actor = callee.actor
    async with actor as entered:
        assert entered is actor
        refs = [actor.__ray_call__.remote(add) for _ in range(20)]

    assert await api.get(refs) == [*range(1, 21)]
    error = await error_of(api, actor.run.remote(len, "ab"))
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "asked"


@TWO_KINDS
async def test_block_when_it_raises_then_its_actor_is_killed(
    api: Api, engine: str, callee: Callee
) -> None:
    gate, actor = Gate.remote(), callee.actor
    refs: list[Any] = []

    async def block() -> None:
        async with actor:
            refs.append(actor.run.remote(pass_gate, gate))
            await api.get(gate.reached.remote("the place"))
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        await block()
    error = await error_of(api, refs[0])
    assert isinstance(error, ActorDiedError)
    if engine in ("local", "memory", "attached"):
        assert error.exit.signal == signal.SIGKILL


async def test_block_when_the_constructor_fails_then_it_is_not_entered(
    api: Api,
) -> None:
    del api
    actor = actorlib.remote(Failing).remote()
    with pytest.raises(ActorDiedError, match="LookupError: no such model"):
        async with actor:
            raise AssertionError


async def leave_block(other: Any) -> Any:
    async with other:
        first = await other.echo.remote(1)
        pending = other.echo.remote(2)
    try:
        await other.echo.remote(3)
    except ActorDiedError as error:
        return first, await pending, error.exit.cause
    return None


@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_block_when_a_callee_leaves_it_then_the_actor_has_ended(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(leave_block, Echo.remote())) == (1, 2, "asked")


# The last handle.


def note(keeper: Any) -> Any:
    yield keeper.keep.remote("done")


@ACTORS
async def test_last_handle_when_it_is_gone_then_earlier_calls_are_finished(
    api: Api, callee: Callee
) -> None:
    gate, keeper, target = Gate.remote(), Keeper.remote(), callee.new()
    await api.ready(target.actor)
    end = end_of(api, target.actor)
    refs = [
        target.run(pass_gate, gate),
        *[target.run(len, "x" * number) for number in range(20)],
        target.run(len, gate.wait.remote("argument")),
    ]
    target.run(note, keeper)  # nobody has its ref
    del target
    await api.get(gate.reached.remote("the place"))
    assert not end.done()
    await api.get([gate.open.remote("the place"), gate.open.remote("argument")])

    assert (await api.get(refs))[1:] == [*range(20), len("argument")]
    await end
    assert await api.get(keeper.kept.remote()) == "done"


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
async def test_last_handle_when_it_goes_in_a_thread_then_the_actor_ends(
    api: Api, callee: Callee
) -> None:
    targets = [callee.new() for _ in range(3)]
    await asyncio.gather(*(api.ready(target.actor) for target in targets))
    ends = [end_of(api, target.actor) for target in targets]
    await asyncio.to_thread(targets.clear)

    await asyncio.gather(*ends)


@pytest.mark.parametrize("callee", ["plain"], indirect=True)
async def test_last_handle_when_the_actor_is_not_ready_then_it_ends(
    api: Api, engine: str, callee: Callee
) -> None:
    if api.is_blocking and engine in ("ray", "attached"):
        pytest.skip("the end of a process is seen there, which has not begun")
    target = callee.new()
    end = end_of(api, target.actor)
    del target

    await end
