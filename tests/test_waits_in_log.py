"""Whoever waits for a share for long is told of in the log, with who has it."""

from __future__ import annotations

import asyncio
import builtins
import logging
from typing import TYPE_CHECKING

import pytest
from helpers.actors import Stop, Target
from helpers.functions import add, halt
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib._scheduler import long_waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib import Runtime

pytestmark = in_memory(num_cpus=2, num_gpus=1, grace=0.1)


class Said(logging.Handler):
    """The messages of the log, awaited one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put_nowait(record.getMessage())


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """The log, where every wait is a long one."""
    monkeypatch.setattr(long_waits, "LONG", 0.0)
    monkeypatch.setattr(long_waits, "GATHERED", 0.0)
    handler = Said()
    log = logging.getLogger("actorlib")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def test_wait_of_an_actor_names_who_holds_what_it_asks(
    runtime: Runtime, said: Said
) -> None:
    holder = Target.options(num_gpus=0.75, name="m1").remote()
    small = Target.options(num_gpus=0.25).remote()
    pids = [await actor.ping.remote() for actor in (holder, small)]

    waiting = Target.options(num_gpus=1).remote()
    told = await said.messages.get()

    held = (
        f"Held: GPU=0.75 by Target 'm1' (pid {pids[0]}), "
        f"GPU=0.25 by Target (pid {pids[1]})"
    )
    assert told.startswith(
        f"Target requests GPU=1; all of GPU=1 is taken. {held}. It has"
    )
    assert held in runtime.explain(waiting)
    assert held in runtime.explain(Target.options(num_gpus=1))


async def test_wait_of_every_actor_is_told_once_however_many_wait_already(
    runtime: Runtime, said: Said
) -> None:
    holder = Target.options(num_gpus=1, name="holder").remote()
    await holder.ping.remote()
    waiting = Target.options(num_gpus=1, name="m1").remote()
    assert (await said.messages.get()).startswith("Target 'm1' requests GPU=1")

    second = Target.options(num_gpus=1, name="m2").remote()
    told = await said.messages.get()
    assert told.startswith(
        "Target 'm2' requests GPU=1; all of GPU=1 is taken. Held: GPU=1"
    )
    assert "by Target 'holder' (pid" in told
    assert "Ahead of it in the queue: Target 'm1' (GPU=1). It has waited" in told

    unnamed = Target.options(num_gpus=1).remote()
    told = await said.messages.get()
    ids = {actor.name: actor.actor_id for actor in runtime.snapshot().actors}
    assert f"for 0 s: Target {ids[None]}; runtime.explain()" in told
    await Target.remote().ping.remote()  # long enough for what is due at once
    assert said.messages.empty()
    del waiting, second, unnamed


async def test_wait_of_a_group_and_inside_of_one_is_told(
    runtime: Runtime, said: Said
) -> None:
    group = actorlib.placement_group([{"GPU": 1}], name="g1")
    inside = Target.options(num_gpus=1, placement_group=group).remote()
    pid = await inside.ping.remote()

    second = actorlib.placement_group([{"GPU": 1}], name="g2")
    told = await said.messages.get()
    assert told.startswith("group 'g2' requests [GPU=1]")
    assert "Held: GPU=1 by group 'g1'" in told
    assert "Held: GPU=1 by group 'g1'" in runtime.explain(second)

    member = Target.options(num_gpus=0.5, placement_group=group).remote()
    told = await said.messages.get()
    held = f"free there is bundle 0: GPU=0. Held: GPU=1 by Target (pid {pid})"
    assert f"requests GPU=0.5 inside group 'g1'; {held}" in told
    del member
    for each in (second, group):
        await actorlib.remove_placement_group(each)


@USES_RUNTIME
async def test_wait_of_a_function_is_told_if_none_of_it_runs(said: Said) -> None:
    holder = Target.options(num_cpus=2).remote()
    pid = await holder.ping.remote()

    ref = add.remote(1, 2)
    told = await said.messages.get()

    assert (
        f"add requests CPU=1; all of CPU=2 is taken. Held: CPU=2 by Target (pid {pid})"
        in told
    )
    await actorlib.kill(holder)
    assert await ref == 3


async def test_wait_behind_a_function_names_it_and_of_its_own_calls_nothing_is_said(
    runtime: Runtime, said: Said, stop: Stop
) -> None:
    first = halt.options(num_cpus=2).remote(stop.place)
    await stop.reached()

    second = halt.options(num_cpus=2).remote(stop.place)
    await Target.remote().ping.remote()  # long enough for what is due at once
    assert runtime.snapshot().waiting == ("halt: CPU=2",)
    assert said.messages.empty()
    waiting = Target.options(num_cpus=1).remote()

    assert "Held: CPU=2 by halt (pid" in await said.messages.get()
    del waiting
    stop.release()
    await stop.reached()
    stop.release()
    await asyncio.gather(first, second)


async def test_explain_in_a_notebook_says_what_keeps_handles(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    holder = Target.options(num_gpus=1).remote()
    await holder

    assert "Out[2]" in runtime.explain(Target.options(num_gpus=1))


@USES_RUNTIME
async def test_wait_of_who_has_left_the_line_is_not_told(said: Said) -> None:
    holder = Target.options(num_gpus=1, num_cpus=2).remote()
    await holder.ping.remote()

    group = actorlib.placement_group([{"GPU": 1}], name="g3")
    ref = add.remote(1, 2)
    await actorlib.remove_placement_group(group)
    ref.cancel()
    killed = Target.options(num_gpus=1).remote()
    await actorlib.kill(killed)  # in the turn of its creation
    still = Target.options(num_cpus=1).remote()

    assert (await said.messages.get()).startswith("Target requests CPU=1")
    assert said.messages.empty()
    del still
