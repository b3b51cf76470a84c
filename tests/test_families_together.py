from __future__ import annotations

import pytest
from helpers.actors import running
from helpers.machines import Pretend, changes_in, held_by, looking

import actorlib
from actorlib.exceptions import ActorUnschedulableError

pytestmark = pytest.mark.memory

CUDA_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
NO_INTEL = {"ZE_AFFINITY_MASK": "9999", "ONEAPI_DEVICE_SELECTOR": "!level_zero:*"}
NO_AMD = {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}


async def test_two_vendors_are_granted_side_by_side_and_never_to_one_actor(
    pretend: Pretend,
) -> None:
    pretend("two_vendors")
    async with running(num_gpus=None) as runtime:
        there = runtime.cluster_resources()
        assert there["GPU"] == 3  # the CPU's own graphics are not among them
        assert "TPU" not in there  # and the NPU at /dev/accel/accel0 is none
        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))
        assert await changes_in(radeon) == {
            "ROCR_VISIBLE_DEVICES": "0",
            "HIP_VISIBLE_DEVICES": "0",
            "CUDA_VISIBLE_DEVICES": "",
            **NO_INTEL,
        }
        assert await changes_in(geforce) == {
            "CUDA_VISIBLE_DEVICES": "0",
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
        assert (await changes_in(pair))["CUDA_VISIBLE_DEVICES"] == "0,1"
        nothing = looking().remote()
        assert await changes_in(nothing) == {
            "CUDA_VISIBLE_DEVICES": "",
            **NO_AMD,
            **NO_INTEL,
        }


async def test_two_vendors_when_three_are_asked_then_refused_with_the_reason(
    pretend: Pretend,
) -> None:
    pretend("two_vendors")
    async with running(num_gpus=None):
        with pytest.raises(ActorUnschedulableError) as caught:
            await looking(num_gpus=3).remote()
    assert "GPU=3" in str(caught.value)
    assert "one vendor" in str(caught.value)


async def test_two_vendors_when_the_owner_masks_one_then_the_other_is_untouched(
    pretend: Pretend,
) -> None:
    pretend("two_vendors", HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        radeon, geforce = (looking(num_gpus=1).remote() for _ in range(2))

        assert await radeon.gpu_ids.remote() == ["0"]
        assert (await radeon.environ.remote())["CUDA_VISIBLE_DEVICES"] == ""
        assert await geforce.gpu_ids.remote() == ["1"]
        shown = await geforce.environ.remote()
        assert shown["CUDA_VISIBLE_DEVICES"] == "1"
        assert shown["HIP_VISIBLE_DEVICES"] == ""


async def test_devices_of_two_kinds_when_asked_together_then_both_are_shown(
    pretend: Pretend,
) -> None:
    pretend("two_vendors")
    async with running(num_gpus=None, resources={"TPU": 2}):
        # Declared and not there; the runtime hands them out all the same.
        both = looking(num_gpus=1, resources={"TPU": 2}).remote()

        assert await held_by(both) == {"GPU": ["0"], "TPU": ["0", "1"]}
        shown = await both.environ.remote()
        assert shown["ROCR_VISIBLE_DEVICES"] == "0"
        assert shown["TPU_VISIBLE_CHIPS"] == "0,1"


@pytest.mark.parametrize("machine", ["bluefield", "laptop_npu", "bare"])
async def test_files_that_look_like_an_accelerator_are_none(
    pretend: Pretend, machine: str
) -> None:
    pretend(machine)
    async with running(num_gpus=None) as runtime:
        assert set(runtime.cluster_resources()) == {"CPU", "memory"}
        assert await changes_in(looking().remote()) == {}


async def test_hiding_a_tpu_when_the_actor_has_a_gpu_then_jax_is_not_sent_to_the_cpu(
    pretend: Pretend,
) -> None:
    pretend("nvidia_mixed")
    async with running(num_gpus=None, resources={"TPU": 1}):
        shown = await looking(num_gpus=1).remote().environ.remote()

        assert shown["TPU_VISIBLE_CHIPS"] == ""
        assert shown.get("JAX_PLATFORMS") != "cpu"
