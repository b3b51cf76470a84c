"""Names, options and errors that scripts written for Ray rely on."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import logging
import multiprocessing
import os
import time
from typing import Any

import pytest
from helpers.actors import AsyncCaller, Caller, Echo

import actorlib
import actorlib.blocking
from actorlib._api import group_options
from actorlib.blocking import exceptions
from actorlib.blocking._options import checked_init
from actorlib.blocking.job_config import JobConfig
from actorlib.exceptions import InitError, UnsupportedOptionError


def square(value: int) -> int:
    return value * value


def refuse_three(value: int) -> int:
    if value == 3:
        raise ValueError("three")
    return value


def process_id(_: object) -> int:
    return os.getpid()


def die_of_three(value: int) -> int:
    if value == 3:
        os._exit(3)
    return value


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


# Options.


def test_strategy_when_it_is_spread_then_it_is_accepted_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group_options._log_spread.cache_clear()
    caplog.set_level(logging.INFO, "actorlib")

    for _ in range(2):
        actorlib.remote(scheduling_strategy="SPREAD")(lambda: None)

    assert [record.levelname for record in caplog.records] == ["INFO"]
    with pytest.raises(ValueError, match="'SPREAD' or 'DEFAULT', not 'spread'"):
        actorlib.types.ActorOptions(scheduling_strategy="spread")


@pytest.mark.process
def test_node_affinity_when_it_is_of_this_machine_then_it_is_the_default() -> None:
    ray = actorlib.blocking
    strategies = ray.util.scheduling_strategies

    @ray.remote
    def echo(value: object) -> object:
        return value

    with ray.init(num_cpus=1):
        node = ray.get_runtime_context().get_node_id()
        for strategy in (
            strategies.NodeAffinitySchedulingStrategy(node, soft=False),
            strategies.NodeAffinitySchedulingStrategy("another", soft=True),
        ):
            call = echo.options(scheduling_strategy=strategy)
            assert ray.get(call.remote(strategy)) == "DEFAULT"
        with pytest.raises(UnsupportedOptionError, match="there is one machine"):
            strategies.NodeAffinitySchedulingStrategy("another", soft=False)


def test_option_when_it_is_of_rays_events_then_it_has_no_effect() -> None:
    options: Any = {"enable_task_events": False, "_metadata": {"a": 1}}
    actorlib.blocking.remote(**options)(lambda: None)
    actorlib.blocking.remote(**options)(type("Empty", (), {})).options(**options)
    actorlib.method(**options)(lambda _: None)


def test_memory_when_it_has_an_underscore_then_it_is_the_memory() -> None:
    assert checked_init({"_memory": 100}).options == {"memory": 100}
    assert checked_init({"_memory": 100, "memory": 7}).options == {"memory": 7}


def test_job_config_when_given_then_its_options_are_those_of_init() -> None:
    config = JobConfig(ray_namespace="a", metadata={"by": "me"})
    config.set_runtime_env({"env_vars": {"A": "1"}})

    options = checked_init({"job_config": config}).options
    assert options == {"namespace": "a", "runtime_env": {"env_vars": {"A": "1"}}}
    options = checked_init({"job_config": config, "namespace": "b"}).options
    assert options["namespace"] == "b"
    with pytest.raises(InitError, match="leave out runtime_env"):
        checked_init({"job_config": config, "address": "service"})
    with pytest.raises(TypeError, match="JobConfig, not 'mine'"):
        checked_init({"job_config": "mine"})


@pytest.mark.parametrize(
    "option",
    [
        {"jvm_options": ["-Xmx1g"]},
        {"code_search_path": ["/a"]},
        {"default_actor_lifetime": "detached"},
    ],
)
def test_job_config_when_an_option_has_no_meaning_then_refused(
    option: dict[str, Any],
) -> None:
    with pytest.raises(UnsupportedOptionError, match=next(iter(option))):
        JobConfig(**option)


def test_accelerator_type_when_neuron_cores_are_declared_then_it_fits_them() -> None:
    ray = actorlib.blocking

    @ray.remote(resources={"neuron_cores": 1}, accelerator_type="aws-neuron-core")
    def cores() -> object:
        return ray.get_runtime_context().get_accelerator_ids()["neuron_cores"]

    with ray.init(num_cpus=1, resources={"neuron_cores": 2}, engine="inline"):
        assert ray.get(cores.remote()) == ["0"]


# Names.


def test_modules_when_looked_for_by_rays_names_then_they_are_there() -> None:
    blocking = actorlib.blocking

    assert blocking.ObjectID is actorlib.ObjectRef
    assert blocking.job_config.JobConfig is JobConfig
    context = importlib.import_module("actorlib.blocking.runtime_context")
    assert context.get_runtime_context is blocking.get_runtime_context
    dumps, loads = blocking.cloudpickle.dumps, blocking.cloudpickle.loads
    assert loads(dumps(lambda: 3))() == 3
    assert blocking.util.multiprocessing.TimeoutError is multiprocessing.TimeoutError


@pytest.mark.process
def test_ref_when_copied_then_it_is_the_same_ref(ray: Any) -> None:
    @dataclasses.dataclass
    class Holder:
        ref: Any

    ref = ray.put(1)

    assert copy.copy(ref) is ref
    assert copy.deepcopy([ref]) == [ref]
    assert dataclasses.asdict(Holder(ref)) == {"ref": ref}


@pytest.mark.process
def test_ref_when_asked_by_rays_methods_then_it_gives_ids_and_a_future(
    ray: Any,
) -> None:
    async def inside() -> object:
        return await Echo.remote().echo.remote(5).as_future()

    ref = ray.put(1)

    assert ref.binary().hex() == ref.hex()
    assert ref.task_id().hex() == ref.hex()
    assert ray.get(AsyncCaller.remote().run.remote(inside)) == 5


@pytest.mark.process
def test_context_when_asked_for_all_ids_then_those_that_there_are(ray: Any) -> None:
    def inside() -> object:
        ray = importlib.import_module("actorlib.blocking")
        context = ray.get_runtime_context()
        return context.get(), context.get_task_id(), context.get_actor_id()

    assert set(ray.get_runtime_context().get()) == {"job_id", "node_id", "namespace"}
    ids, task_id, actor_id = ray.get(Caller.remote().run.remote(inside))
    assert (ids["task_id"], ids["actor_id"]) == (task_id, actor_id)


@pytest.mark.process
def test_actor_when_asked_for_by_its_id_then_its_row(ray: Any) -> None:
    echo = Echo.remote()
    ray.get(echo.pid.remote())

    (row,) = ray.util.state.list_actors(filters=[("state", "=", "ALIVE")])
    assert ray.util.state.get_actor(row.actor_id) == row
    assert ray.util.state.get_actor("0" * 32) is None


# Calls.


@pytest.mark.process
def test_map_unordered_when_it_gives_refs_then_they_are_done(ray: Any) -> None:
    def fail(value: int) -> int:
        if value == 2:
            raise ValueError(value)
        return value

    function = ray.remote(fail)
    refs = list(ray.util.map_unordered(function, [1, 2, 3], yield_obj_refs=True))

    assert all(ref.done() for ref in refs)
    assert sorted(ray.get(ref) for ref in refs if not ref.exception()) == [1, 3]


@pytest.mark.process
def test_pool_when_it_maps_after_submit_then_that_is_given_up(ray: Any) -> None:
    pool = ray.util.ActorPool([Echo.remote(), Echo.remote()])
    for value in range(5):
        pool.submit(lambda actor, value: actor.echo.remote(value), value)

    values = pool.map(lambda actor, value: actor.echo.remote(value), [7, 8, 9])

    assert list(values) == [7, 8, 9]
    assert not pool.has_next()


@pytest.mark.process
def test_queue_when_shut_down_then_it_has_no_actor(ray: Any) -> None:
    queue = ray.util.queue.Queue()
    assert queue.actor is not None

    queue.shutdown()

    assert queue.actor is None


@pytest.mark.process
def test_group_when_removed_then_ready_raises_what_ray_raises(ray: Any) -> None:
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    with pytest.raises(ValueError, match="timeout_seconds takes a finite number"):
        group.wait(-1)
    table = ray.util.placement_group_table(group)
    assert table["stats"]["scheduling_state"] == "FINISHED"

    ray.util.remove_placement_group(group)

    with pytest.raises(exceptions.TaskPlacementGroupRemoved):
        ray.get(group.ready())
    assert issubclass(
        actorlib.exceptions.TaskPlacementGroupRemoved,
        exceptions.TaskPlacementGroupRemoved,
    )


@pytest.mark.process
def test_ref_when_the_actor_that_made_the_call_is_killed_then_its_owner_died(
    ray: Any,
) -> None:
    def inside() -> object:
        ray = importlib.import_module("actorlib.blocking")
        return [ray.remote(sleep).remote(60)]

    caller = Caller.remote()
    (ref,) = ray.get(caller.run.remote(inside))

    ray.kill(caller)

    with pytest.raises(exceptions.OwnerDiedError):
        ray.get(ref)
    assert issubclass(exceptions.OwnerDiedError, exceptions.ObjectLostError)


# Pools.


@pytest.mark.process
def test_process_pool_when_used_then_as_in_the_standard_library(ray: Any) -> None:
    values: list[Any] = []
    with ray.util.multiprocessing.Pool(2) as pool:
        assert pool.map(square, range(9)) == [value * value for value in range(9)]
        assert pool.map(square, []) == []
        assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        assert pool.apply(pow, (2, 5), {"mod": 10}) == 2
        assert [*pool.imap(square, range(7), chunksize=2)] == [*map(square, range(7))]
        assert {*pool.imap_unordered(square, range(5))} == {0, 1, 4, 9, 16}
        with pytest.raises(ValueError, match="three"):
            pool.map(refuse_three, range(5))
        squares = pool.imap(refuse_three, [2, 3, 4])
        assert next(squares) == 2
        with pytest.raises(ValueError, match="three"):
            next(squares)
        assert next(squares) == 4

        result = pool.map_async(square, [1, 2, 3], callback=values.append)
        result.wait()
        assert values == [[1, 4, 9]]
        assert result.get() == [1, 4, 9]
        assert result.successful()
        failed = pool.apply_async(refuse_three, (3,), error_callback=values.append)
        failed.wait()
        assert isinstance(values[1], ValueError)
        assert not failed.successful()
        late = pool.apply_async(sleep, (60,))
        with pytest.raises(multiprocessing.TimeoutError):
            late.get(timeout=0)
        with pytest.raises(ValueError, match="not ready"):
            late.successful()
    with pytest.raises(ValueError, match="not running"):
        pool.map(square, [1])


@pytest.mark.process
def test_process_pool_when_processes_have_a_limit_then_replaced(ray: Any) -> None:
    pool = ray.util.multiprocessing.Pool(2, maxtasksperchild=1)

    assert len({*pool.map(process_id, range(4), chunksize=1)}) == 4

    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    pool.join()
    with pytest.raises(ValueError, match=">0"):
        ray.util.multiprocessing.Pool(0)


@pytest.mark.process
def test_process_pool_when_there_is_no_cpu_then_it_has_one_process(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = ray.util.multiprocessing
    monkeypatch.setattr(pools, "cluster_resources", lambda: {"memory": 1.0})

    with pools.Pool() as pool:
        assert pool.map(square, [2]) == [4]


@pytest.mark.process
def test_process_pool_when_it_is_closed_then_its_iterations_go_on(ray: Any) -> None:
    pool = ray.util.multiprocessing.Pool(1, maxtasksperchild=2)
    assert len({*pool.imap(process_id, range(4))}) == 2
    squares = pool.imap(square, range(5))
    assert pool.apply(square, (9,)) == 81  # replaces the process
    with pytest.raises(ValueError, match="chunksize takes 1 or more, not 0"):
        pool.imap(square, [1], chunksize=0)

    pool.close()
    assert [*squares] == [0, 1, 4, 9, 16]
    pool.join()

    pool = ray.util.multiprocessing.Pool(2)
    squares = pool.imap_unordered(square, range(5))
    pool.close()
    pool.join()
    assert {*squares} == {0, 1, 4, 9, 16}


@pytest.mark.process
def test_process_pool_when_the_items_fail_then_the_results_before_come(
    ray: Any,
) -> None:
    def items() -> Any:
        yield 1
        yield 2
        raise OSError("no more")

    with ray.util.multiprocessing.Pool(1) as pool:
        squares = pool.imap(square, items())
        assert [next(squares), next(squares)] == [1, 4]
        with pytest.raises(OSError, match="no more"):
            next(squares)
        assert [*squares] == []


@pytest.mark.process
def test_process_pool_when_a_process_dies_then_it_is_replaced(ray: Any) -> None:
    with ray.util.multiprocessing.Pool(1) as pool:
        values = pool.imap(die_of_three, range(6))
        assert [next(values) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(exceptions.RayActorError):
            next(values)
        assert [*values] == [4, 5]


@pytest.mark.process
def test_process_pool_when_terminated_then_replaced_processes_end_too(
    ray: Any,
) -> None:
    with ray.util.multiprocessing.Pool(1, maxtasksperchild=1) as pool:
        busy = pool.apply_async(sleep, (60,))
        waiting = pool.imap(sleep, [60, 60])

    with pytest.raises(exceptions.RayActorError):
        busy.get(timeout=30)
    with pytest.raises(exceptions.RayActorError):
        waiting.next(timeout=30)
    assert [*waiting] == []
    pool.join()


@pytest.mark.process
@pytest.mark.slow
def test_joblib_when_its_backend_is_registered_then_calls_run_here(ray: Any) -> None:
    joblib: Any = pytest.importorskip("joblib")
    ray.util.joblib.register_ray()
    delayed = joblib.delayed

    with joblib.parallel_backend("ray"):
        squares = joblib.Parallel(n_jobs=2)([delayed(square)(n) for n in range(20)])
        assert squares == [*map(square, range(20))]
        pids = joblib.Parallel(n_jobs=2)([delayed(process_id)(0)] * 4)
        assert os.getpid() not in pids
