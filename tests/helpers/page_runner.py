"""Runs the blocks of a page, one after another, as they are typed at a prompt:
``python tests/helpers/page_runner.py PAGE``.

All blocks have one namespace, and may await. Where none of them starts a runtime there
is one with two logical GPUs. It is a process, so that what a page leaves is its own.
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
sys.path[:0] = [str(ROOT)]

import actorlib  # noqa: E402  # that of this checkout
from docs.building.pages import Page  # noqa: E402  # likewise

if TYPE_CHECKING:
    from docs.building.pages import Block

LIMIT = 60.0


def matches(said: str, printed: str) -> bool:
    """Whether a program has printed what its page says.

    Numbers of three digits and more may be others, such as pids; ``...`` is anything.
    """
    pattern = re.escape(said.strip()).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"\d{3,}", r"\\d+", pattern)
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


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
    blocks = [b for b in page.blocks if b.why_not is None and not b.is_program]
    lines = page.text.splitlines(keepends=True)
    linecache.cache[name] = (len(page.text), None, lines, name)
    main = types.ModuleType("__main__")
    main.__dict__["actorlib"] = actorlib
    sys.modules["__main__"] = main
    async with asyncio.timeout(LIMIT), AsyncExitStack() as stack:
        if not any("init(" in block.code for block in blocks):
            runtime = actorlib.init(num_gpus=2, num_cpus=4)
            main.__dict__["runtime"] = await stack.enter_async_context(runtime)
        for block in blocks:
            await run_block(block, name, main.__dict__)


if __name__ == "__main__":
    actorlib.run(run(Path(sys.argv[1])))
