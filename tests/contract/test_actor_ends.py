"""Constructors, ends of actors, and the methods that every actor has."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Keeper
from helpers.callers import error_of
from helpers.kinds import (
    ACTORS,
    ASYNC,
    CONTRACT,
    FEW_KINDS,
    OWN_ENGINES,
    PLAIN,
    TWO_KINDS,
    kinds,
)
from helpers.lives import add, end_of, id_of, leave
from helpers.reused import Echo, Gate
from helpers.waiting_calls import wait_at

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnschedulableError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = CONTRACT


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


@OWN_ENGINES
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


def call_until_it_leaves(other: Any) -> Any:
    try:
        yield other.run.remote(leave, 3)
    except ActorDiedError as error:
        return error.exit.cause, error.exit.code, error.actor_id


@OWN_ENGINES
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


@OWN_ENGINES
@TWO_KINDS
async def test_block_when_it_raises_then_its_actor_is_killed(
    api: Api, engine: str, callee: Callee
) -> None:
    gate, actor = Gate.remote(), callee.actor
    refs: list[Any] = []

    async def block() -> None:
        async with actor:
            refs.append(actor.run.remote(wait_at, gate, "the place"))
            await api.get(gate.reached.remote("the place"))
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        await block()
    error = await error_of(api, refs[0])
    assert isinstance(error, ActorDiedError)
    if engine in ("local", "memory", "attached"):
        assert error.exit.signal == signal.SIGKILL


@OWN_ENGINES
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


@ASYNC
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
        target.run(wait_at, gate, "the place"),
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


@PLAIN
async def test_last_handle_when_the_actor_is_not_ready_then_it_ends(
    api: Api, engine: str, callee: Callee
) -> None:
    if api.is_blocking and engine in ("ray", "attached"):
        pytest.skip("the end of a process is seen there, which has not begun")
    target = callee.new()
    end = end_of(api, target.actor)
    del target

    await end


# Constructors that are coroutines.


class Base:
    """Awaits in its constructor, with a gate if there is one."""

    async def __init__(self, number: int = 0, *, gate: Any = None) -> None:  # type: ignore[misc]
        self.thread = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        if gate is not None:
            await gate.open.remote("begun")
            await gate.wait.remote("go on")
        await asyncio.sleep(0)
        self.number = number

    def state(self) -> tuple[int, bool, bool]:
        """The number, and whether this is the constructor's loop and thread."""
        is_own = asyncio.get_running_loop() is self.loop
        return self.number, is_own, threading.get_ident() == self.thread


class Derived(Base):
    """Awaits the constructor of its base, and has a hook that runs after it."""

    async def __init__(self, number: int) -> None:  # type: ignore[misc]
        await super().__init__(number)
        self.number += 1

    @actorlib.setup
    def begin(self) -> None:
        self.number *= 10


class Inherits(Derived):
    """Has the constructor of its base."""

    made_with: int

    def __new__(cls, number: int) -> Any:
        made = super().__new__(cls)
        made.made_with = number
        return made

    async def new(self) -> int:
        return self.made_with


GROUPS: Any = pytest.mark.parametrize(
    "options", [{}, {"concurrency_groups": {"other": 1}}], ids=["", "groups"]
)


@GROUPS
async def test_constructor_when_async_then_awaited_on_the_loop_of_the_methods(
    api: Api, options: dict[str, Any]
) -> None:
    base = actorlib.remote(Base).options(**options).remote(number=1)
    await api.ready(base)
    derived = actorlib.remote(Inherits).options(**options).remote(2)

    assert await api.get(base.state.remote()) == (1, True, True)
    assert await api.get(derived.state.remote()) == (30, True, True)
    assert await api.get(derived.new.remote()) == 2


class Fails:
    def __init__(self) -> None:
        raise LookupError("no such model")

    def ping(self) -> None:
        """Never runs."""


class FailsLater(Fails):
    async def __init__(self) -> None:  # type: ignore[misc]
        await asyncio.sleep(0)
        super().__init__()


class FailsWithLoop(Fails):
    async def idle(self) -> None:
        """Gives it an event loop."""


@kinds("plain", "threaded", "async", "group", "mixed")
async def test_constructor_when_it_raises_then_every_call_fails_with_its_error(
    api: Api, callee: Callee
) -> None:
    classes = {"async": FailsLater, "mixed": FailsWithLoop}
    actor = callee.new_actor(classes.get(callee.kind, Fails))

    for _ in range(2):
        error = await error_of(api, callee.method_of(actor, "ping").remote())
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, LookupError)
        assert error.actor_init_failed
        assert error.exit is not None
        assert error.exit.cause == "failed to start"
        assert "no such model" in str(error)
    with pytest.raises(ActorDiedError):
        await api.ready(actor)


@pytest.fixture
def leaves_loop_open(request: pytest.FixtureRequest, engine: str) -> None:
    """Marks the engines whose workers are threads: there, the leak can be seen."""
    if engine in ("memory", "inline"):
        reason = "exit_actor() in an async constructor leaves the worker's loop open"
        request.applymarker(pytest.mark.xfail(run=False, reason=reason))


class Leaves:
    """Leaves in its constructor."""

    async def __init__(self) -> None:  # type: ignore[misc]
        await asyncio.sleep(0)
        actorlib.exit_actor()

    def ping(self) -> None:
        """Never runs."""


async def test_constructor_when_it_leaves_then_the_actor_is_dead(
    api: Api, leaves_loop_open: None
) -> None:
    del leaves_loop_open
    actor = actorlib.remote(Leaves).remote()

    assert isinstance(await error_of(api, actor.ping.remote()), ActorDiedError)


# The methods that every actor has: ``__ray_ready__`` and others.

BUILT_IN = ["__ray_call__", "__ray_ready__", "__ray_terminate__"]


async def test_methods_when_called_without_remote_then_refused(api: Api) -> None:
    del api
    echo = Echo.remote()
    for name in BUILT_IN:
        with pytest.raises(TypeError, match=rf"\.{name}\.remote"):
            getattr(echo, name)()
    assert not set(BUILT_IN) & {*dir(echo), *dir(Echo)}


class Stopping:
    """Stops in its constructor."""

    def __init__(self, place: Place) -> None:
        place.stop_here()


class AsyncStopping(Stopping):
    """Does so on its loop."""

    async def nothing(self) -> None: ...


@pytest.mark.parametrize("cls", [Stopping, AsyncStopping])
async def test_ready_when_the_constructor_has_returned_then_true(
    api: Api, cls: type, stop: Stop
) -> None:
    actor: Any = actorlib.remote(cls).remote(stop.place)
    ref = actor.__ray_ready__.remote()
    ready = asyncio.ensure_future(_ready(actor))
    await stop.reached()
    assert not ref.done()
    assert not ready.done()
    stop.release()

    assert await api.get(ref) is True
    assert await ready is actor


def class_of(self: object) -> str:
    return type(self).__name__


def total_of(self: Any) -> Any:
    return self._total


def value_of(self: Any) -> Any:
    return self.value


def class_and_sum(self: Any, number: int, *, more: int = 0, function: int = 0) -> Any:
    return class_of(self), number + more + function


def divide(_: object) -> float:
    return 1 / 0


@ACTORS
async def test_call_when_given_a_function_then_it_gets_the_object(
    api: Api, callee: Callee
) -> None:
    call = callee.actor.__ray_call__
    name = "AsyncRunner" if callee.is_async else "Runner"

    assert await api.get(call.remote(class_of)) == name
    added = call.remote(class_and_sum, 1, more=2, function=3)
    assert await api.get(added) == (name, 6)
    error = await error_of(api, call.remote(divide))
    assert isinstance(error, TaskError)
    assert isinstance(error, ZeroDivisionError)


def use_and_end(counter: Any) -> Steps:
    is_ready = yield counter.__ray_ready__.remote()
    total = yield counter.__ray_call__.remote(total_of)
    ended = yield counter.__ray_terminate__.remote()
    return is_ready, total, ended


@FEW_KINDS
async def test_methods_when_a_callee_calls_them_then_they_answer(
    api: Api, callee: Callee
) -> None:
    counter = Counter.remote(3)

    answers = await api.get(callee.run(use_and_end, counter))

    assert answers == (True, 3, None)
    assert isinstance(await error_of(api, counter.add.remote()), ActorDiedError)


class Slotted:
    """Has no dictionary."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 1


class Sealing(type):
    """Allows no attributes with such names."""

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__ray"):
            raise AttributeError(name)
        super().__setattr__(name, value)


class Sealed(metaclass=Sealing):
    """Is of another metaclass."""


class Own:
    """Has a method of that name."""

    def __ray_ready__(self) -> str:
        return "mine"


@OWN_ENGINES
async def test_methods_when_the_class_is_unusual_then_they_are_the_same(
    api: Api,
) -> None:
    actors: list[Any] = [
        actorlib.remote(cls).remote() for cls in (Slotted, Sealed, Own)
    ]

    ready = [actor.__ray_ready__.remote() for actor in actors]
    assert await api.get(ready) == [True] * 3
    value = actors[0].__ray_call__.remote(value_of)
    assert await api.get(value) == 1


# The end.


@ACTORS
async def test_terminate_when_calls_were_made_before_then_they_have_their_results(
    api: Api, callee: Callee, engine: str
) -> None:
    gate = Gate.remote()
    before = [
        callee.run(wait_at, gate, "a"),
        *(callee.run(abs, -n) for n in range(9)),
    ]
    await api.get(gate.reached.remote("a"))
    ended = callee.actor.__ray_terminate__.remote()
    later = callee.run(abs, -1)
    if engine not in ("ray", "client"):  # it fails before the end
        assert isinstance(await error_of(api, later), ActorDiedError)
    await api.get(gate.open.remote("a"))

    assert await api.get(before) == ["a", *range(9)]
    assert await api.get(ended) is None
    assert isinstance(await error_of(api, later), ActorDiedError)
    assert await api.get(callee.actor.__ray_terminate__.remote()) is None


class Cleaning:
    """Writes down that it has cleaned up."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __ray_shutdown__(self) -> None:
        with self._path.open("a") as file:
            file.write("once ")

    def run(self, function: Any) -> Any:
        return function()


class CleaningOnLoop(Cleaning):
    """Does so on the loop of its methods."""

    async def loop(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __ray_shutdown__(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # awaited
        assert asyncio.get_running_loop() is self._loop
        super().__ray_shutdown__()


@ACTORS
@OWN_ENGINES  # on Ray the process ends at some later time
async def test_shutdown_when_an_actor_leaves_then_it_cleans_up_once(
    api: Api, callee: Callee, tmp_path: Path
) -> None:
    async def new(name: str) -> Any:
        if callee.is_async:
            actor: Any = actorlib.remote(CleaningOnLoop).remote(tmp_path / name)
            await api.get(actor.loop.remote())
            return actor
        threads = 2 if callee.kind == "threaded" else 1
        cls: Any = actorlib.remote(Cleaning).options(max_concurrency=threads)
        actor = cls.remote(tmp_path / name)
        await api.ready(actor)
        return actor

    terminated = await new("terminated")
    await api.get(terminated.__ray_terminate__.remote())
    assert (tmp_path / "terminated").read_text() == "once "

    left = await new("left")
    end = end_of(api, left)
    error = await error_of(api, left.run.remote(actorlib.exit_actor))
    assert isinstance(error, ActorDiedError)
    await end
    assert (tmp_path / "left").read_text() == "once "

    dropped = await new("dropped")
    end = end_of(api, dropped)
    del dropped
    await end
    assert (tmp_path / "dropped").read_text() == "once "

    killed = await new("killed")
    await api.kill(killed)
    assert not (tmp_path / "killed").exists()
