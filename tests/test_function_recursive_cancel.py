"""What is cancelled with a call: the functions that it has called, and theirs."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003  # functions are pickled with their hints
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Gate, Place, Stop

import actorlib
from actorlib.exceptions import TaskCancelledError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import Runtime
    from actorlib._core.runtime_options import RuntimeKeywords

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2}


@actorlib.remote
def careful(place: Place, path: Path, value: object = "done") -> None:
    try:
        place.stop_here()
    except KeyboardInterrupt:
        path.write_text("interrupted")
        raise
    path.write_text(str(value))


@actorlib.remote
def pass_on(place: Place, path: Path) -> None:
    actorlib.get(careful.remote(place, path))


@actorlib.remote(num_cpus=2)
def alone() -> None:
    """Runs when nothing else does."""


class Caller:
    def wait(self, place: Place, path: Path) -> None:
        actorlib.get(careful.remote(place, path))

    def wait_for_argument(self, gate: Any, place: Place, path: Path) -> str:
        ref = careful.remote(place, path, gate.wait.remote())
        try:
            actorlib.get(ref)
        except TaskCancelledError:
            return "cancelled"
        return "not"

    def note(self, value: int) -> int:
        return value


async def cancelled(ref: Any) -> None:
    with pytest.raises(TaskCancelledError):
        await ref


@pytest.mark.process
async def test_recursive_when_a_function_waits_for_another_then_that_is_interrupted(
    tmp_path: Path, stop: Stop
) -> None:
    ref = pass_on.remote(stop.place, tmp_path / "told")
    await stop.reached()

    actorlib.cancel(ref)

    await cancelled(ref)
    await alone.remote()
    assert (tmp_path / "told").read_text() == "interrupted"


@pytest.mark.parametrize("recursive", [True, False])
async def test_force_when_a_function_waits_for_another_then_that_one_ends_as_well(
    tmp_path: Path, runtime: Runtime, stop: Stop, *, recursive: bool
) -> None:
    ref = pass_on.remote(stop.place, tmp_path / "told")
    await stop.reached()

    actorlib.cancel(ref, force=True, recursive=recursive)

    await cancelled(ref)
    if not recursive:
        assert runtime.available_resources()["CPU"] == 1
        stop.release()
    await alone.remote()
    if recursive:
        assert not (tmp_path / "told").exists()


@pytest.mark.process
async def test_death_when_a_function_has_called_another_then_that_is_interrupted(
    tmp_path: Path, stop: Stop
) -> None:
    @actorlib.remote(max_retries=0)
    def falls(here: Place, there: Place, path: Path) -> None:
        inner = careful.remote(there, path)
        here.stop_here()
        del inner
        os._exit(1)

    with Stop() as here:
        ref = falls.remote(here.place, stop.place, tmp_path / "told")
        await here.reached()
        await stop.reached()
        here.release()
        with pytest.raises(WorkerCrashedError):
            await ref
    await alone.remote()
    assert (tmp_path / "told").read_text() == "interrupted"


@pytest.mark.process
async def test_recursive_when_an_actor_waits_for_a_function_then_it_is_interrupted(
    tmp_path: Path, stop: Stop
) -> None:
    caller = actorlib.remote(Caller).remote()
    ref = caller.wait.remote(stop.place, tmp_path / "told")
    await stop.reached()

    actorlib.cancel(ref)

    await cancelled(ref)
    await alone.remote()
    assert (tmp_path / "told").read_text() == "interrupted"
    assert await caller.note.remote(1) == 1


async def test_recursive_when_false_then_the_function_goes_on(
    tmp_path: Path, stop: Stop
) -> None:
    ref = pass_on.remote(stop.place, tmp_path / "told")
    await stop.reached()

    actorlib.cancel(ref, recursive=False)

    await cancelled(ref)
    stop.release()
    await alone.remote()
    assert (tmp_path / "told").read_text() == "done"


async def test_recursive_when_a_function_waits_for_its_arguments_then_it_never_runs(
    tmp_path: Path, stop: Stop
) -> None:
    caller, gate = actorlib.remote(Caller).remote(), Gate.remote()
    ref = caller.wait_for_argument.remote(gate, stop.place, tmp_path / "told")
    await gate.reached.remote()

    actorlib.cancel(ref)

    await cancelled(ref)
    assert await caller.note.remote(1) == 1
    await gate.open.remote()
    await alone.remote()
    assert not (tmp_path / "told").exists()


async def test_recursive_when_a_function_waits_for_an_actor_then_that_call_ends() -> (
    None
):
    gate = Gate.remote()

    @actorlib.remote
    def ask(gate: Any) -> None:
        actorlib.get(gate.wait.remote())

    ref = ask.remote(gate)
    await gate.reached.remote()

    actorlib.cancel(ref)

    await cancelled(ref)
    assert await gate.left.remote() == [""]
    assert await Echo.remote().echo.remote(1) == 1
