"""Names of actors, and actors that live without a handle."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Keeper
from helpers.callers import error_of
from helpers.kinds import CONTRACT, OWN_ENGINES, PLAIN, TWO_KINDS
from helpers.lives import end_of, info_of, leave
from helpers.reused import Gate
from helpers.waiting_calls import wait_at

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorNotFoundError,
    ActorUnschedulableError,
    SerializationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = CONTRACT


@pytest.fixture
def find(api: Api) -> Callable[..., Any]:
    """``get_actor`` of the test's API."""
    return actorlib.blocking.get_actor if api.is_blocking else actorlib.get_actor


def find_there(name: str, namespace: str | None = None) -> Any:
    return actorlib.get_actor(name, namespace=namespace)


def obtain(name: str) -> Any:
    return Counter.options(name=name, get_if_exists=True).remote()


# Finding.


async def test_name_when_given_then_it_is_found_from_everywhere(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    counter = Counter.options(name="counter").remote(1)
    there = await api.get(callee.run(find_there, "counter"))

    assert there == counter == find("counter")
    assert await api.get([there.add.remote(), find("counter").add.remote()]) == [2, 3]


@TWO_KINDS
async def test_name_when_unknown_then_the_error_suggests_another(
    api: Api, callee: Callee, find: Callable[..., Any], *, is_on_ray: bool
) -> None:
    counter = Counter.options(name="counter").remote()
    text = "'count'" if is_on_ray else "did you mean 'counter'"

    with pytest.raises(ActorNotFoundError, match=text) as caught:
        find("count")
    assert isinstance(caught.value, ValueError)
    error = await error_of(api, callee.run(find_there, "count"))
    assert isinstance(error, ActorNotFoundError)
    del counter


@OWN_ENGINES
async def test_class_when_asked_for_then_the_actor_has_to_be_of_it() -> None:
    counter = Counter.options(name="c").remote()

    assert actorlib.get_actor("c", Counter) == counter
    with pytest.raises(TypeError, match="'c' has the class Counter, and not"):
        actorlib.get_actor("c", Echo)
    with pytest.raises(ActorNotFoundError):
        actorlib.get_actor("c", Counter, namespace="other")


def make_named(name: str) -> Any:
    return Counter.options(name=name).remote(5)


@TWO_KINDS
async def test_name_when_a_callee_gives_it_then_it_is_found_here(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    made = await api.get(callee.run(make_named, "c"))

    assert find("c") == made
    assert await api.get(find("c").add.remote()) == 6


# Claiming.


@TWO_KINDS
async def test_name_when_taken_then_nothing_is_made(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    counter = Counter.options(name="c").remote(1)

    with pytest.raises(ActorAlreadyExistsError, match="'c'") as caught:
        Echo.options(name="c").remote()
    assert isinstance(caught.value, ValueError)
    error = await error_of(api, callee.run(make_named, "c"))
    assert isinstance(error, ActorAlreadyExistsError)
    assert find("c") == counter
    assert await api.get(counter.add.remote()) == 2
    living = [row.name for row in actorlib.list_actors() if row.state != "dead"]
    assert living.count("c") == 1
    assert len(living) == 2


@TWO_KINDS
async def test_get_if_exists_when_many_ask_then_there_is_one_actor(
    api: Api, callee: Callee
) -> None:
    mine = obtain("c")
    others = await api.get([callee.run(obtain, "c") for _ in range(5)])

    assert {mine, *others} == {mine}
    sums = [counter.add.remote() for counter in [mine, obtain("c"), *others]]
    assert sorted(await api.get(sums)) == [*range(1, 8)]


def claimed_again(find: Callable[..., Any], first: Any) -> Any:
    """Asserts that a name is free, and gives another actor that has it."""
    with pytest.raises(ActorNotFoundError):
        find("t")
    second = Echo.options(name="t").remote()
    assert find("t") == second != first
    return second


async def test_name_when_its_actor_was_killed_then_it_is_free_at_once(
    api: Api, find: Callable[..., Any]
) -> None:
    first = Echo.options(name="t").remote()
    await api.get(first.echo.remote(1))
    killed = actorlib.kill(first)
    second = claimed_again(find, first)

    await api.get(killed)
    assert await api.get(find("t").echo.remote(2)) == 2
    assert find("t") == second


@OWN_ENGINES
@PLAIN
async def test_name_when_its_actor_has_ended_by_itself_then_it_is_free(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    target = callee.new(name="t")
    await api.ready(target.actor)
    end = end_of(api, target.actor)
    await error_of(api, target.run(leave, 3))
    await end

    claimed_again(find, target.actor)


@OWN_ENGINES
async def test_name_when_its_actor_lost_its_last_handle_then_it_is_free(
    api: Api, find: Callable[..., Any]
) -> None:
    first = Echo.options(name="t").remote()
    await api.get(first.echo.remote(1))
    end = end_of(api, first)
    del first
    await end

    claimed_again(find, None)


@OWN_ENGINES
async def test_name_when_an_argument_cannot_be_sent_then_it_is_free(
    api: Api, find: Callable[..., Any]
) -> None:
    with pytest.raises(SerializationError):
        Keeper.options(name="t").remote(threading.Lock())

    assert await api.get(claimed_again(find, None).echo.remote(1)) == 1


@OWN_ENGINES
async def test_name_when_its_actor_can_never_be_placed_then_it_is_free(
    api: Api, find: Callable[..., Any]
) -> None:
    huge = Counter.options(name="t", num_gpus=3).remote()
    claimed_again(find, huge)

    error = await error_of(api, huge.add.remote())
    assert isinstance(error, ActorUnschedulableError)


class Slow:
    def __init__(self, gate: Any) -> None:
        actorlib.get(gate.wait.remote("constructor"))

    def ping(self) -> str:
        return "pong"


@OWN_ENGINES
async def test_name_when_the_constructor_runs_then_calls_wait_for_it(
    api: Api, find: Callable[..., Any]
) -> None:
    gate = Gate.remote()
    slow = actorlib.remote(Slow).options(name="slow").remote(gate)
    await api.get(gate.reached.remote("constructor"))
    ref = find("slow").ping.remote()
    assert not ref.done()
    await api.get(gate.open.remote("constructor"))

    assert await api.get(ref) == "pong"
    del slow


@OWN_ENGINES
async def test_name_when_its_actor_waits_for_a_place_then_it_is_found(
    api: Api, find: Callable[..., Any]
) -> None:
    holder = Echo.options(num_gpus=2).remote()
    await api.get(holder.echo.remote(1))
    waiting = Echo.options(name="w", num_gpus=2).remote()
    ref = find("w").echo.remote(2)
    assert not ref.done()
    await api.kill(holder)

    assert await api.get(ref) == 2
    del waiting


@OWN_ENGINES
@TWO_KINDS
async def test_name_when_its_actor_works_without_a_handle_then_it_can_be_held_again(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    gate, target = Gate.remote(), callee.new(name="working")
    ref = target.run(wait_at, gate, "the place")
    await api.get(gate.reached.remote("the place"))
    del target
    gc.collect()
    again = find("working")
    await api.get(gate.open.remote("the place"))

    await api.get(ref)
    assert await api.get(again.run.remote(len, "ab")) == 2


# Namespaces and lists.


def names_of(*, all_namespaces: bool) -> list[Any]:
    return actorlib.list_named_actors(all_namespaces)


@TWO_KINDS
async def test_names_when_listed_then_those_of_the_living_in_one_namespace_or_all(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    names = ["a", "b", "dead"]
    a, b, dead = [Echo.options(name=name).remote() for name in names]
    there = Echo.options(name="a", namespace="there").remote()
    await api.get([actor.pid.remote() for actor in (a, b, dead, there)])
    await api.kill(dead)

    assert (find("a"), find("a", namespace="there")) == (a, there)
    with pytest.raises(ActorNotFoundError, match="'there'"):
        find("b", namespace="there")
    seen = await api.get(callee.run(find_there, "a", "there"))
    assert seen == there
    assert sorted(actorlib.list_named_actors()) == ["a", "b"]
    with pytest.raises(TypeError, match="all_namespaces"):
        actorlib.list_named_actors("yes")  # type: ignore[arg-type]
    listed = actorlib.list_named_actors(all_namespaces=True)
    assert sorted(row["name"] for row in listed) == ["a", "a", "b"]
    assert {"name": "a", "namespace": "there"} in listed
    assert sorted(await api.get(callee.run(actorlib.list_named_actors))) == ["a", "b"]
    assert len(await api.get(callee.run(names_of, all_namespaces=True))) == 3
    del b


@TWO_KINDS
async def test_actors_when_listed_then_their_rows_are_the_same_everywhere(
    api: Api, callee: Callee, *, is_on_ray: bool
) -> None:
    target = callee.new(name="t", namespace="there", lifetime="detached", num_cpus=1)
    await api.ready(target.actor)
    row = info_of(target.actor)

    assert (row.class_name, row.state) == (type_name(callee), "alive")
    assert (row.name, row.is_detached) == ("t", True)
    assert (row.restarts, row.death) == (0, "")
    if not is_on_ray:  # it tells neither
        assert (row.namespace, row.resources) == ("there", {"CPU": 1.0})
    (there,) = [
        other
        for other in await api.get(callee.run(actorlib.list_actors))
        if other.actor_id == row.actor_id
    ]
    assert (there.name, there.pid, there.state) == ("t", row.pid, "alive")
    await api.kill(target.actor)


def type_name(callee: Callee) -> str:
    return "AsyncRunner" if callee.is_async else "Runner"


# Detached actors.


async def test_detached_actor_when_nobody_holds_it_then_it_lives_until_killed(
    api: Api, find: Callable[..., Any]
) -> None:
    counter = Counter.options(name="kept", lifetime="detached").remote(4)
    assert await api.get(counter.add.remote()) == 5
    del counter
    gc.collect()

    assert await api.get(find("kept").add.remote()) == 6
    await api.kill(find("kept"))
    with pytest.raises(ActorNotFoundError):
        find("kept")


def make_children(detached: str) -> Any:
    kept = Counter.options(name=detached, lifetime="detached").remote(5)
    child = Counter.remote(5)
    yield [kept.add.remote(), child.add.remote()]
    return child


@TWO_KINDS
async def test_detached_actor_when_its_maker_ends_then_it_lives_and_others_do_not(
    api: Api, callee: Callee, find: Callable[..., Any]
) -> None:
    child = await api.get(callee.run(make_children, "kept"))
    end = end_of(api, child)
    await api.kill(callee.actor)
    await end

    assert isinstance(await error_of(api, child.add.remote()), ActorDiedError)
    assert await api.get(find("kept").add.remote()) == 7
    await api.kill(find("kept"))
