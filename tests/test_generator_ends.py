"""What becomes of streams when their actors are ended, or the whole runtime is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import running

import actorlib
from actorlib.exceptions import ActorDiedError, TaskCancelledError

if TYPE_CHECKING:
    from actorlib import ActorHandle

pytestmark = [pytest.mark.memory]


def note(log: str) -> None:
    Path(log).write_text("finally", encoding="utf-8")


class Source:
    """Plain generators that write down how they end."""

    def items(self, log: str, n: int) -> Any:
        try:
            yield from range(n)
        finally:
            note(log)

    def endless(self) -> Any:
        while True:
            yield os.getpid()


class Mixed(Source):
    async def nothing(self) -> None: ...


class AsyncSource:
    async def items(self, log: str, n: int) -> Any:
        try:
            for i in range(n):
                yield i
        finally:
            note(log)

    async def endless(self) -> Any:
        while True:
            yield os.getpid()


KINDS = {
    "serial": actorlib.remote(Source),
    "threaded": actorlib.remote(max_concurrency=2)(Source),
    "mixed": actorlib.remote(Mixed),
    "async": actorlib.remote(AsyncSource),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@actorlib.remote
class Idler:
    """Reads the first item of a stream and keeps the rest."""

    def begin(self, source: ActorHandle[Any]) -> Any:
        self.items = source.endless.remote()
        return next(self.items).get()

    def go_on(self) -> list[str]:
        return [type(error).__name__ for error in map(_error_of, self.items) if error]


def _error_of(ref: Any) -> BaseException | None:
    return cast("BaseException | None", ref.exception())


@every_kind
async def test_end_when_nobody_takes_items_then_the_stream_is_cut_off(
    kind: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with running(grace=0.1):
        async with KINDS[kind].remote() as source:
            items = source.items.remote(str(log), 100_000)
            assert await (await anext(items)) == 0

        *refs, last = [ref async for ref in items]
        assert [await ref for ref in refs] == list(range(1, len(refs) + 1))
        with pytest.raises(TaskCancelledError, match="its actor was ended"):
            await last
    assert log.read_text(encoding="utf-8") == "finally"


@every_kind
async def test_end_when_a_dropped_stream_has_no_end_then_it_is_cut_off(
    kind: str,
) -> None:
    async with running(grace=0.1), KINDS[kind].remote() as source:
        items = source.endless.options(detach=True).remote()
        await anext(items)
        del items


@every_kind
async def test_end_when_a_worker_takes_no_items_then_the_stream_is_cut_off(
    kind: str,
) -> None:
    async with running(grace=0.1):
        idler = cast("Any", Idler).remote()
        async with KINDS[kind].remote() as source:
            await idler.begin.remote(source)

        assert await idler.go_on.remote() == ["TaskCancelledError"]


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
