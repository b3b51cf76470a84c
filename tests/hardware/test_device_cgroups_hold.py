"""On a machine with an NVIDIA GPU, as root: the driver refuses memory above the share.

It needs the driver's release 615 and cgroup v2, and a cgroup of one's own: for example
``systemd-run --scope -p Delegate=yes -- python -m pytest -m accelerator
tests/hardware/test_device_cgroups_hold.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

import actorlib
from actorlib._features.cgroups.device_cgroups import device_cgroup_fault
from actorlib.accelerators import Host, discover, inventory

pytestmark = [pytest.mark.accelerator, pytest.mark.process]

ROUNDS = 20
"""How often a share changes hands: what was kept for the last has to be free again."""


@actorlib.remote(num_gpus=0.5)
class Taker:
    """Takes memory of a card by raw CUDA, which no framework limits."""

    def __init__(self) -> None:
        import cuda  # noqa: PLC0415  # in the actor's process, behind its mask

        self._context = cuda.Context()
        self._error = cuda.CudaError

    def total(self) -> int:
        """What CUDA says that the card has."""
        return int(self._context.memory()[1])

    def takes(self, nbytes: int) -> bool:
        """Whether so much can be taken; it is freed again."""
        try:
            self._context.free(self._context.allocate(nbytes))
        except self._error:
            return False
        return True


@pytest.fixture
def memory() -> int:
    """That of the card; skips where the driver cannot limit it by cgroup."""
    found = inventory(discover(Host()), {}).devices["GPU"]
    whole = [device for device in found if device.source == "NVML"]
    if not whole or whole[0].parent is not None or whole[0].memory is None:
        pytest.skip("no NVIDIA GPU")
    if fault := device_cgroup_fault(Host()):
        pytest.skip(fault)
    return whole[0].memory


def taker(enforcement: str) -> Any:
    return Taker.options(enforcement=enforcement).remote()  # type: ignore[arg-type]  # pyright: ignore  # noqa: PGH003  # one of the words


async def test_half_when_raw_cuda_takes_more_then_it_is_refused_and_both_go_on(
    memory: int,
) -> None:
    async with actorlib.init(num_gpus=1):
        greedy, modest = taker("cgroup"), taker("cgroup")

        await greedy
        assert greedy.share.enforced_by == "cgroup"
        assert not await greedy.takes.remote(int(memory * 0.55))
        assert await modest.takes.remote(int(memory * 0.4))
        assert await greedy.takes.remote(int(memory * 0.4))


async def test_half_when_cuda_is_asked_then_the_card_is_as_large_as_the_share(
    memory: int,
) -> None:
    async with actorlib.init(num_gpus=1):
        assert await taker("cgroup").total.remote() <= memory // 2


async def test_half_when_it_changes_hands_then_each_gets_all_of_it(
    memory: int,
) -> None:
    async with actorlib.init(num_gpus=1):
        modest = taker("cgroup")
        for _ in range(ROUNDS):
            greedy = taker("cgroup")
            assert await greedy.takes.remote(int(memory * 0.4))
            await actorlib.kill(greedy)
        assert await modest.takes.remote(int(memory * 0.4))


async def test_control_when_nothing_is_enforced_then_more_than_the_share_is_taken(
    memory: int,
) -> None:
    async with actorlib.init(num_gpus=1):
        assert await taker("off").takes.remote(int(memory * 0.55))
