"""The programs of Ray's documents run with another import and print what those print.

Ids are texts there by now, as here: where the documents print ``[0]`` from
``get_accelerator_ids``, Ray itself prints ``['0']``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.rare_cases import rarely

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "from_ray"
HELPER = ROOT / "tests" / "helpers" / "on_machine.py"
LIMIT = 60.0

pytestmark = [pytest.mark.process, pytest.mark.slow]


class Case(NamedTuple):
    """What a program prints, without the process ids.

    Attributes:
        prints: Its standard output.
        environ: The mask that says whose GPUs those are which ``init`` declares.
        machine: The recorded machine that it has to be on.
    """

    prints: str
    environ: dict[str, str] = {}  # noqa: RUF012  # of a value
    machine: str = ""


def pair(
    actor: str,
    task: str,
    label: str,
    variable: str,
    masks: tuple[str, str] = ("0", "1"),
) -> str:
    return (
        f"({actor}) {label} IDs: ['0']\n({actor}) {variable}: {masks[0]}\n"
        f"({task}) {label} IDs: ['1']\n({task}) {variable}: {masks[1]}\n"
    )


CASES = {
    "nvidia": Case(pair("GPUActor", "gpu_task", "GPU", "CUDA_VISIBLE_DEVICES")),
    "amd": Case(
        pair("GPUActor", "gpu_task", "GPU", "ROCR_VISIBLE_DEVICES"),
        {"ROCR_VISIBLE_DEVICES": "0,1"},
    ),
    # The documents print 0 and 1, which SYCL refuses: it wants a backend, and counts
    # what Level Zero's own mask has left.
    "intel": Case(
        pair(
            "GPUActor",
            "gpu_task",
            "GPU",
            "ONEAPI_DEVICE_SELECTOR",
            ("level_zero:0", "level_zero:0"),
        ),
        {"ONEAPI_DEVICE_SELECTOR": "level_zero:0,1"},
    ),
    "neuron_cores": Case(
        pair(
            "NeuronCoreActor",
            "neuron_core_task",
            "Neuron Core",
            "NEURON_RT_VISIBLE_CORES",
        )
    ),
    "tpu": Case(pair("TPUActor", "tpu_task", "TPU", "TPU_VISIBLE_CHIPS")),
    "gaudi": Case(pair("HPUActor", "hpu_task", "HPU", "HABANA_VISIBLE_MODULES")),
    "ascend": Case(pair("NPUActor", "npu_task", "NPU", "ASCEND_RT_VISIBLE_DEVICES")),
    "get_gpu_ids": Case(
        "(GPUActor) ray.get_gpu_ids(): [0]\n(GPUActor) CUDA_VISIBLE_DEVICES: 0\n"
        "(use_gpu) ray.get_gpu_ids(): [1]\n(use_gpu) CUDA_VISIBLE_DEVICES: 1\n"
    ),
    "framework": Case("a framework sees GPU 0\n"),
    "fractional_gpus": Case(""),
    "fractional_npus": Case(""),
    "packing": Case(
        "(FractionalGPUActor) GPU id: ['0']\n(FractionalGPUActor) GPU id: ['0']\n"
        "(FractionalGPUActor) GPU id: ['1']\n"
    ),
    "leak": Case("True\n"),
    "accelerator_type": Case(
        "This function was run on a node with a Tesla V100 GPU\n",
        machine="nvidia_v100x2",
    ),
    "resource_model": Case(
        "None\non 1 device\nNone\n(gpu_task) [N]\n(gpu_task) N\n",
        machine="nvidia_v100x2",
    ),
    "older_gpus": Case(
        "This function is allowed to use GPUs [N].\nN\n"
        "__init__() should return None, not 'str'\n([N], 'N')\n"
        "GPUActor asks GPU=5; this machine has GPU=4 (0: logical, 1: logical, "
        "2: logical, 3: logical). Lower num_gpus, or give init() more.\n"
    ),
}

USUAL = ("resource_model", "older_gpus", "fractional_gpus")
"""Run by default; the others are variants for other vendors and versions."""

ANY_GPU = ("older_gpus", "resource_model")
"""Which GPU is next depends on when the process before has gone: N is any."""


def test_programs_when_listed_then_each_is_run() -> None:
    assert {program.stem for program in PROGRAMS.glob("*.py")} == set(CASES)


@pytest.mark.parametrize(
    "name", [*USUAL, *rarely(*(name for name in CASES if name not in USUAL))]
)
def test_program_when_run_then_it_prints_what_the_document_prints(name: str) -> None:
    case = CASES[name]
    program = str(PROGRAMS / f"{name}.py")
    command = [str(HELPER), case.machine, program] if case.machine else [program]
    settings = {"PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **settings, **case.environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    printed = re.sub(r" pid=\d+\)", ")", done.stdout)
    if name in (
        "older_gpus",
        "resource_model",
    ):  # which GPU is next depends on when the last one was free
        printed = re.sub(r"(?m)(^|\[|'|\) )\d(?=\]|'|$)", r"\1N", printed)
    assert printed == case.prints
