"""Runs the blocks of a page, one after another, as they are typed at a prompt:
``python tests/helpers/page_runner.py PAGE``.

All blocks have one namespace, and may await. If none of them starts a runtime, they
begin with what ``docs/how-to/index.md`` tells readers to begin with: ``actorlib`` and a
runtime with two logical GPUs. Files that the page tells readers to write are written
into the working directory. This is a process of its own, so a page leaves nothing here.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import linecache
import re
import sys
import types
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path.cwd())]

import actorlib  # noqa: E402  # that of this checkout
from docs.building.pages import Page  # noqa: E402  # likewise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from docs.building.pages import Block

LIMIT = 60.0


def matches(said: str, printed: str) -> bool:
    """Whether a program has printed what its page says.

    Numbers of three digits and more may be others, such as pids; ``...`` is anything.
    """
    pattern = re.escape(said.strip()).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"\d{3,}", r"\\d+", pattern)
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def write_files(blocks: Iterable[Block], folder: Path | None = None) -> None:
    """Writes those that are files; by default into the working directory."""
    for block in blocks:
        if block.file is not None:
            (folder or Path.cwd()).joinpath(block.file).write_text(block.code)


async def run_block(block: Block, name: str, names: dict[str, object]) -> None:
    """Runs one; raises AssertionError if it prints something else than it says."""
    out = io.StringIO()
    code = block.compiled(name)
    assert isinstance(code, types.CodeType)
    with redirect_stdout(out):
        ended = types.FunctionType(code, names)()
        if inspect.iscoroutine(ended):
            await ended
    if block.shows is not None:
        assert matches(block.shows, out.getvalue()), (
            f"{name}:{block.line} says that it prints\n{block.shows}\nand it prints\n"
            f"{out.getvalue()}"
        )


async def run(path: Path) -> None:
    """Runs the blocks of a page that are no programs of their own."""
    page, name = Page.of(path), str(path)
    write_files(page.blocks)
    blocks = [block for block in page.typed if block.why_not is None]
    lines = page.text.splitlines(keepends=True)
    linecache.cache[name] = (len(page.text), None, lines, name)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    async with asyncio.timeout(LIMIT), AsyncExitStack() as stack:
        if not page.starts_runtime:
            runtime = actorlib.init(num_gpus=2, num_cpus=4)
            main.__dict__["actorlib"] = actorlib
            main.__dict__["runtime"] = await stack.enter_async_context(runtime)
        for block in blocks:
            await run_block(block, name, main.__dict__)


if __name__ == "__main__":
    actorlib.run(run(Path(sys.argv[1])))
