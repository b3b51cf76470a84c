"""Remote functions whose process dies, and those that are cancelled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Stop, gone
from helpers.calls import raised
from helpers.functions import add, halt, mark, pid

import actorlib
from actorlib._owner.functions.task_queue import MAX_DEPTH
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from helpers.actors import Place

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

colour = actorlib.propagate(ContextVar[str]("function_colour"))

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2, "num_gpus": 2, "resources": {"lane": 1}}


@actorlib.remote
def die(path: Path, times: int) -> int:
    count = mark(path)
    if count <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


# Deaths and retries.


async def test_a_call_whose_process_died_is_made_again(tmp_path: Path) -> None:
    assert await die.remote(tmp_path / "count", 3) == 4


async def test_after_max_retries_it_says_how_the_process_ended(
    tmp_path: Path,
) -> None:
    error = await raised(die.options(max_retries=1).remote(tmp_path / "count", 9))
    assert type(error) is WorkerCrashedError
    assert error.exit.signal == signal.SIGKILL
    assert "die ended 2 times (max_retries=1)" in str(error)
    assert len((tmp_path / "count").read_text()) == 2


async def test_without_retries_it_runs_once(tmp_path: Path) -> None:
    error = await raised(die.options(max_retries=0).remote(tmp_path / "count", 9))
    assert type(error) is WorkerCrashedError
    assert len((tmp_path / "count").read_text()) == 1


async def test_for_ever_means_until_it_succeeds(tmp_path: Path) -> None:
    assert await die.options(max_retries=-1).remote(tmp_path / "count", 6) == 7


async def test_exceptions_are_retried_if_asked(tmp_path: Path) -> None:
    @actorlib.remote(max_retries=2, retry_exceptions=[KeyError])
    def unlucky(path: Path, error: Exception) -> int:
        count = mark(path)
        if count < 3:
            raise error
        return count

    assert await unlucky.remote(tmp_path / "key", KeyError()) == 3
    assert isinstance(
        await raised(unlucky.remote(tmp_path / "v", ValueError())), ValueError
    )
    assert len((tmp_path / "v").read_text()) == 1
    every = unlucky.options(retry_exceptions=True, max_retries=1)
    assert isinstance(
        await raised(every.remote(tmp_path / "w", ValueError())), ValueError
    )
    assert len((tmp_path / "w").read_text()) == 2


async def test_calls_behind_the_one_that_died_are_not_charged(
    tmp_path: Path,
) -> None:
    for _ in range(3):  # known to be quick, so that many are sent ahead
        await asyncio.gather(*(mark_once.remote(None) for _ in range(MAX_DEPTH)))
    quick = mark_once.options(max_retries=1)
    refs = [quick.remote(None) for _ in range(50)]
    refs.append(quick.remote(tmp_path))
    refs += [quick.remote(None) for _ in range(200)]
    answers = await asyncio.gather(*refs, return_exceptions=True)
    assert isinstance(answers.pop(50), WorkerCrashedError)
    assert set(answers) == {0}


@actorlib.remote
def mark_once(path: Path | None) -> int:
    if path is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


async def test_sys_exit_ends_the_process_and_is_told() -> None:
    leave = actorlib.remote(max_retries=0)(lambda: sys.exit(3))
    error = await raised(leave.remote())
    assert (type(error), error.exit.code) == (WorkerCrashedError, 3)


async def test_process_when_killed_while_idle_then_the_next_call_gets_another() -> None:
    first = await pid.remote()
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert await pid.remote() != first


async def test_exit_actor_is_refused_in_a_function() -> None:
    error = await raised(actorlib.remote(actorlib.exit_actor).remote())
    assert isinstance(error, TypeError)


# Cancelling.


async def test_a_call_that_waits_never_runs(tmp_path: Path, stop: Stop) -> None:
    both = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    ref = die.options(max_retries=0).remote(tmp_path / "count", 0)
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    stop.release()
    stop.release()
    await asyncio.gather(*both)
    await add.remote(1)
    assert not (tmp_path / "count").exists()


async def test_a_call_that_waits_for_its_arguments_never_runs(
    tmp_path: Path, stop: Stop
) -> None:
    first = halt.remote(stop.place, 0)
    ref = die.remote(tmp_path / "count", first)
    await stop.reached()
    actorlib.cancel(ref)
    stop.release()
    await first
    await add.remote(1)
    assert not (tmp_path / "count").exists()


@pytest.mark.process
async def test_a_running_function_gets_keyboard_interrupt(
    tmp_path: Path, stop: Stop
) -> None:
    @actorlib.remote
    def careful(place: Place, path: Path) -> None:
        try:
            place.stop_here()
        except KeyboardInterrupt:
            path.write_text(str(os.getpid()))
            raise

    ref = careful.remote(stop.place, tmp_path / "told")
    await stop.reached()
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    # Both CPUs are free again, and the process is used again.
    assert await pid.options(num_cpus=2).remote()
    assert int((tmp_path / "told").read_text()) in {
        await pid.remote() for _ in range(4)
    }


@pytest.mark.process
async def test_a_function_with_context_variables_is_interrupted_too(
    stop: Stop,
) -> None:
    token = colour.set("red")
    try:
        ref = halt.remote(stop.place)
    finally:
        colour.reset(token)
    await stop.reached()
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    await actorlib.remote(num_cpus=2)(lambda: None).remote()


async def test_a_call_whose_worker_is_being_started_never_runs(
    tmp_path: Path,
) -> None:
    marks = actorlib.remote(num_cpus=0.75)(mark)  # nobody else's workers are like that
    ref = marks.remote(tmp_path / "first")
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    assert await marks.remote(tmp_path / "second") == 1
    assert not (tmp_path / "first").exists()


async def test_a_function_that_waits_for_another_is_interrupted(
    tmp_path: Path, stop: Stop
) -> None:
    @actorlib.remote
    def careful(place: Place, path: Path) -> None:
        try:
            actorlib.get(halt.remote(place))
        finally:
            path.write_text("left")

    ref = careful.remote(stop.place, tmp_path / "told")
    await stop.reached()
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    stop.release()
    assert await pid.options(num_cpus=2).remote()
    assert (tmp_path / "told").read_text() == "left"


async def test_only_that_very_call_is_interrupted() -> None:
    @actorlib.remote
    def busy() -> int:
        total = 0
        for number in range(20_000):
            total += number
        return total

    for _ in range(30):
        refs = [busy.remote() for _ in range(20)]
        await refs[0]
        for ref in refs[1::2]:
            actorlib.cancel(ref)
        kept = await asyncio.gather(*refs[::2])
        assert set(kept) == {199990000}


async def test_force_ends_the_process_and_nobody_else_suffers(
    stop: Stop,
) -> None:
    ref = halt.remote(stop.place)
    await stop.reached()
    actorlib.cancel(ref, force=True)
    assert type(await raised(ref)) is TaskCancelledError
    assert await pid.options(num_cpus=2).remote()


async def test_force_is_refused_for_a_call_of_an_actor() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote(1)
    with pytest.raises(ValueError, match="force=True"):
        actorlib.cancel(ref, force=True)
    assert await ref == 1


@pytest.mark.process
async def test_an_actor_cancels_what_it_called(stop: Stop) -> None:
    @actorlib.remote
    class Impatient:
        def start(self, place: Place) -> None:
            self.ref = halt.remote(place)

        def give_up(self, *, force: bool) -> str:
            actorlib.cancel(self.ref, force=force)
            try:
                actorlib.get(self.ref)
            except TaskCancelledError:
                return "cancelled"
            return "not"

    actor = Impatient.remote()
    for force in (False, True):
        await actor.start.remote(stop.place)
        await stop.reached()
        assert await actor.give_up.remote(force=force) == "cancelled"
    assert await pid.options(num_cpus=2).remote()


async def test_very_many_are_cancelled_at_once(stop: Stop) -> None:
    both = [halt.remote(stop.place) for _ in range(2)]
    await stop.reached()
    await stop.reached()
    refs = [add.remote(number) for number in range(2_500)]
    for ref in refs:
        actorlib.cancel(ref)
    assert all(ref.cancelled() for ref in refs)
    stop.release()
    stop.release()
    await asyncio.gather(*both)
    assert await add.remote(1) == 1


async def test_a_finished_call_keeps_its_value() -> None:
    ref = add.remote(1)
    await ref
    actorlib.cancel(ref)
    actorlib.cancel(ref, force=True)
    assert await ref == 1


@pytest.mark.process
async def test_call_when_nobody_can_ask_any_more_then_it_is_cancelled(
    stop: Stop,
) -> None:
    waiting = asyncio.ensure_future(wait_for(halt.remote(stop.place)))
    await stop.reached()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    del waiting
    assert await pid.options(num_cpus=2).remote()


async def wait_for(ref: Any) -> Any:
    return await ref
