"""Constructors that are coroutines."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate
from helpers.callers import error_of

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


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


async def test_constructor_when_its_arguments_do_not_fit_then_refused_at_once() -> None:
    made: Any = actorlib.remote(Base)
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        made.remote(unknown=1)


async def test_constructor_when_it_awaits_then_calls_wait_for_it(api: Api) -> None:
    gate = Gate.remote()
    actor = actorlib.remote(Base).remote(gate=gate)
    state = actor.state.remote()
    await api.get(gate.wait.remote("begun"))

    assert not state.done()
    await api.get(gate.open.remote("go on"))
    assert (await api.get(state))[0] == 0


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


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group", "mixed"], indirect=True
)
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


async def test_constructor_when_the_actor_is_killed_meanwhile_then_it_is_over(
    api: Api,
) -> None:
    gate = Gate.remote()
    actor = actorlib.remote(Base).options(max_restarts=1).remote(gate=gate)
    state = actor.state.remote()
    await api.get(gate.wait.remote("begun"))
    await api.kill(actor)

    assert isinstance(await error_of(api, state), ActorDiedError)


async def test_constructor_when_the_actor_is_restarted_then_it_runs_again(
    api: Api,
) -> None:
    made = actorlib.remote(Base).options(max_restarts=1, max_task_retries=-1)
    actor = made.remote(7)
    assert (await api.get(actor.state.remote()))[0] == 7
    await api.kill(actor, no_restart=False)

    assert (await api.get(actor.state.remote()))[0] == 7
