"""Actors whose methods take long, and tell what became of them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib import ActorHandle

LONG = 3600


class Bell:
    """Tells the test how far the methods of others are."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def ring(self) -> None:
        """Says that the method has begun."""
        self._rung.set()

    async def rung(self) -> None:
        """Waits until one has."""
        await self._rung.wait()
        self._rung.clear()

    async def never(self) -> None:
        """Waits for nothing."""
        await asyncio.Event().wait()


class Plain:
    """Has plain methods that take long, and tells what became of them."""

    def __init__(self, bell: ActorHandle[Any]) -> None:
        self._bell = bell
        self._seen: list[str] = []

    def sleep(self) -> str:
        """Waits in C code, and catches what ends that."""
        try:  # first: it may be interrupted as soon as it rings
            self._bell.ring.remote()
            time.sleep(LONG)
        except KeyboardInterrupt:
            self._seen.append("asleep")
        return "an answer that nobody wants"

    def ask(self) -> None:
        """Waits for another actor."""
        try:
            self._bell.ring.remote()
            actorlib.get(self._bell.never.remote())
        except BaseException as error:
            self._seen.append(type(error).__name__)
            raise

    def items(self) -> Iterator[int]:
        """Takes long between two items."""
        try:
            yield 1
            time.sleep(LONG)
        finally:
            self._seen.append("closed")

    def add(self, seen: str) -> str:
        """Is quick."""
        self._seen.append(seen)
        return seen

    def seen(self) -> list[str]:
        """What was seen since it was asked."""
        seen, self._seen = self._seen, []
        return seen


class Mixed(Plain):
    """The same, with an event loop."""

    async def nap(self) -> None:
        """Waits in a coroutine."""
        try:
            await self._bell.ring.remote()
            await asyncio.sleep(LONG)
        finally:
            self._seen.append("napped")


@actorlib.remote
def long(bell: ActorHandle[Any]) -> None:
    """Takes long."""
    bell.ring.remote()
    time.sleep(LONG)
