"""On a card: PyTorch, JAX and TensorFlow keep to half of it, and not without us.

Each has a control: the same with ``enforcement="off"`` must take more than the share,
or the test would show nothing. Frameworks that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib.accelerators import Device

pytestmark = [pytest.mark.accelerator, pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def memory(gpus: tuple[Device, ...]) -> int:
    """Bytes of the first GPU; skips where there is none whose memory is known."""
    if not gpus or gpus[0].memory is None:
        pytest.skip("no GPU with a known memory")
    return gpus[0].memory


def holder(**options: Any) -> Any:
    """The handle of an actor with half a card, which runs functions."""

    class Holder:
        def run(self, function: Callable[..., Any], *args: Any) -> Any:
            return function(*args)

    decorate: Any = actorlib.remote(num_gpus=0.5, **options)
    return decorate(Holder).remote()


def torch_takes() -> Any:
    def takes(nbytes: int) -> bool:
        import torch  # type: ignore  # pyright: ignore  # noqa: PGH003, PLC0415  # in the actor

        part: Any = torch.cuda if torch.cuda.is_available() else torch.xpu
        device = "cuda" if torch.cuda.is_available() else "xpu"
        held: Any = None
        try:
            held = torch.empty(nbytes, dtype=torch.uint8, device=device)
        except part.OutOfMemoryError:
            return False
        finally:
            del held
            part.empty_cache()
        return True

    return takes


def jax_takes() -> Any:
    def takes(nbytes: int) -> bool:
        import jax  # type: ignore  # pyright: ignore  # noqa: PGH003, PLC0415  # in the actor

        held: Any = None
        try:
            held = jax.numpy.zeros((nbytes,), dtype="uint8").block_until_ready()
        except Exception as error:  # XlaRuntimeError has moved about
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return False
        finally:
            del held
        return True

    return takes


def tensorflow_takes() -> Any:
    def takes(nbytes: int) -> bool:
        import tensorflow as tf  # type: ignore  # pyright: ignore  # noqa: PGH003, PLC0415  # in the actor

        held: Any = None
        try:
            with tf.device("/GPU:0"):
                held = tf.zeros((nbytes,), dtype=tf.uint8)
        except tf.errors.ResourceExhaustedError:
            return False
        finally:
            del held
        return True

    return takes


TAKES = {"torch": torch_takes, "jax": jax_takes, "tensorflow": tensorflow_takes}


@pytest.fixture(params=TAKES)
def takes(request: pytest.FixtureRequest) -> Callable[[int], bool]:
    """Tells whether a framework can take so much; skips where it is not installed."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    made: Callable[[int], bool] = TAKES[request.param]()
    return made


async def test_half_when_a_framework_takes_more_then_it_runs_out_by_itself(
    memory: int, takes: Callable[[int], bool]
) -> None:
    async with actorlib.init():
        actor = holder()

        assert await actor.run.remote(takes, memory * 45 // 100)
        assert not await actor.run.remote(takes, memory * 55 // 100)
        # Who ran out of its share goes on.
        assert await actor.run.remote(takes, memory * 40 // 100)
        assert actor.share.enforced_by != "off"


async def test_control_when_nothing_is_enforced_then_more_than_the_share_is_taken(
    memory: int, takes: Callable[[int], bool]
) -> None:
    async with actorlib.init():
        actor = holder(enforcement="off")

        assert await actor.run.remote(takes, memory * 55 // 100)


@pytest.mark.parametrize("takes", ["torch"], indirect=True)
async def test_neighbours_when_one_runs_out_then_the_other_works_on(
    memory: int, takes: Callable[[int], bool]
) -> None:
    async with actorlib.init():
        greedy, modest = holder(), holder()
        assert await modest.run.remote(takes, memory * 40 // 100)

        assert not await greedy.run.remote(takes, memory * 55 // 100)

        assert await modest.run.remote(takes, memory * 40 // 100)
