"""What holds on a cluster besides the contract of engines: what Ray adds or refuses."""

from __future__ import annotations

import asyncio
import os
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Caller, Log
from helpers.calls import raised
from helpers.on_ray import NEEDS_RAY
from helpers.reused import Echo, Gate, Reusable
from helpers.waiting_calls import until_canceled

import actorlib
from actorlib.exceptions import (
    DeadlineExceededError,
    TaskError,
    TaskUnschedulableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actorlib import Runtime


pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_RAY,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

SOON_ENOUGH = 2.0
"""Seconds in which a call has to be running, also where other tests run beside."""

request_id = actorlib.propagate(ContextVar("cluster_request_id", default="none"))


@pytest.fixture(scope="module")
def address(ray_cluster: str) -> str:
    return ray_cluster


@actorlib.remote
class Source:
    """Says where it is."""

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def context(self) -> Any:
        return actorlib.get_runtime_context()

    def request(self) -> str:
        return request_id.get()

    def where(self) -> str:
        return os.getcwd()  # noqa: PTH109  # a text


sources = Reusable(Source)


@actorlib.remote
def double(number: int) -> int:
    return 2 * number


@actorlib.remote(max_retries=0)
def fail() -> None:
    raise KeyError("lost")


@actorlib.remote
def nested(number: int) -> int:
    return actorlib.get(double.remote(number)) + 1


# Options.


async def test_env_when_given_then_the_process_has_it(tmp_path: Path) -> None:
    env: Any = {"env_vars": {"WHO": "me"}, "working_dir": str(tmp_path)}
    source = Source.options(runtime_env=env).remote()

    assert await source.variable.remote("WHO") == "me"
    assert await source.where.remote() == str(tmp_path)


async def test_accelerators_when_not_asked_for_then_they_are_hidden() -> None:
    hidden, open_ = sources.remote(), Source.options(accelerators="inherit").remote()

    assert await hidden.variable.remote("CUDA_VISIBLE_DEVICES") == ""
    assert await open_.variable.remote("CUDA_VISIBLE_DEVICES") is None


async def test_resource_when_one_machine_has_it_then_the_actor_is_there(
    runtime: Runtime,
) -> None:
    near, far = sources.remote(), Source.options(resources={"far": 1}).remote()
    there = await far.context.remote()

    assert there.get_node_id() != actorlib.get_runtime_context().get_node_id()
    assert await Caller.remote().call.remote(far, "request") == "none"
    assert await near.request.remote() == "none"
    assert runtime.cluster_resources()["far"] == 4


async def test_option_when_ray_cannot_keep_it_then_it_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOptionError, match="device"):
        Echo.options(device=0, num_gpus=1).remote()


async def test_wish_when_about_other_actors_then_it_is_refused_by_name() -> None:
    other = Echo.options(num_gpus=1).remote()
    with pytest.raises(UnsupportedOptionError, match="near"):
        Echo.options(num_gpus=1, near=other).remote()
    with pytest.raises(UnsupportedOptionError, match="apart_from"):
        Echo.options(num_gpus=1, apart_from=other).remote()


# Placement groups.


async def test_gpu_memory_when_asked_for_then_refused_with_what_to_write() -> None:
    refused = r"Ray counts GPUs and not their memory.*num_gpus="
    with pytest.raises(UnsupportedOptionError, match=refused):
        actorlib.placement_group([{"CPU": 1}, {"gpu_memory": "1GiB"}])
    asked = Caller.options(gpu_memory="1GiB")
    with pytest.raises(UnsupportedOptionError, match=refused):
        asked.remote()


# Functions.


async def test_function_when_called_then_a_worker_runs_it() -> None:
    doubled = double.remote(double.remote(2))

    assert await doubled == 8
    assert await nested.remote(2) == 5
    error = await raised(fail.remote())
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)


@actorlib.remote
async def double_later(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@actorlib.remote
async def count_later(number: int) -> AsyncIterator[int]:
    for item in range(number):
        await asyncio.sleep(0)
        yield item


@actorlib.remote(max_retries=0)
async def fail_later() -> None:
    raise KeyError("lost")


async def test_function_when_it_is_an_async_def_then_a_worker_runs_it() -> None:
    assert await double_later.remote(4) == 8
    stream: Any = count_later.remote(3)
    assert [item async for item in stream.values()] == [0, 1, 2]
    assert isinstance(await raised(fail_later.remote()), KeyError)


async def test_function_when_it_asks_for_too_much_then_it_is_told() -> None:
    error = await raised(double.options(num_cpus=1_000).remote(1))

    assert isinstance(error, TaskUnschedulableError)
    assert "CPU=1000" in str(error)


# Deadlines of what takes another way than the plain methods of the contract.


@actorlib.remote
class Worker(Log):
    """Works until nobody waits for it, in an actor with an event loop."""

    def work(self) -> str:
        return self.note(until_canceled())

    async def seen_later(self) -> list[Any]:
        return self.seen()


async def late(ref: Any) -> DeadlineExceededError:
    error = await raised(ref)
    assert isinstance(error, DeadlineExceededError)
    return error


async def test_deadline_when_a_plain_method_on_a_loop_runs_then_it_sees_it() -> None:
    worker = await Worker.remote()

    error = await late(worker.work.options(timeout=SOON_ENOUGH).remote())

    assert "Worker.work" in str(error)
    assert (error.timeout, error.is_inherited) == (SOON_ENOUGH, False)
    assert await worker.seen_later.remote() == ["stopped by itself"]


async def test_deadline_when_a_coroutine_runs_then_it_is_cancelled() -> None:
    gate = Gate.remote()
    await gate.open.remote("ready")
    await gate.wait.remote("ready")

    await late(gate.wait.options(timeout=SOON_ENOUGH).remote("here"))

    assert await gate.wait.remote("here") == "here"  # opened by who gave up
    assert await gate.left.remote() == ["here"]


@actorlib.remote(timeout=SOON_ENOUGH, max_retries=0)
def pass_through(gate: Any, name: str) -> None:
    actorlib.get(gate.wait.remote(name))


async def test_deadline_when_a_function_runs_then_it_and_its_calls_are_stopped() -> (
    None
):
    gate = Gate.remote()
    await gate.open.remote("open")
    await pass_through.options(timeout=60.0).remote(gate, "open")  # a worker is there

    error = await late(pass_through.remote(gate, "shut"))

    assert "pass_through" in str(error)
    assert error.timeout == SOON_ENOUGH
    assert await gate.wait.remote("shut") == "shut"
    assert await gate.left.remote() == ["shut"]


async def test_deadline_when_a_function_inherits_it_then_it_says_from_whom() -> None:
    def ask(gate: Any) -> None:
        try:
            actorlib.get(pass_through.options(timeout=60.0).remote(gate, "shut"))
        except DeadlineExceededError as error:
            cast("Any", sys).text = str(error)

    def text() -> str:
        return str(cast("Any", sys).text)

    caller = Caller.remote()
    await late(caller.run.options(timeout=SOON_ENOUGH).remote(ask, Gate.remote()))

    expected = "the 2 s that Caller.run, which called it, was given"
    assert expected in await caller.run.remote(text)
