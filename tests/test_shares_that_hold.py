"""Fractional actors' frameworks are told their share, in real workers."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import running
from helpers.frameworks import (
    TENSORFLOW,
    TORCH,
    finders,
    import_torch,
    use_tensorflow,
    use_torch,
    write,
)
from helpers.machines import looking

import actorlib
from actorlib.exceptions import (
    ActorUnschedulableError,
    EnforcementRefused,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.machines import Pretend

pytestmark = pytest.mark.process

JAX = "XLA_PYTHON_CLIENT_MEM_FRACTION"
TOLD = (
    JAX,
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "CUPY_GPU_MEMORY_LIMIT",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
)


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that owner and workers import from, with frameworks that write down."""
    for name in (*TOLD, "XLA_PYTHON_CLIENT_ALLOCATOR"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "site"
    write(folder, TORCH, TENSORFLOW)
    monkeypatch.syspath_prepend(folder)
    return folder


async def told(actor: Any) -> dict[str, str]:
    """The variables that frameworks read, in an actor."""
    environ = await actor.environ.remote()
    return {name: environ[name] for name in TOLD if name in environ}


PART = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "CUPY_GPU_MEMORY_LIMIT": "50%",
}
HALF = {JAX: "0.5", **PART}
LOG = ["init", "0: 0.5", "1: 0.5", "allocated"]


@pytest.mark.parametrize("method", ["template", "spawn"])
async def test_part_when_held_then_every_framework_is_told_before_its_first_use(
    method: Any,
) -> None:
    @actorlib.remote(num_gpus=0.25)
    def limited() -> tuple[str, list[str]]:
        return os.environ[JAX], use_torch()

    async with actorlib.init(num_gpus=1, start_method=method):
        actor = looking(num_gpus=0.5, max_restarts=1).remote()
        assert await told(actor) == HALF
        assert await actor.run.remote(finders) == 1
        assert await actor.run.remote(use_torch) == LOG
        assert await actor.run.remote(finders) == 0

        # The next worker of a restarted actor is told, too.
        await actorlib.kill(actor, no_restart=False)
        await actor
        assert await actor.run.remote(use_torch) == LOG

        # No device comes up for who imports PyTorch and does not use it.
        assert await looking(num_gpus=0.25).remote().run.remote(import_torch) == []
        fraction, log = await limited.remote()
        assert (fraction, log[1]) == ("0.25", "0: 0.25")
    assert "torch" not in sys.modules


async def test_memory_when_known_then_tensorflow_has_its_part_less_the_context(
    pretend: Pretend,
) -> None:
    pretend("nvidia_v100x2")
    async with actorlib.init():
        actor = looking(num_gpus=0.5).remote()

        mib = 16160 // 2 - 512
        assert (await told(actor))["CUPY_GPU_MEMORY_LIMIT"] == str(mib * 2**20)
        assert await actor.run.remote(use_tensorflow) == [
            "listed",
            f"GPU:0: [{mib}]",
            "init",
            "allocated",
        ]


async def test_torch_when_preloaded_then_it_is_told_in_the_worker() -> None:
    async with actorlib.init(num_gpus=1, preload=["torch"]):
        actor = looking(num_gpus=0.25).remote()

        assert (await actor.run.remote(use_torch))[1:] == [
            "0: 0.25",
            "1: 0.25",
            "allocated",
        ]


async def test_torch_when_on_intel_then_its_part_for_that_is_told(
    pretend: Pretend,
) -> None:
    pretend("intel_flex")
    async with actorlib.init():
        actor = looking(num_gpus=0.5).remote()

        assert await told(actor) == {}
        assert len(await actor.run.remote(use_torch, "xpu")) == 4
        assert await actor.run.remote(use_torch, "cuda") == ["init", "allocated"]


async def test_torch_when_its_release_reads_the_option_then_it_stands_behind_theirs(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        site,
        {
            "torch-2.13.0.dist-info/METADATA": "Name: torch\n",
            "torch/lib/libtorch_cuda.so": "",
        },
    )
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    async with actorlib.init(num_gpus=1):
        actor = looking(num_gpus=0.5).remote()

        assert (await told(actor))["PYTORCH_CUDA_ALLOC_CONF"] == (
            "expandable_segments:True,per_process_memory_fraction:0.5"
        )


async def test_worker_when_the_user_says_it_or_nothing_is_enforced_then_it_is_so() -> (
    None
):
    variables = {JAX: "0.1", "PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.9"}
    async with actorlib.init(num_gpus=2):
        actor = looking(num_gpus=0.5, runtime_env={"env_vars": variables}).remote()
        assert await told(actor) == {**variables, **PART}
        assert await actor.run.remote(use_torch) == ["init", "allocated"]
        assert f"{JAX}, PYTORCH_ALLOC_CONF is as it was set" in (
            actor.share.not_stronger_because
        )
        options: list[dict[str, Any]] = [
            {"num_gpus": 1},
            {"num_gpus": 0.5, "enforcement": "off"},
            {},
        ]
        for each in options:
            actor = looking(**each).remote()
            assert await told(actor) == {}, each
            assert await actor.run.remote(finders) == 0
            assert await actor.run.remote(use_torch) == ["init", "allocated"]
    async with actorlib.init(num_gpus=1, enforcement="off"):
        actor = looking(num_gpus=0.5).remote()
        assert await told(actor) == {}
        assert await actor.run.remote(finders) == 0


# What is refused.


async def test_start_when_no_device_can_have_the_tier_then_it_says_so() -> None:
    with pytest.raises(EnforcementRefused, match="GPU 0 was declared, not found"):
        await actorlib.init(num_gpus=1, enforcement="watchdog")


@pytest.mark.memory
async def test_part_when_no_device_can_have_the_tier_then_it_says_so() -> None:
    @actorlib.remote(num_gpus=0.5, enforcement="watchdog")
    def limited() -> None: ...

    async with running(num_gpus=1):
        with pytest.raises(ActorUnschedulableError, match="enforcement='mps', which"):
            await looking(num_gpus=0.5, enforcement="mps").remote()
        with pytest.raises(TaskUnschedulableError, match="enforcement='watchdog'"):
            await limited.remote()


async def test_inline_when_a_tier_is_named_then_it_is_refused() -> None:
    with pytest.raises(EnforcementRefused, match="threads of this process"):
        await actorlib.init(engine="inline", num_gpus=1, enforcement="frameworks")


# What is shown.


@pytest.mark.memory
async def test_share_when_asked_of_a_handle_then_it_says_what_holds() -> None:
    async with running(num_gpus=1) as runtime:
        actor = await looking(num_gpus=0.5).remote()
        share = actor.share

        assert (share.units, share.nbytes, share.enforced_by) == (
            0.5,
            None,
            "frameworks",
        )
        assert [one.device for one in share.devices] == ["0"]
        assert "GPU 0 was declared, not found" in share.not_stronger_because
        (info,) = runtime.snapshot().actors
        assert info.share == share
        said = runtime.explain(actor)
        why = share.not_stronger_because
        assert said.endswith(
            f"\n  0.5 of GPU 0, enforced by frameworks. Why nothing stronger: {why}"
        )


@pytest.mark.memory
async def test_share_when_there_is_none_then_it_is_empty() -> None:
    async with running(num_gpus=1):
        plain = await looking().remote()
        holder = await looking(num_gpus=1).remote()
        waiting = looking(num_gpus=1).remote()

        assert not plain.share
        assert not waiting.share
        assert holder.share.units == 1
        await actorlib.kill(holder)
        await waiting
        assert not holder.share
        assert waiting.share.units == 1


@pytest.mark.memory
async def test_share_when_asked_in_a_worker_then_it_says_where_it_is_known() -> None:
    def asks(handle: Any) -> str:
        try:
            return str(handle.share)
        except RuntimeError as error:
            return str(error)

    async with running(num_gpus=1):
        actor = looking(num_gpus=0.5).remote()

        said = await actor.run.remote(asks, actor)

    assert said.startswith("handle.share is known in the program that started")


@pytest.mark.memory
@pytest.mark.parametrize("engine", [{}, {"engine": "inline"}], ids=str)
async def test_share_when_the_class_has_such_a_method_then_it_is_that(
    engine: Any,
) -> None:
    class Trader:
        def share(self) -> str:
            return "of a company"

    decorate: Any = actorlib.remote(num_gpus=0.5)
    async with running(num_gpus=1, **engine) as runtime:
        trader = decorate(Trader).remote()

        assert await trader.share.remote() == "of a company"
        assert await trader.share.remote() == "of a company"
        (info,) = runtime.snapshot().actors
        assert info.share.units == 0.5


@pytest.mark.memory
async def test_share_when_asked_from_another_thread_then_it_is_the_same() -> None:
    async with running(num_gpus=1):
        actor = await looking(num_gpus=0.5).remote()

        assert await asyncio.to_thread(lambda: actor.share) == actor.share


@pytest.mark.memory
async def test_actor_when_its_device_cannot_have_the_tier_then_it_says_which(
    pretend: Pretend,
) -> None:
    pretend("metax_nvidia")
    async with running(num_gpus=None, enforcement="frameworks") as runtime:
        wrong = looking(num_gpus=0.5, accelerator_type="MXC500").remote()
        right = looking(num_gpus=0.5, accelerator_type="A100").remote()

        with pytest.raises(ActorUnschedulableError, match="takes a limit for metax"):
            await wrong
        assert (await right).share.enforced_by == "frameworks"
        assert runtime.available_resources()["GPU"] == 1.5
