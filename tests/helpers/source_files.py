"""The source files of the package, and what each imports."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(actorlib.__file__).parent


def _name_of(file: Path) -> str:
    """``_local.engine`` for a file of the package; ``actorlib`` itself has no name."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}
"""The files of the package by the names of their modules, without ``actorlib``."""


@functools.cache
def text_of(name: str) -> str:
    """Returns the text of a file."""
    return FILES[name].read_text(encoding="utf-8")


@functools.cache
def tree_of(name: str) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(text_of(name))


@functools.cache
def imports_of(name: str) -> frozenset[str]:
    """Returns the full names of everything that a file imports, anywhere in it."""
    return frozenset(_imports(tree_of(name)))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_file = whole.removeprefix("actorlib.") in FILES
                yield whole if is_file else str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The name of a package alone may be that of something else.
            found = FILES.get(node.value.removeprefix("actorlib."))
            is_home = node.value == "actorlib.types"  # as in @public("actorlib.types")
            if (
                node.value.startswith("actorlib.")
                and found
                and found.stem[0] != "_"
                and not is_home
            ):
                yield node.value


def own_imports_of(name: str) -> set[str]:
    """Returns the files of the package that one of them imports."""
    return {
        found.removeprefix("actorlib").removeprefix(".")
        for found in imports_of(name)
        if found.split(".")[0] == "actorlib"
    } - {name}
