"""Features can be removed: few files mention them, and the core runs without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.rare_cases import rarely
from helpers.source_files import FILES, PACKAGE, text_of


class Footprint(NamedTuple):
    """How far a feature reaches.

    Attributes:
        pattern: Matches the identifiers of the feature.
        folders: Its own folders or files.
        files: The other files that may mention it; only to be shortened.
    """

    pattern: str
    folders: tuple[str, ...]
    files: set[str]


DATA = Path(__file__).parent / "data" / "footprints.toml"
FEATURES, PARTS = (
    {
        name: Footprint(row["pattern"], tuple(row["folders"]), set(row["files"]))
        for name, row in rows.items()
    }
    for rows in tomllib.loads(DATA.read_text(encoding="utf-8")).values()
)
"""The features, and parts of the core that few files mention."""


@pytest.mark.parametrize(
    "footprint", [*FEATURES.values(), *PARTS.values()], ids=[*FEATURES, *PARTS]
)
def test_feature_when_its_names_are_looked_for_then_these_files_alone_have_them(
    footprint: Footprint,
) -> None:
    # Each package lists its modules and its folders.
    lists = {
        Path(own).parent / "__init__.py" for own in footprint.folders if "/" in own
    }
    mentions = {
        name
        for module, file in FILES.items()
        if not (name := file.relative_to(PACKAGE).as_posix()).startswith(
            footprint.folders
        )
        and Path(name) not in lists
        and re.search(footprint.pattern, text_of(module))
    }
    own = [
        text_of(module)
        for module, file in FILES.items()
        if file.relative_to(PACKAGE).as_posix().startswith(footprint.folders)
    ]

    assert mentions == footprint.files
    assert any(re.search(footprint.pattern, text) for text in own)


# Without it.


def link_without(folders: set[Path], source: Path, copy: Path) -> None:
    """Makes a copy of a folder that lacks some folders, of links to the rest."""
    copy.mkdir()
    for entry in source.iterdir():
        if any(entry in folder.parents for folder in folders):
            link_without(folders, entry, copy / entry.name)
        elif entry not in folders:
            (copy / entry.name).symlink_to(entry)


PROGRAM = """
import asyncio
import os

import actorlib._runtime
from actorlib.__main__ import main as command_line
from actorlib.exceptions import ActorlibError

Runtime, Options = actorlib._runtime.Runtime, actorlib.types.RuntimeOptions


@actorlib.remote(num_gpus=0.5, memory="1GiB", max_restarts=1, max_task_retries=1)
class Model:
    def ping(self, value):
        return value

    async def count(self):
        for number in range(3):
            yield number

    def fail(self):
        raise KeyError("no")

    def crash_once(self, path):
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(3)
        return "again"


@actorlib.remote
def double(x):
    return 2 * x


class Nothing:
    def before(self, call): ...
    def after(self, call, token, outcome): ...


async def enter(context):
    async with context:
        pass


async def ask_all(asks, runtime):
    for ask in asks:
        try:
            asked = ask(runtime)
            if hasattr(asked, "__await__"):
                await asked
        except ActorlibError as error:
            print(error)
        else:
            raise AssertionError("it was not refused")


async def main():
    async with actorlib.init(num_cpus=2, num_gpus=1) as runtime:
        model = await Model.remote()
        assert await model.ping.remote(await double.remote(21)) == 42
        assert [await ref async for ref in model.count.remote()] == [0, 1, 2]
        try:
            await model.fail.remote()
        except KeyError:
            assert model.share.enforced_by in ("frameworks", "watchdog", "off")
        else:
            raise AssertionError("no error")
        assert await model.crash_once.remote("crashed") == "again"
        await ask_all(ASKS, runtime)
    assert not actorlib.is_initialized()
    await ask_all(LATE_ASKS, None)


actorlib.run(main())
for command in COMMANDS:
    assert command_line(command) == 1
raise SystemExit(command_line(["demo", "--actors", "4"]))
"""

TIERS = {"mps": "mps", "cgroups": "cgroup", "watchdog": "watchdog"}
"""Features that enforce shares, and their words."""
ASKS = {
    "middleware": [
        ("lambda runtime: runtime.add_middleware(Nothing())", "add_middleware()"),
        (
            "lambda _: Runtime(Options(middleware=[Nothing()]))",
            "init(middleware=...)",
        ),
    ],
    "memory monitor": [
        (
            "lambda _: Runtime(Options(memory_threshold=0.9))",
            "init(memory_threshold=...)",
        ),
    ],
    "recording": [
        ("lambda runtime: enter(runtime.trace())", "runtime.trace()"),
    ],
    "logs": [("lambda runtime: runtime.logs()", "runtime.logs()")],
    "stacks": [
        (
            "lambda _: actorlib._runtime.features.worker_stacks(os.getpid(), '')",
            "the stack of a worker",
        ),
    ],
    "web page": [
        (
            "lambda _: Runtime(Options(dashboard='localhost:0'))",
            "init(dashboard=...)",
        ),
    ],
}
"""What a user asks of a feature that is missing, and how the error names it."""
COMMANDS = {"recording": ["trace"], "web page": ["top", "--web"]}
"""What a user types at a shell, likewise."""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", ["all", *rarely(*FEATURES)])
@pytest.mark.thorough
def test_features_when_removed_then_the_rest_works_and_they_are_refused_by_name(
    name: str, tmp_path: Path
) -> None:
    features = [*FEATURES] if name == "all" else [name]
    folders = {feature: FEATURES[feature].folders[0] for feature in features}
    missing = {
        f: f"actorlib.{folder.replace('/', '.')}" for f, folder in folders.items()
    }
    asks = [
        (code, f"{verb} needs {missing[feature]}, which this installation of actorlib")
        for feature in features
        for code, verb in ASKS.get(feature, [])
    ]
    late: list[tuple[str, str]] = []
    for feature in TIERS.keys() & folders:
        asked = f"enforcement={TIERS[feature]!r}"
        reason = f"{asked} needs {missing[feature]}"
        code = f"lambda _: Model.options({asked}).remote()"
        asks.append((code, f"requests {asked}, which cannot be had: {reason}"))
        code = f"lambda _: enter(actorlib.init(num_gpus=1, {asked}))"
        said = f"init({asked}): no device here can have that. {reason}"
        late.append((code, said))
    commands = {f: words for f, words in COMMANDS.items() if f in folders}
    link_without(
        {PACKAGE / folder for folder in folders.values()},
        PACKAGE,
        tmp_path / "actorlib",
    )
    program = tmp_path / "program.py"
    program.write_text(
        f"ASKS = [{', '.join(code for code, _ in asks)}]\n"
        f"LATE_ASKS = [{', '.join(code for code, _ in late)}]\n"
        f"COMMANDS = {[*commands.values()]}\n{PROGRAM}"
    )

    ran = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert str(PACKAGE) not in ran.stderr
    *refused, _ = ran.stdout.split("\n", maxsplit=len(asks + late))
    for line, (_, said) in zip(refused, asks + late, strict=True):
        assert said in line
    for feature, words in commands.items():
        said = f"actorlib: error: actorlib {' '.join(words)} needs {missing[feature]},"
        assert said in ran.stderr
