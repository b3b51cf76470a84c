from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Gate,
    Target,
    drained,
    end_of,
    living,
    running,
)
from helpers.goldens import stable
from helpers.machines import Pretend, gpus, ids, looking, refused
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import ActorDiedError, ActorUnschedulableError

if TYPE_CHECKING:
    from helpers.goldens import Golden

    from actorlib import Runtime


pytestmark = in_memory(num_gpus=None, grace=0.1)

# The machine, where nothing else is said: four GPUs, 0 linked with 2 and 1 with 3.
UUID = "GPU-a6000222-5a4e-8d2e-1b1f-7d1d0a6c9e22"


@pytest.fixture(scope="module")
def machine() -> str:
    return "nvidia_pairs"


@pytest.fixture
def pairs(runtime: Runtime) -> Runtime:
    return runtime


# A device by its name.


@pytest.mark.usefixtures("pairs")
async def test_device_when_it_is_named_then_it_is_that() -> None:
    names: dict[Any, list[int]] = {
        "2": [2],
        UUID: [2],
        UUID[:11]: [2],
        "0000:ca:00.0": [2],
        ("3", UUID): [2, 3],
        ("1", "0"): [0, 1],
    }
    for device, expected in names.items():
        number = 1 if isinstance(device, str) else len(device)
        actor = gpus(number, device=device).remote()
        assert await ids(actor) == [expected], device
        mask = (await actor.environ.remote())["CUDA_VISIBLE_DEVICES"]
        assert mask == ",".join(map(str, expected))
        await actorlib.kill(actor)
    first = gpus(2, device=["3", UUID]).remote()  # a list will do
    assert await ids(first) == [[2, 3]]


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("4", "not a device of this machine"),
        ("GPU-b", "not a device of this machine"),
        ("GPU-a6000", "means several devices"),
        (["0", "GPU-a6000000"], "that leaves 0: NVIDIA RTX A6000"),  # twice the same
    ],
)
@pytest.mark.usefixtures("pairs")
async def test_device_when_it_is_none_or_not_one_then_refused_with_what_there_is(
    device: Any, words: str
) -> None:
    number = 1 if isinstance(device, str) else len(device)
    actor = gpus(number, device=device).remote()

    said = await refused(actor)
    assert words in said
    assert "0: NVIDIA RTX A6000" in said
    assert await refused(actor.ids.remote()) == said


async def test_device_when_it_is_taken_then_its_actor_waits_and_holds_nobody_up(
    pairs: Runtime,
) -> None:
    holder = gpus(device="1").remote()
    waiting = gpus(0.5, device="1").remote()
    ref = waiting.gpu_ids.remote()
    # The others go where they like, but not ahead of it.
    assert await ids(gpus(3).remote()) == [[0, 2, 3]]
    assert not ref.done()
    assert "on GPU 1; all of GPU=4 is taken" in pairs.explain(waiting)
    await actorlib.kill(holder)
    assert await ref == [1]


# Near.


async def test_near_when_there_is_room_then_on_the_same_device(pairs: Runtime) -> None:
    first = gpus(0.5, device="3").remote()
    second = gpus(0.5, near=first).remote()  # of the same tick

    assert await ids(first, second) == [[3], [3]]
    assert pairs.available_resources()["GPU"] == 3


@pytest.mark.usefixtures("pairs")
async def test_near_when_the_device_is_full_then_on_one_that_is_linked() -> None:
    first = gpus(device="1").remote()
    second = gpus(near=first).remote()
    third = gpus(near=first).remote()
    ref = third.gpu_ids.remote()

    assert await ids(first, second) == [[1], [3]]
    # Both are full now; that 0 and 2 are free does not help.
    assert await ids(gpus(device="0").remote()) == [[0]]
    assert not ref.done()
    await actorlib.kill(second)
    assert await ref == [3]


async def test_near_when_the_other_has_no_place_yet_then_it_waits_for_that(
    pairs: Runtime,
) -> None:
    gate = Gate.remote()
    late = gate.wait.remote("in")
    first = gpus(device="2").remote(late)  # not in line before its argument is there
    second, apart = (
        gpus(0.5, near=first).remote(),
        gpus(0.5, apart_from=first).remote(),
    )
    refs = [second.gpu_ids.remote(), apart.gpu_ids.remote()]
    await gate.reached.remote("in")

    assert pairs.available_resources()["GPU"] == 4
    for waiting in (second, apart):
        assert "waits for a place for the actors" in pairs.explain(waiting)
    await gate.open.remote("in")
    assert await ids(first) == [[2]]
    assert await asyncio.gather(*refs) == [[0], [0]]  # linked with 2, and free


async def test_near_when_the_other_is_in_line_then_it_waits_for_its_place(
    pairs: Runtime,
) -> None:
    holder = gpus(4).remote()
    first = gpus(device="3").remote()
    second = gpus(near=first).remote()
    await holder
    assert pairs.snapshot().waiting == ("Looking: GPU=1",)

    await actorlib.kill(holder)
    assert await ids(first, second) == [[3], [1]]


@pytest.mark.usefixtures("pairs")
async def test_near_when_the_other_is_dead_then_refused_with_what_to_do() -> None:
    first = gpus().remote()
    wish = gpus(near=first)
    await actorlib.kill(first)

    assert "near an actor that is dead: keep a handle" in await refused(wish.remote())
    del first
    assert "near an actor that is dead: keep a handle" in await refused(wish.remote())


@pytest.mark.usefixtures("pairs")
async def test_near_when_the_other_never_gets_a_place_then_refused() -> None:
    gate = Gate.remote()
    first = gpus().remote(gate.wait.remote("in"))
    second = gpus(near=first).remote()
    ref = second.gpu_ids.remote()
    await gate.reached.remote("in")
    await actorlib.kill(first)

    assert "near an actor that is dead" in await refused(ref)


@pytest.mark.usefixtures("pairs")
async def test_near_when_the_other_holds_no_device_then_refused() -> None:
    first = Target.remote()

    said = await refused(gpus(near=first).remote())
    assert said == ("Looking is to be near an actor that holds no GPU: leave near out")


async def test_near_when_the_other_dies_meanwhile_then_it_can_never_be_near(
    pairs: Runtime,
) -> None:
    halves = [gpus(0.5, device="0").remote() for _ in range(2)]
    await ids(*halves, gpus(device="2").remote())
    holder = gpus(device="2").remote()
    await holder
    whole = gpus(near=halves[0]).remote()
    await ids(halves[0])
    assert "near GPU 0" in pairs.explain(whole)
    await actorlib.kill(halves[0])

    with pytest.raises(ActorUnschedulableError, match="near an actor that is dead"):
        await whole
    assert "near an actor that is dead" in pairs.explain(whole)


async def test_a_wish_when_its_actor_is_killed_before_it_is_in_line_then_it_is_dead(
    pairs: Runtime,
) -> None:
    gate = Gate.remote()
    first = gpus().remote(gate.wait.remote("in"))
    second = gpus(near=first).remote()
    ref = second.gpu_ids.remote()
    await gate.reached.remote("in")
    await actorlib.kill(second)

    with pytest.raises(ActorDiedError):
        await ref
    assert pairs.explain(second).startswith("Looking is dead: it was killed")
    await gate.open.remote("in")
    assert await ids(first) == [[0]]
    assert pairs.available_resources()["GPU"] == 3


async def test_a_wish_when_nobody_holds_the_other_then_it_keeps_it_not_alive(
    pairs: Runtime,
) -> None:
    first = gpus(device="1").remote()
    await first
    wish = gpus(0.5, near=first)
    end = end_of(first)
    del first
    await end

    assert "is dead" in await refused(wish.remote())
    await drained()
    assert pairs.available_resources()["GPU"] == 4


async def test_shutdown_when_one_waits_for_its_neighbour_then_nothing_is_left(
    pretend: Pretend,
) -> None:
    pretend("nvidia_pairs")
    async with running(num_gpus=None, grace=0.1):
        gate = Gate.remote()
        first = gpus().remote(gate.wait.remote("in"))
        second = gpus(near=first).remote()
        ref = second.gpu_ids.remote()
        await gate.reached.remote("in")
    with pytest.raises(ActorDiedError):
        await ref


# Apart.


@pytest.mark.usefixtures("pairs")
async def test_apart_from_when_given_one_or_several_then_on_other_devices() -> None:
    first = gpus(0.25).remote()
    second = gpus(0.25, apart_from=first).remote()
    third = gpus(0.25, apart_from=[first, second]).remote()
    fourth = gpus(0.25, apart_from=(first, third)).remote()

    assert await ids(first, second, third, fourth) == [[0], [1], [2], [1]]


@pytest.mark.usefixtures("pairs")
async def test_apart_from_when_the_other_is_dead_or_has_none_then_anywhere() -> None:
    first, nothing = gpus().remote(), Target.remote()
    await actorlib.kill(first)

    assert await ids(gpus(apart_from=[first, nothing]).remote()) == [[0]]


async def test_apart_from_when_the_other_dies_then_its_device_will_do(
    pretend: Pretend,
) -> None:
    pretend("intel_flex")
    async with running(num_gpus=None):
        first, second = gpus().remote(), gpus().remote()
        third = gpus(apart_from=first).remote()
        ref = third.gpu_ids.remote()
        assert await ids(first, second) == [[0], [1]]

        await actorlib.kill(first)
        assert await asyncio.wait_for(ref, 5) == [0]


async def test_apart_from_when_there_is_one_device_then_refused_with_the_reason(
    pretend: Pretend,
) -> None:
    pretend("apple_m2_pro")
    async with running(num_gpus=None) as runtime:
        first = gpus(0.5).remote()

        said = await refused(gpus(0.5, apart_from=first).remote())
        assert "apart from GPU 0" in said
        assert "leaves no device" in said
        assert len(living(runtime)) == 1


# Where the wishes are written.


@pytest.mark.parametrize("maker", [Caller, AsyncCaller])
@pytest.mark.usefixtures("pairs")
async def test_wishes_when_an_actor_makes_them_then_they_are_the_same(
    maker: Any,
) -> None:
    def make(first: Any) -> list[Any]:
        second = gpus(near=first).remote()
        return [second, gpus(apart_from=[first, second]).remote()]

    caller = maker.remote()
    first = gpus(device="2").remote()
    made = await caller.run.remote(make, first)

    assert await ids(first, *made) == [[2], [0], [1]]


@pytest.mark.usefixtures("pairs")
async def test_wishes_when_an_actor_makes_its_own_neighbour_then_they_are_met() -> None:
    def make() -> list[Any]:
        first = gpus(0.5, device="3").remote()
        return [first, gpus(0.5, near=first, placement="spread").remote()]

    maker = Caller.remote()
    made = await maker.run.remote(make)
    assert await ids(*made) == [[3], [3]]


@pytest.mark.usefixtures("pairs")
async def test_wishes_when_a_class_with_them_is_sent_then_they_go_with_it() -> None:
    first = gpus(device="1").remote()

    maker = Caller.remote()
    made = await maker.make.remote(gpus(near=first))
    assert await ids(made) == [[3]]


# What explain() says of devices.


# Where it would go.


@pytest.mark.parametrize(
    ("number", "wishes", "expected"),
    [
        (1, {}, [1]),
        (0.5, {}, [0]),
        (0.5, {"placement": "spread"}, [1]),
        (2, {}, [1, 3]),
        (1, {"device": "3"}, [3]),
        (2, {"device": ["2", "3"]}, [2, 3]),
        (1, {"accelerator_type": "RTX-A6000"}, [1]),
        (0.25, {"near": ...}, [0]),
        (1, {"near": ...}, [2]),
        (0.25, {"apart_from": ...}, [1]),
    ],
)
async def test_explain_when_there_is_room_then_an_actor_goes_where_it_says(
    pairs: Runtime, number: float, wishes: dict[str, Any], expected: list[int]
) -> None:
    first = gpus(0.5).remote()
    await first
    given = {name: first if value is ... else value for name, value in wishes.items()}
    asked = gpus(number, **given)
    before = pairs.snapshot()

    told = pairs.explain(asked).splitlines()

    assert pairs.snapshot() == before
    named = " and ".join(f"GPU {place}" for place in expected)
    assert told[0].endswith(f"it would go to {named}")
    chosen = [place for place, line in enumerate(told[1:]) if line.endswith("chosen")]
    assert chosen == expected
    assert len(told) == 5
    assert await asked.remote().gpu_ids.remote() == expected


async def test_explanations_of_what_has_room(pairs: Runtime, golden: Golden) -> None:
    @actorlib.remote(num_gpus=0.5)
    def train() -> None: ...

    told = {
        "an actor that requests nothing": pairs.explain(Target),
        "an actor that asks for CPUs": pairs.explain(Target.options(num_cpus=3)),
        "a function": pairs.explain(train),
        "a call with a name": pairs.explain(train.options(num_gpus=2, name="fit")),
        "too many": pairs.explain(train.options(num_gpus=5)),
    }

    assert told["too many"].startswith("train requests GPU=5; this machine has GPU=4")
    golden.check("explain-room.txt", text_of(told))


async def test_explanations_of_devices_that_are_not_alike(
    pretend: Pretend, golden: Golden
) -> None:
    told: dict[str, str] = {}
    pretend("nvidia_mixed")
    async with running(num_gpus=None) as runtime:
        wish = gpus(accelerator_type="RTX-4090")
        told["a type of device"] = runtime.explain(wish)
    pretend("rbln")
    async with running(num_gpus=None) as runtime:
        wish = looking(resources={"RBLN": 1}, device="11")
        told["one of many devices"] = runtime.explain(wish)

    assert "it would go to RBLN 11\n" in told["one of many devices"]
    golden.check("explain-types.txt", text_of(told))


def text_of(told: dict[str, str]) -> str:
    """All explanations, each below what was asked."""
    return "".join(f"== {what}\n{text}\n" for what, text in told.items())


# What stands in its way.


async def test_explanations_of_what_is_held(pairs: Runtime, golden: Golden) -> None:
    held = [gpus(0.75, placement="spread").remote() for _ in range(4)]
    for actor in held:
        await actor

    told = {
        "a whole device": pairs.explain(gpus(1)),
        "half a device near another": pairs.explain(gpus(0.5, near=held[1])),
    }

    assert told["a whole device"].count("GPU=0.75 by Looking (pid ") == 4
    golden.check("explain-held.txt", stable(text_of(told)))


async def test_explain_when_someone_is_ahead_in_line_then_says_who(
    pairs: Runtime,
) -> None:
    holder = gpus(0.5, device="2").remote()
    await holder
    waiting = gpus(device="2").remote()
    await holder.ids.remote()

    told = pairs.explain(gpus(0.25, device="2")).splitlines()
    assert told[0] == (
        "Looking requests GPU=0.25 on GPU 2, which is free. Ahead of it in the queue: "
        "Looking (GPU=1)"
    )
    # And who wishes for another is not behind it.
    assert "it would go to GPU 0" in pairs.explain(gpus(1))
    await actorlib.kill(waiting)
    assert "it would go to GPU 2" in pairs.explain(gpus(0.25, device="2"))


@pytest.mark.parametrize(
    ("number", "wishes", "words"),
    [
        (5, {}, "requests GPU=5; this machine has GPU=4"),
        (1, {"device": "7"}, "device='7', which is not a device of this machine"),
        (
            1,
            {"accelerator_type": "H100"},
            "accelerator_type='H100'; this machine has 4",
        ),
        (1, {"device": "0", "apart_from": ...}, "leaves no device"),
    ],
)
async def test_explain_when_it_can_never_be_then_the_words_of_the_refusal(
    pairs: Runtime, number: float, wishes: dict[str, Any], words: str
) -> None:
    first = gpus(0.5).remote()
    given = {name: first if value is ... else value for name, value in wishes.items()}
    asked = gpus(number, **given)
    await first

    told = pairs.explain(asked).splitlines()[0]
    assert words in told
    with pytest.raises(ActorUnschedulableError) as caught:
        await asked.remote()
    assert told == str(caught.value)


async def test_explain_when_the_neighbour_has_no_place_then_it_would_wait(
    pairs: Runtime,
) -> None:
    gate = Gate.remote()
    first = gpus().remote(gate.wait.remote("in"))

    for wish in (gpus(near=first), gpus(apart_from=[first])):
        told = pairs.explain(wish)
        assert told == "Looking would wait until the actors that it names are placed"
    await gate.open.remote("in")
    await first
    assert "it would go to GPU 2" in pairs.explain(gpus(near=first))


async def test_explain_when_the_neighbour_is_dead_then_says_so(pairs: Runtime) -> None:
    first = gpus().remote()
    await actorlib.kill(first)

    assert "near an actor that is dead" in pairs.explain(gpus(near=first))
