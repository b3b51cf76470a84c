"""On a machine with an NVIDIA GPU: MPS refuses memory above the share, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

import actorlib
from actorlib.accelerators import Host, discover, inventory

pytestmark = [pytest.mark.accelerator, pytest.mark.process]


@actorlib.remote(num_gpus=0.5)
class Taker:
    """Takes memory of a card by raw CUDA, which no framework limits."""

    def __init__(self) -> None:
        import cuda  # noqa: PLC0415  # in the actor's process, behind its mask

        self._context = cuda.Context()
        self._error = cuda.CudaError

    def multiprocessors(self) -> int:
        """How many there are for this process."""
        return self._context.multiprocessors()

    def takes(self, part: float) -> bool:
        """Whether that part of the whole card can be taken; it is freed again."""
        _, total = self._context.memory()
        try:
            self._context.free(self._context.allocate(int(total * part)))
        except self._error:
            return False
        return True


@pytest.fixture
def card() -> None:
    """Skips where there is no NVIDIA card, or no MPS."""
    found = inventory(discover(Host()), {}).devices["GPU"]
    if not any(device.family == "nvidia" and not device.parent for device in found):
        pytest.skip("no NVIDIA GPU")
    if Host().program("nvidia-cuda-mps-control") is None:
        pytest.skip("no nvidia-cuda-mps-control")


def taker(enforcement: str) -> Any:
    return Taker.options(enforcement=enforcement, max_restarts=1).remote()  # type: ignore[arg-type]  # pyright: ignore  # noqa: PGH003  # one of the words


@pytest.mark.usefixtures("card")
async def test_half_when_raw_cuda_takes_more_then_it_is_refused_and_both_go_on() -> (
    None
):
    async with actorlib.init(num_gpus=1):
        greedy, modest = taker("mps"), taker("mps")

        await greedy
        assert greedy.share.enforced_by == "mps"
        assert not await greedy.takes.remote(0.55)
        assert await modest.takes.remote(0.4)
        assert await greedy.takes.remote(0.4)


@pytest.mark.usefixtures("card")
async def test_control_when_nothing_is_enforced_then_more_than_the_share_is_taken() -> (
    None
):
    async with actorlib.init(num_gpus=1):
        assert await taker("off").takes.remote(0.55)


@pytest.mark.usefixtures("card")
async def test_kill_when_a_neighbour_is_killed_then_the_other_goes_on() -> None:
    async with actorlib.init(num_gpus=1):
        victim, neighbour = taker("mps"), taker("mps")
        assert await victim.takes.remote(0.3)
        assert await neighbour.takes.remote(0.3)

        await actorlib.kill(victim)

        assert await neighbour.takes.remote(0.3)


@pytest.mark.usefixtures("card")
async def test_percentage_when_asked_then_only_as_many_multiprocessors_are_there() -> (
    None
):
    async with actorlib.init(num_gpus=1):
        everything = await taker("mps").multiprocessors.remote()
        half = Taker.options(enforcement="mps", mps_thread_percentage=50).remote()

        # CUDA rounds to what the GPU can divide.
        assert await half.multiprocessors.remote() <= everything / 2 + 2
