"""What an actor says of an event loop that does no work, and of waits for itself."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from helpers.marks import in_processes

import actorlib
from actorlib._worker.executors import loop_watchdog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.actors import Place, Stop

pytestmark = [
    *in_processes(),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


class Told(logging.Handler):
    """Keeps what is logged, and stops its thread there until the test has seen it."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._place = place

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self._place.stop_here()


class Loop:
    """Blocks its loop, or waits for itself.

    Args:
        told: Where it stops when it says something, if it does.
    """

    def __init__(self, told: Place | None = None) -> None:
        loop_watchdog.PERIOD, loop_watchdog.PATIENCE = 0.02, 0.1
        self._lines: list[str] = []
        if told is not None:
            handler = Told(told)
            self._lines = handler.lines
            logging.getLogger("actorlib").addHandler(handler)
            logging.getLogger("actorlib").propagate = False

    async def block(self, place: Place) -> None:
        """Blocks the loop."""
        place.stop_here()

    async def block_in_task(self, place: Place) -> None:
        """Blocks it in a task of its own."""

        async def inner() -> None:
            place.stop_here()

        await asyncio.create_task(inner())

    async def outer(self, method: str = "inner") -> str:
        """Awaits another call of this actor."""
        me = actorlib.get_runtime_context().current_actor
        value: str = await getattr(me, method).remote()
        return value

    async def inner(self) -> str:
        """Is awaited."""
        return "inner"

    @actorlib.method(concurrency_group="third")
    def block_group(self, place: Place) -> None:
        """Blocks the loop of its group."""
        place.stop_here()

    @actorlib.method(concurrency_group="third")
    async def in_group(self) -> None:
        """Gives its group a loop."""

    @actorlib.method(concurrency_group="other")
    async def beside(self) -> list[str]:
        """What was said."""
        return self._lines


@pytest.fixture
def told() -> Iterator[Stop]:
    from helpers.actors import Stop  # noqa: PLC0415  # a fixture has that name

    with Stop() as stop:
        yield stop


def loop(*args: Any, **options: Any) -> Any:
    groups = {"other": 1, "third": 1}
    made = actorlib.remote(concurrency_groups=groups, **options)(Loop)
    return made.remote(*args)


@pytest.mark.parametrize(
    ("method", "who"),
    [
        ("block", "Loop.block"),
        ("block_in_task", "inner"),
        ("block_group", "Loop.block_group"),
    ],
)
async def test_loop_when_a_method_blocks_it_then_said_once_with_its_line(
    method: str, who: str, stop: Stop, told: Stop
) -> None:
    actor = loop(told.place)
    for is_first in (True, False):
        ref = getattr(actor, method).remote(stop.place)
        await stop.reached()
        if is_first:
            await told.reached()
            told.release()
        stop.release()
        await ref

    [line] = await actor.beside.remote()

    assert line.startswith(f"{who} (pid ")
    assert "has blocked the event loop of its actor for" in line
    assert re.search(r"It is in stop_here, .*actors\.py:\d+: sock\.recv\(1\)", line)
    assert "asyncio.to_thread()" in line


async def test_loop_when_one_call_awaits_its_own_actor_then_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = asyncio.Event()

    def hear(_: logging.LogRecord) -> bool:
        said.set()
        return True

    caplog.handler.addFilter(hear)
    actor = loop(max_concurrency=1)
    with caplog.at_level(logging.WARNING, "actorlib"):
        refs = [actor.outer.remote() for _ in range(3)]
        await said.wait()

    [line] = [r.getMessage() for r in caplog.records if "own actor" in r.getMessage()]
    assert line.startswith("Loop.outer (pid ")
    assert "awaits Loop.inner of its own actor" in line
    assert "max_concurrency" in line
    for ref in refs:
        ref.cancel()


async def test_loop_when_a_call_awaits_a_group_that_has_room_then_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    actor = loop(max_concurrency=1)

    assert await actor.outer.remote("beside") == []
    assert not caplog.records
