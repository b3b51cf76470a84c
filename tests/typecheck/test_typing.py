"""Type checkers see what ``@method`` promises them; skipped where there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.rare_cases import rarely

import actorlib

HERE = Path(__file__).parent
ROOT = Path(actorlib.__file__).parent.parent
PYRIGHT = Path(sys.executable).parent / "basedpyright"

WRONG = "Argument of type \"Literal['1']\" cannot be assigned to parameter "
NUMBER = f'{WRONG}"number" of type "int" in function "remote"'
PYRIGHT_SAYS = {
    'Adders.spawn("1")': f'{WRONG}"start" of type "int" in function "spawn"',
    'adder.add.remote("1")': NUMBER,
    "adder.add.remote()": 'Argument missing for parameter "number"',
    "adder.missing.remote()": 'Cannot access attribute "missing" for class "Adder"',
    "adder.undecorated.remote()": (
        'Cannot access attribute "remote" for class "MethodType"'
    ),
    'adder.double.remote("1")': f'{WRONG}of type "int" in function "remote"',
    'actorlib.get_actor("a", Adders).add.remote("1")': NUMBER,
    'actorlib.typed(Replicas(Adders, 2)).add.remote("1")': NUMBER,
    "Adders(1)": 'Object of type "_TypedClass[Adder]" is not callable',
}
"""What pyright says of some wrong lines of methods.py."""

A_TEXT = 'Argument 1 to "remote" of "{}" has incompatible type "str"; expected "{}"'
NO_INT = A_TEXT.format("ActorMethod", "int | ObjectRef[int]")
NO_BYTES = A_TEXT.format("ActorMethod", "bytes | ObjectRef[bytes]")
MISSING = 'Missing positional argument "{}" in call to "remote" of "{}"'
MYPY_SAYS = {
    'model.add.remote("1")': NO_INT,
    "model.add.remote()": MISSING.format("number", "ActorMethod"),
    "model.nothing.remote()": '"Plain" has no attribute "nothing"',
    "model.total.remote()": '"Plain" has no method "total"',
    'Model.remote("1")': A_TEXT.format("ActorClass", "int | ObjectRef[int]"),
    'given.echo.remote("")': NO_BYTES,
    'given.double.remote("")': NO_INT,
    "Echo.remote()": MISSING.format("start", "ActorClass"),
    "Echo.options(num_gpu=1)": (
        'Unexpected keyword argument "num_gpu" for "options" of "ActorClass"; '
        'did you mean "num_gpus" or "num_cpus"?'
    ),
    'box.put.remote("1")': NO_INT,
    "untyped.items.remote()": MISSING.format("number", "UntypedMethod"),
    'replicas.echo.remote("")': NO_BYTES,
    "replicas.nothing.remote()": '"Echo" has no attribute "nothing"',
}
"""What mypy says of wrong lines of handles.py, with the plugin."""

needs_mypy = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed"
)
needs_pyright = pytest.mark.skipif(
    not PYRIGHT.exists(), reason="basedpyright is not installed"
)

pytestmark = pytest.mark.slow


Found = dict[str, dict[int, str]]
"""The first error of each line, by the names of the files."""


def rejected(file: Path) -> set[int]:
    """The lines that are marked as errors."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {n for n, line in enumerate(lines, 1) if line.endswith("# rejected")}


def pyright(files: list[Path], folder: Path) -> Found:
    """The errors that basedpyright finds."""
    settings = {
        "include": [*map(str, files)],
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
    entries = json.loads(ended.stdout)["generalDiagnostics"]
    assert {Path(entry["file"]) for entry in entries} <= {*files}
    # That a type is unknown behind an error says nothing new.
    entries.sort(key=lambda entry: "Unknown" not in entry.get("rule", ""))
    found: Found = {file.stem: {} for file in files}
    for entry in entries:
        if entry["severity"] == "error":
            line = entry["range"]["start"]["line"] + 1
            found[Path(entry["file"]).stem][line] = entry["message"]
    return found


def mypy(files: list[Path], folder: Path, *plugins: str) -> Found:
    """The errors that mypy finds."""
    # Where errors are ignored, mypy skips the bodies of functions.
    (folder / "mypy.ini").write_text(
        f"[mypy]\nplugins = {','.join(plugins)}\n"
        "[mypy-actorlib.*]\nignore_errors = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "-O", "json"]
    ended = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), *map(str, files)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    entries = [json.loads(line) for line in ended.stdout.splitlines() if line]
    found: Found = {file.stem: {} for file in files}
    own = [entry for entry in entries if Path(entry["file"]).stem in found]
    assert own or not ended.returncode, ended.stdout + ended.stderr
    for entry in reversed(own):
        if entry["severity"] == "error":
            found[Path(entry["file"]).stem][entry["line"]] = entry["message"]
    return found


def assert_right(files: list[Path], found: Found, says: dict[str, str]) -> None:
    """Each marked line has an error, and no other line has one.

    Args:
        files: The files that were checked.
        found: The errors.
        says: The first line of some errors, by the lines that they are of.
    """
    texts: dict[str, str] = {}
    for file in files:
        errors = found[file.stem]
        assert errors.keys() == rejected(file), errors
        lines = file.read_text(encoding="utf-8").splitlines()
        texts |= {
            lines[number - 1].partition("#")[0].strip(): text.splitlines()[0]
            for number, text in errors.items()
        }
    assert {line: texts.get(line) for line in says} == says


@needs_pyright
@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("methods", PYRIGHT_SAYS),
        *rarely(("decorated functions arguments", {})),
    ],
    ids=["most used", "others"],
)
def test_pyright_when_it_checks_calls_then_it_rejects_what_is_wrong(
    names: str, says: dict[str, str], tmp_path: Path
) -> None:
    files = [HERE / f"{name}.py" for name in names.split()]

    assert_right(files, pyright(files, tmp_path), says)


@needs_mypy
@pytest.mark.parametrize(
    ("names", "plugins", "says"),
    [
        ("handles", ["actorlib.mypy"], MYPY_SAYS),
        *rarely(
            ("arguments", ["actorlib.mypy"], {}),
            ("methods functions arguments", [], {}),
        ),
    ],
    ids=["handles", "arguments", "without the plugin"],
)
def test_mypy_when_it_checks_calls_then_it_rejects_what_is_wrong(
    names: str, plugins: list[str], says: dict[str, str], tmp_path: Path
) -> None:
    files = [HERE / f"{name}.py" for name in names.split()]

    assert_right(files, mypy(files, tmp_path, *plugins), says)
