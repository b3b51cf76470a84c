"""Remote functions whose process dies or is ended, and those that are interrupted.

What holds for every engine is in ``tests/contract/``: test_retried_calls,
test_call_cancelling and test_recursive_cancelling.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Stop, gone
from helpers.calls import raised
from helpers.functions import add, halt, pid
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib._owner.functions.task_queue import MAX_DEPTH
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.actors import Place

    from actorlib import Runtime

colour = actorlib.propagate(ContextVar[str]("function_colour"))

pytestmark = [*in_memory(num_cpus=2, num_gpus=2), USES_RUNTIME]


# Deaths.


@actorlib.remote
def leave(how: str) -> int:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(3)
    return os.getpid()


@pytest.mark.parametrize(
    ("how", "expected"), [("signal", (9, None)), ("exit", (None, 3))]
)
async def test_call_when_its_process_ends_then_the_error_says_how(
    how: str, expected: tuple[int | None, int | None]
) -> None:
    error = await raised(leave.options(max_retries=1).remote(how))

    assert type(error) is WorkerCrashedError
    assert (error.exit.signal, error.exit.code) == expected
    assert "leave ended 2 times (max_retries=1)" in str(error)


async def test_calls_behind_the_one_that_died_are_not_charged() -> None:
    for _ in range(3):  # known to be quick, so that many are sent ahead
        await asyncio.gather(*(leave.remote("") for _ in range(MAX_DEPTH)))
    quick = leave.options(max_retries=1)
    refs = [quick.remote("") for _ in range(50)]
    refs.append(quick.remote("signal"))
    refs += [quick.remote("") for _ in range(200)]
    answers = await asyncio.gather(*refs, return_exceptions=True)
    assert isinstance(answers.pop(50), WorkerCrashedError)
    assert {type(answer) for answer in answers} == {int}


async def test_process_when_killed_while_idle_then_the_next_call_gets_another() -> None:
    first = await pid.remote()
    os.kill(first, signal.SIGKILL)
    await gone(first)
    assert await pid.remote() != first


@pytest.mark.process
async def test_workers_when_killed_in_the_middle_then_every_call_is_answered(
    runtime: Runtime,
) -> None:
    refs = [pid.options(max_retries=-1).remote() for _ in range(1_500)]
    for place in (500, 1_000):
        await refs[place]
        for group in runtime.snapshot().worker_groups:
            for number in filter(None, group.pids):
                # It may be gone since the last time, and not be told yet.
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
    assert len(await asyncio.gather(*refs)) == 1_500
    assert runtime.available_resources()["CPU"] == 2


async def test_exit_actor_is_refused_in_a_function() -> None:
    error = await raised(actorlib.remote(actorlib.exit_actor).remote())
    assert isinstance(error, TypeError)


# Cancelling.


@actorlib.remote
def careful(place: Place, path: Path) -> None:
    """Notes how it ends."""
    try:
        place.stop_here()
    except BaseException as error:
        path.write_text(f"{type(error).__name__} {os.getpid()}")
        raise


@actorlib.remote
def items(place: Place, path: Path) -> Iterator[int]:
    """The same as a stream."""
    yield os.getpid()
    careful.__wrapped__(place, path)


@actorlib.remote(num_returns=2)
def parts(place: Place, path: Path) -> tuple[int, int]:
    careful.__wrapped__(place, path)
    return 1, 2


def begin(form: str, place: Place, path: Path) -> tuple[Any, Any]:
    """Calls it; what can be cancelled, and a ref that has the error."""
    if form == "stream":
        stream = items.remote(place, path)
        return stream, stream.completed()
    if form == "parts":
        one, other = parts.remote(place, path)
        return one, other
    token = colour.set("red")
    try:
        ref = careful.remote(place, path)
    finally:
        colour.reset(token)
    return ref, ref


FORMS = pytest.mark.parametrize("form", ["call", "stream", "parts"])


@pytest.mark.process
@FORMS
async def test_cancel_when_a_function_runs_then_it_is_interrupted_and_its_worker_stays(
    form: str, stop: Stop, tmp_path: Path
) -> None:
    call, ref = begin(form, stop.place, tmp_path / "end")
    await stop.reached()

    assert call.cancel()

    assert type(await raised(ref)) is TaskCancelledError
    # Both CPUs are free again, and the process is used again.
    assert await pid.options(num_cpus=2).remote()
    name, number = (tmp_path / "end").read_text().split()
    assert name == "KeyboardInterrupt"
    assert int(number) in {await pid.remote() for _ in range(4)}


@FORMS
async def test_cancel_when_by_force_then_the_process_ends_and_others_run(
    form: str, stop: Stop, tmp_path: Path
) -> None:
    call, ref = begin(form, stop.place, tmp_path / "end")
    await stop.reached()

    assert call.cancel(force=True)

    assert type(await raised(ref)) is TaskCancelledError
    assert await pid.options(num_cpus=2).remote()
    assert not (tmp_path / "end").exists()
    finished = add.remote(1)
    assert await finished == 1
    assert not finished.cancel(force=True)
    assert await finished == 1


async def test_cancel_when_by_force_and_not_recursive_then_what_it_called_goes_on(
    runtime: Runtime, stop: Stop
) -> None:
    outer = actorlib.remote(lambda place: actorlib.get(halt.remote(place)))
    ref = outer.remote(stop.place)
    await stop.reached()

    actorlib.cancel(ref, force=True, recursive=False)

    assert type(await raised(ref)) is TaskCancelledError
    assert runtime.available_resources()["CPU"] == 1
    stop.release()
    await add.options(num_cpus=2).remote(1)


@pytest.mark.process
async def test_cancel_when_calls_follow_one_another_then_no_other_is_interrupted() -> (
    None
):
    @actorlib.remote
    def busy() -> int:
        return sum(range(20_000))

    for _ in range(10):
        refs = [busy.remote() for _ in range(20)]
        await refs[0]
        for ref in refs[1::2]:
            actorlib.cancel(ref)
        assert set(await asyncio.gather(*refs[::2])) == {199990000}


async def test_cancel_when_its_worker_is_being_started_then_it_never_runs(
    tmp_path: Path,
) -> None:
    touch = actorlib.remote(num_cpus=0.75)(lambda path: path.touch())
    ref = touch.remote(tmp_path / "first")  # nobody else's workers are like that
    actorlib.cancel(ref)
    assert type(await raised(ref)) is TaskCancelledError
    await touch.remote(tmp_path / "second")
    assert not (tmp_path / "first").exists()


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


async def test_cancel_when_very_many_wait_then_all_end_at_once(stop: Stop) -> None:
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
