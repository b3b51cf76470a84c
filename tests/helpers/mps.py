"""MPS on a machine without a GPU: a control program on its PATH, and a driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from helpers.machines import Pretend

HERE = Path(__file__).parent
MIB = 2**20


def make_control(folder: Path, **moods: object) -> str:
    """Makes a control program; gives its path.

    Args:
        folder: Where it is, and how it misbehaves.
        **moods: See ``fake_mps_control``; True, or a number of times.
    """
    for name, said in moods.items():
        (folder / name).write_text("" if said is True else str(said))
    program = folder / "nvidia-cuda-mps-control"
    script = HERE / "fake_mps_control.py"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -S -E "{script}" "{folder}" "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def make_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has workers find the fake driver; skips where nothing can make it."""
    driver = _compiled_driver()
    if driver is None:
        pytest.skip("there is no compiler for the fake driver")
    (folder / "libcuda.so.1").write_bytes(driver)
    before = os.environ.get("LD_LIBRARY_PATH")
    paths = f"{folder}:{before}" if before else str(folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", paths)


@lru_cache
def _compiled_driver() -> bytes | None:
    """Compiles the fake driver, once; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "driver.so"
        command = [compiler, "-shared", "-fPIC", "-o", made, HERE / "fake_cuda.c"]
        subprocess.run(command, check=True)
        return made.read_bytes()


def make_machine(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    pretend: Pretend,
    **moods: object,
) -> None:
    """Makes a machine with two GPUs, MPS and the fake driver.

    Args:
        folder: For what it is made of, and for the daemons' folders: of a short name.
        monkeypatch: Undoes it.
        pretend: Makes the owner believe it.
        **moods: See ``make_control``.
    """
    program = make_control(folder, **moods)
    make_driver(folder, monkeypatch)
    host = pretend("nvidia_v100x2", TMPDIR=str(folder))
    host.programs = {"nvidia-cuda-mps-control": program}


def ask(verb: str) -> int:
    """Has the fake driver of this worker ask its daemon; gives the code of CUDA."""
    import ctypes  # noqa: PLC0415  # in the worker

    driver: Any = ctypes.CDLL("libcuda.so.1")
    return int(driver.fake_ask(verb.encode()))
