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


FORK = (
    "__import__('multiprocessing').get_context('fork').Pool(1)"
    ".apply(eval, (\"__import__('numpy').ones(4).sum()\",))"
)
LOOK = "__import__('importlib.util').util.find_spec('numpy').origin"
LOADER = "type(__import__('numpy').__spec__.loader).__name__"
DRAW = "__import__('numpy').random.random()"
NAME = "__import__('numpy').name"


async def test_worker_when_another_has_imported_numpy_then_it_finds_it(
    tmp_path: Path,
) -> None:
    import numpy as np  # noqa: F401, PLC0415  # the owner has it, which is not enough

    (tmp_path / "numpy.py").write_text("name = 'another'")
    elsewhere: Any = {"working_dir": str(tmp_path)}
    late: Any = {"env_vars": {"NPY_PROMOTION_STATE": "weak"}}
    async with actorlib.init():
        for _ in range(2):
            assert await Computer.remote().has.remote() == (False, False)
        first = Computer.remote()
        assert await first.evaluate.remote(FORK) == 4
        expected = await first.compute.remote(5)
        assert await first.evaluate.remote(LOADER) == "SourceFileLoader"

        for _ in range(2):
            later = Computer.remote()
            assert await later.has.remote() == (False, True)
            assert await later.compute.remote(5) == expected
            assert await later.has.remote() == (True, True)
        looks = Computer.remote()
        assert (await looks.evaluate.remote(LOOK)).endswith("__init__.py")
        assert await looks.has.remote() == (False, True)  # it was not imported
        assert await looks.evaluate.remote(LOADER) == "SourceFileLoader"
        assert await looks.evaluate.remote(FORK) == 4
        drawn = [await Computer.remote().evaluate.remote(DRAW) for _ in range(3)]
        assert len(set(drawn)) == 3
        other = Computer.options(runtime_env=elsewhere).remote()
        assert await other.evaluate.remote(NAME) == "another"
        # A variable that NumPy reads when it is imported comes too late.
        assert await Computer.remote().warnings.remote() == []
        (warning,) = await Computer.options(runtime_env=late).remote().warnings.remote()
        assert "init(preload=())" in warning


@pytest.mark.parametrize(
    ("preload", "before_first", "before_second"),
    [
        ([], (False, False), (False, False)),
        (["numpy"], (True, True), (True, True)),
        (["json"], (False, False), (False, True)),
    ],
)
async def test_worker_when_the_preload_is_given_then_it_says_whether_numpy_is_shared(
    preload: Sequence[str],
    before_first: tuple[bool, bool],
    before_second: tuple[bool, bool],
) -> None:
    async with actorlib.init(preload=preload):
        for expected in (before_first, before_second):
            actor = Computer.remote()
            assert await actor.has.remote() == expected
            await actor.compute.remote(1)


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
