"""What holds for every test: whatever it opened, started or created is gone after it.

The guards are fixtures that every test uses. They look at the operating system and at
the loop, not at what a test says of itself, so a leak fails the test that made it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from helpers.actors import LENT
from helpers.machines import Pretend, pretender
from hypothesis import settings

from actorlib._engine import find_engine, set_engine

try:
    import uvloop
except ImportError:  # it is no dependency where it does not run
    uvloop = None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

# A deadline would be a flaky test; --hypothesis-profile=thorough is for a long night.
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=5_000, deadline=None)
settings.load_profile("quick")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop
}
if uvloop is not None:
    LOOPS["uvloop"] = uvloop.new_event_loop
    # The first loop of a process opens descriptors that libuv never closes.
    uvloop.new_event_loop().close()


@pytest.hookimpl(optionalhook=True)  # pytest-asyncio has the hook from 1.4 on
def pytest_asyncio_loop_factories(
    item: pytest.Function,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Which loops an async test runs on: asyncio's, or all for ``on_both_loops``."""
    if "on_both_loops" in item.fixturenames:
        return LOOPS
    return {"asyncio": LOOPS["asyncio"]}


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Makes the owner believe that it runs on a recorded machine."""
    return pretender(monkeypatch)


@pytest.fixture
def on_both_loops() -> None:
    """Runs an async test once on asyncio's loop and once on uvloop's."""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fails a test that leaves an engine, a child process or a descriptor."""
    children, files = _children(), _open_files()
    yield
    engine = find_engine()
    set_engine(None)  # the next test is not to blame
    assert engine is None, f"the test left the process with {engine}"
    born = _children() - children
    assert not born, f"the test left child processes: {sorted(born)}"
    after = _open_files()
    opened = {after[number] for number in after.keys() - files.keys()}
    assert not opened, f"the test left descriptors: {sorted(opened)}"


@pytest.fixture(autouse=True)
def no_task_is_left(request: pytest.FixtureRequest, nothing_is_left: None) -> None:
    """Fails an async test that leaves a task on its loop."""
    del nothing_is_left  # set up before, so it looks when the loop is closed
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("watched_loop")


@pytest_asyncio.fixture
async def watched_loop() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """The loop of an async test, on which no task may be left."""
    loop = asyncio.get_running_loop()
    yield loop
    own = asyncio.current_task()
    left = [task for task in asyncio.all_tasks(loop) if task is not own]
    assert not left, f"the test left tasks: {left}"


def _open_files() -> dict[int, str]:
    """What each descriptor of this process stands for, where the system can say."""
    if sys.platform != "linux":
        return {}
    found: dict[int, str] = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
            # The memory of a runtime that is lent to many tests: it stays with that.
            if LENT and target.startswith("/memfd:actorlib"):
                continue
            found[int(entry.name)] = f"{entry.name} -> {target}"
        except FileNotFoundError:  # the folder's own
            continue
    return found


def _children() -> set[str]:
    """The process ids of this process's children, where the system can say."""
    if sys.platform != "linux":
        return set()
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found.update((task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
            continue
    return found
