"""Streams of actors of every kind: endless ones, large items, and their ends.

What holds for every engine and kind of callee is in ``tests/contract/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import living, running

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError

if TYPE_CHECKING:
    from actorlib import ActorHandle

pytestmark = [pytest.mark.memory]

MIB = 1024 * 1024


class Source:
    """Plain generators, which count what they make and write down how they end."""

    def __init__(self) -> None:
        self.made = 0

    def items(self, log: str, n: int) -> Any:
        try:
            yield from range(n)
        finally:
            Path(log).write_text("finally", encoding="utf-8")

    def endless(self) -> Any:
        while True:
            self.made += 1
            yield self.made

    def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    def count(self) -> int:
        return self.made


class Mixed(Source):
    """The same generators on a loop."""

    async def nothing(self) -> None: ...


class AsyncSource:
    """Async generators, and everything else async too."""

    def __init__(self) -> None:
        self.made = 0

    async def items(self, log: str, n: int) -> Any:
        try:
            for i in range(n):
                yield i
        finally:
            Path(log).write_text("finally", encoding="utf-8")  # noqa: ASYNC240  # it is small

    async def endless(self) -> Any:
        while True:
            self.made += 1
            yield self.made

    async def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    async def count(self) -> int:
        return self.made


KINDS = {
    "serial": actorlib.remote(Source),
    "threaded": actorlib.remote(max_concurrency=2)(Source),
    "mixed": actorlib.remote(Mixed),
    "gated": actorlib.remote(max_concurrency=1)(Mixed),
    "async": actorlib.remote(AsyncSource),
    "single": actorlib.remote(max_concurrency=1)(AsyncSource),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@actorlib.remote
class Idler:
    """Reads the first item of a stream and keeps the rest."""

    def begin(self, source: ActorHandle[Any]) -> Any:
        self.items = cast("Any", source).endless.remote()
        return next(self.items).get()

    def go_on(self) -> list[str]:
        errors = [cast("Any", ref).exception() for ref in self.items]
        return [type(error).__name__ for error in errors if error]


@every_kind
async def test_stream_when_detached_and_endless_then_others_are_served_until_the_end(
    kind: str,
) -> None:
    async with running(grace=0.1), KINDS[kind].remote() as source:
        items = source.endless.options(detach=True).remote()
        await anext(items)
        del items

        before = await source.count.remote()
        while await source.count.remote() < before + 300:
            pass


@every_kind
async def test_end_when_readers_take_no_items_then_their_streams_are_cut_off(
    kind: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(grace=0.1):
        idler = cast("Any", Idler).remote()
        async with KINDS[kind].remote() as source:
            items = source.items.remote(str(log), 100_000)
            assert await (await anext(items)) == 0
            if kind not in ("gated", "single"):  # they have one place, which is taken
                await idler.begin.remote(source)

        *refs, last = [ref async for ref in items]
        assert [await ref for ref in refs] == list(range(1, len(refs) + 1))
        with pytest.raises(TaskCancelledError, match="its actor was ended"):
            await last
        if kind not in ("gated", "single"):
            assert await idler.go_on.remote() == ["TaskCancelledError"]
    assert log.read_text(encoding="utf-8") == "finally"


@every_kind
async def test_shutdown_when_a_stream_waits_for_its_reader_then_it_is_closed(
    kind: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(grace=20.0):
        source = KINDS[kind].remote()
        items = source.items.remote(str(log), 100_000)
        await anext(items)

    assert log.read_text(encoding="utf-8") == "finally"
    *_, last = [ref async for ref in items]
    with pytest.raises(ActorDiedError, match="shut down"):
        await last


@pytest.mark.parametrize("kind", ["serial", "async"])
async def test_stream_when_its_items_are_large_then_their_bytes_are_bounded(
    kind: str,
) -> None:
    async with running() as runtime:
        source = KINDS[kind].remote()
        items = source.blocks.remote(20, 8 * MIB)
        await items._reader.arrival()

        assert await source.count.remote() == 1
        (actor,) = living(runtime)
        assert actor.pending_calls == 1  # the whole stream
        sizes = [len(await ref) async for ref in items]
        assert sizes == [8 * MIB] * 20
        (actor,) = living(runtime)
        assert actor.pending_calls == 0
