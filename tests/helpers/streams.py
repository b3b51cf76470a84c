"""Actors that make streams, of every kind, and what reads them."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

import actorlib

if TYPE_CHECKING:
    from helpers.actors import Place


class Source:
    """Plain generators."""

    def __init__(self) -> None:
        self.made = 0
        self.closed: list[str] = []
        self.told = threading.Event()

    def items(self, n: int) -> Any:
        try:
            for i in range(n):
                self.made = i + 1
                yield i
        except GeneratorExit:
            self.closed.append("closed")
            raise
        finally:
            self.closed.append("finally")
            self.told.set()

    def endless(self) -> Any:
        self.made = 0
        try:
            while True:
                self.made += 1
                yield self.made
        finally:
            self.closed.append("finally")

    def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    def fails(self, n: int) -> Any:
        yield from range(n)
        raise ValueError("enough")

    def stops(self, place: Place) -> Any:
        yield "first"
        place.stop_here()
        yield "last"

    def yields(self, *values: Any) -> Any:
        yield from values

    def unsendable(self) -> Any:
        yield 1
        try:
            yield threading.Lock, threading.Lock()
        finally:
            self.closed.append("finally")

    def relays(self, source: Any, n: int) -> Any:
        for ref in source.items.remote(n):
            yield ref.get() + 1

    def reads(self, source: Any, method: str, *args: Any) -> list[Any]:
        return [ref.get() for ref in getattr(source, method).remote(*args)]

    def reads_some(self, source: Any, n: int, some: int) -> list[Any]:
        items = source.items.remote(n)
        return [next(items).get() for _ in range(some)]

    def reads_and_stops(self, source: Any, place: Place) -> None:
        items = source.endless.remote()
        next(items)
        place.stop_here()

    def ping(self) -> int:
        return self.made

    def ended(self) -> list[str]:
        return self.closed

    def pid(self) -> int:
        return os.getpid()


class Mixed(Source):
    """The same generators on a loop."""

    async def nothing(self) -> None: ...


class AsyncSource:
    """Async generators, and everything else async too."""

    def __init__(self) -> None:
        self.made = 0
        self.closed: list[str] = []

    async def items(self, n: int) -> Any:
        try:
            for i in range(n):
                self.made = i + 1
                yield i
        except GeneratorExit:
            self.closed.append("closed")
            raise
        finally:
            self.closed.append("finally")

    async def endless(self) -> Any:
        self.made = 0
        try:
            while True:
                self.made += 1
                yield self.made
        finally:
            self.closed.append("finally")

    async def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    async def fails(self, n: int) -> Any:
        for i in range(n):
            yield i
        raise ValueError("enough")

    async def stops(self, place: Place) -> Any:
        yield "first"
        await asyncio.to_thread(place.stop_here)
        yield "last"

    async def sleeps(self) -> Any:
        try:
            yield "first"
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.closed.append("cancelled")
            raise
        finally:
            self.closed.append("finally")

    async def yields(self, *values: Any) -> Any:
        for value in values:
            yield value

    async def unsendable(self) -> Any:
        yield 1
        try:
            yield threading.Lock, threading.Lock()
        finally:
            self.closed.append("finally")

    async def relays(self, source: Any, n: int) -> Any:
        async for ref in source.items.remote(n):
            yield await ref + 1

    async def reads(self, source: Any, method: str, *args: Any) -> list[Any]:
        return [await ref async for ref in getattr(source, method).remote(*args)]

    async def reads_some(self, source: Any, n: int, some: int) -> list[Any]:
        items = source.items.remote(n)
        return [await (await anext(items)) for _ in range(some)]

    async def reads_and_stops(self, source: Any, place: Place) -> None:
        items = source.endless.remote()
        await anext(items)
        await asyncio.to_thread(place.stop_here)

    async def ping(self) -> int:
        return self.made

    async def ended(self) -> list[str]:
        return self.closed

    async def pid(self) -> int:
        return os.getpid()


KINDS = {
    "serial": actorlib.remote(Source),
    "threaded": actorlib.remote(max_concurrency=2)(Source),
    "mixed": actorlib.remote(Mixed),
    "gated": actorlib.remote(max_concurrency=1)(Mixed),
    "async": actorlib.remote(AsyncSource),
    "single": actorlib.remote(max_concurrency=1)(AsyncSource),
}


def kinds(*names: str) -> Any:
    return pytest.mark.parametrize("kind", names or list(KINDS))


def made(kind: str) -> Any:
    return KINDS[kind].remote()


async def all_of(items: Any) -> list[Any]:
    return [await ref async for ref in items]


async def ended(actor: Any) -> list[str]:
    """What the finally blocks of an actor have noted, as soon as one has."""
    while not (told := await actor.ended.remote()):
        pass
    return cast("list[str]", told)
