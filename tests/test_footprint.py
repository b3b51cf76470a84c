"""Features can be removed: few files mention them, and the core runs without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

import actorlib

PACKAGE = Path(actorlib.__file__).parent


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


LISTS = {"_features/runtime.py", "_worker/features.py"}
"""The two lists of features."""

OPTIONS = {
    "_options/actor_options.py",
    "_options/runtime_options.py",
    "_options/shares.py",
    "_ray/options.py",
}
"""Where most options are declared."""

FOOTPRINTS = {
    "frameworks": Footprint(
        r"_features\.frameworks", ("_features/frameworks",), {*LISTS}
    ),
    "mps": Footprint(
        r"(?<!/)\bmps|_mps|\bMps",
        ("_features/mps",),
        {*LISTS, *OPTIONS, "_options/function_options.py"},
    ),
    "cgroups": Footprint(
        r"\bcgroups?_|_cgroups?\b|Cgroup|['\"]cgroups?['\"]|_features\.cgroups",
        ("_features/cgroups",),
        {
            *LISTS,
            "_options/runtime_options.py",
            "_options/shares.py",
            "blocking/_options.py",  # the words of enforcement=
        },
    ),
    "watchdog": Footprint(
        r"(?i)overuse|\bwatchdog\b|resident_?watch|_features\.watchdog",
        ("_features/watchdog",),
        {
            "_features/runtime.py",
            *OPTIONS,
            "_options/function_options.py",
            "exceptions.py",  # DeviceMemoryExceeded
        },
    ),
    "memory monitor": Footprint(
        r"(?i)memory_?threshold|memory_?monitor",
        ("_features/memory_monitor",),
        {
            "_features/runtime.py",
            "_options/runtime_options.py",
            "exceptions.py",  # OutOfMemoryError
        },
    ),
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
            "_script_runtime.py",  # timeline()
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

PARTS = {
    "suspend": Footprint(
        r"(?i)(?<![a-z])suspen(?!ds\b)",
        ("_owner/actors/suspension.py",),
        {
            "_api/actor_handle.py",  # suspend(), resume()
            "_core/engine.py",
            "_owner/engine.py",
            "_owner/actors/supervisor.py",
            "_owner/observation/inspection.py",
            "_owner/actors/actor_record.py",  # a state of actors, and where it is shown
            "_rows/snapshot.py",
            "blocking/util/state.py",
            "_ray/engine.py",  # why Ray cannot
            "exceptions.py",  # SuspendError
        },
    ),
    "gangs": Footprint(
        r"(?i)(?<![a-z])gang",
        ("_api/gang.py", "_api/gang_calls.py", "_owner/actors/gangs.py"),
        {
            "_api/placement_group.py",  # group.map()
            "_api/remote_function.py",
            "_options/actor_options.py",  # torch=
            "_options/group_spec.py",
            "_owner/actors/actor_table.py",
            "_owner/machine.py",
        },
    ),
    "links": Footprint(
        r"Link[A-Z]|(?:Outgoing|Incoming|Peer)Links?\b|\bLINK_(?!TYPES)|link_callers"
        r"|(?:incoming|outgoing|peer)_links?",
        (
            "_worker/links",
            "_owner/calls/link_callers.py",
            "_owner/requests/peer_links.py",
        ),
        {
            "_wire/messages.py",  # the frames
            "_wire/worker_messages.py",
            "_owner/calls/router.py",
            "_owner/observation/inspection.py",  # calls that only a worker knows
            "_owner/requests/worker_requests.py",
            "_worker/__main__.py",
            "_worker/executors/async_executor.py",  # read a link, answer over it
            "_worker/executors/serial_executor.py",
            "_worker/executors/threaded_executor.py",
            "_worker/requests/actor_calls.py",  # call over it
            "_worker/requests/async_client.py",
            "_worker/requests/client.py",
            "_worker/requests/engine.py",
            "_worker/requests/inbox.py",
            "_client/engine.py",  # has none
        },
    ),
}
"""Parts of the core that few files mention, by their own files.

They implement operations of handles and of groups. The core cannot import a feature, so
a folder of ``_features`` would need an interface that is longer than the calls.
"""


@pytest.mark.parametrize(
    "footprint", [*FOOTPRINTS.values(), *PARTS.values()], ids=[*FOOTPRINTS, *PARTS]
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
        for file in PACKAGE.rglob("*.py")
        if not (name := file.relative_to(PACKAGE).as_posix()).startswith(
            footprint.folders
        )
        and Path(name) not in lists
        and re.search(footprint.pattern, file.read_text(encoding="utf-8"))
    }

    assert mentions == footprint.files


@pytest.mark.parametrize("feature", FOOTPRINTS)
def test_feature_when_looked_for_in_its_folder_then_its_pattern_finds_it(
    feature: str,
) -> None:
    pattern, folders, _ = FOOTPRINTS[feature]
    files = [file for folder in folders for file in (PACKAGE / folder).glob("*.py")]

    assert any(re.search(pattern, file.read_text(encoding="utf-8")) for file in files)


# Without it.


def run_without(
    folder: str, place: Path, *command: object
) -> subprocess.CompletedProcess[str]:
    """Runs Python with a copy of the package that lacks a folder.

    Args:
        folder: The folder, from the package's own.
        place: Where the copy is.
        command: The arguments of Python.
    """
    copy = place / "actorlib"
    if not copy.exists():
        _link_without(Path(folder).parts, PACKAGE, copy)
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _link_without(parts: tuple[str, ...], source: Path, copy: Path) -> None:
    copy.mkdir()
    for entry in source.iterdir():
        if entry.name != parts[0]:
            (copy / entry.name).symlink_to(entry)
        elif parts[1:]:
            _link_without(parts[1:], entry, copy / entry.name)


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
def test_tier_when_removed_then_the_core_runs_and_refuses_it_by_name(
    tmp_path: Path, feature: str, word: str
) -> None:
    program = tmp_path / "core.py"
    program.write_text(CORE)

    ran = run_without(f"_features/{feature}", tmp_path, program, word)

    assert ran.returncode == 0, ran.stderr
    enforced, actor, runtime = ran.stdout.splitlines()
    said = f"enforcement={word!r} needs actorlib._features.{feature}"
    assert enforced in ("frameworks", "off")
    assert f"asks enforcement={word!r}, which cannot be had: {said}" in actor
    assert f"init(enforcement={word!r}): no device here can have that. {said}" in (
        runtime
    )


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("feature", FOOTPRINTS)
def test_demo_when_a_feature_is_removed_then_it_runs(
    tmp_path: Path, feature: str
) -> None:
    folder = FOOTPRINTS[feature].folders[0]

    ran = run_without(folder, tmp_path, "-m", "actorlib", "demo", "--actors", "4")

    assert ran.returncode == 0, ran.stderr
    assert str(PACKAGE) not in ran.stderr


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
    "_features/memory_monitor": [
        (
            "lambda _: actorlib._runtime.Runtime("
            "actorlib._runtime.RuntimeOptions(memory_threshold=0.9))",
            "init(memory_threshold=...)",
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


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("folder", ASKS)
def test_feature_when_removed_then_the_rest_works_and_it_is_refused_by_name(
    folder: str, tmp_path: Path
) -> None:
    asks = ", ".join(ask for ask, _ in ASKS[folder])
    program = tmp_path / "contract.py"
    program.write_text(f"{CONTRACT}ASKS = [{asks}]\nactorlib.run(main())\n")

    ran = run_without(folder, tmp_path, program)

    assert ran.returncode == 0, ran.stderr
    missing = f"actorlib.{folder.replace('/', '.')}"
    assert ran.stdout.splitlines() == [
        f"{verb} needs {missing}, which this installation of actorlib does not have"
        for _, verb in ASKS[folder]
    ]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("folder", COMMANDS)
def test_command_when_its_feature_is_removed_then_it_is_named(
    folder: str, tmp_path: Path
) -> None:
    command = COMMANDS[folder]

    ran = run_without(folder, tmp_path, "-m", "actorlib", *command)

    missing = f"actorlib.{folder.replace('/', '.')}"
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        f"actorlib: error: actorlib {' '.join(command)} needs {missing},"
    )
