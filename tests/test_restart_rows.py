"""An actor that died is started anew: as often as it may, as if it was the first."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    Caller,
    Stop,
    Target,
    end_of,
    gone,
    living,
    running,
)
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory
from helpers.memory import in_own_blocks
from helpers.owners import DESCENDANTS, Bell, Looped, Serial, Watched

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    ActorUnschedulableError,
)

if TYPE_CHECKING:
    from actorlib import ActorHandle, Runtime
    from actorlib._api.decorators import ActorClass

pytestmark = [
    *in_memory(preload=[__name__], num_gpus=2, log_to_driver=False, grace=0.2),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

FOR_EVER = 1000.0
"""A back-off that no test waits for: whoever has to is restarting all the time."""


@actorlib.remote
class Fragile:
    """Counts, and dies when it is told to.

    Args:
        start: What it starts from.
    """

    def __init__(self, start: int = 0) -> None:
        self._total = start

    def add(self) -> int:
        self._total += 1
        return self._total

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def mask(self) -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")


async def killed(actor: ActorHandle[Any]) -> ActorUnavailableError:
    """Lets an actor die; gives what its last call was told."""
    error = await raised(actor.die.remote())
    assert isinstance(error, ActorUnavailableError)
    return error


def info(runtime: Runtime, actor: ActorHandle[Any]) -> Any:
    (found,) = [
        told for told in runtime.snapshot().actors if told.actor_id in repr(actor)
    ]
    return found


# How often.


@pytest.mark.process
@pytest.mark.parametrize("kind", [Serial, Looped], ids=repr)
@pytest.mark.parametrize(
    "method", ["template", pytest.param("spawn", marks=pytest.mark.thorough)]
)
async def test_however_it_ends_it_comes_back(
    kind: ActorClass[..., Any], method: Any
) -> None:
    async with running(start_method=method, log_to_driver=False):
        options: Any = {"max_restarts": 3, "restart_backoff": 0}
        actor = kind.options(**options).remote()
        for deed, *arguments in (("segfault",), ("exit_at_once", 7), ("leave", 3)):
            before = await actor.pid.remote()

            error = await raised(getattr(actor, deed).remote(*arguments))

            assert isinstance(error, ActorUnavailableError)
            assert error.exit.method == deed
            assert await (await actor).pid.remote() != before


async def test_it_is_restarted_even_if_nobody_calls_it(bell: Bell) -> None:
    async with running(log_to_driver=False):
        actor = Serial.options(max_restarts=1).remote(bell.path)
        first = await asyncio.to_thread(bell.heard)
        await actor

        os.kill(first, signal.SIGKILL)

        assert await asyncio.to_thread(bell.heard) != first


# Its share.


async def test_it_keeps_its_share_through_a_restart_at_once(
    runtime: Runtime,
) -> None:
    actor = Fragile.options(num_gpus=2, max_restarts=1).remote()
    await actor
    waiting = Target.options(num_gpus=1).remote()
    pong = waiting.ping.remote()

    await killed(actor)

    assert runtime.available_resources()["GPU"] == 0
    await actor
    assert await actor.mask.remote() == "0,1"
    assert not pong.done()
    await actorlib.kill(actor)
    await pong


async def test_its_share_may_go_to_a_waiter_while_it_backs_off(
    runtime: Runtime,
) -> None:
    options: Any = {"num_gpus": 2, "max_restarts": -1, "restart_backoff": 0.01}
    actor = Fragile.options(**options).remote()
    await actor
    waiting = Fragile.options(num_gpus=1).remote()
    await killed(actor)
    await actor
    await killed(actor)

    assert await waiting.mask.remote() == "0"
    assert not living(runtime)[0].devices
    await actorlib.kill(waiting)
    await actor
    assert await actor.mask.remote() == "0,1"


async def test_a_restart_on_another_device_gets_its_mask(runtime: Runtime) -> None:
    options: Any = {"num_gpus": 1, "max_restarts": 2, "restart_backoff": 0.2}
    actor = Fragile.options(**options).remote()
    assert await actor.mask.remote() == "0"
    await killed(actor)
    await actor
    assert await actor.mask.remote() == "0"
    await killed(actor)

    other = Fragile.options(num_gpus=1).remote()

    assert await other.mask.remote() == "0"
    await actor
    assert await actor.mask.remote() == "1"
    assert info(runtime, actor).mask == "1"


async def test_one_that_is_to_be_near_it_waits_while_it_backs_off(
    runtime: Runtime,
) -> None:
    options: Any = {"num_gpus": 0.5, "max_restarts": -1, "restart_backoff": 0.2}
    actor = Fragile.options(**options).remote()
    await actor
    await killed(actor)
    await actor
    await killed(actor)

    near = Fragile.options(num_gpus=0.5, near=actor).remote()

    assert "waits for a place for the actors" in runtime.explain(near)
    assert await near.mask.remote() == await (await actor).mask.remote()


@USES_RUNTIME
async def test_one_whose_neighbour_died_for_good_says_so() -> None:
    other = Fragile.options(num_gpus=0.5).remote()
    options: Any = {"num_gpus": 0.5, "max_restarts": -1, "restart_backoff": 0.01}
    actor = Fragile.options(near=other, **options).remote()
    await actor
    await actorlib.kill(other)
    await killed(actor)
    await actor  # it kept its share, so it asked nobody
    await killed(actor)

    assert isinstance(await raised(actor), ActorUnschedulableError)


# Ends that are asked for.


async def backing_off(**options: Any) -> ActorHandle[Any]:
    """An actor that will be restarting for as long as a test may take."""
    known: Any = {"max_restarts": -1, "restart_backoff": FOR_EVER, **options}
    actor = Fragile.options(**known).remote()
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    return actor


async def test_kill_while_it_backs_off_is_final(runtime: Runtime) -> None:
    actor = await backing_off(max_task_retries=3)
    waiting = actor.add.remote()
    ready = asyncio.ensure_future(_ready(actor))
    await asyncio.sleep(0)
    await actorlib.kill(actor, no_restart=False)
    assert info(runtime, actor).state == "restarting"

    await actorlib.kill(actor)

    assert isinstance(await raised(waiting), ActorDiedError)
    assert isinstance(await raised(ready), ActorDiedError)
    assert living(runtime) == []
    await actorlib.kill(actor, no_restart=False)


async def _ready(actor: ActorHandle[Any]) -> None:
    await actor


async def test_the_last_handle_gone_while_it_backs_off_ends_it(
    runtime: Runtime,
) -> None:
    actor = await backing_off()
    end = end_of(actor)
    del actor

    await end

    assert living(runtime) == []


async def test_the_end_of_its_block_while_it_backs_off_ends_it(
    runtime: Runtime,
) -> None:
    options: Any = {"max_restarts": -1, "restart_backoff": FOR_EVER}
    async with Fragile.options(**options).remote() as actor:
        await killed(actor)
        await actor
        await killed(actor)

    assert living(runtime) == []


async def test_shutdown_while_it_backs_off_waits_for_nothing() -> None:
    async with running(log_to_driver=False):
        actor = await backing_off(max_task_retries=1)
        waiting = actor.add.remote()

    assert isinstance(await raised(waiting), ActorDiedError)


async def test_shutdown_in_a_crash_loop_ends_it(bell: Bell) -> None:
    async with running(log_to_driver=False):
        options: Any = {"max_restarts": -1, "restart_backoff": 0}
        looping = Serial.options(**options).remote(bell.path, "exit_at_once", 3)
        for _ in range(5):
            await asyncio.to_thread(bell.heard)
        waiting = looping.echo.remote()

    assert isinstance(await raised(waiting), ActorError)


async def test_kill_with_restart_of_one_in_line_puts_it_at_the_end(
    runtime: Runtime,
) -> None:
    blocker = Target.options(num_gpus=2).remote()
    first = Fragile.options(num_gpus=2, max_restarts=1).remote()
    second = Fragile.options(num_gpus=2).remote()
    early = first.add.remote()
    await blocker

    await actorlib.kill(first, no_restart=False)

    assert info(runtime, first).restarts == 1
    await actorlib.kill(blocker)
    assert await second.add.remote() == 1
    assert not early.done()
    await actorlib.kill(second)
    assert await early == 1


async def test_kill_with_restart_of_one_in_line_ends_it_if_there_is_none_left(
    runtime: Runtime,
) -> None:
    blocker = Target.options(num_gpus=2).remote()
    pending = Fragile.options(num_gpus=1, max_restarts=1).remote()
    await blocker

    await actorlib.kill(pending, no_restart=False)
    (why,) = info(runtime, pending).earlier_deaths
    assert why == "it was killed, to be restarted"
    await actorlib.kill(pending, no_restart=False)

    assert isinstance(await raised(pending.add.remote()), ActorDiedError)
    await actorlib.kill(blocker)


# What is told, and what is left.


@USES_RUNTIME
async def test_the_log_tells_each_restart_once_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "actorlib"):
        actor = Fragile.options(max_restarts=2, restart_backoff=0).remote()
        for _ in range(2):
            await actor
            await killed(actor)
        await raised((await actor).die.remote())
        await end_of(actor)

    told = [record.getMessage().partition(") ")[2] for record in caplog.records]
    reason = "a signal ended its process (SIGKILL), while it ran die"
    assert told == [
        f"restarts (attempt 1 of 2): {reason}",
        f"restarts (attempt 2 of 2): {reason}",
        f"is dead after 2 restarts (max_restarts=2): {reason}",
    ]


async def test_explain_and_snapshot_tell_that_it_restarts(runtime: Runtime) -> None:
    actor = await backing_off(num_gpus=1, max_restarts=3)

    told = runtime.explain(actor)

    assert told == "Fragile is restarting, attempt 2 of 3, in 1000 s"
    seen = info(runtime, actor)
    assert (seen.state, seen.restarts, seen.pid) == ("restarting", 2, 0)
    assert (seen.devices, seen.mask) == ({}, None)
    assert runtime.available_resources()["GPU"] == 2


async def test_snapshot_when_it_was_restarted_then_why_each_time(
    runtime: Runtime,
) -> None:
    actor = Fragile.options(max_restarts=3, restart_backoff=0).remote()
    assert await actor.add.remote() == 1
    assert info(runtime, actor).earlier_deaths == ()

    await killed(actor)
    await actor
    await actorlib.kill(actor, no_restart=False)
    await actor
    seen = info(runtime, actor)
    assert (seen.state, seen.restarts, seen.death) == ("alive", 2, "")
    crash, kill = seen.earlier_deaths
    assert "SIGKILL" in crash
    assert "while it ran die" in crash
    assert "it was killed, to be restarted" in kill

    await actorlib.kill(actor)
    seen = info(runtime, actor)
    assert (seen.state, seen.earlier_deaths) == ("dead", (crash, kill))
    assert "it was killed" in seen.death
    dead, *before = runtime.explain(actor).splitlines()
    assert dead.endswith(f"is dead: {seen.death}")
    assert before == [
        "Why it was restarted before, oldest first:",
        f"  - {crash}",
        f"  - {kill}",
    ]


async def test_the_forgotten_when_they_were_restarted_are_listed_with_every_end() -> (
    None
):
    async with running(num_cpus=1, actor_history=5) as runtime:
        caller = Caller.remote()
        actor = Fragile.options(max_restarts=1).remote()
        await asyncio.gather(caller, actor)
        await killed(actor)
        await actor
        await raised(actor.die.remote())
        del actor
        gc.collect()

        for seen in (
            actorlib.list_actors(),
            list(runtime.snapshot().actors),
            await caller.run.remote(actorlib.list_actors),
        ):
            told = seen[-1]
            assert (told.class_name, told.restarts) == ("Fragile", 1)
            assert "SIGKILL" in told.death
            assert [("SIGKILL" in why) for why in told.earlier_deaths] == [True]


@pytest.mark.process
async def test_children_of_the_dead_are_gone_before_the_next_starts(
    runtime: Runtime,
) -> None:
    actor = Serial.options(max_restarts=1).remote()
    marked = [kind for kind in DESCENDANTS if kind != "an unmarked session"]
    home = await actor.household.remote(*marked)
    del home["template"]
    with Watched(home.values()) as watched:
        await raised(actor.get_signal.remote(9))

        assert info(runtime, actor).state in ("starting", "restarting")
        assert watched.left(limit=0.001) == []
        await actor


async def test_deaths_of_many_at_once_bring_all_of_them_back(
    runtime: Runtime, bell: Bell
) -> None:
    made = Serial.options(num_gpus=0.25, max_restarts=1)
    actors = [made.remote(bell.path) for _ in range(8)]
    await asyncio.gather(*map(_ready, actors))
    first = [await asyncio.to_thread(bell.heard) for _ in actors]

    for pid in first:
        os.kill(pid, signal.SIGKILL)
    second = [await asyncio.to_thread(bell.heard) for _ in actors]

    assert not set(first) & set(second)
    await asyncio.gather(*map(_ready, actors))
    pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    assert set(pids) == set(second)
    assert runtime.available_resources()["GPU"] == 0


# Retried calls: while an actor restarts, and the handles that they hold.


RETRIED: Any = {"max_restarts": -1, "restart_backoff": 0, "max_task_retries": 3}


class Notes:
    """Writes down in a file what is called, over all of its lives.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def note(self, word: object) -> int:
        """Writes a word down; gives how often it is there."""
        with self._path.open("a") as file:
            file.write(f"{word}\n")
        return self._path.read_text().split().count(str(word))

    def die_until(self, word: str, last: int) -> int:
        """Dies until it was called so often."""
        count = self.note(word)
        if count < last:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    def fail_until(self, word: str, last: int, error: Exception) -> int:
        """Raises until it was called so often."""
        count = self.note(word)
        if count < last:
            raise error
        return count

    def stop(self, word: str, place: Any) -> int:
        """Writes a word down and stops."""
        count = self.note(word)
        place.stop_here()
        return count

    def ask(self, handle: ActorHandle[Any], word: str, last: int) -> int:
        """Dies until it was called so often; asks another actor."""
        self.die_until(word, last)
        return actorlib.get(handle.ping.remote())


Plain = actorlib.remote(Notes)


@pytest.fixture
def path(runtime: Runtime, tmp_path: Path) -> str:
    del runtime
    return str(tmp_path / "notes")


def noted(path: str) -> list[str]:
    return Path(path).read_text().split()


async def restarting(path: str, **options: Any) -> ActorHandle[Any]:
    """An actor that waits for its next restart."""
    actor = Plain.options(**options).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    return actor


# After a death.


async def test_a_call_made_while_it_restarts(path: str) -> None:
    actor = await restarting(path, max_restarts=-1, restart_backoff=0.01)
    refused = actor.note.remote("lost")

    error = await raised(refused)

    assert isinstance(error, ActorUnavailableError)
    assert "is restarting, attempt 2" in str(error)
    await actor
    assert await actor.note.remote("a") == 1
    assert noted(path) == ["a"]


async def test_call_when_made_while_the_actor_restarts_then_it_costs_no_retry(
    path: str,
) -> None:
    options: Any = {**RETRIED, "max_task_retries": 1, "restart_backoff": 0.01}
    actor = await restarting(path, **options)

    kept, dies = actor.note.remote("a"), actor.die_until.remote("b", 2)

    assert await kept == 1
    assert await dies == 2
    assert noted(path) == ["a", "b", "b"]


async def test_a_call_cancelled_while_it_restarts_is_not_made_again(
    path: str,
) -> None:
    actor = await restarting(path, **{**RETRIED, "restart_backoff": 0.05})
    cancelled, kept = actor.note.remote("a"), actor.note.remote("b")

    actorlib.cancel(cancelled)
    with pytest.raises(TimeoutError):  # the wait is given up, and nobody has the ref
        async with asyncio.timeout(0):
            await actor.note.remote("c")

    assert await kept == 1
    assert await actor.note.remote("d") == 1
    assert noted(path) == ["b", "d"]


async def test_handles_among_the_arguments_are_held_until_the_answer(
    path: str,
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    target = Target.remote()
    end = end_of(target)
    asked = actor.ask.remote(target, "a", 3)
    del target

    pid = await asked

    await end
    await gone(pid)


@pytest.mark.parametrize("how", ["lost", "cancelled", "dead"])
async def test_handles_among_the_arguments_are_let_go_when_there_is_no_answer(
    runtime: Runtime, path: str, how: str
) -> None:
    restarts = 1 if how == "dead" else -1
    actor = Plain.options(**{**RETRIED, "max_restarts": restarts}).remote(path)
    target = Target.remote()
    await target
    end = end_of(target)
    asked = actor.ask.remote(target, "a", 99)
    del target
    if how == "cancelled":
        actorlib.cancel(asked)
        await raised(asked)
    else:
        assert isinstance(await raised(asked), ActorError)

    await end
    assert len(living(runtime)) == (how != "dead")


async def test_the_last_handle_gone_a_call_with_retries_still_gets_its_answer(
    runtime: Runtime, path: str
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    end = end_of(actor)
    answer = actor.die_until.remote("a", 3)
    del actor

    assert await answer == 3

    await end
    assert living(runtime) == []


async def test_the_end_of_its_block_waits_for_calls_with_retries(path: str) -> None:
    async with Plain.options(**RETRIED).remote(path) as actor:
        answer = actor.die_until.remote("a", 3)

    assert await answer == 3


# After what a method raised.


async def test_call_when_it_waits_to_go_again_then_a_death_costs_it_no_retry(
    path: str,
) -> None:
    options: Any = {**RETRIED, "max_task_retries": 2, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)
    with Stop() as stop:
        failing = actor.fail_until.remote("a", 3, KeyError())
        blocked = actor.stop.remote("b", stop.place)
        await stop.reached()  # the call before it has failed, and will go again
        await actorlib.kill(actor, no_restart=False)
        await stop.reached()
        stop.release()
        stop.release()
        assert await blocked == 2
    assert await failing == 3


THEIRS = '''
import actorlib


class Own(Exception):
    """The owner cannot import it."""


@actorlib.remote
class Theirs:
    """An actor whose method retries what the owner cannot load."""

    @actorlib.method(max_task_retries=1, retry_exceptions=[Own])
    def ping(self):
        """Answers."""
        return "pong"

    def plain(self):
        """Answers without retries."""
        return "pong"
'''


@USES_RUNTIME
@pytest.mark.process
async def test_classes_that_the_owner_cannot_load_harm_nobody_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS, encoding="utf-8")
    env: Any = {"working_dir": str(tmp_path)}
    caller = Caller.options(runtime_env=env).remote()

    for make in (_make_and_ask, _make_with_own):
        with pytest.raises(ActorDiedError, match="theirs"):
            await caller.run.remote(make)
    with pytest.raises(TypeError, match="names a class that cannot be loaded"):
        await caller.run.remote(_ask_with_own, caller)
    with pytest.raises(ActorUnschedulableError, match="num_gpus"):
        await caller.run.remote(_make_too_large)

    assert await caller.run.remote(int) == 0
    assert await caller.run.remote(in_own_blocks) == 0
    assert "theirs" not in sys.modules


def _make_and_ask() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    return actorlib.get(theirs.Theirs.remote().plain.remote())


def _make_with_own() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    options: Any = {"max_task_retries": 3, "retry_exceptions": [theirs.Own]}
    return actorlib.get(Caller.options(**options).remote().run.remote(int))


def _make_too_large() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    options: Any = {"max_task_retries": 3, "retry_exceptions": [theirs.Own]}
    made = Caller.options(num_gpus=64, **options).remote()
    return actorlib.get(made.run.remote(int))


def _ask_with_own(_: object) -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # likewise

    options: Any = {"max_task_retries": 1, "retry_exceptions": [theirs.Own]}
    other = Caller.remote()
    large = bytes(1 << 20)
    return actorlib.get(other.run.options(**options).remote(len, large))
