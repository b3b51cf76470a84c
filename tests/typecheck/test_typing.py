"""Type checkers see what ``@method`` promises them; skipped where there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import actorlib

HERE = Path(__file__).parent
ROOT = Path(actorlib.__file__).parent.parent
PYRIGHT = Path(sys.executable).parent / "basedpyright"

needs_mypy = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed"
)
needs_pyright = pytest.mark.skipif(
    not PYRIGHT.exists(), reason="basedpyright is not installed"
)

pytestmark = pytest.mark.slow


def rejected(file: Path) -> set[int]:
    """The lines that are marked as errors."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {n for n, line in enumerate(lines, 1) if line.endswith("# rejected")}


def pyright(file: Path, folder: Path) -> dict[int, str]:
    """The first error of each line, as basedpyright finds them."""
    settings = {
        "include": [str(file)],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    ended = subprocess.run(
        [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(ended.stdout)["generalDiagnostics"]
    assert {Path(entry["file"]) for entry in found} == {file}
    return {
        entry["range"]["start"]["line"] + 1: entry["message"]
        for entry in reversed(found)
        if entry["severity"] == "error"
    }


def mypy(file: Path, folder: Path) -> dict[int, str]:
    """The first error of each line, as mypy finds them."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "-O", "json"]
    ended = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), str(file)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    own = [entry for entry in found if Path(entry["file"]).name == file.name]
    assert own, ended.stdout + ended.stderr
    return {
        entry["line"]: entry["message"]
        for entry in reversed(own)
        if entry["severity"] == "error"
    }


@needs_pyright
@pytest.mark.parametrize("name", ["methods", "decorated", "functions"])
def test_pyright_when_it_checks_methods_then_it_rejects_what_is_wrong(
    name: str, tmp_path: Path
) -> None:
    file = HERE / f"{name}.py"

    found = pyright(file, tmp_path)

    assert found.keys() == rejected(file), found


@needs_mypy
@pytest.mark.parametrize("name", ["methods", "functions"])
def test_mypy_when_it_checks_methods_then_it_rejects_what_is_wrong(
    name: str, tmp_path: Path
) -> None:
    file = HERE / f"{name}.py"

    found = mypy(file, tmp_path)

    assert found.keys() == rejected(file), found
