"""Checks which subpackage imports which, and what is pure.

Every import counts, also one inside a function, for the type checker alone, or by a
string. The table in ARCHITECTURE.md lists what is allowed; an import that it lacks
needs a reason before it is added.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from helpers.source_files import FILES, PACKAGE, imports_of, own_imports_of, tree_of

COMMON = {"_base", "_loops", "_options", "_futures", "_rows", "_core", "exceptions"}
"""The subpackages that all above them may import."""


def read_plan() -> dict[str, set[str]]:
    """Reads what each subpackage may import, the lowest layer first.

    ``""`` is ``actorlib``. The page leaves COMMON out, and for what COMMON itself, the
    object store and mypy's plugin import, ``exceptions``.
    """
    page = Path(__file__).parents[1] / "ARCHITECTURE.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| .* \| ?([^|]*)\|$", text, re.MULTILINE)
    below = COMMON | {"_shm", "mypy"}
    return {
        name if name != "actorlib" else "": {*re.findall(r"`([\w.]+)`", imports)}
        | (COMMON if name not in below else {"exceptions"} - {name})
        for name, imports in reversed(rows)
    }


SUBPACKAGES = read_plan()

IMPORT_ACTORLIB = {"blocking", "_cli", "__main__", "_pytest_plugin"}
"""The subpackages that may import ``actorlib`` itself, as users do."""

DATA = tomllib.loads(
    (Path(__file__).parent / "data" / "structure.toml").read_text(encoding="utf-8")
)
PURE = [
    f"{package}.{file}".strip(".")
    for package, files in DATA["pure"].items()
    for file in files.split()
]
"""What decides from values alone: time, chance and the system come in as arguments."""

IMPURE = {
    *("asyncio", "logging", "os", "random", "secrets", "select", "socket"),
    *("subprocess", "threading", "time"),
}


PACKAGES = sorted(n for n, file in FILES.items() if n and file.stem == "__init__")


def subpackage_of(name: str) -> str:
    """The subpackage of a file; of a feature, those for the owner are another one."""
    subpackage, _, rest = name.partition(".")
    is_of_runtime = rest.rpartition(".")[2].startswith("runtime")
    is_upper = subpackage == "_features" and is_of_runtime
    return "_features.runtime" if is_upper else subpackage


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split())


# Arrows.


def test_subpackages_when_listed_then_every_one_has_its_imports() -> None:
    assert {subpackage_of(name) for name in FILES} == set(SUBPACKAGES)


@pytest.mark.slow
def test_subpackage_when_it_imports_another_then_the_plan_allows_it() -> None:
    allowed = {
        subpackage: {subpackage, *below} for subpackage, below in SUBPACKAGES.items()
    }
    for subpackage in IMPORT_ACTORLIB:
        allowed[subpackage] |= {"", "types"}

    broken = {
        f"{name or 'actorlib'} -> {other or 'actorlib'}"
        for name in FILES
        for other in own_imports_of(name)
        if subpackage_of(other) not in allowed[subpackage_of(name)]
    }

    assert broken == set()


def test_subpackages_when_in_their_order_then_every_import_goes_down() -> None:
    order = list(SUBPACKAGES)

    assert [
        (subpackage, below)
        for place, subpackage in enumerate(order)
        for below in SUBPACKAGES[subpackage]
        if below not in order[:place]
    ] == []


def test_feature_when_it_imports_then_no_other_feature() -> None:
    folders = {name: name.split(".")[1] for name in FILES if "_features." in name}

    assert [
        (name, other)
        for name, folder in folders.items()
        for other in own_imports_of(name)
        if other in folders and folders[other] != folder != "runtime"
    ] == []


@pytest.mark.slow
def test_engine_when_named_then_by_the_runtime_alone() -> None:
    engines = {"_client", "_inline", "_owner", "_ray"}

    assert {
        subpackage_of(name)
        for name in FILES
        for found in own_imports_of(name)
        if subpackage_of(found) in engines - {subpackage_of(name)}
    } == {"_runtime", "_features.runtime"}


@pytest.mark.slow
def test_imports_when_followed_then_there_is_no_cycle() -> None:
    above: list[str] = []
    done: set[str] = set()
    cycles: list[str] = []

    def follow(name: str) -> None:
        if name in above:
            cycles.append(" -> ".join([*above[above.index(name) :], name]))
        elif name not in done:
            above.append(name)
            for other in sorted(own_imports_of(name)):
                follow(other)
            above.pop()
            done.add(name)

    for name in FILES:
        follow(name)

    assert cycles == []


def test_imports_when_of_this_package_then_each_names_a_file() -> None:
    unknown = [
        (name, other)
        for name in FILES
        for other in own_imports_of(name)
        if other not in FILES
    ]

    assert unknown == []


def test_ray_when_looked_for_then_one_file_imports_it() -> None:
    assert [n for n in FILES if "ray" in imports_of(n)] == ["_ray.ray_api"]


# What decides is pure.


def test_pure_file_when_it_imports_then_nothing_that_acts() -> None:
    broken = {
        f"{name} -> {found}"
        for name in PURE
        for found in imports_of(name)
        if found.split(".")[0] in IMPURE
    }

    assert broken == set()


def test_global_when_looked_for_then_one_slot_alone() -> None:
    found = {
        (name, *node.names)
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Global)
    }

    assert found == {("_core.engine", "_engine")}


# Import budgets.


GROUPS = {
    "HEAVY": "numpy pynvml ray rich torch uvloop",
    "ENGINES": "._inline ._owner ._ray ._worker",
}
"""Modules that several budgets have in common."""


@pytest.mark.parametrize("statement", DATA["budgets"])
def test_import_when_in_a_fresh_interpreter_then_it_keeps_to_its_budget(
    statement: str,
) -> None:
    words = [GROUPS.get(word, word) for word in DATA["budgets"][statement].split()]
    forbidden = {
        f"actorlib{word}" if word.startswith(".") else word
        for word in " ".join(words).split()
    }

    assert loaded_by(statement) & forbidden == set()


# Maps.


def test_package_when_it_has_files_then_its_docstring_names_each_and_no_other() -> None:
    wrong = {
        package: sorted(named_in(package) ^ files_in(package)) for package in PACKAGES
    }

    assert {package: names for package, names in wrong.items() if names} == {}


def files_in(package: str) -> set[str]:
    """The files and packages that lie in a package."""
    return {
        name.removeprefix(f"{package}.").partition(".")[0]
        for name in FILES
        if name.startswith(f"{package}.")
    }


def named_in(package: str) -> set[str]:
    """The subpackages that the map of a package names."""
    text = ast.get_docstring(tree_of(package)) or ""
    # A line of the map begins with what it is about: * ``a``, ``b``: ...
    entries = [part.split(":", 1)[0] for part in text.split("\n* ")[1:]]
    return {name for entry in entries for name in entry.split("``")[1::2]}


# Tests.


def test_files_of_tests_when_in_several_folders_then_no_two_have_one_name() -> None:
    # The folders are no packages, so pytest imports each by its name alone.
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []
