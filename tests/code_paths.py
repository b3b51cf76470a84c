"""Counts the files of actorlib that a step of work enters.

Run it by ``python tests/code_paths.py``. The code path of a step is everything that the
interpreter calls from a line of the user's until its answer, on every thread. On the
inline engine the owner and the worker are threads of this process, so a path there has
both sides; a restart needs a real process, and its path has the owner's side alone.
Only the public API is imported, so any version can be measured:
``PYTHONPATH=/another python tests/code_paths.py``.

To understand a step is to open the files of its path, so few are good. The turns say
how much subpackages depend on each other: how often a path returns to one that it had
left.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import logging
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import actorlib
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import CodeType, FrameType

    Step = Callable[[], Awaitable[object]]

PACKAGE: Final = Path(actorlib.__file__).parent
GOALS: Final = {
    "a plain call": 16,
    "a call with a ref": 18,
    "a new actor": 45,
    "a crash and a restart": 28,
    "a stream of one item": 24,
    "an item of a stream": 15,
    "a call of a function": 22,
}
"""The number of files that each path should enter."""
WARM_UP: Final = 5
"""What is done for the first time imports and remembers; everyday work does not."""
ROUNDS: Final = 10


class CodePath(NamedTuple):
    """One step of work.

    Attributes:
        files: Every file that was entered, and how often.
        own: Those of them that the thread of the user's loop has entered.
        turns: How often a thread went back into a subpackage that it had left.
    """

    files: Counter[str]
    own: frozenset[str]
    turns: int


class Tracer:
    """Notes which files are entered, on this thread and on all that begin after it."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, str]] | None = None
        self._names: dict[CodeType, str] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    async def trace(self, step: Step) -> CodePath:
        """What some paths have in common, after some that warm up.

        What a worker does once it has answered, and what a timer does meanwhile, falls
        into one path or into the next as it happens: it is in none of them each time.
        """
        for _ in range(WARM_UP):
            await step()
        paths = [await self._trace(step) for _ in range(ROUNDS)]
        shortest = min(paths, key=lambda path: (len(path.files), path.turns))
        always = set(shortest.files).intersection(*(path.files for path in paths))
        return CodePath(
            files=Counter({name: shortest.files[name] for name in always}),
            own=shortest.own & always,
            turns=min(path.turns for path in paths),
        )

    async def _trace(self, step: Step) -> CodePath:
        self._steps = steps = []
        try:
            await step()
        finally:
            self._steps = None
        here = threading.get_ident()
        return CodePath(
            files=Counter(name for _, name in steps),
            own=frozenset(name for thread, name in steps if thread == here),
            turns=sum(map(_turns, _by_thread(steps))),
        )

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        steps = self._steps
        if steps is None or event != "call":
            return
        name = self._names.get(frame.f_code)
        if name is None:
            name = self._names[frame.f_code] = _name_of(frame.f_code.co_filename)
        if name:
            steps.append((threading.get_ident(), name))


def _name_of(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else ""


def _by_thread(steps: list[tuple[int, str]]) -> list[list[str]]:
    threads: dict[int, list[str]] = {}
    for thread, name in steps:
        threads.setdefault(thread, []).append(name)
    return list(threads.values())


def _turns(names: list[str]) -> int:
    """Counts how often a subpackage is entered that was left before."""
    subpackages = [name.split(os.sep, maxsplit=1)[0] for name in names]
    entered = [
        name
        for place, name in enumerate(subpackages)
        if not place or name != subpackages[place - 1]
    ]
    return len(entered) - len(set(entered))


# The steps. The inline engine is one process, so producer and reader share a gate.

GATE: Final = threading.Semaphore(0)


class Callee:
    def echo(self, value: object) -> object:
        return value

    def one_item(self) -> Iterator[int]:
        yield 1

    def items(self) -> Iterator[int]:
        while GATE.acquire():
            yield 1

    def crash(self) -> None:
        os._exit(3)


def twice(value: int) -> int:
    return 2 * value


async def inline_paths(tracer: Tracer) -> dict[str, CodePath]:
    """The paths that have both sides in this process."""
    async with actorlib.init(engine="inline", num_cpus=4):
        actor_class: Any = actorlib.remote(Callee)
        function: Any = actorlib.remote(twice)
        actor, producer = actor_class.remote(), actor_class.remote()
        done = producer.echo.remote(1)
        await done
        living: list[Any] = []
        stream = producer.items.remote()

        async def create() -> None:
            living.append(actor_class.remote())
            await living[-1]

        async def read_one() -> None:
            async for ref in actor.one_item.remote():
                await ref

        async def take() -> None:
            GATE.release()
            await (await anext(stream))

        paths = {
            "a plain call": await tracer.trace(lambda: actor.echo.remote(1)),
            "a call with a ref": await tracer.trace(lambda: actor.echo.remote(done)),
            "a new actor": await tracer.trace(create),
            "a stream of one item": await tracer.trace(read_one),
            "an item of a stream": await tracer.trace(take),
            "a call of a function": await tracer.trace(lambda: function.remote(1)),
        }
        await stream.aclose()
        GATE.release()  # the producer sees only now that nobody reads
        return paths


async def restart_path(tracer: Tracer) -> dict[str, CodePath]:
    """The path of the owner while a worker's process ends and the next one begins."""
    options: Any = {"max_restarts": -1, "restart_backoff": 0}
    async with actorlib.init(num_cpus=4):
        actor = actorlib.remote(**options)(Callee).remote()
        await actor

        async def crash() -> None:
            try:
                await actor.crash.remote()
            except ActorlibError:
                await actor

        return {"a crash and a restart": await tracer.trace(crash)}


def all_paths() -> dict[str, CodePath]:
    """Every path there is a goal for."""
    logging.getLogger("actorlib").setLevel(logging.ERROR)  # each restart is a warning
    with Tracer() as tracer:
        paths = asyncio.run(inline_paths(tracer)) | asyncio.run(restart_path(tracer))
    return {name: paths[name] for name in GOALS}


def _task_of(file: str) -> str:
    """Returns the first line of a module's docstring: why a path needs the file."""
    text = (PACKAGE / file).read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def main() -> None:
    """Shows the paths."""
    words = argparse.ArgumentParser(description="How many files a step enters.")
    words.add_argument(
        "--files", action="store_true", help="list the files, with the task of each"
    )
    words.add_argument("--json", action="store_true", help="only the counts of files")
    asks = words.parse_args()
    paths = all_paths()
    if asks.json:
        print(json.dumps({name: len(path.files) for name, path in paths.items()}))
        return
    print(f"{PACKAGE}, Python {sys.version.split()[0]}\n")
    print(f"{'code path':24} {'files':>5} {'owner':>5} {'turns':>5} {'goal':>5}")
    for name, path in paths.items():
        figures = (len(path.files), len(path.own), path.turns, GOALS[name])
        print(f"{name:24}", *(f"{figure:5}" for figure in figures))
        if asks.files:
            for file in sorted(path.files):
                side = "owner" if file in path.own else ""
                print(f"    {side:5} {file:45} {_task_of(file)}")


if __name__ == "__main__":
    # By its name, so that actors are sent its classes by reference.
    __import__("code_paths").main()
