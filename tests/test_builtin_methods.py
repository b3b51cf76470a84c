"""Built-in methods where processes and output matter.

What holds for every engine and kind of actor is in ``tests/contract/``.
"""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Counter

import actorlib

if TYPE_CHECKING:
    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

BUILT_IN = ["__ray_call__", "__ray_ready__", "__ray_terminate__"]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 4, "grace": 0.5}


async def test_dir_when_of_a_handle_then_it_has_them_beside_those_of_the_class() -> (
    None
):
    counter = Counter.remote()

    names = {*BUILT_IN, *dir(Counter)} - {"options", "remote", "spawn"}
    assert sorted(names) == dir(counter)


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
