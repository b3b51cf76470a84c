"""Runs the blocks of a page that readers type into a notebook, one after another:
``python tests/helpers/page_runner.py PAGE``.

All blocks have one namespace, and may await. Files that the page tells readers to write
are written into the working directory. This is a process of its own, so a page leaves
nothing behind in the tests.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import linecache
import re
import sys
import types
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path.cwd())]

import actorlib  # noqa: E402  # of this checkout
from docs.building.pages import Page  # noqa: E402  # of this checkout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from docs.building.pages import Block

LIMIT = 60.0


def matches(promise: str, output: str) -> bool:
    """Whether a program has printed what its page promises.

    Numbers of three digits and more may differ, such as pids; ``...`` is anything.
    """
    pattern = re.escape(promise.strip()).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"\d{3,}", r"\\d+", pattern)
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def write_files(blocks: Iterable[Block], folder: Path | None = None) -> None:
    """Writes the blocks that are files; by default into the working directory."""
    for block in blocks:
        if block.file is not None:
            (folder or Path.cwd()).joinpath(block.file).write_text(block.code)


async def run_block(block: Block, name: str, namespace: dict[str, object]) -> None:
    """Runs a block; raises AssertionError if its output is not the promised one."""
    out = io.StringIO()
    code = block.compiled(name)
    assert isinstance(code, types.CodeType)
    with redirect_stdout(out):
        result = types.FunctionType(code, namespace)()
        if inspect.iscoroutine(result):
            await result
    if block.shows is not None:
        assert matches(block.shows, out.getvalue()), (
            f"{name}:{block.line} promises\n{block.shows}\nand prints\n{out.getvalue()}"
        )


async def run(path: Path) -> None:
    """Runs the blocks of a page that are typed into a notebook."""
    page, name = Page.of(path), str(path)
    write_files(page.blocks)
    lines = page.text.splitlines(keepends=True)
    linecache.cache[name] = (len(page.text), None, lines, name)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    async with asyncio.timeout(LIMIT):
        for block in page.typed:
            if block.why_not is None:
                await run_block(block, name, main.__dict__)


if __name__ == "__main__":
    actorlib.run(run(Path(sys.argv[1])))
