"""Runtimes that believe they are on a recorded machine, and actors that look around.

The actors are sent by value: their workers import nothing of this.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import actorlib
from actorlib.exceptions import ActorUnschedulableError
from helpers.nvml import nvidia_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from helpers.host import RecordedHost

_OURS = "ACTORLIB_WORKER"

_WRITTEN = (
    "ALLOW_MULTIPLE_LIBTPU_LOAD",
    "ASCEND_",
    "CLOUD_TPU_",
    "CUDA_",
    "FURIOSA_",
    "GPU_DEVICE_ORDINAL",
    "HABANA_",
    "HIP_",
    "HLS_",
    "JAX_PLATFORMS",
    "MACA_",
    "NEURON_",
    "NVIDIA_",
    "ONEAPI_",
    "PJRT_",
    "QBRUNTIME_",
    "RAY_EXPERIMENTAL_NOSET_",
    "RBLN_",
    "ROCR_",
    "TPU_",
    "TT_",
    "ZE_",
    "ACTORLIB_HIDE_DEVICES",
)
"""How the variables begin that families read or write."""


class Pretend(Protocol):
    """Makes the owner of the next runtime believe that it runs on another machine."""

    def __call__(self, machine: str, /, **environ: str) -> RecordedHost:
        """From here on, the machine is the recorded one of that name.

        Args:
            machine: Its file's name without its ending.
            **environ: Variables of the owner besides the recorded ones.
        """
        ...


def pretender(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """What makes a machine for as long as the test runs.

    The owner's variables are set in this process too: workers inherit them.
    """

    def pretend(machine: str, /, **environ: str) -> RecordedHost:
        host = nvidia_machine(machine, environ=environ)
        for name in list(os.environ):
            if name.startswith(_WRITTEN):
                monkeypatch.delenv(name)
        for name, value in host.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("actorlib._owner.machine.Host", lambda: host)
        return host

    return pretend


def asking(kind: str, amount: float = 1) -> dict[str, Any]:
    """The options that ask for so much of a kind."""
    return {"num_gpus": amount} if kind == "GPU" else {"resources": {kind: amount}}


def looking(**options: Any) -> Any:
    """An actor class with these options whose actors tell what they were given."""

    class Looking:
        def __init__(self, *_: object) -> None:
            self._first = dict(os.environ)

        def environ(self) -> dict[str, str]:
            """All variables, as they were when the constructor ran."""
            return self._first

        def ids(self) -> dict[str, list[str]]:
            """The ids of its devices by kind."""
            return actorlib.get_runtime_context().get_accelerator_ids()

        def gpu_ids(self) -> list[int | str]:
            return actorlib.get_gpu_ids()

        def assigned(self) -> dict[str, float]:
            return actorlib.get_runtime_context().get_assigned_resources()

        def run(self, function: Any, *args: Any) -> Any:
            return function(*args)

    decorate: Any = actorlib.remote
    return decorate(**options)(Looking) if options else decorate(Looking)


async def changes_in(actor: Any) -> dict[str, str | None]:
    """How an actor's variables differ from this process's; None for one that is gone.

    Args:
        actor: The handle of a looking one.
    """
    theirs: Mapping[str, str] = await actor.environ.remote()
    ours = os.environ
    names = {name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)}
    return {name: theirs.get(name) for name in names - {_OURS}}


async def held_by(actor: Any) -> dict[str, list[str]]:
    """The ids of a looking actor's devices, of the kinds that it holds any of."""
    told: Mapping[str, list[str]] = await actor.ids.remote()
    return {kind: ids for kind, ids in told.items() if ids}


def gpus(number: float = 1, **wishes: Any) -> Any:
    """An actor class that holds so many GPUs and looks around."""
    return looking(num_gpus=number, **wishes)


async def ids(*actors: Any) -> list[list[int]]:
    """The ids of the GPUs that each of them was given."""
    return await asyncio.gather(*(actor.gpu_ids.remote() for actor in actors))


async def refused(actor: Any) -> str:
    """Why an actor can never be placed."""
    with pytest.raises(ActorUnschedulableError) as caught:
        await actor
    return str(caught.value)
