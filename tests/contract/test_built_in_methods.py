"""The methods that every actor has: ``__ray_ready__`` and others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Gate
from helpers.callers import error_of

import actorlib
from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from helpers.actors import Place, Stop
    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime", "few_kinds_on_ray"),
]

ACTORS = pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async"], indirect=True
)
CALLERS = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)
BUILT_IN = ["__ray_call__", "__ray_ready__", "__ray_terminate__"]


async def test_methods_when_called_without_remote_then_refused(api: Api) -> None:
    del api
    echo = Echo.remote()
    for name in BUILT_IN:
        with pytest.raises(TypeError, match=rf"\.{name}\.remote"):
            getattr(echo, name)()
    assert set(BUILT_IN) <= set(dir(echo))
    assert not set(BUILT_IN) & set(dir(Echo))


async def test_methods_when_the_arguments_do_not_fit_then_refused(api: Api) -> None:
    del api
    echo = Echo.remote()
    with pytest.raises(TypeError, match="function"):
        echo.__ray_call__.remote()
    for method in (echo.__ray_ready__, echo.__ray_terminate__):
        with pytest.raises(TypeError):
            method.remote(1)


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
    await stop.reached()
    assert not ref.done()
    stop.release()

    assert await api.get(ref) is True


class Failing:
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no")


async def test_ready_when_the_constructor_raised_then_its_error(api: Api) -> None:
    failing: Any = actorlib.remote(Failing).remote()

    error = await error_of(api, failing.__ray_ready__.remote())

    assert isinstance(error, ActorDiedError)
    assert isinstance(error.__cause__, ValueError)


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


@CALLERS
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


async def test_method_when_it_is_sent_then_it_keeps_its_actor(api: Api) -> None:
    counter, echo = Counter.remote(), Echo.remote()
    ready = await api.get(echo.echo.remote(counter.__ray_ready__))
    end = api.end_of(counter)
    del counter

    assert await api.get(ready.remote()) is True
    assert not end.done()
    del ready
    await end


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


def wait_at(gate: Any, name: str) -> Steps:
    return (yield gate.wait.remote(name))


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
@pytest.mark.usefixtures("own_engines")  # on Ray the process ends at some later time
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
    end = api.end_of(left)
    error = await error_of(api, left.run.remote(actorlib.exit_actor))
    assert isinstance(error, ActorDiedError)
    await end
    assert (tmp_path / "left").read_text() == "once "

    dropped = await new("dropped")
    end = api.end_of(dropped)
    del dropped
    await end
    assert (tmp_path / "dropped").read_text() == "once "

    killed = await new("killed")
    await api.kill(killed)
    assert not (tmp_path / "killed").exists()
