"""The features that observe a runtime: few files know them, and each can be missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import actorlib

PACKAGE = Path(actorlib.__file__).parent


class Footprint(NamedTuple):
    """How far a feature reaches.

    Attributes:
        pattern: Matches the identifiers of the feature.
        folders: Its own folders.
        files: The other files that may mention it; only to be shortened.
    """

    pattern: str
    folders: tuple[str, ...]
    files: set[str]


LISTS = {"_features/runtime.py", "_worker/features.py"}
"""The two lists of features."""

FOOTPRINTS = {
    "middleware": Footprint(
        r"(?i:middleware|observed_calls)|Observation\b",
        ("_features/middleware", "observe"),
        {
            *LISTS,
            "_runtime.py",  # add_middleware(), remove_middleware()
            "_options/call_events.py",  # the interface: what users' objects are
            "_options/runtime_options.py",  # init(middleware=)
            "__main__.py",  # the help of "actorlib metrics"
        },
    ),
    "recording": Footprint(
        r"CallRecording|recording_of|trace_events|_features\.recording",
        ("_features/recording",),
        {
            *LISTS,
            "_runtime.py",  # trace()
            "__init__.py",  # actorlib.Trace
            "_cli/trace.py",  # actorlib trace
            "blocking/_script_runtime.py",  # timeline()
        },
    ),
    "logs": Footprint(
        r"ActorLogs|logs_of|WorkerRecords|program_levels|_features\.logs",
        ("_features/logs",),
        {*LISTS, "_runtime.py"},  # logs()
    ),
    "stacks": Footprint(
        r"worker_stacks|offer_stacks|_features\.stacks",
        ("_features/stacks",),
        {*LISTS, "_cli/stack.py", "_web/questions.py"},  # a command and a page
    ),
    "web page": Footprint(
        r"_web\b|web_address|PageServer",
        ("_web",),
        {"_runtime.py", "_cli/web.py"},  # init(dashboard=), actorlib top --web
    ),
    "pytest plugin": Footprint(r"_pytest_plugin", ("_pytest_plugin",), set()),
}

CONTRACT = """
import asyncio
import os

import actorlib
from actorlib.exceptions import ActorError, UnsupportedOptionError


@actorlib.remote(max_restarts=1, max_task_retries=1)
class Model:
    def __init__(self):
        self.calls = 0

    def ping(self, value):
        self.calls += 1
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


async def main():
    async with actorlib.init(num_cpus=2) as runtime:
        model = Model.remote()
        assert await model.ping.remote(1) == 1
        assert [await ref async for ref in model.count.remote()] == [0, 1, 2]
        assert await double.remote(21) == 42
        try:
            await model.fail.remote()
        except KeyError:
            pass
        else:
            raise AssertionError("no error")
        assert await model.crash_once.remote("crashed") == "again"
        refused = []
        for ask in ASKS:
            try:
                asked = ask(runtime)
                if asyncio.iscoroutine(asked):
                    await asked
            except UnsupportedOptionError as error:
                refused.append(str(error))
            else:
                raise AssertionError("it was not refused")
    assert not actorlib.is_initialized()
    for line in refused:
        print(line)


class Nothing:
    def before(self, call): ...
    def after(self, call, token, outcome): ...


async def enter(trace):
    async with trace:
        pass


"""

ASKS = {
    "_features/middleware": [
        ("lambda runtime: runtime.add_middleware(Nothing())", "add_middleware()"),
        (
            "lambda _: actorlib._runtime.Runtime("
            "actorlib._runtime.RuntimeOptions(middleware=[Nothing()]))",
            "init(middleware=...)",
        ),
    ],
    "_features/recording": [
        ("lambda runtime: enter(runtime.trace())", "runtime.trace()"),
    ],
    "_features/logs": [("lambda runtime: runtime.logs()", "runtime.logs()")],
    "_features/stacks": [
        (
            "lambda _: actorlib._runtime.features.worker_stacks(os.getpid(), '')",
            "the stack of a worker",
        ),
    ],
    "_web": [
        (
            "lambda _: actorlib._runtime.Runtime("
            "actorlib._runtime.RuntimeOptions(dashboard='localhost:0'))",
            "init(dashboard=...)",
        ),
    ],
    "_pytest_plugin": [],
}
"""What a user asks of a feature that is missing, and how the error names it."""
COMMANDS = {"_features/recording": ["trace"], "_web": ["top", "--web"]}
"""What a user types at a shell, likewise."""


@pytest.mark.parametrize("footprint", FOOTPRINTS.values(), ids=FOOTPRINTS)
def test_feature_when_its_names_are_looked_for_then_these_files_alone_have_them(
    footprint: Footprint,
) -> None:
    mentions = {
        name
        for file in PACKAGE.rglob("*.py")
        if not (name := file.relative_to(PACKAGE).as_posix()).startswith(
            footprint.folders
        )
        # The map of the features names each folder.
        and name != "_features/__init__.py"
        and re.search(footprint.pattern, file.read_text(encoding="utf-8"))
    }

    assert mentions == footprint.files


@pytest.fixture
def run_without(tmp_path: Path) -> object:
    """Runs Python with a copy of the package that lacks a folder."""

    def run(folder: str, *command: str) -> subprocess.CompletedProcess[str]:
        copy = tmp_path / "actorlib"
        if not copy.exists():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, copy, ignore=ignored)
            shutil.rmtree(copy / folder)
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("folder", ASKS)
def test_feature_when_its_folder_is_missing_then_the_rest_works_and_it_is_named(
    folder: str, run_without: object, tmp_path: Path
) -> None:
    assert callable(run_without)
    asks = ", ".join(ask for ask, _ in ASKS[folder])
    program = tmp_path / "contract.py"
    program.write_text(f"{CONTRACT}ASKS = [{asks}]\nactorlib.run(main())\n")

    demo = run_without(folder, "-m", "actorlib", "demo")
    contract = run_without(folder, str(program))

    assert (demo.returncode, contract.returncode) == (0, 0), (
        f"{demo.stderr}\n{contract.stderr}"
    )
    missing = f"actorlib.{folder.replace('/', '.')}"
    assert contract.stdout.splitlines() == [
        f"{verb} needs {missing}, which this installation of actorlib does not have"
        for _, verb in ASKS[folder]
    ]
    if folder in COMMANDS:
        command = run_without(folder, "-m", "actorlib", *COMMANDS[folder])
        named = (
            f"actorlib: error: actorlib {' '.join(COMMANDS[folder])} needs {missing},"
        )
        assert command.returncode == 1
        assert command.stderr.startswith(named)
