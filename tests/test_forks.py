"""Forks that the user's code makes of a worker: they never pass for it."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, end_of
from helpers.forks import (
    LEFT,
    WAYS,
    Looped,
    Serial,
    Threaded,
    fork,
    function_that,
    same,
    wait_in_fork,
)
from helpers.marks import USES_RUNTIME, in_processes

import actorlib

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    *in_processes(),
    pytest.mark.skipif(sys.platform == "win32", reason="forks"),
    USES_RUNTIME,
]

KINDS = {"serial": Serial, "threaded": Threaded, "looped": Looped}
all_kinds = pytest.mark.parametrize("kind", KINDS)
CODES = {way: code for way, (_, code) in WAYS.items()}


async def assert_whole(actor: Any) -> None:
    """Every call is answered once, in order, by the one process that is the actor."""
    pid = await actor.pid.remote()
    counted = await asyncio.gather(*[actor.add.remote() for _ in range(100)])
    assert sorted(counted) == [(number, pid) for number in range(1, 101)]


@all_kinds
async def test_fork_in_a_method_when_it_comes_back_then_it_leaves(kind: str) -> None:
    actor = KINDS[kind].remote()

    assert {way: await actor.fork.remote(way) for way in WAYS} == CODES
    await assert_whole(actor)


async def test_fork_in_an_async_method_when_it_comes_back_then_it_leaves() -> None:
    actor = Looped.remote()
    await actor.meet.remote()
    codes = {**CODES, "await": 0}

    assert {way: await actor.fork_on_the_loop.remote(way) for way in codes} == codes
    await assert_whole(actor)


@all_kinds
async def test_fork_in_a_constructor_when_it_comes_back_then_it_leaves(
    kind: str,
) -> None:
    actors = {way: KINDS[kind].remote(way) for way in WAYS}

    assert {way: await actor.made.remote() for way, actor in actors.items()} == CODES
    for actor in actors.values():
        await assert_whole(actor)


async def test_fork_when_python_warns_of_it_then_the_warning_is_seen() -> None:
    assert await Serial.remote().warned.remote() == 1


async def test_fork_in_a_function_when_it_comes_back_then_it_leaves() -> None:
    assert {way: await function_that.remote(way) for way in WAYS} == CODES
    same_each = [same.remote(number) for number in range(50)]
    assert await asyncio.gather(*same_each) == list(range(50))


@all_kinds
async def test_fork_in_a_generator_when_it_yields_then_it_leaves(kind: str) -> None:
    actor = KINDS[kind].remote()

    assert [await ref async for ref in actor.yield_in_fork.remote()] == [0]
    if kind == "looped":
        assert [await ref async for ref in actor.yield_on_the_loop.remote()] == [0]
    await assert_whole(actor)


@all_kinds
async def test_fork_when_it_asks_for_what_is_the_workers_then_it_is_refused(
    kind: str,
) -> None:
    actor, other = KINDS[kind].remote(), Serial.remote()

    assert await actor.call_in_fork.remote(other) == LEFT
    assert await actor.wait_in_fork.remote(other) == LEFT
    assert await wait_in_fork.remote(other) == LEFT, "of a function"
    await assert_whole(actor)
    await assert_whole(other)


@all_kinds
async def test_fork_when_its_worker_has_links_then_it_leaves_them_alone(
    kind: str,
) -> None:
    caller, callee = Serial.remote(), KINDS[kind].remote()

    assert await caller.call_often.remote(callee, 50) == list(range(1, 51))
    assert await caller.fork.remote("return") == 0
    assert await callee.fork.remote("return") == 0
    assert await caller.call_often.remote(callee, 50) == list(range(51, 101))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@all_kinds
async def test_fork_when_it_begins_then_it_has_none_of_the_worker_s_sockets(
    kind: str,
) -> None:
    caller, callee = Serial.remote(), KINDS[kind].remote()
    await caller.call_often.remote(callee, 50)  # so that they have a link
    large = actorlib.put(bytes(300_000))  # so that there is a side socket
    await callee.__ray_call__.remote(lambda _, value: len(value), large)

    assert await caller.shared_sockets.remote() == 0
    assert await callee.shared_sockets.remote() == 0


@all_kinds
async def test_fork_when_it_leaves_then_what_the_worker_registered_runs_once(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "ends"
    actor = KINDS[kind].remote("", str(path))
    pid, end = await actor.pid.remote(), end_of(actor)

    for way in ("return", "error", "exit"):
        await actor.fork.remote(way)
    del actor
    await end

    assert path.read_text() == f"{pid}\n"


async def test_fork_when_it_fails_then_its_traceback_is_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fork_and_fail() -> None:
        if not fork():
            raise LookupError("that nobody is told of otherwise")
        os.wait()

    caller = Caller.remote()
    await caller.run.remote(fork_and_fail)
    end = end_of(caller)
    del caller
    await end

    assert "LookupError: that nobody is told of" in capfd.readouterr().err
