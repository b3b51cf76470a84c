"""What a real kernel makes of cells, and of cells that are interrupted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("ipykernel", reason="the extra notebook-test brings it")
nbclient = pytest.importorskip("nbclient", reason="the extra notebook-test brings it")

import nbformat  # noqa: E402  # where it is installed
from jupyter_client.manager import AsyncKernelManager  # noqa: E402  # likewise

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [
    pytest.mark.process,
    pytest.mark.thorough,
    # Of the libraries of kernels: they are run as they are.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parent.parent
LIMIT = 60
PATIENCE = 5


class Cell(NamedTuple):
    """What a cell has shown.

    Attributes:
        text: What was printed meanwhile.
        value: What it gave, as text.
        error: The name of the error that it ended with, or empty.
    """

    text: str
    value: str
    error: str


class Kernel:
    """Runs cells, one after the other."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    async def run(self, code: str, *, interrupt_at: str = "") -> Cell:
        """Runs a cell.

        Args:
            code: Its code.
            interrupt_at: What it prints when it is to be interrupted.
        """
        cell = self._client.execute(code)
        text, value, error, interrupted = "", "", "", 0
        while True:
            patience = PATIENCE if interrupted else LIMIT
            try:
                message = await self._client.get_iopub_msg(timeout=patience)
            except Empty:
                if not 0 < interrupted < LIMIT // PATIENCE:
                    raise
                # A signal that comes right before the kernel's loop sleeps is handled
                # when that wakes. Whoever sees nothing happen interrupts once more.
                interrupted += 1
                await self._manager.interrupt_kernel()
                continue
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text += content["text"]
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "error":
                error = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return Cell(text, value, error)
            if interrupt_at and interrupt_at in text and not interrupted:
                interrupted = 1
                await self._manager.interrupt_kernel()


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    manager = AsyncKernelManager(connection_file=str(tmp_path / "kernel.json"))
    await manager.start_kernel(cwd=str(tmp_path), env={**os.environ, **ENVIRONMENT})
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=LIMIT)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


ENVIRONMENT = {"PYTHONPATH": str(ROOT), "IPYTHONDIR": "", "ACTORLIB_CONTROL": "0"}

CLASS = """
import asyncio, time
import actorlib
import actorlib.blocking as ray

@actorlib.remote
class Plain:
    def __init__(self):
        self.seen = []

    def sleep(self, word):
        try:
            print(word)
            time.sleep(3600)
        except KeyboardInterrupt:
            self.seen.append(word)
            raise

    def say(self, word):
        print(word)

    def get_seen(self):
        seen, self.seen = self.seen, []
        return seen
"""


async def check_interrupts(kernel: Kernel, waits: dict[str, str], ask: str) -> None:
    """Interrupts cells that wait for a method: it is interrupted, too."""
    for word, code in waits.items():
        cell = await kernel.run(code, interrupt_at=word)
        assert cell.error in ("CancelledError", "KeyboardInterrupt"), word
        seen = await kernel.run(ask)
        assert seen == Cell("", f"['{word}']", "")


async def test_cell_when_it_awaits_and_is_interrupted_then_the_method_is_too(
    kernel: Kernel,
) -> None:
    for code in (
        CLASS,
        "runtime = await actorlib.init(num_cpus=2)",
        "plain = await Plain.remote()",
    ):
        assert (await kernel.run(code)).error == ""
    waits = {
        "one": "await plain.sleep.remote('one')",
        "two": "ref = plain.sleep.remote('two'); await ref",
        "three": "await asyncio.gather(plain.sleep.remote('three'))",
        "four": "await actorlib.wait([plain.sleep.remote('four')])",
    }
    await check_interrupts(kernel, waits, "await plain.get_seen.remote()")

    # What an actor has printed by the end of a cell appears in it.
    assert (await kernel.run("other = await Plain.remote()")).error == ""
    for number in range(5):
        cell = await kernel.run(
            f"for one in (plain, other): await one.say.remote('number {number}')"
        )
        shown = [line for line in cell.text.splitlines() if f"number {number}" in line]
        assert len(shown) == 2

    # What a timeout gives up runs on: nobody has interrupted the cell.
    late = await kernel.run(
        "ref = plain.sleep.remote('late')\n"
        "try:\n"
        "    async with asyncio.timeout(0.01): await ref\n"
        "except TimeoutError: print('timeout', ref.done())"
    )
    assert "timeout False" in late.text
    again = await kernel.run("runtime = await actorlib.init(num_cpus=2, reinit=True)")
    assert again.error == ""
    refused = await kernel.run("await actorlib.init()")
    assert refused.error == "RuntimeError"


async def test_cell_when_it_blocks_and_is_interrupted_then_the_method_is_too(
    kernel: Kernel,
) -> None:
    for code in (CLASS, "ray.init(num_cpus=2)\nplain = Plain.remote()"):
        assert (await kernel.run(code)).error == ""
    waits = {
        "one": "ray.get(plain.sleep.remote('one'))",
        "two": "ray.get([plain.sleep.remote('two')])",
        "three": "ray.wait([plain.sleep.remote('three')])",
        "four": "await plain.sleep.remote('four')",
        "five": "await asyncio.sleep(0); ray.get(plain.sleep.remote('five'))",
    }
    await check_interrupts(kernel, waits, "ray.get(plain.get_seen.remote())")
    again = await kernel.run("ray.init(num_cpus=2, reinit=True); ray.is_initialized()")
    assert again == Cell("", "True", "")


async def test_example_when_a_kernel_runs_it_then_its_cells_show_what_they_say(
    tmp_path: Path,
) -> None:
    text = (ROOT / "examples" / "notebook.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook,
        timeout=LIMIT,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    async with client.async_setup_kernel(env={**os.environ, **ENVIRONMENT}):
        for number, cell in enumerate(notebook.cells):
            await client.async_execute_cell(cell, number)
    await asyncio.sleep(0)  # lets the channels of the client end

    shown = {
        cell.source.splitlines()[-1]: cell.outputs
        for cell in notebook.cells
        if cell.cell_type == "code"
    }

    def value(line: str, kind: str = "text/plain") -> str:
        return next(
            output.data[kind]
            for output in shown[line]
            if output.output_type == "execute_result"
        )

    printed = "".join(
        output.text
        for output in shown["await trainer.train.remote(2)"]
        if output.output_type == "stream"
    )
    assert "step 1\n" in printed
    assert "step 2\n" in printed
    assert value("await trainer.train.remote(2)") == "2"
    assert "Trainer" in value("trainer", "text/html")
    assert "<pre" in value("runtime", "text/html")
    assert value("steps >= 2") == "True"
    assert (
        value('sum([y async for y in double.map(range(40), progress="doubling")])')
        == "1560"
    )
