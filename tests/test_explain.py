"""What ``runtime.explain()`` says of a wish: where it would go, or why it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Target, running
from helpers.goldens import stable
from helpers.machines import Pretend, gpus, looking
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from helpers.goldens import Golden

    from actorlib import Runtime

pytestmark = in_memory(num_gpus=None, grace=0.1)


@pytest.fixture(scope="module")
def machine() -> str:
    return "nvidia_pairs"


@pytest.fixture
def pairs(runtime: Runtime) -> Runtime:
    return runtime


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
        "an actor that asks nothing": pairs.explain(Target),
        "an actor that asks for CPUs": pairs.explain(Target.options(num_cpus=3)),
        "a function": pairs.explain(train),
        "a call with a name": pairs.explain(train.options(num_gpus=2, name="fit")),
        "too many": pairs.explain(train.options(num_gpus=5)),
    }

    assert told["too many"].startswith("train asks GPU=5; this machine has GPU=4")
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
        "Looking asks GPU=0.25 on GPU 2; that is free. Ahead of it in line: "
        "Looking (GPU=1)"
    )
    # And who wishes for another is not behind it.
    assert "it would go to GPU 0" in pairs.explain(gpus(1))
    await actorlib.kill(waiting)
    assert "it would go to GPU 2" in pairs.explain(gpus(0.25, device="2"))


@pytest.mark.parametrize(
    ("number", "wishes", "words"),
    [
        (5, {}, "asks GPU=5; this machine has GPU=4"),
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
