from __future__ import annotations

import asyncio
import importlib
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Counter, Echo, Gate, Keeper

import actorlib
import actorlib.blocking
from actorlib._api.actor_handle import pin_of
from actorlib.blocking.util.placement_group import placement_group
from actorlib.blocking.util.queue import Empty, Full, Queue
from actorlib.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    TaskCancelledError,
    TaskError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._owner.threadsafe_engine import CrossingEngine

pytestmark = pytest.mark.process

# get, put, wait.


def test_get_when_given_a_list_then_values_in_its_order(ray: Any) -> None:
    echo = Echo.remote()
    refs = [echo.echo.remote(number) for number in range(50)]
    assert ray.get([refs[3], refs[1], refs[3]]) == [3, 1, 3]
    assert ray.get(refs) == list(range(50))
    assert ray.get(refs[7]) == 7


LOADED: list[int] = []


class Noted:
    """Notes each time that it is loaded."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_noted, (self.items,)


def _load_noted(items: list[int]) -> Noted:
    LOADED.append(os.getpid())
    return Noted(items)


def _noted(_: object) -> Noted:
    return Noted([0])


class Values:
    """Makes values that can be changed."""

    def pair(self) -> tuple[list[int], bytearray]:
        return [0], bytearray(300_000)

    def items(self) -> Iterator[list[int]]:
        yield [0]

    def again(self, value: Any) -> list[int]:
        """What a method gets of its own put(), before and after it changes that."""
        ref = actorlib.blocking.put(value)
        seen = []
        for _ in range(3):
            found = actorlib.blocking.get(ref)
            seen.append(found[0])
            found[0] += 1
        return seen


@actorlib.blocking.remote
def nested() -> list[list[int]]:
    return [[0]]


def test_get_when_repeated_then_each_has_an_object_of_its_own(ray: Any) -> None:
    maker = ray.remote(Values).remote()
    part, large = maker.pair.options(num_returns=2).remote()
    (item,) = maker.items.remote()
    refs = [part, large, item, ray.put([0]), Echo.remote().echo.remote([0, (1,)])]
    for ref in refs:
        for _ in range(3):
            value = ray.get(ref)
            assert value[0] == 0
            value[0] = 1
    values = ray.get(refs * 2)
    assert [value[0] for value in values] == [0] * 10
    assert len({id(value) for value in values}) == 10
    ref = nested.remote()
    ray.get(ref)[0].append(1)
    assert ray.get(ref) == [[0]]


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_get_when_repeated_in_an_actor_then_likewise(ray: Any, options: Any) -> None:
    actor = ray.remote(Values).options(**options).remote()
    assert ray.get(actor.again.remote([0])) == [0, 0, 0]
    assert ray.get(actor.again.remote(bytearray(300_000))) == [0, 0, 0]


def test_get_when_it_is_the_first_then_nothing_is_loaded_twice(ray: Any) -> None:
    actor = Echo.remote()
    LOADED.clear()
    ref = actor.__ray_call__.remote(_noted)
    ray.wait([ref])
    ray.get(ref).items.append(1)
    loaded_once = len(LOADED)
    again = ray.get(ref)
    fixed = [actor.echo.remote(b"bytes" * 100_000), ray.put("text" * 100)]
    are_same = [ray.get(ref) is ray.get(ref) for ref in fixed]

    assert (loaded_once, len(LOADED), again.items) == (1, 2, [0])
    assert are_same == [True, True]


def test_get_when_it_was_awaited_then_the_value_as_it_was_made(ray: Any) -> None:
    refs = [Echo.remote().echo.remote([0]), ray.put([0])]

    async def change() -> None:
        for value in [await refs[0], *await asyncio.gather(refs[1])]:
            value.append(1)

    asyncio.run(change())
    assert ray.get(refs) == [[0], [0]]


def test_get_when_a_handle_is_inside_then_each_has_one(ray: Any) -> None:
    counter = Counter.remote()
    ref = Echo.remote().echo.remote([counter])
    del counter
    assert ray.get(ray.get(ref).pop().add.remote(1)) == 1
    assert ray.get(ray.get(ref).pop().add.remote(1)) == 2


def test_nothing_when_asked_for_then_given(ray: Any) -> None:
    assert ray.get([]) == []
    assert ray.wait([]) == ([], [])


@pytest.mark.parametrize("timeout", [0, 0.02])
@pytest.mark.parametrize("is_list", [False, True])
def test_get_when_too_late_then_the_call_goes_on(
    ray: Any,
    timeout: float,
    is_list: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("place")
    with pytest.raises(GetTimeoutError):
        ray.get([ref] if is_list else ref, timeout=timeout)
    gate.open.remote("place")
    assert ray.get(ref) == "place"


def test_get_when_one_has_failed_then_it_waits_for_no_other(ray: Any) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    waiting = gate.wait.remote()
    with pytest.raises(ValueError, match="no") as caught:
        ray.get([waiting, echo.fail.remote(ValueError("no"))])
    assert isinstance(caught.value, TaskError)
    assert not waiting.done()


def test_get_when_one_had_failed_before_then_it_waits_for_no_other(ray: Any) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    waiting, failed = gate.wait.remote(), echo.fail.remote(ValueError("no"))
    ray.wait([failed])
    for refs in ([failed, waiting], [waiting, failed]):
        with pytest.raises(ValueError, match="no"):
            ray.get(refs)
    assert not waiting.done()


@pytest.mark.parametrize("given", [3, "text", [3], None])
def test_get_when_it_is_no_ref_then_refused(ray: Any, given: object) -> None:
    with pytest.raises(TypeError, match=r"get\(\) takes a ref or|get\(\) takes refs"):
        ray.get(given)


def test_wait_when_some_are_done_then_it_tells_them_apart(ray: Any) -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    assert ray.wait(refs, timeout=0) == ([], refs)
    gate.open.remote("b")
    assert ray.wait(refs) == ([refs[1]], [refs[0], refs[2]])
    assert ray.wait(refs, num_returns=2, timeout=0.02)[0] == [refs[1]]
    ray.get([gate.open.remote(name) for name in "ac"])
    assert ray.wait(refs, num_returns=3, fetch_local=True) == (refs, [])


def test_wait_when_a_ref_has_failed_then_it_is_ready(ray: Any) -> None:
    failed = Echo.remote().fail.remote(ValueError("no"))
    assert ray.wait([failed], timeout=20) == ([failed], [])


def test_put_when_given_as_an_argument_then_it_arrives_as_its_value(ray: Any) -> None:
    echo, array = Echo.remote(), np.arange(200_000)
    ref = ray.put(array)
    array[0] = 5
    assert ray.get(echo.echo.remote(ref))[0] == 0
    (inner,) = ray.get(echo.echo.remote([ref]))
    assert ray.get(inner)[-1] == 199_999
    with pytest.raises(TypeError, match="this is a ref"):
        ray.put(ref)


# Calls.


def test_calls_when_of_every_kind_then_they_keep_their_order(ray: Any) -> None:
    gate, keeper = Gate.remote(), Keeper.remote()
    late = gate.wait.remote("late")
    kept = [
        (keeper.keep.remote(value), keeper.kept.remote())[1]
        for value in (1, (2, "no plain value"), late, 4)
    ]
    ray.get(gate.open.remote("late"))
    assert ray.get(kept) == [1, (2, "no plain value"), "late", 4]


def test_call_when_its_argument_changes_afterwards_then_unseen(ray: Any) -> None:
    gate, echo, value = Gate.remote(), Echo.remote(), [1]
    gates = echo.both.remote(gate.wait.remote())  # what comes later waits behind it
    ref = echo.echo.remote(value)
    value.append(2)
    ray.get(gate.open.remote())
    assert ray.get(ref) == [1]
    ray.get(gates)


def test_call_when_it_does_not_fit_then_refused_where_it_is_written(ray: Any) -> None:
    echo = Echo.remote()
    with pytest.raises(TypeError, match="value"):
        echo.echo.remote()
    with pytest.raises(TypeError, match="lock"):
        echo.echo.remote(threading.Lock())
    limited = Gate.options(max_pending_calls=1).remote()
    waiting = limited.wait.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        limited.wait.remote()
    waiting.cancel()
    ray.wait([waiting])
    ray.get(limited.open.remote())


def test_call_when_written_as_older_scripts_do_then_the_same(ray: Any) -> None:
    counter = Counter._remote(args=[5])
    assert ray.get(counter.add._remote(kwargs={"number": 2})) == 7
    assert ray.get(Echo.remote().echo._remote(args=[(1, 2)], num_returns=2)) == [1, 2]


def test_calls_when_of_many_threads_then_all_are_answered(ray: Any) -> None:
    counter = Counter.remote()

    def work(_: int) -> int:
        ray.wait([ray.put(1)])
        return ray.get([counter.add.remote() for _ in range(50)])[-1]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert max(results) == 400
    assert ray.get(counter.add.remote(0)) == 400


def test_get_when_of_many_threads_then_each_has_it(ray: Any) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("x")
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ray.get, ref) for _ in range(8)]
        ray.get(gate.open.remote("x"))
        assert [future.result() for future in waiting] == ["x"] * 8


@pytest.mark.usefixtures("ray")
def test_ref_when_a_future_is_asked_for_then_of_the_standard_library() -> None:
    echo = Echo.remote()
    futures = [echo.echo.remote(number).future() for number in range(3)]
    assert sorted(future.result() for future in as_completed(futures)) == [0, 1, 2]
    failed = echo.fail.remote(KeyError("k")).future()
    assert isinstance(failed.exception(20), KeyError)


def test_items_when_read_by_a_plain_for_then_in_order(ray: Any) -> None:
    class Source:
        def items(self, number: int) -> Any:
            yield from range(number)

    source = ray.remote(Source).remote()
    read = [ray.get(ref) for ref in source.items.remote(600)]
    assert read == list(range(600))
    stopped = source.items.options(backpressure=1).remote(10)
    assert ray.get(next(stopped)) == 0
    ray.cancel(stopped)
    with pytest.raises(TaskCancelledError):
        ray.get(next(stopped))
    assert list(stopped) == []


def test_wait_when_given_streams_then_whose_next_item_is_there(ray: Any) -> None:
    class Source:
        def items(self, gate: Any) -> Any:
            yield 1
            yield ray.get(gate.wait.remote("more"))

    gate = Gate.remote()
    stream = ray.remote(Source).remote().items.remote(gate)
    assert ray.wait([stream], timeout=20) == ([stream], [])
    assert stream.next_ready()
    assert ray.get(next(stream)) == 1
    ray.get(gate.reached.remote("more"))
    assert not stream.next_ready()
    assert ray.wait([stream], timeout=0) == ([], [stream])
    gate.open.remote("more")
    assert list(ray.util.as_completed([stream])) == ["more"]
    assert stream.is_finished()


def test_cancel_when_a_call_runs_then_its_ref_says_so(ray: Any) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("place")
    ray.get(gate.reached.remote("place"))
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref)
    assert ray.get(gate.left.remote()) == ["place"]
    with pytest.raises(ValueError, match="force"):
        ray.cancel(gate.wait.remote(), force=True)
    with pytest.raises(TypeError, match="kill"):
        ray.cancel(gate)
    with pytest.raises(ValueError, match="cancel"):
        ray.kill(ref)


def test_kill_when_an_actor_runs_then_its_calls_fail(ray: Any) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote()
    ray.kill(gate)
    ray.kill(gate)
    with pytest.raises(ActorDiedError):
        ray.get(ref)
    ended = Echo.remote()
    before = ended.echo.remote(1)
    assert ray.get(ended.__ray_terminate__.remote()) is None
    assert ray.get(before) == 1


def test_kill_when_it_has_returned_then_no_call_is_answered(ray: Any) -> None:
    for _ in range(10):
        echo = Echo.remote()
        before = [echo.echo.remote(number) for number in range(50)]
        ray.kill(echo)
        for number in range(20):
            with pytest.raises(ActorDiedError, match="it was killed"):
                ray.get(echo.echo.remote(number))
        ray.wait(before, num_returns=len(before))


def test_actor_when_it_has_a_name_then_it_is_found(ray: Any) -> None:
    named = Keeper.options(name="kept").remote(3)
    assert ray.get(ray.get_actor("kept").kept.remote()) == 3
    assert ray.util.list_named_actors() == ["kept"]
    with pytest.raises(ValueError, match="kept"):
        Keeper.options(name="kept").remote(3)
    del named


def test_actor_when_its_last_handle_is_gone_then_it_ends(ray: Any) -> None:
    handles = [Echo.remote() for _ in range(3)]
    ray.get([handle.pid.remote() for handle in handles])
    alive = [("state", "=", "ALIVE")]
    ids = {row["actor_id"] for row in ray.util.state.list_actors(filters=alive)}
    assert len(ids) == 3
    engine = actorlib._core.engine.find_engine()
    ended = [life.ended for life in engine.actor_table]  # type: ignore[union-attr]
    handles.clear()
    for future in ended:
        done = threading.Event()
        future.add_done_callback(lambda _, done=done: done.set())
        assert done.wait(20)
    dead = ray.util.state.list_actors(filters=[("state", "=", "DEAD")])
    assert ids <= {row["actor_id"] for row in dead}
    assert "nobody held" in str(dead[0]["death_cause"])


def test_remote_function_when_called_then_its_processes_are_not_this_one(
    ray: Any,
) -> None:
    @ray.remote
    def where(*args: Any) -> tuple[Any, ...]:
        return (os.getpid(), *args)

    ref = where.remote(1)
    pid, value = ray.get(ref)
    assert (pid != os.getpid(), value) == (True, 1)
    assert ray.get(where.remote(ref))[1] == (pid, 1)
    assert [found[1] for found in ray.get([where.remote(i) for i in range(9)])] == [
        *range(9)
    ]


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


def test_wait_when_a_loop_runs_then_it_says_what_to_await(ray: Any) -> None:
    async def waits() -> None:
        ray = importlib.import_module("actorlib.blocking")
        ray.wait([ray.put(1)])

    with pytest.raises(
        RuntimeError, match=r"wait\(\) would .*await actorlib.wait\(refs"
    ):
        ray.get(AsyncCaller.remote().run.remote(waits))


def test_num_returns_when_a_function_yields_then_each_value_has_a_ref(ray: Any) -> None:
    @ray.remote(num_returns=3)
    def three() -> Iterator[int]:
        yield from (1, 2, 3)

    first, *others = three.remote()
    assert ray.get([first, *others]) == [1, 2, 3]
    assert ray.get(three._remote(num_returns=3)) == [1, 2, 3]
    with pytest.raises(TypeError, match="ref after the other"):
        ray.get(three.options(num_returns="streaming").remote())


def test_num_returns_when_a_function_fails_between_then_what_came_is_kept(
    ray: Any,
) -> None:
    @ray.remote(num_returns=3)
    def fails() -> Any:
        yield 1
        raise KeyError("after one")

    first, *rest = fails.remote()

    assert ray.get(first) == 1
    for ref in rest:
        with pytest.raises(KeyError):
            ray.get(ref)


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


def test_ref_when_it_is_pending_then_it_names_its_call(ray: Any) -> None:
    gate = Gate.options(name="g").remote()
    ref = gate.wait.remote()
    assert "Gate.wait of 'g'" in repr(ref)
    ray.get(gate.reached.remote())
    assert re.search(r"pending: Gate\.wait of 'g' \(pid \d+\)>", repr(ref))
    ray.get(gate.open.remote())
    assert ray.get(ref) == ""
    assert "Gate" not in repr(ref)


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


def test_as_instanceof_cause_when_asked_of_an_error_then_it_is_of_both_classes(
    ray: Any,
) -> None:
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(Caller.remote().run.remote(lambda: {}["key"]))
    assert isinstance(caught.value.as_instanceof_cause(), KeyError)


def test_init_when_one_is_running_then_refused_or_the_same(ray: Any) -> None:
    with pytest.raises(RuntimeError, match="ignore_reinit_error=True"):
        ray.init()
    ray.init(ignore_reinit_error=True, num_cpus=1)
    assert ray.cluster_resources()["CPU"] == 4
    with pytest.raises(RuntimeError, match="running in this process already"):
        actorlib.init()


# util.


def test_pool_when_given_values_then_results_are_values(ray: Any) -> None:
    pool = ray.util.ActorPool([Echo.remote() for _ in range(2)])
    given = list(pool.map(lambda actor, value: actor.echo.remote(value), range(7)))
    assert given == list(range(7))
    pool.submit(lambda actor, value: actor.echo.remote(value), 1)
    pool.submit(lambda actor, value: actor.echo.remote(value), 2)
    assert sorted([pool.get_next_unordered(timeout=20), pool.get_next(20)]) == [1, 2]
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()


def test_results_when_iterated_then_as_they_come(ray: Any) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    late, early = gate.wait.remote("late"), echo.echo.remote("early")
    found = ray.util.as_completed([late, early])
    assert next(found) == "early"
    gate.open.remote("late")
    assert list(found) == ["late"]
    doubled = ray.util.map_unordered(echo.echo, range(5))
    assert sorted(doubled) == [0, 1, 2, 3, 4]


def test_queue_when_used_by_a_script_then_items_and_numbers(ray: Any) -> None:
    queue: Queue[Any] = Queue(maxsize=2)
    assert (len(queue), bool(queue), queue.empty()) == (0, True, True)
    queue.put(1)
    queue.put_nowait(2)
    assert (len(queue), queue.qsize(), queue.full()) == (2, 2, True)
    with pytest.raises(Full):
        queue.put(3, timeout=0.02)
    with pytest.raises(ValueError, match="timeout"):
        queue.get(timeout=-1)
    assert [queue.get(), queue.get_nowait()] == [1, 2]
    with pytest.raises(Empty):
        queue.get(block=False)
    queue.put_nowait_batch([3, 4])
    assert queue.get_nowait_batch(2) == [3, 4]

    def take(queue: Queue[Any]) -> Any:
        return queue.get()

    taken = Caller.remote().run.remote(take, queue)
    queue.put("for an actor")
    assert ray.get(taken) == "for an actor"
    queue.shutdown()
    with pytest.raises(ActorDiedError):
        queue.qsize()


def test_group_when_waited_for_then_told_whether_it_is_there(ray: Any) -> None:
    group = placement_group([{"GPU": 1}, {"CPU": 1}])
    assert group.wait(20)
    assert ray.get(group.ready()) == group
    later = placement_group([{"GPU": 2}], name="later")
    assert not later.wait(0.02)
    with pytest.raises(GetTimeoutError):
        ray.get(later.ready(), timeout=0.02)
    inside = Keeper.options(placement_group=group).remote(1)
    assert ray.get(inside.kept.remote()) == 1
    ray.util.remove_placement_group(group)
    assert ray.util.get_placement_group("later").wait(20)
    ray.util.remove_placement_group(later)


# A loop in the same thread, as in a notebook.


async def test_refs_when_a_loop_runs_here_then_as_it_awaits_everything(
    ray: Any,
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    assert ray.get(echo.echo.remote(1)) == 1
    assert await echo.echo.remote(2) == 2
    assert await asyncio.gather(*map(echo.echo.remote, range(50))) == [*range(50)]
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
    queue: Queue[int] = Queue()
    await queue.put_async(6)
    assert await queue.get_async() == 6


async def test_await_when_given_up_on_another_loop_then_the_call_is_cancelled(
    ray: Any,
) -> None:
    gate = Gate.remote()

    async def give_up() -> None:
        await gate.wait.remote("given up")

    task = asyncio.create_task(give_up())
    await gate.reached.remote("given up")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = gate.wait.remote("kept")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(kept), 0.05)
    await gate.open.remote("kept")
    assert await kept == "kept"
    await gate.wait.remote("given up")  # it was opened where it was given up
    assert ray.get(gate.left.remote()) == ["given up"]


# The wrong face.


async def test_init_when_a_script_has_started_one_then_it_says_who_ends_it(
    ray: Any,
) -> None:
    del ray
    for options in ({}, {"reinit": True}):
        with pytest.raises(RuntimeError, match=r"actorlib\.blocking\.shutdown\(\)"):
            await actorlib.init(**options)


def test_get_when_on_the_loops_own_thread_then_it_says_what_to_write(
    ray: Any, crossing: CrossingEngine
) -> None:
    ref = Gate.remote().wait.remote()
    home: Any = crossing.loop
    for get in (ray.get, actorlib.get, lambda ref: ray.get([ref])):
        with pytest.raises(RuntimeError, match="await the ref instead"):
            home.call(get, ref)
    with pytest.raises(RuntimeError, match="the script's own threads"):
        home.call(ray.shutdown)


def test_verbs_when_on_the_loops_own_thread_then_they_work(
    ray: Any, crossing: CrossingEngine
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


async def test_blocking_get_when_the_runtime_is_the_loops_own_then_refused() -> None:
    ray = actorlib.blocking
    async with actorlib.init(num_cpus=1, engine="inline"):
        echo = Echo.remote()
        with pytest.raises(RuntimeError, match="await"):
            ray.get(echo.echo.remote(1))
        with pytest.raises(RuntimeError, match="await"):
            ray.wait([echo.echo.remote(1)])
        with pytest.raises(RuntimeError, match="already"):
            ray.init()
        ref = await asyncio.to_thread(ray.put, 1)
        assert await asyncio.to_thread(ray.get, [ref]) == [await ref]
        await echo.echo.remote(1)
