from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.actors import running
from helpers.machines import Pretend, asking, changes_in, held_by, looking

import actorlib
from actorlib.exceptions import ActorUnschedulableError

pytestmark = pytest.mark.memory


async def refused(actor: Any) -> str:
    with pytest.raises(ActorUnschedulableError) as caught:
        await actor
    return str(caught.value)


# Ray's documents: "Starting Ray nodes with accelerators". In each case the owner may
# use the devices 1 and 3, and says that it has two.

VARIABLES = [
    ("nvidia_h100x8", "GPU", "CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    ("amd_mi300x", "GPU", "ROCR_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    # What Ray writes by now; below it ROCr's has the numbers of the machine.
    ("amd_mi300x", "GPU", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    # The selector counts what Level Zero's mask leaves: the numbers are in the mask.
    ("intel_max1550", "GPU", "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK"),
    ("intel_max1550", "GPU", "ZE_AFFINITY_MASK", "ZE_AFFINITY_MASK"),
    ("neuron_trn1", "neuron_cores", *["NEURON_RT_VISIBLE_CORES"] * 2),
    ("tpu_v5e", "TPU", *["TPU_VISIBLE_CHIPS"] * 2),
    ("gaudi2", "HPU", *["HABANA_VISIBLE_MODULES"] * 2),
    ("ascend_910b", "NPU", *["ASCEND_RT_VISIBLE_DEVICES"] * 2),
    # And those that the documents do not know yet.
    ("rbln", "RBLN", *["RBLN_DEVICES"] * 2),
    ("rbln", "RBLN", "RBLN_VISIBLE_DEVICES", "RBLN_DEVICES"),
    ("tenstorrent", "TTNPU", *["TT_VISIBLE_DEVICES"] * 2),
    # No machine: what is declared is called as the mask calls it.
    ("bare", "GPU", *["CUDA_VISIBLE_DEVICES"] * 2),
    ("bare", "TPU", *["TPU_VISIBLE_CHIPS"] * 2),
    ("bare", "HPU", *["HABANA_VISIBLE_MODULES"] * 2),
]


def declaring(kind: str, count: int) -> dict[str, Any]:
    """What ``init`` is told, and that the rest is found."""
    return {"num_gpus": None, **asking(kind, count)}


@pytest.mark.parametrize(("machine", "kind", "said", "written"), VARIABLES)
async def test_owner_when_it_may_use_1_and_3_then_its_actors_are_given_these(
    pretend: Pretend, machine: str, kind: str, said: str, written: str
) -> None:
    pretend(machine, **{said: "1,3"})
    async with running(**declaring(kind, 2)) as runtime:
        assert runtime.cluster_resources()[kind] == 2
        actors = [looking(**asking(kind)).remote() for _ in range(2)]

        assert [await held_by(actor) for actor in actors] == [
            {kind: ["1"]},
            {kind: ["3"]},
        ]
        shown = await asyncio.gather(*(actor.environ.remote() for actor in actors))
        assert [environ[written] for environ in shown] == ["1", "3"]
        rows = runtime.snapshot().actors
        assert [row.mask for row in rows] == ["1", "3"]


@pytest.mark.parametrize(("machine", "kind", "said", "written"), VARIABLES)
async def test_owner_when_it_declares_more_than_it_may_use_then_refused_by_that_name(
    pretend: Pretend, machine: str, kind: str, said: str, written: str
) -> None:
    del written
    pretend(machine, **{said: "1,3"})
    with pytest.raises(ValueError, match=rf"3 {kind} declared.*{said}.*1,3"):
        await actorlib.init(**declaring(kind, 3))


@pytest.mark.parametrize("value", ["", "NoDevFiles", "-1"])
@pytest.mark.parametrize(
    ("machine", "kind", "variable"),
    [
        ("nvidia_h100x8", "GPU", "CUDA_VISIBLE_DEVICES"),
        ("amd_mi300x", "GPU", "HIP_VISIBLE_DEVICES"),
        ("intel_max1550", "GPU", "ONEAPI_DEVICE_SELECTOR"),
        ("gaudi2", "HPU", "HABANA_VISIBLE_MODULES"),
        ("furiosa", "FURIOSA", "FURIOSA_DEVICES"),
    ],
)
async def test_owner_when_its_mask_hides_everything_then_there_is_nothing(
    pretend: Pretend, machine: str, kind: str, variable: str, value: str
) -> None:
    pretend(machine, **{variable: value})
    async with running(num_gpus=None) as runtime:
        assert kind not in runtime.cluster_resources()
        assert f"no {kind}" in await refused(looking(**asking(kind)).remote())


# Ray's documents: "Using accelerators in Tasks and Actors", one program per vendor.
# They print the number of the device and the vendor's variable for an actor and a
# task, which is a second actor here. Ids are texts, as in newer versions of Ray: [0] in
# the documents is ['0'].


@pytest.mark.parametrize(
    ("machine", "kind", "variable", "first", "second"),
    [
        ("nvidia_h100x8", "GPU", "CUDA_VISIBLE_DEVICES", "0", "1"),
        ("amd_mi300x", "GPU", "ROCR_VISIBLE_DEVICES", "0", "1"),
        # The document prints "0" and "1". SYCL refuses that without a backend, and
        # counts what Level Zero's mask left, in which the device is the only one.
        (
            "intel_max1550",
            "GPU",
            "ONEAPI_DEVICE_SELECTOR",
            "level_zero:0",
            "level_zero:0",
        ),
        ("neuron_trn1", "neuron_cores", "NEURON_RT_VISIBLE_CORES", "0", "1"),
        ("tpu_v5e", "TPU", "TPU_VISIBLE_CHIPS", "0", "1"),
        ("gaudi2", "HPU", "HABANA_VISIBLE_MODULES", "0", "1"),
        ("ascend_910b", "NPU", "ASCEND_RT_VISIBLE_DEVICES", "0", "1"),
        ("bare", "GPU", "CUDA_VISIBLE_DEVICES", "0", "1"),
        ("bare", "neuron_cores", "NEURON_RT_VISIBLE_CORES", "0", "1"),
        ("bare", "NPU", "ASCEND_RT_VISIBLE_DEVICES", "0", "1"),
    ],
)
async def test_program_when_it_is_the_document_s_then_it_prints_the_same(
    pretend: Pretend,
    capfd: pytest.CaptureFixture[str],
    machine: str,
    kind: str,
    variable: str,
    first: str,
    second: str,
) -> None:
    @actorlib.remote(**asking(kind))
    class Actor:
        def ping(self) -> None:
            import os  # noqa: PLC0415  # the class is sent by value

            context = actorlib.get_runtime_context()
            print(f"{kind} IDs: {context.get_accelerator_ids()[kind]}")  # noqa: T201
            print(f"{variable}: {os.environ[variable]}")  # noqa: T201

    pretend(machine)
    async with running(**declaring(kind, 2)):
        actors = [Actor.remote() for _ in range(2)]
        for actor in actors:
            await actor.ping.remote()
    printed = re.sub(r"(?m)^\(Actor pid=\d+\) ", "", capfd.readouterr().out)
    lines = [
        f"{kind} IDs: ['0']",
        f"{kind} IDs: ['1']",
        f"{variable}: {first}",
        f"{variable}: {second}",
    ]
    assert sorted(printed.splitlines()) == sorted(lines)


async def test_program_when_three_halves_are_on_three_devices_then_they_are_packed(
    pretend: Pretend,
) -> None:
    pretend("bare")
    async with running(num_gpus=3):
        halves = [looking(num_gpus=0.5).remote() for _ in range(3)]

        assert [await half.gpu_ids.remote() for half in halves] == [[0], [0], [1]]


# The switches that forbid us to write.

NOSETS = [
    ("nvidia_h100x8", "GPU", "CUDA_VISIBLE_DEVICES"),
    ("amd_mi300x", "GPU", "HIP_VISIBLE_DEVICES"),
    ("amd_mi300x", "GPU", "ROCR_VISIBLE_DEVICES"),
    ("intel_max1550", "GPU", "ZE_AFFINITY_MASK"),
    ("intel_max1550", "GPU", "ONEAPI_DEVICE_SELECTOR"),
    ("metax_c500", "GPU", "CUDA_VISIBLE_DEVICES"),
    ("tpu_v5e", "TPU", "TPU_VISIBLE_CHIPS"),
    ("neuron_trn1", "neuron_cores", "NEURON_RT_VISIBLE_CORES"),
    ("gaudi2", "HPU", "HABANA_VISIBLE_MODULES"),
    ("ascend_910b", "NPU", "ASCEND_RT_VISIBLE_DEVICES"),
    ("rbln", "RBLN", "RBLN_RT_VISIBLE_DEVICES"),
    ("furiosa", "FURIOSA", "FURIOSA_DEVICES"),
    ("mobilint", "MBLT", "MBLT_RT_VISIBLE_DEVICES"),
    ("tenstorrent", "TTNPU", "TENSTORRENT_VISIBLE_DEVICES"),
]


@pytest.mark.parametrize(("machine", "kind", "variable"), NOSETS)
async def test_a_family_that_is_not_to_be_written_is_still_granted(
    pretend: Pretend, machine: str, kind: str, variable: str
) -> None:
    pretend(machine, **{f"RAY_EXPERIMENTAL_NOSET_{variable}": "1"})
    async with running(num_gpus=None):
        actors = [looking(**asking(kind)).remote() for _ in range(2)]

        for actor in (*actors, looking().remote()):
            assert await changes_in(actor) == {}
        first, second = [(await held_by(actor))[kind] for actor in actors]
        assert first == ["0"]
        assert second not in ([], first)


async def test_the_other_vendor_is_written_all_the_same(
    pretend: Pretend,
) -> None:
    pretend("two_vendors", RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES="1")
    async with running(num_gpus=None):
        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))

        assert (await changes_in(radeon))["ROCR_VISIBLE_DEVICES"] == "0"
        assert "CUDA_VISIBLE_DEVICES" not in await changes_in(radeon)
        assert (await changes_in(geforce))["ROCR_VISIBLE_DEVICES"] == ""
        assert "CUDA_VISIBLE_DEVICES" not in await changes_in(geforce)
        assert await geforce.gpu_ids.remote() == [0]


# The form of NVIDIA's mask.

FIRST = "GPU-005bbd0e-4f7c-11ee-9b60-0c42a10e77d1"
SECOND = "GPU-115bbd0e-4f7c-11ee-9b61-0c42a11e77d1"


@pytest.mark.parametrize(
    ("form", "environ", "ids", "masks"),
    [
        (None, {}, [0, 1], ["0", "1"]),
        ("index", {}, [0, 1], ["0", "1"]),
        ("uuid", {}, [0, 1], [FIRST, SECOND]),
        ("uuid", {"CUDA_VISIBLE_DEVICES": "1,0"}, ["1", "0"], [SECOND, FIRST]),
        (
            None,
            {"CUDA_VISIBLE_DEVICES": f"{SECOND},{FIRST}"},
            [SECOND, FIRST],
            [SECOND, FIRST],
        ),
        (
            "index",
            {"CUDA_VISIBLE_DEVICES": f"{SECOND},{FIRST}"},
            [SECOND, FIRST],
            ["1", "0"],
        ),
        # A beginning that is enough stays as the owner has written it.
        (
            None,
            {"CUDA_VISIBLE_DEVICES": "GPU-115,GPU-005"},
            *[["GPU-115", "GPU-005"]] * 2,
        ),
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
        assert [each["CUDA_VISIBLE_DEVICES"] for each in shown] == masks
        assert shown[0].get("CUDA_DEVICE_ORDER") == (
            "PCI_BUS_ID" if masks[0].isdecimal() else None
        )


async def test_mask_form_when_the_models_differ_then_uuids_unless_indices_are_asked(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mixed")
    for form, mask in (
        (None, "GPU-a1005f3c-5a4e-8d2e-1b1f-7d1d0a6c9e11"),
        ("index", "0"),
    ):
        async with running(num_gpus=None, mask_form=form):
            actor = looking(num_gpus=1).remote()
            assert (await actor.environ.remote())["CUDA_VISIBLE_DEVICES"] == mask
            assert await actor.gpu_ids.remote() == [0]


@pytest.mark.parametrize(
    ("machine", "form"),
    [("nvidia_mig", "index"), ("gaudi2", "uuid"), ("apple_m2_pro", "uuid")],
)
async def test_mask_form_when_it_cannot_be_written_then_init_refuses(
    pretend: Pretend, machine: str, form: Any
) -> None:
    pretend(machine)
    with pytest.raises(ValueError, match=f"mask_form='{form}'"):
        await actorlib.init(mask_form=form)
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
        actors = [looking(num_gpus=1).remote() for _ in range(4)]

        shown = [await actor.environ.remote() for actor in actors]
        masks = [environ["CUDA_VISIBLE_DEVICES"] for environ in shown]
        card = "GPU-7e9b7a8f-6ed8-8ad8-9b43-2fb0ea5b0e30"
        assert masks == [*PARTS, card]
        ids = [await actor.gpu_ids.remote() for actor in actors]
        assert ids == [[PARTS[0]], [PARTS[1]], [PARTS[2]], [2]]


async def test_mig_when_several_are_asked_then_refused_with_the_reason(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig")
    async with running(num_gpus=None) as runtime:
        actor = looking(num_gpus=2)
        said = await refused(actor.remote())

        assert "GPU=2" in said
        assert "one part of a card" in said
        assert "device=" in said
        assert runtime.explain(actor).startswith(said)


async def test_mig_when_two_are_named_then_an_actor_gets_both(pretend: Pretend) -> None:
    pretend("nvidia_mig")
    async with running(num_gpus=None):
        both = looking(num_gpus=2, device=[PARTS[2], PARTS[0][:12]]).remote()

        assert await both.gpu_ids.remote() == [PARTS[0], PARTS[2]]
        mask = (await both.environ.remote())["CUDA_VISIBLE_DEVICES"]
        assert mask == f"{PARTS[0]},{PARTS[2]}"


async def test_mig_when_a_part_is_shared_then_shares_fill_it(pretend: Pretend) -> None:
    pretend("nvidia_mig")
    async with running(num_gpus=None):
        halves = [looking(num_gpus=0.5).remote() for _ in range(3)]

        ids = [await half.gpu_ids.remote() for half in halves]
        assert ids == [[PARTS[0]], [PARTS[0]], [PARTS[1]]]


async def test_mig_when_the_owner_s_mask_names_parts_then_those_alone(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mig", CUDA_VISIBLE_DEVICES=f"{PARTS[1]},{PARTS[0]}")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        actor = looking(num_gpus=1).remote()
        assert await actor.gpu_ids.remote() == [PARTS[1]]


# A family that others are not to suffer from.


async def test_a_driver_that_fails_means_none_and_no_error(
    pretend: Pretend,
) -> None:
    for machine in ("nvidia_upgraded", "nvidia_no_driver"):
        pretend(machine)
        async with running(num_gpus=None) as runtime:
            assert "GPU" not in runtime.cluster_resources()
            assert "GPU" in await refused(looking(num_gpus=1).remote())
