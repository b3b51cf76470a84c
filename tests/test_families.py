"""Actors of a runtime on recorded machines: what they hold, and what they are shown.

What each family reads and writes is in ``tests/accelerators/``: here it reaches actors.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import end_of, running
from helpers.machines import Pretend, asking, changes_in, held_by, looking, refused

import actorlib
from actorlib._options.kinds import KINDS
from actorlib.accelerators import Lease, Share, discover, environment, inventory

if TYPE_CHECKING:
    from actorlib.accelerators import Inventory

pytestmark = pytest.mark.memory

CUDA = "CUDA_VISIBLE_DEVICES"
HIP, ROCR = "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
CUDA_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
NO_INTEL = {"ZE_AFFINITY_MASK": "9999", "ONEAPI_DEVICE_SELECTOR": "!level_zero:*"}
NO_AMD = {ROCR: "", HIP: ""}


def changes_for(known: Inventory, kind: str, ids: list[str]) -> dict[str, str | None]:
    """The variables that a process with these devices has to have, as far as new."""
    devices = {device.id: device for device in known.devices[kind]}
    lease = Lease(amounts={}, shares=tuple(Share(devices[name], 1) for name in ids))
    changes = environment(lease, known, hide=True, environ=os.environ)
    return {n: value for n, value in changes.items() if os.environ.get(n) != value}


# One family.


@pytest.mark.parametrize(
    ("machine", "kind", "first", "second"),
    [
        ("nvidia_h100x8", "GPU", "0", "1"),
        ("amd_mi300x", "GPU", "0", "1"),
        ("intel_max1550", "GPU", "0 1", "2 3"),
        ("metax_c500", "GPU", "0", "1"),
        ("tpu_v5e", "TPU", "0 1", "2 3"),
        # The device between them may not be opened.
        ("neuron_inf2", "neuron_cores", "0 1", "4 5"),
        ("mobilint", "MBLT", "0", "2"),
    ],
)
async def test_actors_when_they_ask_for_devices_then_each_is_shown_its_own(
    pretend: Pretend, machine: str, kind: str, first: str, second: str
) -> None:
    known = inventory(discover(pretend(machine)), {})
    count = len(first.split())
    actor = looking(**asking(kind, count))
    async with running(num_gpus=None) as runtime:
        actors = [actor.remote() for _ in range(2)]
        for one, expected in zip(actors, (first, second), strict=True):
            ids = expected.split()
            assert await one.ids.remote() == {**{name: [] for name in KINDS}, kind: ids}
            assert await changes_in(one) == changes_for(known, kind, ids)
            assert await one.assigned.remote() == {kind: count}
            gpus = list(map(int, ids)) if kind == "GPU" else []
            assert await one.gpu_ids.remote() == gpus

        hidden = looking().remote()
        inheriting = looking(accelerators="inherit").remote()
        assert await changes_in(hidden) == changes_for(known, kind, [])
        assert await changes_in(inheriting) == {}
        assert await held_by(hidden) == await held_by(inheriting) == {}
        types = {device.type for device in known.devices[kind]}
        there = runtime.cluster_resources()
        assert {name for name in there if name.startswith("accelerator_type:")} == {
            f"accelerator_type:{name}" for name in types
        }


async def test_apple_s_gpu_is_told_and_nothing_is_written(
    pretend: Pretend,
) -> None:
    pretend("apple_m2_pro")
    async with running(num_gpus=None) as runtime:
        halves = [looking(num_gpus=0.5).remote() for _ in range(2)]
        nothing = looking().remote()

        for half in halves:
            assert await half.gpu_ids.remote() == [0]
            assert await changes_in(half) == {}
        assert await changes_in(nothing) == {}
        assert runtime.cluster_resources()["accelerator_type:M2-Pro"] == 1
        assert [row.mask for row in runtime.snapshot().actors] == [None] * 3


async def test_a_share_when_the_kind_can_be_divided_then_two_are_on_one_device(
    pretend: Pretend,
) -> None:
    pretend("ascend_910b")
    async with running(num_gpus=None):
        # Ray's document: four actors of a quarter each share one NPU.
        quarters = [looking(resources={"NPU": 0.25}).remote() for _ in range(5)]

        ids = [(await held_by(quarter))["NPU"] for quarter in quarters]
        assert ids == [["0"]] * 4 + [["1"]]


async def test_cores_when_they_share_a_device_then_an_actor_s_are_of_one(
    pretend: Pretend,
) -> None:
    pretend("neuron_trn1")
    async with running(num_gpus=None):
        asked = (1, 2, 1, 4)
        actors = [looking(resources={"neuron_cores": n}).remote() for n in asked]

        ids = [(await held_by(actor))["neuron_cores"] for actor in actors]
        # The second single core fills up the device that the first has begun.
        assert ids == [["0"], ["2", "3"], ["1"], ["4", "5", "6", "7"]]


async def test_a_device_when_its_actor_has_gone_then_the_next_in_line_is_shown_it(
    pretend: Pretend,
) -> None:
    pretend("mobilint")
    async with running(num_gpus=None) as runtime:
        both = looking(resources={"MBLT": 2}).remote()
        last = looking(resources={"MBLT": 1}).remote()
        assert await held_by(both) == {"MBLT": ["0", "2"]}
        ended = end_of(both)
        assert runtime.explain(last).startswith(
            "Looking requests MBLT=1; all of MBLT=2"
        )
        del both
        await ended

        assert await held_by(last) == {"MBLT": ["0"]}


# The owner's own variables.


def declaring(kind: str, count: int) -> dict[str, Any]:
    """What ``init`` is told, and that the rest is found."""
    return {"num_gpus": None, **asking(kind, count)}


@pytest.mark.parametrize(
    ("machine", "kind", "said", "written"),
    [
        ("nvidia_h100x8", "GPU", CUDA, CUDA),
        # What Ray writes by now; below it ROCr's has the numbers of the machine.
        ("amd_mi300x", "GPU", HIP, ROCR),
        # The selector counts what the mask leaves, which has the numbers.
        ("intel_max1550", "GPU", "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK"),
        # No machine: what is declared is called as the mask calls it.
        ("bare", "TPU", "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_CHIPS"),
    ],
)
async def test_owner_when_it_may_use_1_and_3_then_its_actors_are_given_these(
    pretend: Pretend, machine: str, kind: str, said: str, written: str
) -> None:
    pretend(machine, **{said: "1,3"})
    with pytest.raises(ValueError, match=rf"3 {kind} declared.*{said}.*1,3"):
        await actorlib.init(**declaring(kind, 3))
    async with running(**declaring(kind, 2)) as runtime:
        assert runtime.cluster_resources()[kind] == 2
        actors = [looking(**asking(kind)).remote() for _ in range(2)]

        assert [(await held_by(actor))[kind] for actor in actors] == [["1"], ["3"]]
        shown = await asyncio.gather(*(actor.environ.remote() for actor in actors))
        assert [environ[written] for environ in shown] == ["1", "3"]
        assert [row.mask for row in runtime.snapshot().actors] == ["1", "3"]


async def test_owner_when_its_mask_hides_everything_then_there_is_nothing(
    pretend: Pretend,
) -> None:
    pretend("amd_mi300x", **{HIP: "NoDevFiles"})
    async with running(num_gpus=None) as runtime:
        assert "GPU" not in runtime.cluster_resources()
        assert "no GPU" in await refused(looking(num_gpus=1).remote())


@pytest.mark.parametrize(
    ("machine", "kind", "variable", "values"),
    [
        ("nvidia_h100x8", "GPU", CUDA, ("0", "1")),
        # Ray's prints "0" and "1". SYCL refuses that without a backend, and counts what
        # Level Zero's mask left, in which the device is the only one.
        ("intel_max1550", "GPU", "ONEAPI_DEVICE_SELECTOR", ("level_zero:0",) * 2),
    ],
)
async def test_program_when_it_is_of_ray_s_documents_then_it_prints_the_same(
    pretend: Pretend,
    capfd: pytest.CaptureFixture[str],
    machine: str,
    kind: str,
    variable: str,
    values: tuple[str, str],
) -> None:
    """Ids are texts, as in newer versions of Ray: [0] in its documents is ['0']."""

    @actorlib.remote(**asking(kind))
    class Actor:
        def ping(self) -> None:
            import os  # noqa: PLC0415  # the class is sent by value

            context = actorlib.get_runtime_context()
            print(f"{kind} IDs: {context.get_accelerator_ids()[kind]}")  # noqa: T201
            print(f"{variable}: {os.environ[variable]}")  # noqa: T201

    pretend(machine)
    async with running(**declaring(kind, 2)):
        for actor in [Actor.remote() for _ in range(2)]:
            await actor.ping.remote()
    printed = re.sub(r"(?m)^\(Actor pid=\d+\) ", "", capfd.readouterr().out)
    ids = [f"{kind} IDs: ['{number}']" for number in range(2)]
    lines = [*ids, *(f"{variable}: {value}" for value in values)]
    assert sorted(printed.splitlines()) == sorted(lines)


async def test_a_family_that_is_not_to_be_written_is_still_granted(
    pretend: Pretend,
) -> None:
    pretend("gaudi2", RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES="1")
    async with running(num_gpus=None):
        actors = [looking(resources={"HPU": 1}).remote() for _ in range(2)]

        for actor in (*actors, looking().remote()):
            assert await changes_in(actor) == {}
        assert [(await held_by(actor))["HPU"] for actor in actors] == [["0"], ["1"]]


# The form of NVIDIA's mask.

FIRST = "GPU-005bbd0e-4f7c-11ee-9b60-0c42a10e77d1"
SECOND = "GPU-115bbd0e-4f7c-11ee-9b61-0c42a11e77d1"


@pytest.mark.parametrize(
    ("form", "environ", "ids", "masks"),
    [
        ("uuid", {CUDA: "1,0"}, ["1", "0"], [SECOND, FIRST]),
        ("index", {CUDA: f"{SECOND},{FIRST}"}, [SECOND, FIRST], ["1", "0"]),
    ],
)
async def test_mask_form_when_given_then_masks_are_written_so_and_ids_stay(
    pretend: Pretend,
    form: Any,
    environ: dict[str, str],
    ids: list[Any],
    masks: list[str],
) -> None:
    pretend("nvidia_h100x8", **environ)
    async with running(num_gpus=None, mask_form=form):
        actors = [looking(num_gpus=1).remote() for _ in range(2)]

        told = await asyncio.gather(*(actor.gpu_ids.remote() for actor in actors))
        assert told == [[name] for name in ids]
        shown = await asyncio.gather(*(actor.environ.remote() for actor in actors))
        assert [each[CUDA] for each in shown] == masks


async def test_mask_form_when_it_cannot_be_written_then_init_refuses(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig")
    with pytest.raises(ValueError, match="mask_form='index'"):
        await actorlib.init(mask_form="index")
    assert not actorlib.is_initialized()


# MIG.

PARTS = [
    "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
    "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
    "MIG-5cf89db4-7b5d-5d5c-8c0d-6a5a6a4f0ea1",
]


async def test_mig_when_one_is_asked_then_each_actor_has_a_part_or_a_card(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 4
        pair = looking(num_gpus=2)
        said = await refused(pair.remote())
        assert "GPU=2" in said
        assert "one part of a card" in said
        assert "device=" in said
        assert runtime.explain(pair).startswith(said)

        actors = [looking(num_gpus=1).remote() for _ in range(4)]
        shown = [await actor.environ.remote() for actor in actors]
        card = "GPU-7e9b7a8f-6ed8-8ad8-9b43-2fb0ea5b0e30"
        assert [environ[CUDA] for environ in shown] == [*PARTS, card]
        ids = [await actor.gpu_ids.remote() for actor in actors]
        assert ids == [[PARTS[0]], [PARTS[1]], [PARTS[2]], [2]]


async def test_mig_when_two_are_named_then_an_actor_gets_both_and_shares_fill_others(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig")
    async with running(num_gpus=None):
        both = looking(num_gpus=2, device=[PARTS[2], PARTS[0][:12]]).remote()
        assert await both.gpu_ids.remote() == [PARTS[0], PARTS[2]]
        assert (await both.environ.remote())[CUDA] == f"{PARTS[0]},{PARTS[2]}"

        halves = [looking(num_gpus=0.5).remote() for _ in range(3)]
        ids = [await half.gpu_ids.remote() for half in halves]
        assert ids == [[PARTS[1]], [PARTS[1]], [2]]


async def test_mig_when_the_owner_s_mask_names_parts_then_those_alone(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig", CUDA_VISIBLE_DEVICES=f"{PARTS[1]},{PARTS[0]}")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        actor = looking(num_gpus=1).remote()
        assert await actor.gpu_ids.remote() == [PARTS[1]]


# Several families.


async def test_two_vendors_are_granted_side_by_side_and_never_to_one_actor(
    pretend: Pretend,
) -> None:
    pretend("two_vendors")
    async with running(num_gpus=None) as runtime:
        there = runtime.cluster_resources()
        assert there["GPU"] == 3  # the CPU's own graphics are not among them
        assert "TPU" not in there  # and the NPU at /dev/accel/accel0 is none
        said = await refused(looking(num_gpus=3).remote())
        assert "GPU=3" in said
        assert "one vendor" in said

        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))
        assert await changes_in(radeon) == {ROCR: "0", HIP: "0", CUDA: "", **NO_INTEL}
        assert await changes_in(geforce) == {
            CUDA: "0",
            **CUDA_ORDER,
            **NO_AMD,
            **NO_INTEL,
        }
        # One of each is free, and they are no pair.
        pair = looking(num_gpus=2).remote()
        ref = pair.environ.remote()
        await actorlib.kill(radeon)
        assert not ref.done()
        await actorlib.kill(geforce)
        assert (await changes_in(pair))[CUDA] == "0,1"
        nothing = looking().remote()
        assert await changes_in(nothing) == {CUDA: "", **NO_AMD, **NO_INTEL}


async def test_two_vendors_when_the_owner_masks_one_then_the_other_is_untouched(
    pretend: Pretend,
) -> None:
    pretend("two_vendors", HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))

        assert await radeon.gpu_ids.remote() == ["0"]
        assert (await radeon.environ.remote())[CUDA] == ""
        assert await geforce.gpu_ids.remote() == ["1"]
        shown = await geforce.environ.remote()
        assert (shown[CUDA], shown[HIP]) == ("1", "")


async def test_two_vendors_when_one_is_not_to_be_written_then_the_other_is(
    pretend: Pretend,
) -> None:
    pretend("two_vendors", RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES="1")
    async with running(num_gpus=None):
        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))

        for actor, mask in ((radeon, "0"), (geforce, "")):
            changes = await changes_in(actor)
            assert changes[ROCR] == mask
            assert CUDA not in changes
        assert await geforce.gpu_ids.remote() == [0]


async def test_devices_of_two_kinds_when_asked_together_then_both_are_shown(
    pretend: Pretend,
) -> None:
    pretend("two_vendors")
    async with running(num_gpus=None, resources={"TPU": 2}):
        # Declared and not there; the runtime hands them out all the same.
        both = looking(num_gpus=1, resources={"TPU": 2}).remote()
        assert await held_by(both) == {"GPU": ["0"], "TPU": ["0", "1"]}
        shown = await both.environ.remote()
        assert (shown[ROCR], shown["TPU_VISIBLE_CHIPS"]) == ("0", "0,1")

        # JAX is not sent to the CPU where it has a GPU.
        shown = await looking(num_gpus=1).remote().environ.remote()
        assert shown["TPU_VISIBLE_CHIPS"] == ""
        assert shown.get("JAX_PLATFORMS") != "cpu"


@pytest.mark.parametrize("machine", ["bluefield", "laptop_npu", "nvidia_upgraded"])
async def test_files_that_look_like_an_accelerator_are_none(
    pretend: Pretend, machine: str
) -> None:
    pretend(machine)
    async with running(num_gpus=None) as runtime:
        assert set(runtime.cluster_resources()) == {"CPU", "memory"}
        assert await changes_in(looking().remote()) == {}
        assert "GPU" in await refused(looking(num_gpus=1).remote())
