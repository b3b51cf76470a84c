"""On a machine with an NVIDIA GPU: memory above the share is refused, whoever asks.

By MPS where ``nvidia-cuda-mps-control`` is there. By cgroup for root, with the driver's
release 615, cgroup v2 and a cgroup of one's own: for example ``systemd-run --scope -p
Delegate=yes -- python -m pytest -m accelerator tests/hardware/test_shares_hold.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import actorlib
from actorlib._features.cgroup.device_cgroups import device_cgroup_fault
from actorlib.accelerators import Host

if TYPE_CHECKING:
    from actorlib.accelerators import Device

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

    def multiprocessors(self) -> int:
        """How many there are for this process."""
        return self._context.multiprocessors()

    def takes(self, nbytes: int) -> bool:
        """Whether so much can be taken; it is freed again."""
        try:
            self._context.free(self._context.allocate(nbytes))
        except self._error:
            return False
        return True


@pytest.fixture
def memory(card: Device) -> int:
    """That of the card, which has to be whole."""
    if card.parent is not None or card.memory is None:
        pytest.skip("the GPU is a part of a card, or its memory is unknown")
    return card.memory


@pytest.fixture(params=["mps", "cgroup"])
def tier(request: pytest.FixtureRequest) -> str:
    """What holds; skips where it cannot be had."""
    if request.param == "mps" and Host().program("nvidia-cuda-mps-control") is None:
        pytest.skip("no nvidia-cuda-mps-control")
    if request.param == "cgroup" and (fault := device_cgroup_fault(Host())):
        pytest.skip(fault)
    word: str = request.param
    return word


def taker(enforcement: str, **options: Any) -> Any:
    asked: Any = {"enforcement": enforcement, "max_restarts": 1, **options}
    return Taker.options(**asked).remote()


async def test_half_when_raw_cuda_takes_more_then_it_is_refused_and_both_go_on(
    memory: int, tier: str
) -> None:
    async with actorlib.init(num_gpus=1):
        greedy, modest = taker(tier), taker(tier)

        await greedy
        assert greedy.share.enforced_by == tier
        assert not await greedy.takes.remote(int(memory * 0.55))
        assert await modest.takes.remote(int(memory * 0.4))
        assert await greedy.takes.remote(int(memory * 0.4))
        if tier == "cgroup":
            assert await greedy.total.remote() <= memory // 2


async def test_control_when_nothing_is_enforced_then_more_than_the_share_is_taken(
    memory: int,
) -> None:
    async with actorlib.init(num_gpus=1):
        assert await taker("off").takes.remote(int(memory * 0.55))


async def test_half_when_it_changes_hands_then_each_gets_all_of_it(
    memory: int, tier: str
) -> None:
    async with actorlib.init(num_gpus=1):
        modest = taker(tier)
        for _ in range(ROUNDS):
            greedy = taker(tier)
            assert await greedy.takes.remote(int(memory * 0.4))
            await actorlib.kill(greedy)
        assert await modest.takes.remote(int(memory * 0.4))


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("tier", ["mps"], indirect=True)
async def test_percentage_when_asked_then_only_as_many_multiprocessors_are_there(
    tier: str,
) -> None:
    async with actorlib.init(num_gpus=1):
        everything = await taker(tier).multiprocessors.remote()
        half = taker(tier, mps_thread_percentage=50)

        # CUDA rounds to what the GPU can divide.
        assert await half.multiprocessors.remote() <= everything / 2 + 2
