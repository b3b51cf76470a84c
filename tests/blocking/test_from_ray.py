"""The programs of Ray's documents run with another import and print what those print.

Ids are texts there by now, as here: where the documents print ``[0]`` from
``get_accelerator_ids``, Ray itself prints ``['0']``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.rare_cases import rarely

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "from_ray"
HELPER = ROOT / "tests" / "helpers" / "on_machine.py"
LIMIT = 60.0

pytestmark = [pytest.mark.process, pytest.mark.slow]


CASES = tomllib.loads((Path(__file__).parent / "data" / "from_ray.toml").read_text())
USUAL = ("resource_model", "older_gpus")
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
    command = (
        [str(HELPER), case["machine"], program] if "machine" in case else [program]
    )
    settings = {"PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **settings, **case.get("environ", {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    printed = re.sub(r" pid=\d+\)", ")", done.stdout)
    if name in ANY_GPU:
        printed = re.sub(r"(?m)(^|\[|'|\) )\d(?=\]|'|$)", r"\1N", printed)
    assert printed == case["prints"]
