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
    "adder.nothing.remote(1)": 'Cannot access attribute "nothing" for class "Adder"',
    "adder.plain.remote()": 'Cannot access attribute "remote" for class "MethodType"',
    'adder.double.remote("1")': f'{WRONG}of type "int" in function "remote"',
    'actorlib.get_actor("a", Adders).add.remote("1")': NUMBER,
    'actorlib.typed(Replicas(Adders, 2)).add.remote("1")': NUMBER,
    "Adders(1)": 'Object of type "_TypedClass[Adder]" is not callable',
}
"""What pyright says of wrong lines of spawned.py."""

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
    assert {Path(entry["file"]) for entry in found} <= {file}
    # That a type is unknown behind an error says nothing new.
    found.sort(key=lambda entry: "Unknown" not in entry.get("rule", ""))
    errors = [entry for entry in found if entry["severity"] == "error"]
    firsts = {entry["range"]["start"]["line"] + 1: entry["message"] for entry in errors}
    return dict(sorted(firsts.items()))


def mypy(file: Path, folder: Path, *plugins: str) -> dict[int, str]:
    """The first error of each line, as mypy finds them."""
    (folder / "mypy.ini").write_text(f"[mypy]\nplugins = {','.join(plugins)}\n")
    command = [sys.executable, "-m", "mypy", "--strict", "-O", "json"]
    ended = subprocess.run(
        [*command, "--cache-dir", str(folder / "cache"), str(file)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in ended.stdout.splitlines() if line]
    own = [entry for entry in found if Path(entry["file"]).name == file.name]
    assert own or not ended.returncode, ended.stdout + ended.stderr
    return {
        entry["line"]: entry["message"]
        for entry in reversed(own)
        if entry["severity"] == "error"
    }


@needs_pyright
@pytest.mark.parametrize(
    "name", ["methods", *rarely("decorated", "functions", "arguments")]
)
def test_pyright_when_it_checks_methods_then_it_rejects_what_is_wrong(
    name: str, tmp_path: Path
) -> None:
    file = HERE / f"{name}.py"

    found = pyright(file, tmp_path)

    assert found.keys() == rejected(file), found


@needs_mypy
@pytest.mark.parametrize(
    ("name", "plugins"),
    rarely(
        ("methods", []),
        ("functions", []),
        ("spawned", []),
        ("arguments", []),
        ("arguments", ["actorlib.mypy"]),
    ),
)
def test_mypy_when_it_checks_methods_then_it_rejects_what_is_wrong(
    name: str, plugins: list[str], tmp_path: Path
) -> None:
    file = HERE / f"{name}.py"

    found = mypy(file, tmp_path, *plugins)

    assert found.keys() == rejected(file), found


@needs_mypy
def test_mypy_when_it_has_the_plugin_then_it_says_what_is_wrong_with_each_call(
    tmp_path: Path,
) -> None:
    file = HERE / "handles.py"

    found = mypy(file, tmp_path, "actorlib.mypy")

    assert by_text(file, found) == MYPY_SAYS


@needs_pyright
def test_pyright_when_it_checks_spawned_handles_then_it_says_what_is_wrong(
    tmp_path: Path,
) -> None:
    file = HERE / "spawned.py"

    found = pyright(file, tmp_path)

    assert by_text(file, found) == PYRIGHT_SAYS


def by_text(file: Path, found: dict[int, str]) -> dict[str, str]:
    """The first lines of errors, by the text of the line that they are of."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert found.keys() == rejected(file)
    return {
        lines[number - 1].partition("#")[0].strip(): said.splitlines()[0]
        for number, said in found.items()
    }
