from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers import travel
from helpers.actors import AsyncCaller, Caller, Echo, Gate, Keeper
from helpers.rare_cases import rarely
from helpers.travel import ACTORS, ROLES, SHAPES, SIZES, Functions

import actorlib
import actorlib.blocking
from actorlib._api.actor_handle import pin_of
from actorlib.blocking.util.queue import Queue
from actorlib.exceptions import ActorDiedError, UnsupportedOptionError

if TYPE_CHECKING:
    from actorlib._owner.engine import LocalEngine

pytestmark = pytest.mark.process


def test_actor_when_its_last_handle_is_gone_then_it_is_listed_as_dead(
    ray: Any, crossing: LocalEngine
) -> None:
    echo = Echo.remote()
    ray.get(echo.pid.remote())
    (row,) = ray.util.state.list_actors(filters=[("state", "=", "ALIVE")])
    (ended,) = [life.ended for life in crossing.actor_table]
    over = threading.Event()
    ended.add_done_callback(lambda _: over.set())

    del echo

    assert over.wait(20)
    dead = ray.util.state.list_actors(filters=[("state", "=", "DEAD")])
    assert row["actor_id"] in {other["actor_id"] for other in dead}
    assert "no process held" in str(dead[0]["death_cause"])


# In actors.


def test_actor_when_it_uses_the_same_face_then_it_speaks_to_its_own_engine(
    ray: Any,
) -> None:
    def inside() -> object:
        ray = importlib.import_module("actorlib.blocking")
        echo, queue = Echo.remote(), Queue[Any]()
        queue.put("item")
        ready, left = ray.wait([echo.echo.remote(1), echo.echo.remote(2)])
        return (
            ray.get([echo.echo.remote(ray.put(3)), echo.echo.remote(4)]),
            len(ready) + len(left),
            queue.get(),
            ray.is_initialized(),
            ray.get_runtime_context().get_actor_id() is not None,
            ray.shutdown(),
        )

    told = ray.get(Caller.remote().run.remote(inside))
    assert told == ([3, 4], 2, "item", True, True, None)


def test_actor_when_it_asks_for_the_whole_machine_then_it_is_told_where_to(
    ray: Any,
) -> None:
    def inside() -> object:
        ray = importlib.import_module("actorlib.blocking")
        return ray.util.state.snapshot()

    with pytest.raises(RuntimeError, match="only the script"):
        ray.get(Caller.remote().run.remote(inside))


@pytest.mark.parametrize("kind", [Caller, AsyncCaller])
def test_actor_when_it_asks_what_there_is_then_it_is_told(ray: Any, kind: Any) -> None:
    def inside() -> object:
        ray = importlib.import_module("actorlib.blocking")
        free = ray.available_resources()["GPU"]
        return free, ray.cluster_resources(), ray.nodes()

    async def inside_of_a_loop() -> object:
        return inside()

    caller = kind.options(num_gpus=0.5).remote()
    asks = inside if kind is Caller else inside_of_a_loop
    told = ray.get(caller.run.remote(asks))
    assert told == (1.5, ray.cluster_resources(), ray.nodes())
    assert ray.get(ray.remote(inside).remote()) == told


# What there is.


def test_script_when_it_asks_for_its_gpus_then_it_has_none(ray: Any) -> None:
    assert ray.get_gpu_ids() == []
    held = Keeper.options(num_gpus=1).remote()
    ray.get(held.kept.remote())
    assert ray.available_resources()["GPU"] == 1
    assert ray.cluster_resources()["GPU"] == 2
    (node,) = ray.nodes()
    assert node["Alive"]
    assert node["Resources"]["CPU"] == 4
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()
    assert "GPU" in ray.util.state.explain(held)
    assert ray.util.state.snapshot().total["GPU"] == 2


def test_timeline_when_not_written_down_then_refused_with_what_there_is(
    ray: Any,
) -> None:
    with pytest.raises(UnsupportedOptionError, match="ACTORLIB_TIMELINE=1"):
        ray.timeline()
    gate = Gate.remote()
    waiting = gate.wait.remote()
    ray.get(gate.reached.remote())
    assert [call.method for call in ray.util.state.list_tasks()] == ["wait"]
    ray.get(gate.open.remote())
    ray.get(waiting)


def test_list_actors_when_rows_are_read_as_rays_then_they_answer(ray: Any) -> None:
    actor = Gate.options(name="g", num_cpus=1).remote()
    ray.get(actor.__ray_ready__.remote())
    (row,) = ray.util.state.list_actors(filters=[("state", "=", "ALIVE")])
    assert row["state"] == row.state == "ALIVE"
    assert row["name"] == "g"
    assert row.get("nonsense") is None
    with pytest.raises(KeyError):
        row["nonsense"]
    assert row["required_resources"] == {"CPU": 1}
    assert row["death_cause"] is None
    assert row["node_id"] == ray.nodes()[0]["NodeID"]

    never = actor.wait.remote("the end")
    with pytest.raises(ValueError, match="takes an actor's handle"):
        ray.kill(actor.__ray_ready__.remote())
    ray.kill(actor)
    with pytest.raises(ActorDiedError):
        ray.get(never)

    dead = ray.util.state.list_actors(filters=[("actor_id", "=", row.actor_id)])[0]
    assert dead["state"] == "DEAD"
    told = dead["death_cause"]["actor_died_error_context"]
    assert "kill" in told["error_message"]
    assert ray.util.state.list_actors(filters=[("state", "!=", "dead")]) == []


def test_list_actors_when_filtered_by_what_no_row_has_then_refused(ray: Any) -> None:
    state = ray.util.state
    with pytest.raises(ValueError, match=r"columns are .*num_restarts"):
        state.list_actors(filters=[("nonsense", "=", 1)])
    with pytest.raises(ValueError, match="pending_creation"):
        state.list_actors(filters=[("state", "=", "half dead")])
    with pytest.raises(ValueError, match="limit"):
        state.list_tasks(limit=0)


def test_list_tasks_when_filtered_then_only_those(ray: Any) -> None:
    gates = [Gate.remote(), Gate.remote()]
    waiting = [gate.wait.remote() for gate in gates]
    ray.get([gate.reached.remote() for gate in gates])
    actor_id = pin_of(gates[0]).actor_id.hex()

    (row,) = ray.util.state.list_tasks(
        filters=[("actor_id", "=", actor_id), ("name", "=", "Gate.wait")], detail=True
    )

    assert row["func_or_class_name"] == "Gate.wait"
    assert row["state"] in ("SUBMITTED_TO_WORKER", "RUNNING")
    assert ray.util.state.list_tasks(filters=[("state", "=", "FINISHED")]) == []
    ray.get([gate.open.remote() for gate in gates])
    ray.get(waiting)


def test_names_of_rays_when_scripts_look_for_them_then_they_are_there(
    ray: Any,
) -> None:
    assert ray.__version__ == actorlib.__version__
    assert ray.util.get_node_ip_address() == ray.nodes()[0]["NodeManagerAddress"]
    env = ray.runtime_env.RuntimeEnv(env_vars={"A": "1"}, pip=None)
    told = Caller.options(runtime_env=env).remote().run.remote(lambda: os.environ["A"])
    assert ray.get(told) == "1"
    assert env.to_dict() == {"env_vars": {"A": "1"}}
    with pytest.raises(ValueError, match="pip"):
        ray.runtime_env.RuntimeEnv(pip=["torch"])


def test_init_when_one_is_running_then_refused_or_the_same(ray: Any) -> None:
    with pytest.raises(RuntimeError, match="ignore_reinit_error=True"):
        ray.init()
    ray.init(ignore_reinit_error=True, num_cpus=1)
    assert ray.cluster_resources()["CPU"] == 4
    with pytest.raises(RuntimeError, match="running in this process already"):
        actorlib.init()


# A loop in the same thread, as in a notebook.


async def test_refs_when_a_loop_runs_here_then_as_it_awaits_everything(
    ray: Any,
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    assert ray.get(echo.echo.remote(1)) == 1
    names = [str(number) for number in range(100)]
    waiting = asyncio.gather(*map(gate.wait.remote, names))
    await asyncio.sleep(0)
    await asyncio.gather(*map(gate.open.remote, names))
    assert await waiting == names
    assert await asyncio.wrap_future(echo.echo.remote(3).future()) == 3
    assert await (await echo).echo.remote(4) == 4
    assert (await actorlib.wait([echo.echo.remote(5)]))[1] == []
    assert ray.wait([echo.echo.remote(5)])[1] == []
    with pytest.raises(ValueError, match="no"):
        await echo.fail.remote(ValueError("no"))


# The wrong face.


async def test_init_when_a_script_has_started_one_then_it_says_who_ends_it(
    ray: Any,
) -> None:
    del ray
    for options in ({}, {"reinit": True}):
        with pytest.raises(RuntimeError, match=r"actorlib\.blocking\.shutdown\(\)"):
            await actorlib.init(**options)


def test_get_when_on_the_loops_own_thread_then_it_says_what_to_write(
    ray: Any, crossing: LocalEngine
) -> None:
    ref = Gate.remote().wait.remote()
    home: Any = crossing.loop
    for get in (ray.get, actorlib.get, lambda ref: ray.get([ref])):
        with pytest.raises(RuntimeError, match="await the ref instead"):
            home.call(get, ref)
    with pytest.raises(RuntimeError, match="the threads of the script"):
        home.call(ray.shutdown)


def test_verbs_when_on_the_loops_own_thread_then_they_work(
    ray: Any, crossing: LocalEngine
) -> None:
    """As where a value is loaded whose class makes actors of it."""
    del ray
    home: Any = crossing.loop
    keeper = home.call(Keeper.remote, 3)
    ref = home.call(keeper.kept.remote)
    assert ref.get() == 3


async def test_async_face_when_no_runtime_runs_then_it_says_what_to_write() -> None:
    with pytest.raises(RuntimeError, match=r"async with actorlib.init\(\).*blocking"):
        Echo.remote()


# Every way that a value can travel.


LOADS = list(itertools.product(SHAPES, SIZES))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", ["plain", "function", *rarely("async")])
@pytest.mark.usefixtures("ray")
def test_value_arrives_whichever_way_it_travels(kind: str, role: str) -> None:
    target = Functions if kind == "function" else ACTORS[kind]()
    found = [travel.exchange(target, role, *load) for load in LOADS]
    assert found == [(nbytes, True) for _, nbytes in LOADS]
