"""What holds on a cluster besides the contract of engines: what Ray adds or refuses."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    Caller,
    Echo,
)
from helpers.calls import raised
from helpers.on_ray import NEEDS_RAY

import actorlib
from actorlib.exceptions import (
    TaskError,
    TaskUnschedulableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_RAY,
    pytest.mark.asyncio(loop_scope="module"),
]

request_id = actorlib.propagate(ContextVar("cluster_request_id", default="none"))


@pytest.fixture(scope="module")
def address(ray_cluster: str) -> str:
    return ray_cluster


@actorlib.remote
class Source:
    """Makes items."""

    def items(self, count: int, *, fails: bool = False) -> Iterator[int]:
        yield from range(count)
        if fails:
            raise ValueError("no more")

    def parts(self) -> tuple[int, int]:
        return 1, 2

    def flaky(self, path: str) -> str:
        if not os.path.exists(path):  # noqa: PTH110  # one look
            Path(path).touch()
            raise LookupError("the first time")
        return "the second time"

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def context(self) -> Any:
        return actorlib.get_runtime_context()

    def itself(self) -> Any:
        return actorlib.get_runtime_context().current_actor

    def request(self) -> str:
        return request_id.get()

    def where(self) -> str:
        return os.getcwd()  # noqa: PTH109  # a text


@actorlib.remote
def double(number: int) -> int:
    return 2 * number


@actorlib.remote(max_retries=0)
def fail() -> None:
    raise KeyError("lost")


@actorlib.remote
def nested(number: int) -> int:
    return actorlib.get(double.remote(number)) + 1


# Calls.


@pytest.mark.usefixtures("runtime")
async def test_exception_when_listed_then_the_call_is_made_again(
    tmp_path: Path,
) -> None:
    source = Source.options(max_task_retries=1, retry_exceptions=[LookupError]).remote()

    assert await source.flaky.remote(str(tmp_path / "a")) == "the second time"
    flaky = source.flaky.options(retry_exceptions=[ValueError])
    assert isinstance(await raised(flaky.remote(str(tmp_path / "b"))), LookupError)


# Options.


@pytest.mark.usefixtures("runtime")
async def test_env_when_given_then_the_process_has_it(tmp_path: Path) -> None:
    env: Any = {"env_vars": {"WHO": "me"}, "working_dir": str(tmp_path)}
    source = Source.options(runtime_env=env).remote()

    assert await source.variable.remote("WHO") == "me"
    assert await source.where.remote() == str(tmp_path)


@pytest.mark.usefixtures("runtime")
async def test_accelerators_when_not_asked_for_then_they_are_hidden() -> None:
    hidden, open_ = Source.remote(), Source.options(accelerators="inherit").remote()

    assert await hidden.variable.remote("CUDA_VISIBLE_DEVICES") == ""
    assert await open_.variable.remote("CUDA_VISIBLE_DEVICES") is None


async def test_resource_when_one_machine_has_it_then_the_actor_is_there(
    runtime: Runtime,
) -> None:
    near, far = Source.remote(), Source.options(resources={"far": 1}).remote()
    there = await far.context.remote()

    assert there.get_node_id() != actorlib.get_runtime_context().get_node_id()
    assert await Caller.remote().call.remote(far, "request") == "none"
    assert await near.request.remote() == "none"
    assert runtime.cluster_resources()["far"] == 4


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "options",
    [
        {"device": 0, "num_gpus": 1},
        {"placement": "spread", "num_gpus": 1},
        {"restart_window": 5.0, "max_restarts": 1},
        {"restart_backoff": 5.0, "max_restarts": 1},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_option_when_ray_cannot_keep_it_then_it_is_refused_by_name(
    options: Any,
) -> None:
    with pytest.raises(UnsupportedOptionError, match=next(iter(options))):
        Echo.options(**options).remote()


@pytest.mark.usefixtures("runtime")
async def test_wish_when_about_other_actors_then_it_is_refused_by_name() -> None:
    other = Echo.options(num_gpus=1).remote()
    with pytest.raises(UnsupportedOptionError, match="near"):
        Echo.options(num_gpus=1, near=other).remote()
    with pytest.raises(UnsupportedOptionError, match="apart_from"):
        Echo.options(num_gpus=1, apart_from=other).remote()


# Placement groups.


@pytest.mark.usefixtures("runtime")
async def test_gpu_memory_when_asked_for_then_refused_with_what_to_write() -> None:
    refused = r"Ray counts GPUs and not their memory.*num_gpus="
    with pytest.raises(UnsupportedOptionError, match=refused):
        actorlib.placement_group([{"CPU": 1}, {"gpu_memory": "1GiB"}])
    asked = Caller.options(gpu_memory="1GiB")
    with pytest.raises(UnsupportedOptionError, match=refused):
        asked.remote()


# Functions.


@pytest.mark.usefixtures("runtime")
async def test_function_when_called_then_a_worker_runs_it() -> None:
    doubled = double.remote(double.remote(2))

    assert await doubled == 8
    assert await nested.remote(2) == 5
    error = await raised(fail.remote())
    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)


@pytest.mark.usefixtures("runtime")
async def test_function_when_it_asks_for_too_much_then_it_is_told() -> None:
    error = await raised(double.options(num_cpus=1_000).remote(1))

    assert isinstance(error, TaskUnschedulableError)
    assert "CPU=1000" in str(error)
