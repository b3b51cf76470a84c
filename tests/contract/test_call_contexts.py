"""What a call knows: its context, its variables, its resources, its name."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.callees import Callee
from helpers.kinds import ASYNC, CONTRACT, FEW_KINDS, OWN_ENGINES, STREAMS
from helpers.lives import info_of

import actorlib
import actorlib.blocking
from actorlib._core.propagation import PROPAGATED
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from helpers.actors import Stop
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = CONTRACT


request_id = actorlib.propagate(ContextVar[str]("request_id_of_contract"))


@contextmanager
def holding(variable: ContextVar[str], value: str) -> Iterator[None]:
    """Gives a variable a value for a block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def call_names() -> tuple[str | None, str | None, str | None]:
    context = actorlib.get_runtime_context()
    return (
        context.get_task_id(),
        context.get_task_name(),
        context.get_task_function_name(),
    )


OUTSIDE = (None, None, None)


def class_of(callee: Callee) -> str:
    return "AsyncRunner" if callee.is_async else "Runner"


# The call.


async def test_call_when_it_asks_then_it_knows_its_id(
    api: Api, callee: Callee, engine: str
) -> None:
    def ids() -> tuple[Any, str]:
        return call_names()[0], actorlib.get_runtime_context().get_worker_id()

    calls = await api.get([callee.run(ids) for _ in range(3)])

    assert len({task for task, _ in calls}) == 3
    for task, worker in calls:
        assert bytes.fromhex(task)
        assert task.startswith(worker)
        assert engine in ("ray", "client") or len(bytes.fromhex(task)) == 16


async def test_call_when_it_asks_then_it_knows_its_name(
    api: Api, callee: Callee, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine in ("ray", "client") and not callee.is_actor:
        reason = "on Ray the context of a function does not know its full name"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    _, name, function = await api.get(callee.run(call_names))
    _, given, same = await api.get(
        callee.method("run", name="nightly").remote(call_names)
    )

    own = f"{class_of(callee)}.run" if callee.is_actor else "run"
    assert name in (own, "run_blocking")
    assert given == "nightly"
    assert function == same == f"helpers.callees.{name}"


@OWN_ENGINES
async def test_call_when_made_in_another_then_it_has_its_own_name(
    api: Api, callee: Callee
) -> None:
    other = Callee("function", is_blocking=False)

    theirs, own = await api.get(
        callee.method("run", name="mine").remote(ask_other_and_itself, other)
    )

    assert (theirs[1], own[1]) == ("theirs", "mine")
    assert theirs[0] != own[0]


def ask_other_and_itself(other: Callee) -> Steps:
    theirs = yield other.method("run", name="theirs").remote(call_names)
    return theirs, call_names()


@FEW_KINDS
async def test_name_when_it_is_not_one_then_refused(callee: Callee) -> None:
    for name, error in ((1, TypeError), ("", ValueError), (" ", ValueError)):
        with pytest.raises(error, match="name takes a name"):
            callee.method("run", name=name)


async def test_name_when_given_to_a_method_then_refused_with_what_to_write() -> None:
    options: Any = {"name": "x"}

    with pytest.raises(TypeError, match=r"write \.options\(name=\.\.\.\)"):
        actorlib.method(**options)


async def task_names() -> Any:
    async def ask() -> Any:
        return call_names()

    return await asyncio.create_task(ask())


@ASYNC
async def test_task_when_it_is_of_a_call_then_it_knows_the_call(
    api: Api, callee: Callee
) -> None:
    task, name, function = await api.get(
        callee.method("run", name="mine").remote(task_names)
    )

    assert bytes.fromhex(task)
    assert (name, function) == ("mine", "helpers.callees.AsyncRunner.run")


def thread_names() -> Any:
    names: list[Any] = []
    thread = threading.Thread(target=lambda: names.append(call_names()))
    thread.start()
    thread.join()
    return names[0]


class Asker:
    """Asks in its constructor."""

    def __init__(self) -> None:
        self._first = call_names()

    def first(self) -> Any:
        return self._first


class AsyncAsker(Asker):
    """Does so on its loop."""

    async def nothing(self) -> None: ...


@OWN_ENGINES
@FEW_KINDS
async def test_code_when_outside_of_calls_then_it_knows_of_none(
    api: Api, callee: Callee
) -> None:
    assert call_names() == OUTSIDE
    assert await api.get(callee.run(thread_names)) == OUTSIDE
    if callee.is_actor:
        asker: Any = actorlib.remote(AsyncAsker if callee.is_async else Asker)
        assert await api.get(asker.remote().first.remote()) == OUTSIDE


# The process, the actor, the runtime.


def context() -> Any:
    return actorlib.get_runtime_context()


def context_and_devices() -> Any:
    found = actorlib.get_runtime_context()
    current = None if found.get_actor_id() is None else found.current_actor
    return found, actorlib.get_gpu_ids(), current


def mask() -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@FEW_KINDS
async def test_context_when_it_arrives_then_it_tells_where_it_was_asked_for(
    api: Api, callee: Callee
) -> None:
    here = actorlib.get_runtime_context()
    named = callee.new(name="known") if callee.is_actor else callee
    there, _, current = await api.get(named.run(context_and_devices))

    assert here is actorlib.get_runtime_context()
    assert there.get_job_id() == here.get_job_id()
    assert there.get_session_name() == f"session_{here.get_job_id()}"
    assert there.get_session_name() == here.get_session_name()
    assert there.get_node_labels() == here.get_node_labels() == {}
    assert there.get_worker_id() != here.get_worker_id()
    assert there.get_task_id() is None
    assert there.is_canceled() is False
    if callee.is_actor:
        assert bytes.fromhex(there.get_actor_id())
        assert there.get_actor_name() == "known"
        assert current == named.actor
    else:
        assert (there.get_actor_id(), there.get_actor_name()) == (None, None)
    assert (here.get_actor_id(), here.get_actor_name()) == (None, None)


@FEW_KINDS
async def test_callee_when_it_holds_resources_then_it_knows_which(
    api: Api, callee: Callee, engine: str
) -> None:
    shared = callee.new(num_gpus=0.5, num_cpus=0)
    beside = callee.new(num_gpus=0.5, num_cpus=0)
    whole = callee.new(num_gpus=2, num_cpus=1)

    found, gpus, _ = await api.get(shared.run(context_and_devices))
    assert len(gpus) == 1
    if callee.is_actor:
        assert found.get_assigned_resources() == {"GPU": 0.5}
        assert (await api.get(beside.run(context_and_devices)))[1] == gpus
        for half in (shared, beside):
            await api.kill(half.actor)
    found, gpus, _ = await api.get(whole.run(context_and_devices))
    assert gpus == [0, 1]
    if engine != "inline":  # its environment is that of the program
        assert await api.get(whole.run(mask)) == "0,1"
    if callee.is_actor or engine not in ("ray", "client"):
        assert found.get_assigned_resources() == {"CPU": 1.0, "GPU": 2.0}
        assert found.get_accelerator_ids()["GPU"] == ["0", "1"]
    assert actorlib.get_gpu_ids() == []
    assert actorlib.get_runtime_context().get_assigned_resources() == {}


@FEW_KINDS
@OWN_ENGINES
async def test_callee_when_it_holds_a_device_then_it_is_not_free(
    api: Api, callee: Callee, stop: Stop, runtime: Any
) -> None:
    ref = callee.new(num_gpus=1).run(stop.place.stop_here)
    await stop.reached()

    free: dict[str, float] = (
        actorlib.blocking.available_resources()
        if api.is_blocking
        else runtime.available_resources()
    )
    assert free["GPU"] == 1
    stop.release()
    await api.get(ref)


@FEW_KINDS
async def test_callee_when_it_asks_for_nothing_then_it_holds_nothing(
    api: Api, callee: Callee, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine in ("ray", "client") and not callee.is_actor:
        reason = "on Ray the context of a function does not know what it holds"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    found, gpus, _ = await api.get(callee.run(context_and_devices))

    assert gpus == []
    assert found.get_assigned_resources() == ({} if callee.is_actor else {"CPU": 1.0})


# Context variables.


def value() -> str:
    return request_id.get("nothing")


def value_of(other: Callee) -> Steps:
    return (yield other.run(value))


async def test_variable_when_propagated_then_calls_and_their_calls_have_it(
    api: Api, callee: Callee
) -> None:
    other = Callee("function", is_blocking=False)
    with holding(request_id, "a7"):
        refs = [callee.run(value), callee.run(value_of, other)]
    refs.append(callee.run(value))

    assert await api.get(refs) == ["a7", "a7", "nothing"]


def values() -> Iterator[str]:
    yield request_id.get("nothing")
    yield request_id.get("nothing")


@STREAMS
async def test_variable_when_propagated_then_streams_have_it(
    api: Api, callee: Callee
) -> None:
    with holding(request_id, "a7"):
        stream = callee.items(values)

    assert await api.get(await api.items(stream)) == ["a7", "a7"]


def value_in(variable: ContextVar[str]) -> str:
    return variable.get("lost")


def values_in(variable: ContextVar[str]) -> Iterator[str]:
    yield variable.get("lost")


@pytest.fixture
def unknown_variable(
    request: pytest.FixtureRequest,
) -> Iterator[ContextVar[str]]:
    """A marked variable that a worker knows only once it has loaded an argument."""
    name = f"unknown {request.node.name}"
    yield actorlib.propagate(ContextVar[str](name))
    del PROPAGATED[name]


@OWN_ENGINES
async def test_variable_when_arguments_mark_it_then_their_call_has_its_value(
    api: Api, callee: Callee, unknown_variable: ContextVar[str]
) -> None:
    with holding(unknown_variable, "a7"):
        ref = callee.run(value_in, unknown_variable)

    assert await api.get(ref) == "a7"


@OWN_ENGINES
@STREAMS
async def test_variable_when_arguments_mark_it_then_their_stream_has_its_value(
    api: Api, callee: Callee, unknown_variable: ContextVar[str]
) -> None:
    with holding(unknown_variable, "a7"):
        stream = callee.items(values_in, unknown_variable)

    assert await api.get(await api.items(stream)) == ["a7"]


# What actors and functions hold of the machine, and what they know of it.


@pytest.fixture
def available(api: Api, runtime: Any) -> Callable[[], dict[str, float]]:
    """What nobody holds."""
    if api.is_blocking:
        return actorlib.blocking.available_resources
    found: Callable[[], dict[str, float]] = runtime.available_resources
    return found


def here() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return (
        context.get_job_id(),
        context.get_actor_id(),
        context.get_actor_name(),
        actorlib.get_gpu_ids(),
        context.get_assigned_resources(),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


async def test_share_when_actors_hold_parts_then_the_rest_is_free(
    api: Api, runtime: Any, engine: str, available: Callable[[], dict[str, float]]
) -> None:
    half = Echo.options(num_gpus=0.5, name="half").remote()
    other = Echo.options(num_gpus=0.5).remote()
    whole = Echo.options(num_gpus=1, num_cpus=1).remote()
    await api.get([actor.echo.remote(1) for actor in (half, other, whole)])

    assert (info_of(half).name, info_of(half).state) == ("half", "alive")
    if engine in ("ray", "client"):  # it does not tell which devices an actor has
        with pytest.raises(RuntimeError, match="on the local and the inline engine"):
            _ = half.share
        if runtime is not None:
            assert "is alive on the machine" in runtime.explain(half)
        return
    assert [actor.share.units for actor in (half, other, whole)] == [0.5, 0.5, 1]
    assert info_of(half).devices == info_of(other).devices == {"0": 0.5}
    assert info_of(whole).devices == {"1": 1.0}
    assert info_of(whole).resources == {"CPU": 1.0, "GPU": 1.0}
    assert available()["GPU"] == 0
    if runtime is None:
        return
    if engine == "attached":
        with pytest.raises(UnsupportedOptionError, match="has started the runtime"):
            runtime.explain(half)
        return
    placed, _, holds = runtime.explain(half).partition("\n")
    assert placed.endswith("is alive on 0.5 of GPU 0")
    assert holds.startswith(
        ("  0.5 of GPU 0, enforced by ", "  0.5 of GPU 0, not enforced")
    )


async def test_share_when_its_actor_has_ended_then_the_next_one_gets_it(
    api: Api, available: Callable[[], dict[str, float]], *, is_on_ray: bool
) -> None:
    whole = Echo.options(num_gpus=2)
    for number in range(3):
        echo = whole.remote()
        assert await api.get(echo.echo.remote(number)) == number
        del echo
    async with whole.remote():
        if not is_on_ray:
            assert available()["GPU"] == 0

    if not is_on_ray:  # it tells of free resources with a delay
        assert available()["GPU"] == 2
    await api.ready(whole.remote())


async def test_actor_when_nothing_is_free_then_it_waits_for_the_next_end(
    api: Api, runtime: Any, *, is_on_ray: bool
) -> None:
    holders = [Echo.options(num_gpus=1).remote() for _ in range(2)]
    await api.get([holder.echo.remote(1) for holder in holders])
    waiting = Echo.options(num_gpus=1).remote()
    ref = waiting.echo.remote("placed")
    assert await api.get(holders[1].echo.remote("meanwhile")) == "meanwhile"
    assert not ref.done()
    if runtime is not None and not is_on_ray:
        assert runtime.snapshot().waiting
    await api.kill(holders[0])

    assert await api.get(ref) == "placed"
