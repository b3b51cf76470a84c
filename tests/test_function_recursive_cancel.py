"""Functions that are ended by force, and the functions that they have called."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # functions are pickled with their hints
from typing import TYPE_CHECKING, Any

import pytest

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from helpers.actors import Place, Stop

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

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


async def cancelled(ref: Any) -> None:
    with pytest.raises(TaskCancelledError):
        await ref


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
