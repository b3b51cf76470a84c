"""Cells that are run again: what is made afterwards is of the newest ones."""

from __future__ import annotations

import asyncio
import contextvars
import linecache
import logging
from typing import TYPE_CHECKING, Any

import pytest
from helpers.marks import USES_RUNTIME, in_processes

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [*in_processes(), USES_RUNTIME]

cell: contextvars.ContextVar[int] = contextvars.ContextVar("cell")

CELLS = """
import actorlib

config = {"lr": 1}

def helper():
    return "first"

@actorlib.remote
class Model:
    def say(self):
        return helper()

    def rate(self):
        return config["lr"]

    async def ask(self):
        return await call.remote()

@actorlib.remote
def call():
    return helper()

@actorlib.remote
def items():
    yield helper()
"""

AGAIN = """
def helper():
    return "second"
"""


@pytest.fixture
def cells() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS, names)
    return names


async def test_actor_when_a_helper_was_written_anew_then_new_ones_have_it(
    cells: dict[str, Any],
) -> None:
    model = cells["Model"]
    before = model.options(name="before").remote()
    assert await before.say.remote() == "first"

    exec(AGAIN, cells)

    assert await model.remote().say.remote() == "second"
    assert await model.options(num_cpus=1).remote().say.remote() == "second"
    assert await before.say.remote() == "first"


async def test_actor_when_a_global_was_changed_in_place_then_new_ones_see_it(
    cells: dict[str, Any],
) -> None:
    model = cells["Model"]
    assert await model.remote().rate.remote() == 1
    cells["config"]["lr"] = 2
    assert await model.remote().rate.remote() == 2


async def test_function_when_a_helper_was_written_anew_then_calls_use_it(
    cells: dict[str, Any],
) -> None:
    call, items = cells["call"], cells["items"]
    assert await call.remote() == "first"
    assert [await ref async for ref in items.remote()] == ["first"]

    exec(AGAIN, cells)

    assert await call.remote() == "second"
    assert await call.options(name="other").remote() == "second"
    assert [await ref async for ref in items.remote()] == ["second"]


async def test_function_when_called_by_an_actor_then_as_when_the_actor_was_made(
    cells: dict[str, Any],
) -> None:
    model = cells["Model"]
    assert await model.remote().ask.remote() == "first"
    exec(AGAIN, cells)
    assert await model.remote().ask.remote() == "second"


BROKEN = """
import actorlib

@actorlib.remote
class Broken:
    def __init__(self, is_whole):
        if not is_whole: raise OSError("no model")

    def divide(self, x):
        return x / 0

    async def ask(self):
        return await share.remote(1)

@actorlib.remote
def share(x):
    return x / 0.0
"""


@pytest.fixture
def broken() -> Iterator[dict[str, Any]]:
    """As IPython runs a cell: no file has its lines, but whoever asks gets them."""
    name, lines = "<cell 7>", BROKEN.splitlines(keepends=True)
    linecache.cache[name] = (len(BROKEN), None, lines, name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BROKEN, name, "exec"), names)
    yield names
    linecache.cache.pop(name, None)


async def test_error_when_a_cell_raises_in_an_actor_then_its_line_is_shown(
    broken: dict[str, Any],
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await broken["Broken"].remote(is_whole=True).divide.remote(1)
    assert 'File "<cell 7>", line 10, in divide\n    return x / 0\n' in str(
        caught.value.__cause__
    )


async def test_error_when_an_actor_calls_a_function_of_a_cell_then_its_line_too(
    broken: dict[str, Any],
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await broken["Broken"].remote(is_whole=True).ask.remote()
    assert "    return x / 0.0\n" in str(caught.value.__cause__)


async def test_death_when_a_constructor_of_a_cell_raises_then_its_line_is_shown(
    broken: dict[str, Any],
) -> None:
    with pytest.raises(ActorDiedError, match="no model") as caught:
        await broken["Broken"].remote(is_whole=False)

    assert 'raise OSError("no model")' in str(caught.value.exit)


class Shown(logging.Handler):
    """As a notebook's: it asks the context of whoever logs which cell that is."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[tuple[str, int | None]] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put_nowait((record.getMessage(), cell.get(None)))


@pytest.fixture
def shown() -> Iterator[Shown]:
    handler, log = Shown(), logging.getLogger("actorlib")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def test_death_when_it_is_logged_then_not_in_the_cell_that_made_the_actor(
    broken: dict[str, Any], shown: Shown
) -> None:
    cell.set(1)
    actor = broken["Broken"].remote(is_whole=False)

    message, whose = await shown.messages.get()

    assert "is dead" in message
    assert whose is None
    del actor  # not before: an actor that nobody holds ends without a word


async def test_run_when_a_loop_runs_then_it_says_what_to_write() -> None:
    async def main() -> None: ...

    with pytest.raises(RuntimeError, match="await the coroutine"):
        actorlib.run(main())


async def test_error_when_nobody_asks_for_it_then_not_in_the_cell_that_made_the_actor(
    broken: dict[str, Any],
) -> None:
    cell.set(1)
    loop = asyncio.get_running_loop()
    reported: asyncio.Queue[tuple[str, int | None]] = asyncio.Queue()

    def report(_: object, about: dict[str, Any]) -> None:
        reported.put_nowait((about["message"], cell.get(None)))

    loop.set_exception_handler(report)
    try:
        actor = broken["Broken"].remote(is_whole=True)
        actor.divide.remote(1)
        assert await reported.get() == ("ObjectRef exception was never retrieved", None)
    finally:
        loop.set_exception_handler(None)
