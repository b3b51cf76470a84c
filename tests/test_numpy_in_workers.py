"""NumPy, which the template imports once a worker has: what later workers find."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import files
from typing import TYPE_CHECKING, Any

import pytest
from helpers.computers import Computer

import actorlib

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytest.importorskip("numpy")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux"),
    pytest.mark.skipif(
        not any("openblas" in str(file) for file in files("numpy") or ()),
        reason="NumPy is no wheel with a BLAS of its own",
    ),
]

VARIABLES: list[dict[str, str]] = [
    {},
    {"OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_NUM_THREADS": "2"},
    {"OPENBLAS_NUM_THREADS": "-1", "OMP_NUM_THREADS": "1"},
    {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"},
    {"OPENBLAS_DEFAULT_NUM_THREADS": "1"},
    {"GOTO_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "many"},
    {"OMP_NUM_THREADS": "1,2"},
    {"OMP_NUM_THREADS": "1000"},
]


@pytest.fixture(autouse=True)
def no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {name for variables in VARIABLES for name in variables}:
        monkeypatch.delenv(name, raising=False)


async def test_worker_when_another_has_imported_numpy_then_it_finds_it() -> None:
    async with actorlib.init():
        first = Computer.remote()
        assert await first.has.remote() == (False, False)
        expected = await first.compute.remote(5)
        for _ in range(2):
            later = Computer.remote()
            assert await later.has.remote() == (False, True)
            assert await later.compute.remote(5) == expected
            assert await later.has.remote() == (True, True)


async def test_worker_when_none_has_imported_numpy_then_there_is_nothing_of_it() -> (
    None
):
    import numpy as np  # noqa: F401, PLC0415  # the owner has it

    async with actorlib.init():
        for _ in range(3):
            assert await Computer.remote().has.remote() == (False, False)


@pytest.mark.parametrize("preload", [(), []])
async def test_worker_when_nothing_is_to_be_preloaded_then_it_imports_numpy_itself(
    preload: Sequence[str],
) -> None:
    async with actorlib.init(preload=preload):
        for _ in range(2):
            actor = Computer.remote()
            assert await actor.has.remote() == (False, False)
            await actor.compute.remote(1)


async def test_worker_when_a_preload_brought_numpy_then_it_is_the_users_word() -> None:
    async with actorlib.init(preload=["numpy"]):
        for _ in range(2):
            actor = Computer.remote()
            assert await actor.has.remote() == (True, True)
            await actor.compute.remote(1)


async def test_worker_when_a_preload_is_another_then_numpy_is_shared_too() -> None:
    async with actorlib.init(preload=["json"]):
        await Computer.remote().compute.remote(1)
        assert await Computer.remote().has.remote() == (False, True)


async def _threads(preload: Sequence[str] | None) -> list[tuple[int, int, int]]:
    async with actorlib.init(preload=preload, num_cpus=4):
        await Computer.remote().compute.remote(1)
        found = [
            await Computer.remote().threads.remote(variables) for variables in VARIABLES
        ]
        for cpus in (1, 2, 3):
            actor = Computer.options(num_cpus=cpus).remote()
            found.append(await actor.threads.remote({}))
        return found


@pytest.mark.slow
@pytest.mark.thorough
async def test_threads_when_numpy_is_shared_then_they_are_those_of_an_import() -> None:
    assert await _threads(None) == await _threads(())


@pytest.mark.thorough
async def test_workers_when_they_compute_at_once_then_all_are_right() -> None:
    async with actorlib.init():
        expected = [await Computer.remote().compute.remote(n) for n in range(1, 5)]
        actors = [Computer.remote() for _ in range(4)]
        for _ in range(2):
            found = await asyncio.gather(
                *(a.compute.remote(n) for n, a in enumerate(actors, 1))
            )
            assert found == expected


async def test_random_numbers_when_numpy_is_shared_then_they_differ() -> None:
    draw = "__import__('numpy').random.random()"
    async with actorlib.init():
        await Computer.remote().compute.remote(1)
        drawn = [await Computer.remote().evaluate.remote(draw) for _ in range(3)]
    assert len(set(drawn)) == 3


async def test_worker_when_its_path_has_another_numpy_then_it_is_that_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "numpy.py").write_text("name = 'another'")
    env: Any = {"working_dir": str(tmp_path)}
    async with actorlib.init():
        await Computer.remote().compute.remote(1)
        other = Computer.options(runtime_env=env).remote()
        name = "__import__('numpy').name"
        assert await other.evaluate.remote(name) == "another"
        assert await Computer.remote().compute.remote(1)


async def test_numpy_when_it_is_only_looked_for_then_it_is_not_imported() -> None:
    look = "__import__('importlib.util').util.find_spec('numpy').origin"
    loader = "type(__import__('numpy').__spec__.loader).__name__"
    async with actorlib.init():
        first = Computer.remote()
        assert await first.evaluate.remote(loader) == "SourceFileLoader"
        later = Computer.remote()
        assert (await later.evaluate.remote(look)).endswith("__init__.py")
        assert await later.has.remote() == (False, True)
        assert await later.evaluate.remote(loader) == "SourceFileLoader"


async def test_variable_when_it_is_read_too_late_then_the_worker_is_warned() -> None:
    env: Any = {"env_vars": {"NPY_PROMOTION_STATE": "weak"}}
    async with actorlib.init():
        await Computer.remote().compute.remote(1)
        assert await Computer.remote().warnings.remote() == []
        (warning,) = await Computer.options(runtime_env=env).remote().warnings.remote()
    assert "init(preload=())" in warning


async def test_fork_of_a_worker_when_it_imports_numpy_then_it_finds_it() -> None:
    doubled = (
        "__import__('multiprocessing').get_context('fork').Pool(1)"
        ".apply(eval, (\"__import__('numpy').ones(4).sum()\",))"
    )
    async with actorlib.init():
        for _ in range(2):
            assert await Computer.remote().evaluate.remote(doubled) == 4
        await Computer.remote().compute.remote(1)
        assert await Computer.remote().evaluate.remote(doubled) == 4
