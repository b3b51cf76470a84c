"""On a machine with an NVIDIA GPU: CUDA itself sees what an actor was given.

No framework is needed: the driver's own library is asked, in the actor's process.
"""

from __future__ import annotations

import asyncio
import ctypes
import uuid

import pytest

import actorlib
from actorlib.accelerators import Host, discover, inventory

pytestmark = [pytest.mark.accelerator, pytest.mark.process]


@actorlib.remote
class Cuda:
    """Tells what the driver shows this process."""

    def uuids(self) -> list[str] | int:
        """The UUIDs of the visible devices, or the error with which CUDA starts."""
        driver = ctypes.CDLL("libcuda.so.1")
        error = driver.cuInit(0)
        if error:
            return int(error)
        count = ctypes.c_int()
        driver.cuDeviceGetCount(ctypes.byref(count))
        seen: list[str] = []
        for number in range(count.value):
            device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            driver.cuDeviceGet(ctypes.byref(device), number)
            driver.cuDeviceGetUuid_v2(raw, device)
            seen.append(str(uuid.UUID(bytes=bytes(raw))))
        return seen


def cards() -> list[str]:
    """The UUIDs of the cards here, without their prefix; skips where there are none."""
    found = inventory(discover(Host()), {}).devices["GPU"]
    here = [d.uuid for d in found if d.family == "nvidia" and d.uuid]
    if not here:
        pytest.skip("no NVIDIA GPU")
    return [name.removeprefix("GPU-").removeprefix("MIG-") for name in here]


async def test_actor_when_it_holds_a_share_then_cuda_sees_that_card_alone() -> None:
    here = cards()
    async with actorlib.init():
        halves = [Cuda.options(num_gpus=0.5).remote() for _ in range(2 * len(here))]
        seen = await asyncio.gather(*(half.uuids.remote() for half in halves))

    assert seen == [[card] for card in here for _ in range(2)]


async def test_actor_when_it_holds_all_then_cuda_sees_them_in_order() -> None:
    here = cards()
    async with actorlib.init():
        whole = Cuda.options(num_gpus=len(here)).remote()

        assert await whole.uuids.remote() == here


@pytest.mark.parametrize("form", ["index", "uuid"])
async def test_actor_when_the_form_is_set_then_cuda_sees_the_same_card(
    form: str,
) -> None:
    here = cards()
    async with actorlib.init(mask_form=form):  # type: ignore[arg-type]  # one of two
        one = Cuda.options(num_gpus=1).remote()

        assert await one.uuids.remote() == here[:1]


async def test_actor_when_it_asks_for_none_then_cuda_finds_no_device() -> None:
    cards()
    no_device = 100  # CUDA_ERROR_NO_DEVICE
    async with actorlib.init():
        assert await Cuda.remote().uuids.remote() == no_device
