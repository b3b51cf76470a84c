"""What is compiled is the same code: its types in C are complete, and so are answers.

``.ci/run`` runs the whole suite both ways; here is what has to hold besides.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import actorlib
import hatch_build

PACKAGE = Path(actorlib.__file__).parent
TYPED = sorted(PACKAGE.rglob("*.pxd"))
_SWITCH = "ACTORLIB_PURE"
_LOADS = """
import sys, actorlib, actorlib._owner.engine, actorlib._worker.serial_executor
files = [m.__file__ for n, m in sys.modules.items() if n.startswith("actorlib.")]
print(actorlib.__compiled__, *files)
"""
NEEDS_COMPILED = pytest.mark.skipif(
    not actorlib.__compiled__, reason="nothing is compiled here; see hatch_build.py"
)


class Hook(hatch_build.CompilingHook):
    """A hook without a builder; it is its own face to people."""

    root = str(PACKAGE.parent)

    def __init__(self) -> None:
        self.app = self
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def name_of(file: Path) -> str:
    return str(file.relative_to(PACKAGE).with_suffix(""))


@pytest.mark.parametrize("file", TYPED, ids=name_of)
def test_types_in_c_when_compared_with_the_source_then_no_attribute_lacks(
    file: Path,
) -> None:
    declared = _declared_in(file.read_text(encoding="utf-8"))
    tree = ast.parse(file.with_suffix(".py").read_text(encoding="utf-8"))

    assigned = {
        node.name: _attributes_of(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in declared
    }

    assert {name: names - {"__weakref__"} for name, names in declared.items()} == (
        assigned
    )


@pytest.mark.parametrize("file", TYPED, ids=name_of)
def test_types_in_c_when_compared_with_the_source_then_functions_take_the_same(
    file: Path,
) -> None:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(file.with_suffix(".py").read_text(encoding="utf-8"))
    taken = {
        (node.name, *(argument.arg for argument in node.args.args))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }

    # Without what stands before a name, its type, and what stands behind it.
    declared = {
        (name, *(part.partition("=")[0].split()[-1] for part in given.split(", ")))
        for name, given in re.findall(r"cpdef (?:\w+ )?(\w+)\((.*)\)", text)
    }

    assert declared <= taken


def _declared_in(text: str) -> dict[str, set[str]]:
    """The attributes of each class of a ``.pxd``."""
    found: dict[str, set[str]] = {}
    for whole in re.split(r"^cdef class ", text, flags=re.MULTILINE)[1:]:
        name, _, body = whole.partition(":")
        lines = re.findall(r"^    cdef (?:public )?\w+ (.*)$", body, re.MULTILINE)
        found[name] = {part for line in lines for part in line.split(", ")}
    return found


def _attributes_of(cls: ast.ClassDef) -> set[str]:
    """The attributes that a class gives its instances."""
    return {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_runtime_when_told_to_be_pure_then_nothing_compiled_is_loaded() -> None:
    is_compiled, *files = _run(["-c", _LOADS], is_pure=True).split()

    assert is_compiled == "False"
    assert [file for file in files if not file.endswith(".py")] == []


@pytest.mark.parametrize(
    ("version", "switch", "warnings"),
    [("editable", "", 0), ("standard", "1", 0), ("standard", "", 1)],
    ids=["editable", "told to be pure", "without a compiler"],
)
def test_wheel_when_it_cannot_be_compiled_then_it_is_the_pure_one(
    version: str, switch: str, warnings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_into(*_: Path) -> NoReturn:
        raise SystemExit("error: command 'cc' failed: No such file or directory")

    monkeypatch.setenv(_SWITCH, switch)
    monkeypatch.setattr(hatch_build, "compile_into", compile_into)
    hook, data = Hook(), {"pure_python": True}

    hook.initialize(version, data)
    hook.finalize()

    assert data == {"pure_python": True}
    assert len(hook.warnings) == warnings


@NEEDS_COMPILED
def test_runtime_when_compiled_then_each_file_with_types_in_c_is() -> None:
    is_compiled, *files = _run(["-c", _LOADS], is_pure=False).split()

    assert is_compiled == "True"
    extensions = [Path(file) for file in files if not file.endswith(".py")]
    assert {file.with_name(file.name.partition(".")[0]) for file in extensions} == {
        file.with_suffix("") for file in TYPED
    }


@NEEDS_COMPILED
@pytest.mark.slow
def test_program_when_random_then_it_gets_the_same_answers_both_ways() -> None:
    program = [str(Path(__file__).parent / "helpers" / "random_programs.py"), "60"]

    compiled, pure = (_run(program, is_pure=is_pure) for is_pure in (False, True))

    assert compiled.splitlines() == pure.splitlines()


def _run(words: list[str], *, is_pure: bool) -> str:
    """What Python prints on a command line."""
    environ = {name: text for name, text in os.environ.items() if name != _SWITCH}
    environ["PYTHONPATH"] = str(PACKAGE.parent)
    done = subprocess.run(
        [sys.executable, *words],
        env={**environ, _SWITCH: "1"} if is_pure else environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
