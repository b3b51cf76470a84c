"""Features can be removed: few files name them, and the core runs without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import actorlib

PACKAGE = Path(actorlib.__file__).parent

PATTERNS = {
    "mps": r"(?<!/)\bmps|_mps|\bMps",
    "cgroups": r"\bcgroups?_|_cgroups?\b|Cgroup|['\"]cgroups?['\"]|_features\.cgroups",
    "watchdog": r"(?i)overuse|\bwatchdog\b|resident_?watch|_features\.watchdog",
}
"""How code names each feature, by its folder."""

OPTIONS = {
    "_options/actor_options.py",
    "_options/function_options.py",
    "_options/runtime_options.py",
    "_options/shares.py",
    "_ray/options.py",
    "blocking/_options.py",
    "exceptions.py",
}
"""The files where the options of ``init`` and ``remote`` are declared, or explained to
whoever meets them. They name a feature by its option, and count as one."""

MOST = 3
"""The options, the list of the owner and the list of workers."""


def files_that_name(feature: str) -> set[str]:
    """The files outside of a feature's folder that name it; maps of packages aside."""
    named: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        path = file.relative_to(PACKAGE)
        is_own = path.is_relative_to(f"_features/{feature}")
        if is_own or path.name == "__init__.py":
            continue
        if re.search(PATTERNS[feature], file.read_text(encoding="utf-8")):
            named.add(path.as_posix())
    return named


@pytest.mark.parametrize("feature", PATTERNS)
def test_feature_when_looked_for_then_few_files_outside_name_it(feature: str) -> None:
    named = files_that_name(feature)

    others = named - OPTIONS

    assert len(others) + bool(named & OPTIONS) <= MOST, sorted(others)


@pytest.mark.parametrize("feature", PATTERNS)
def test_feature_when_looked_for_in_its_folder_then_its_pattern_finds_it(
    feature: str,
) -> None:
    folder = PACKAGE / "_features" / feature
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("[a-z]*.py")]

    assert any(re.search(PATTERNS[feature], text) for text in texts)


# Without it.


def package_without(feature: str, folder: Path) -> dict[str, str]:
    """Makes a copy of the package that has no such folder.

    Args:
        feature: The folder that is left out.
        folder: Where the copy is.

    Returns:
        The environment of a program that imports the copy.
    """
    features = folder / "actorlib" / "_features"
    features.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name != "_features":
            (folder / "actorlib" / entry.name).symlink_to(entry)
    for entry in (PACKAGE / "_features").iterdir():
        if entry.name not in (feature, "__pycache__"):
            (features / entry.name).symlink_to(entry)
    return {**os.environ, "PYTHONPATH": str(folder)}


CORE = dedent(
    """
    import asyncio, sys
    import actorlib
    from actorlib.exceptions import ActorDiedError, ActorlibError

    @actorlib.remote(num_gpus=0.5, memory="1GiB", max_restarts=1)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, number):
            self.count += number
            return self.count

        def numbers(self, most):
            yield from range(most)

        def fail(self):
            raise KeyError("here")

        def crash(self):
            import os
            os._exit(3)

    @actorlib.remote
    def double(number):
        return 2 * number

    async def main():
        async with actorlib.init(num_cpus=2, num_gpus=1):
            counter = await Counter.remote()
            assert await counter.add.remote(await double.remote(2)) == 4
            assert [await ref async for ref in counter.numbers.remote(3)] == [0, 1, 2]
            try:
                await counter.fail.remote()
            except KeyError:
                print(counter.share.enforced_by)
            try:
                await counter.crash.remote()
            except ActorlibError:
                await counter
            assert await counter.add.remote(1) == 1
            try:
                await Counter.options(enforcement=sys.argv[1]).remote()
            except ActorlibError as error:
                print(error)
        try:
            async with actorlib.init(num_gpus=1, enforcement=sys.argv[1]):
                pass
        except ActorlibError as error:
            print(error)

    asyncio.run(main())
    """
)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("feature", "word"),
    [("mps", "mps"), ("cgroups", "cgroup"), ("watchdog", "watchdog")],
)
def test_feature_when_removed_then_the_core_runs_and_refuses_it_by_name(
    tmp_path: Path, feature: str, word: str
) -> None:
    environ = package_without(feature, tmp_path)
    program = tmp_path / "core.py"
    program.write_text(CORE)

    ran = subprocess.run(
        [sys.executable, program, word],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    enforced, actor, runtime = ran.stdout.splitlines()
    said = f"actorlib._features.{feature}.tier is not installed"
    assert enforced in ("frameworks", "off")
    assert f"asks enforcement={word!r}, which cannot be had: {said}" in actor
    assert f"init(enforcement={word!r}): no device here can have that. {said}" in (
        runtime
    )


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("feature", PATTERNS)
def test_demo_when_a_feature_is_removed_then_it_runs(
    tmp_path: Path, feature: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "actorlib", "demo", "--actors", "4"],
        env=package_without(feature, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert str(PACKAGE) not in ran.stderr
