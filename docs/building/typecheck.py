"""Type-checks the examples and the Python of all documents, with mypy and pyright.

``python -m docs.building.typecheck`` prints the errors. The blocks of a page become
modules in a temporary folder, in which each line keeps its number, so an error names
the page and the line. A file that readers write is a module, and so is a program with
the blocks that continue it. Blocks that readers type into a notebook are the body of
one ``async def``, as both checkers refuse an ``await`` outside of one.

The options suit users who write no annotations: mypy's defaults, with the plugin and
with the bodies of functions without annotations, and pyright's standard mode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.building.pages import Block, Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
CHECKERS = ("mypy", "pyright")

# What a checker infers without an annotation is enough (var-annotated). Ray's own
# programs define a name again (no-redef), and mypy goes on with the first definition.
# The sources of Ray and PyTorch, where they are installed, take minutes to read.
_MYPY = """
[mypy]
plugins = actorlib.mypy
python_version = 3.11
check_untyped_defs = True
explicit_package_bases = True
ignore_missing_imports = True
disable_error_code = var-annotated
[mypy-actorlib.*]
follow_imports = silent
[mypy-ray.*]
follow_imports = skip
[mypy-torch.*]
follow_imports = skip
[mypy-examples.from_ray.*]
disable_error_code = no-redef, attr-defined
"""
_PYRIGHT = {
    "typeCheckingMode": "standard",
    "pythonVersion": "3.11",
    "reportMissingImports": "none",
    "reportMissingModuleSource": "none",
}


@dataclass(frozen=True)
class Finding:
    """An error that a type checker reports.

    Attributes:
        checker: One of ``CHECKERS``.
        file: The file with the error.
        line: The line in the file, from 1.
        text: The message.
    """

    checker: str
    file: Path
    line: int
    text: str


def modules_of(name: str, page: Page) -> Iterator[tuple[str, str]]:
    """Makes modules of the blocks of a page.

    Args:
        name: The path of the page.
        page: The page.

    Yields:
        The name of each file, and its text.
    """
    stem = name.replace("/", "__").replace("-", "_").replace(".", "_")
    for program in page.programs:
        file = program.block.file or f"{stem}_{program.block.line}.py"
        yield file, program.source(with_wrong=True)
    for block in page.blocks:
        if block.file is not None and not block.is_program:
            yield block.file, "\n" * (block.line - 1) + block.code
    if page.typed:
        yield f"{stem}.py", _session(page)


def _session(page: Page) -> str:
    """Makes a function of the blocks that readers type; its head is in line 2."""
    lines = ["", "async def session():"]
    for block in page.typed:
        lines += [""] * (block.line - 1 - len(lines))
        lines += [line and f"    {line}" for line in block.code.splitlines()]
    return "\n".join([*lines, ""])


def complaints(
    findings: Iterable[Finding], pages: Mapping[str, Page], files: Mapping[Path, str]
) -> list[str]:
    """Lists lines that a checker rejects against the page, or accepts against it.

    Args:
        findings: The errors of the checkers.
        pages: The pages by their paths.
        files: The path of the page of each file.

    Returns:
        A line for each, with the page or the example and its line.
    """
    rows: list[tuple[str, int, str]] = []
    rejected: set[tuple[str, str, int]] = set()
    for finding in findings:
        name = files.get(finding.file) or _relative(finding.file)
        block = _block_at(pages.get(name), finding.line)
        rejected.add((finding.checker, name, finding.line))
        is_expected = block is not None and (
            block.is_wrong or block.checker not in {None, finding.checker}
        )
        if not is_expected:
            text = finding.text.partition("\n")[0]
            rows.append((name, finding.line, f"{finding.checker}: {text}"))
    for name, page in pages.items():
        rows += [
            (name, line, f"{checker} accepts it, and the page marks it as wrong")
            for block in page.blocks
            if block.is_wrong
            for line in _lines_with_code(block)
            for checker in CHECKERS
            if (checker, name, line) not in rejected
        ]
    return [f"{name}:{line}: {text}" for name, line, text in sorted(set(rows))]


def _block_at(page: Page | None, line: int) -> Block | None:
    blocks = [] if page is None else page.blocks
    earlier = [block for block in blocks if block.line <= line]
    return earlier[-1] if earlier else None


def _lines_with_code(block: Block) -> list[int]:
    lines = enumerate(block.code.splitlines(), block.line)
    return [number for number, text in lines if text.partition("#")[0].strip()]


def _relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)


def check(pages: Mapping[str, Page], examples: Iterable[Path]) -> list[str]:
    """Checks pages and files with both type checkers.

    Args:
        pages: The pages by their paths.
        examples: Python files, or folders with some.

    Returns:
        The errors; see ``complaints``.

    Raises:
        ValueError: Two pages write files of the same name, or a page writes one twice.
        RuntimeError: A checker is not installed, or failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        files: dict[Path, str] = {}
        for path, page in pages.items():
            for file, text in modules_of(path, page):
                if folder / file in files:
                    raise ValueError(
                        f"{path} and {files[folder / file]} both write {file}, which "
                        "would be one module: give one of them another name"
                    )
                files[folder / file] = path
                (folder / file).write_text(text, encoding="utf-8")
        sources = [*files, *examples]
        findings = [*_mypy(folder, sources), *_pyright(folder, sources)]
    return complaints(findings, pages, files)


def _mypy(folder: Path, sources: Iterable[Path]) -> Iterator[Finding]:
    (folder / "mypy.ini").write_text(_MYPY, encoding="utf-8")
    output = _output("mypy", "-O", "json", *map(str, sources), cwd=folder)
    for line in output.splitlines():
        row: dict[str, Any] = json.loads(line or "{}")
        if row.get("severity") == "error":
            file = (folder / row["file"]).resolve()
            yield Finding("mypy", file, row["line"], row["message"])


def _pyright(folder: Path, sources: Iterable[Path]) -> Iterator[Finding]:
    # Ray's own programs define a name again, as with mypy.
    ray = {"root": str(ROOT / "examples/from_ray"), "reportRedeclaration": "none"}
    places = [ray, {"root": str(ROOT)}, {"root": str(folder)}]
    settings = {
        **_PYRIGHT,
        "include": [str(source) for source in sources],
        "executionEnvironments": [
            {**place, "extraPaths": [str(ROOT)]} for place in places
        ],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    words = ["--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    output = _output("basedpyright", *words, cwd=folder)
    for row in json.loads(output)["generalDiagnostics"]:
        if row["severity"] == "error":
            line = row["range"]["start"]["line"] + 1
            yield Finding("pyright", Path(row["file"]).resolve(), line, row["message"])


def _output(checker: str, *words: str, cwd: Path) -> str:
    paths = os.pathsep.join((str(cwd), str(ROOT)))
    ended = subprocess.run(
        [sys.executable, "-m", checker, *words],
        cwd=cwd,
        env={**os.environ, "MYPYPATH": paths, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode not in {0, 1}:  # 1: it has found errors
        raise RuntimeError(f"{checker} failed: {ended.stderr or ended.stdout}")
    return ended.stdout


def main() -> int:
    """Checks everything and prints the errors; returns 1 if there are any."""
    docs = (p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "decisions")
    paths = [ROOT / "README.md", *sorted(docs)]
    pages = {_relative(path): Page.of(path) for path in paths}
    notebooks = sorted((ROOT / "examples").rglob("*.ipynb"))
    pages |= {_relative(path): _notebook(path) for path in notebooks}
    errors = check(pages, [ROOT / "examples"])
    sys.stdout.write("".join(f"{line}\n" for line in errors))
    sys.stdout.write(f"{len(errors)} errors in {len(pages)} pages and the examples\n")
    return 1 if errors else 0


def _notebook(path: Path) -> Page:
    """Makes a page of a notebook; lines count all cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return Page("# Notebook\n\n" + "\n".join(f"```python\n{c}\n```\n" for c in codes))


if __name__ == "__main__":
    raise SystemExit(main())
