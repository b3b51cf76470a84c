"""Runs random programs and prints their answers: ``python random_programs.py COUNT``.

The same in every run, so two builds of the package can be compared.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING, Any, Final

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator


class Plain:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.held: list[object] = []

    def add(self, *values: Any) -> Any:
        """Gives back what it gets: one value as it is."""
        self.held += values
        return values[0] if len(values) == 1 else values

    def fail(self, value: object) -> None:
        """Raises."""
        raise ValueError(value)

    def state(self, *, last: object = None) -> object:
        """Tells how much it has."""
        return len(self.held), last

    def items(self, count: int) -> Iterator[int]:
        """Gives items."""
        yield from range(count)


VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -1, 127, 128, -33, 2**31, 2**63 - 1, 2**63, 2**64 - 1),
    *(2**64, -(2**63), -(2**63) - 1, 0.0, -1.5, float("inf"), 1 + 2j, "", "text"),
    *("x" * 256, "x" * 257, "\u00e9", "\ud800", "\x00", b"", b"bytes", bytes(70_000)),
    *((), (1, 2), [1, [2]], {"a": 1}, {1: None}, {1, 2}, range(3), dict, len),
]


async def run(number: int) -> list[object]:
    """Runs one program; gives its answers."""
    chance = random.Random(number)
    actor_class: Any = actorlib.remote(Plain)
    options = chance.choice([{}, {"max_task_retries": 2, "max_restarts": 2}])
    async with actor_class.options(**options).remote() as handle:
        refs: list[Any] = [handle.state.remote()]
        batches: list[Any] = []
        for _ in range(chance.randrange(40)):
            count = chance.choice([0, 1, 1, 1, 2, 16, 17])
            values = [chance.choice(VALUES) for _ in range(count)]
            match chance.choice(["add"] * 5 + ["fail", "state", "ref", "map", "wait"]):
                case "add":
                    refs.append(handle.add.remote(*values))
                case "fail":
                    refs.append(handle.fail.remote(chance.random()))
                case "state":
                    refs.append(handle.state.remote(last=chance.choice(VALUES)))
                case "ref":
                    refs.append(handle.add.remote(chance.choice(refs)))
                case "map":
                    batches.append(handle.add.map(range(3)))
                case _:
                    await asyncio.wait([asyncio.shield(refs[-1])])
        answers: list[object] = [*await asyncio.gather(*refs, return_exceptions=True)]
        stream = handle.items.remote(chance.randrange(20))
        answers += [await batch for batch in batches]
        return answers + [await item async for item in stream]


def told(answer: object) -> str:
    """What is compared of an answer."""
    if isinstance(answer, BaseException):
        lines = [*str(answer).splitlines(), ""]
        return f"{type(answer).__name__}: {lines[0]}"
    return ascii((type(answer).__name__, answer))[:200]


async def main(count: int) -> None:
    """Runs so many programs."""
    async with actorlib.init(num_cpus=4, engine="inline"):
        for number in range(count):
            for answer in await run(number):
                print(number, told(answer))  # noqa: T201  # what it is for


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
