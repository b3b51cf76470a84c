"""Built-in methods where processes and output matter.

What holds for every engine and kind of actor is in ``tests/contract/``.
"""

from __future__ import annotations

import atexit
from typing import Any

import pytest
from helpers.actors import AsyncCaller, Caller
from helpers.marks import USES_RUNTIME, in_memory

import actorlib

pytestmark = [*in_memory(), USES_RUNTIME]


@pytest.mark.process
@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
async def test_terminate_when_the_process_ends_then_its_exit_handlers_run(
    caller_class: Any, tmp_path: Any
) -> None:
    path = str(tmp_path / "seen")

    def register() -> None:
        atexit.register(lambda: open(path, "w").close())  # noqa: PTH123  # in the actor

    caller = caller_class.remote()
    caller.run.remote(register)
    await caller.__ray_terminate__.remote()
    assert (tmp_path / "seen").exists()


async def test_shutdown_when_it_raises_then_the_actor_leaves_and_it_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Failing:
        def __ray_shutdown__(self) -> None:
            raise KeyError("cleaning up")

    failing = await actorlib.remote(Failing).remote()
    await failing.__ray_terminate__.remote()

    assert "KeyError: 'cleaning up'" in capfd.readouterr().err
