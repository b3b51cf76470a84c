"""How many files of actorlib a step of work walks through: ``python tests/walks.py``.

A walk is what the interpreter does from a line of the user's until its answer: every
call of a function is noted, on every thread. On the inline engine the owner and the
worker are threads of this process, so a walk there has both sides; a restart needs a
real process, and its walk has the owner's side alone. Only what users see is imported,
so any version can be walked: ``PYTHONPATH=/another python tests/walks.py``.

Who wants to understand a step has the files of its walk to open, so few are good. How
often it turns back into a room that it had left says how much the rooms talk.
"""

from __future__ import annotations

import argparse
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
    "a plain call": 18,
    "a call with a ref": 15,
    "a new actor": 40,
    "a crash and a restart": 25,
    "a stream of one item": 22,
    "an item of a stream": 22,
    "a call of a function": 22,
}
"""How many files each walk is to enter one day."""
WARM_UP: Final = 5
"""What is done for the first time imports and remembers; everyday work does not."""
ROUNDS: Final = 10


class Walk(NamedTuple):
    """One step of work.

    Attributes:
        files: Every file that was entered, and how often.
        own: Those of them that the thread of the user's loop has entered.
        turns: How often a thread went back into a room that it had left.
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

    async def walk(self, step: Step) -> Walk:
        """What some walks have in common, after some that warm up.

        What a worker does once it has answered, and what a timer does meanwhile, falls
        into one walk or into the next as it happens: it is in none of them each time.
        """
        for _ in range(WARM_UP):
            await step()
        walks = [await self._walk(step) for _ in range(ROUNDS)]
        shortest = min(walks, key=lambda walk: (len(walk.files), walk.turns))
        always = set(shortest.files).intersection(*(walk.files for walk in walks))
        return Walk(
            files=Counter({name: shortest.files[name] for name in always}),
            own=shortest.own & always,
            turns=min(walk.turns for walk in walks),
        )

    async def _walk(self, step: Step) -> Walk:
        self._steps = steps = []
        try:
            await step()
        finally:
            self._steps = None
        here = threading.get_ident()
        return Walk(
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
    """How often a room is entered that was left before."""
    rooms = [name.split(os.sep, maxsplit=1)[0] for name in names]
    entered = [room for n, room in enumerate(rooms) if not n or room != rooms[n - 1]]
    return len(entered) - len(set(entered))


# What is walked through. The producer's gate is the reader's: inline is one process.

GATE: Final = threading.Semaphore(0)


class Walker:
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


async def inline_walks(tracer: Tracer) -> dict[str, Walk]:
    """The walks that have both sides in this process."""
    async with actorlib.init(engine="inline", num_cpus=4):
        actor_class: Any = actorlib.remote(Walker)
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

        walks = {
            "a plain call": await tracer.walk(lambda: actor.echo.remote(1)),
            "a call with a ref": await tracer.walk(lambda: actor.echo.remote(done)),
            "a new actor": await tracer.walk(create),
            "a stream of one item": await tracer.walk(read_one),
            "an item of a stream": await tracer.walk(take),
            "a call of a function": await tracer.walk(lambda: function.remote(1)),
        }
        await stream.aclose()
        GATE.release()  # the producer sees only now that nobody reads
        return walks


async def restart_walk(tracer: Tracer) -> dict[str, Walk]:
    """The walk of the owner while a worker's process ends and the next one begins."""
    options: Any = {"max_restarts": -1, "restart_backoff": 0}
    async with actorlib.init(num_cpus=4):
        actor = actorlib.remote(**options)(Walker).remote()
        await actor

        async def crash() -> None:
            try:
                await actor.crash.remote()
            except ActorlibError:
                await actor

        return {"a crash and a restart": await tracer.walk(crash)}


def all_walks() -> dict[str, Walk]:
    """Every walk there is a goal for."""
    logging.getLogger("actorlib").setLevel(logging.ERROR)  # each restart is a warning
    with Tracer() as tracer:
        walks = asyncio.run(inline_walks(tracer)) | asyncio.run(restart_walk(tracer))
    return {name: walks[name] for name in GOALS}


def main() -> None:
    """Shows the walks."""
    words = argparse.ArgumentParser(description="How many files a step walks through.")
    words.add_argument("--files", action="store_true", help="name the files, too")
    words.add_argument("--json", action="store_true", help="only the counts of files")
    asks = words.parse_args()
    walks = all_walks()
    if asks.json:
        print(json.dumps({name: len(walk.files) for name, walk in walks.items()}))
        return
    print(f"{PACKAGE}, Python {sys.version.split()[0]}\n")
    print(f"{'walk':24} {'files':>5} {'owner':>5} {'turns':>5} {'goal':>5}")
    for name, walk in walks.items():
        figures = (len(walk.files), len(walk.own), walk.turns, GOALS[name])
        print(f"{name:24}", *(f"{figure:5}" for figure in figures))
        if asks.files:
            for file, count in sorted(walk.files.items()):
                print(
                    f"    {'owner' if file in walk.own else '     '} {count:4} {file}"
                )


if __name__ == "__main__":
    # By its name, so that actors are sent its classes by reference.
    __import__("walks").main()
