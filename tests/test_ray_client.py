"""What holds for a program that is Ray's client, besides the contract of engines."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Counter, Keeper
from helpers.calls import raised
from helpers.on_ray import NEEDS_CLIENT
from helpers.reused import Echo, Gate, Reusable

import actorlib
from actorlib.exceptions import (
    ActorNotFoundError,
    ActorPlacementGroupRemoved,
    DeadlineExceededError,
    PlacementGroupAlreadyExistsError,
    SerializationError,
    TaskCancelledError,
    TaskUnschedulableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [
    pytest.mark.process,
    pytest.mark.ray,
    NEEDS_CLIENT,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

request_id = actorlib.propagate(ContextVar("far_request_id", default="none"))


@pytest.fixture(scope="module")
def address(ray_client: str) -> str:
    return ray_client


class Weights:
    """What only the program and its workers have a module for, not the server."""

    def __init__(self, *rows: float) -> None:
        self.rows = rows


class Bound:
    """What loads where its maker is, and nowhere else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _only_here, (os.getpid(),)


def _only_here(pid: int) -> None:
    if pid != os.getpid():
        raise LookupError("it is bound to its process")


@actorlib.remote
class Source:
    """Makes what does not go everywhere."""

    def items(self) -> Iterator[int]:
        yield 1

    def parts(self) -> tuple[int, Weights]:
        return 1, Weights(2.0)

    def bound(self) -> Any:
        return Bound()

    def request(self) -> str:
        return request_id.get()

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def where(self) -> str:
        return os.getcwd()  # noqa: PTH109  # a text

    def node(self) -> str:
        return actorlib.get_runtime_context().get_node_id()


sources = Reusable(Source)


@actorlib.remote
def double(number: int) -> int:
    return 2 * number


@actorlib.remote(max_retries=0)
def forever(gate: Any) -> None:
    actorlib.get(gate.wait.remote("in a function"))


@actorlib.remote
def count(to: int) -> Iterator[int]:
    yield from range(to)


# Values.


async def test_value_when_the_server_has_no_module_of_it_then_it_passes() -> None:
    kept = actorlib.put(Weights(1.0, 2.0))
    echo = Echo.remote()

    assert (await echo.echo.remote(Weights(3.0))).rows == (3.0,)
    assert (await echo.echo.remote(kept)).rows == (1.0, 2.0)
    assert (await echo.echo.remote(echo.echo.remote(Weights(4.0)))).rows == (4.0,)
    assert await echo.kind.remote([kept]) == "list"


async def test_ref_when_inside_of_a_value_then_it_is_asked_for_where_it_is() -> None:
    def first(refs: list[Any]) -> Any:
        return actorlib.get(refs[0], timeout=20)

    gate, keeper = Gate.remote(), Keeper.remote()
    asked = Caller.remote().run.remote(first, [gate.wait.remote("a")])
    await gate.open.remote("a")
    await keeper.keep.remote([actorlib.put("kept")])
    [ref] = await keeper.kept.remote()

    assert [await asked, await ref] == ["a", "kept"]


async def test_parts_when_asked_for_then_each_is_a_ref() -> None:
    first, second = sources.remote().parts.options(num_returns=2).remote()

    assert await first == 1
    assert (await Echo.remote().echo.remote(second)).rows == (2.0,)


async def test_answer_when_it_cannot_be_loaded_here_then_the_call_alone_fails() -> None:
    source = sources.remote()
    error = await raised(source.bound.remote())

    assert isinstance(error, SerializationError)
    assert "Source.bound" in str(error)
    assert await source.request.remote() == "none"


async def test_map_when_made_from_afar_then_its_calls_are_made() -> None:
    counter = Counter.remote(0)

    assert await counter.add.map([1, 2, 3]) == [1, 3, 6]


async def test_context_variable_when_marked_then_it_travels() -> None:
    token = request_id.set("r-1")
    try:
        assert await sources.remote().request.remote() == "r-1"
    finally:
        request_id.reset(token)


# Options.


async def test_options_when_given_then_the_actor_has_them(tmp_path: Path) -> None:
    env: Any = {"env_vars": {"WHO": "me"}, "working_dir": str(tmp_path)}
    near = Source.options(runtime_env=env).remote()
    far = Source.options(resources={"far": 1}).remote()

    assert await near.variable.remote("WHO") == "me"
    assert await near.where.remote() == str(tmp_path)
    assert await near.variable.remote("CUDA_VISIBLE_DEVICES") == ""
    # A client is where its server is.
    assert await far.node.remote() != actorlib.get_runtime_context().get_node_id()


async def test_name_when_nobody_has_it_then_the_error_says_who_is_there() -> None:
    counter = Counter.options(name="known").remote(1)
    await counter
    with pytest.raises(ActorNotFoundError, match="there are 'known'"):
        actorlib.get_actor("unknown")


async def test_generator_when_called_then_it_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"Source\.items.*address='auto'"):
        sources.remote().items.remote()
    with pytest.raises(UnsupportedOptionError, match=r"count.*address='auto'"):
        count.remote(3)


async def test_generator_when_read_on_the_cluster_then_its_items_come() -> None:
    def total(source: Any) -> int:
        return sum(actorlib.get(ref) for ref in source.items.remote())

    assert await Caller.remote().run.remote(total, sources.remote()) == 1


# Placement groups and functions.


async def test_group_when_reserved_then_its_members_are_inside() -> None:
    group = actorlib.placement_group([{"CPU": 1, "GPU": 1}], name="gang")
    assert await group.ready() == group
    assert actorlib.get_placement_group("gang") == group
    with pytest.raises(PlacementGroupAlreadyExistsError):
        actorlib.placement_group([{"CPU": 1}], name="gang")
    member = Caller.options(placement_group=group, num_gpus=1).remote()

    def here() -> Any:
        return actorlib.get_current_placement_group(), actorlib.get_gpu_ids()

    inside, gpus = await member.run.remote(here)
    assert (inside, len(gpus)) == (group, 1)
    assert await double.options(placement_group=group).remote(4) == 8
    assert actorlib.placement_group_table(group)["state"] == "CREATED"

    await actorlib.remove_placement_group(group)
    error = await raised(member.run.remote(len, "ab"))
    assert isinstance(error, ActorPlacementGroupRemoved), str(error)


async def test_function_when_called_then_a_worker_runs_it() -> None:
    assert await double.remote(double.remote(2)) == 8
    assert await asyncio.gather(*map(double.remote, range(20))) == [*range(0, 40, 2)]
    error = await raised(double.options(num_cpus=1_000).remote(1))
    assert isinstance(error, TaskUnschedulableError)


async def test_function_when_forced_to_end_then_its_ref_says_so() -> None:
    gate = Gate.remote()
    ref = forever.remote(gate)
    await gate.reached.remote("in a function")
    actorlib.cancel(ref, force=True)

    assert isinstance(await raised(ref), TaskCancelledError)
    # Its call of the gate may run on, and other tests use this gate.
    await gate.open.remote("in a function")


async def test_deadline_when_a_client_s_call_is_late_then_it_fails_and_stops() -> None:
    gate = Gate.remote()
    await gate.left.remote()
    with pytest.raises(DeadlineExceededError, match=r"Gate\.wait"):
        await gate.wait.options(timeout=2.0).remote("a")

    assert await gate.wait.remote("a") == "a"  # opened by who gave up
    assert await gate.left.remote() == ["a"]
