from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Target, running
from helpers.machines import Pretend, gpus, looking

import actorlib
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def machine() -> str:
    return "nvidia_pairs"


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_gpus": None, "grace": 0.1}


@pytest.fixture
def pairs(runtime: Runtime) -> Runtime:
    return runtime


def lines(*said: str) -> list[str]:
    """A line for each device: what it has free, and what that means."""
    return [
        f"  GPU {place} (NVIDIA RTX A6000): {each}" for place, each in enumerate(said)
    ]


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


async def test_explain_when_no_device_is_asked_then_it_would_be_placed(
    pairs: Runtime,
) -> None:
    assert pairs.explain(Target) == "Target asks nothing; it would be placed now"
    told = pairs.explain(Target.options(num_cpus=3))
    assert told == "Target asks CPU=3; it would be placed now"


async def test_explain_when_the_type_is_wished_then_the_others_are_not(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mixed")
    async with running(num_gpus=None) as runtime:
        told = runtime.explain(gpus(accelerator_type="RTX-4090")).splitlines()
        assert told[0].endswith("it would go to GPU 1")
        assert told[1:] == [
            "  GPU 0 (NVIDIA A100-PCIE-40GB): 1 (40 GiB) free, not asked for",
            "  GPU 1 (NVIDIA GeForce RTX 4090): 1 (23.99 GiB) free, chosen",
            "  GPU 2 (NVIDIA GeForce RTX 4090): 1 (23.99 GiB) free, has room",
        ]


# What stands in its way.


async def test_explain_when_nothing_is_free_then_device_by_device(
    pairs: Runtime,
) -> None:
    held = [gpus(0.75, placement="spread").remote() for _ in range(4)]
    for actor in held:
        await actor
    infos = {info.actor_id: info for info in pairs.snapshot().actors}
    all_held = [
        f"GPU=0.75 by Looking (pid {info.pid})"
        for info in infos.values()
        if info.state == "alive"
    ]

    assert pairs.explain(gpus(1)).splitlines() == [
        "Looking asks GPU=1; the largest free slice is GPU=0.25 on device 0 "
        f"(free: 0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25). Held: {', '.join(all_held)}",
        *lines(*["0.25 (12 GiB) free, too little"] * 4),
    ]
    assert pairs.explain(gpus(0.5, near=held[1])).splitlines() == [
        "Looking asks GPU=0.5 near GPU 1; the largest free slice is GPU=0.25 on "
        "device 1 (free: 0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25). "
        f"Held: {all_held[1]}, {all_held[3]}",
        *lines(
            "0.25 (12 GiB) free, not asked for",
            "0.25 (12 GiB) free, too little",
            "0.25 (12 GiB) free, not asked for",
            "0.25 (12 GiB) free, too little",
        ),
    ]


async def test_explain_when_it_is_a_function_then_where_a_call_would_go(
    pairs: Runtime,
) -> None:
    @actorlib.remote(num_gpus=0.5)
    def train() -> list[int | str]:
        return actorlib.get_gpu_ids()

    assert "train asks GPU=0.5; it would go to GPU 0" in pairs.explain(train)
    other = pairs.explain(train.options(num_gpus=2, name="fit")).splitlines()
    assert other[0] == "fit asks GPU=2; it would go to GPU 0 and GPU 2"
    assert "this machine has GPU=4" in pairs.explain(train.options(num_gpus=5))


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


async def test_explain_when_there_are_many_devices_then_the_chosen_one_is_named(
    pretend: Pretend,
) -> None:
    pretend("rbln")
    async with running(num_gpus=None) as runtime:
        asked = looking(resources={"RBLN": 1}, device="11")
        told = runtime.explain(asked).splitlines()
        assert told[0].endswith("it would go to RBLN 11")
        assert told[-1] == "  and 4 more"
