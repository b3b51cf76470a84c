"""Checks which subpackage imports which, and what is pure.

Every import counts, also one inside a function, for the type checker alone, or by a
string. ``SUBPACKAGES`` lists what is allowed; an import that it lacks needs a reason
before it is added.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(actorlib.__file__).parent

COMMON = "_base _loops _options _futures _rows _core exceptions"
"""The subpackages that all above them may import."""

SUBPACKAGES: dict[str, str] = {
    "exceptions": "",
    "_base": "exceptions",
    "_loops": "_base exceptions",
    "_options": "_base exceptions",
    "_futures": "_base _loops _options exceptions",
    "_rows": "_base _options exceptions",
    "_core": "_base _loops _options _futures _rows exceptions",
    "_shm": "exceptions",
    "_wire": f"{COMMON} _shm",
    "accelerators": COMMON,
    "_scheduler": f"{COMMON} accelerators",
    "_processes": f"{COMMON} _wire",
    "_enforcement": f"{COMMON} _processes accelerators",
    "_features": f"{COMMON} _enforcement _processes _shm _wire accelerators",
    "_api": f"{COMMON} _wire",
    "_worker": f"{COMMON} _features _shm _wire",
    "_ray": f"{COMMON} _api _wire",
    "_owner": f"{COMMON} _enforcement _processes _scheduler _shm _wire accelerators",
    "_inline": f"{COMMON} _processes _wire _worker",
    "_queries": COMMON,
    "_client": f"{COMMON} _queries _shm _wire _worker",
    "observe": COMMON,
    "_features.runtime": (
        f"{COMMON} _enforcement _features _owner _processes _queries _wire"
    ),
    "_web": f"{COMMON} _features.runtime _queries",
    "_runtime": (
        f"{COMMON} _api _client _features.runtime _inline _owner _queries _ray _web"
    ),
    "mypy": "",
    "_script_runtime": f"{COMMON} _features _features.runtime _runtime",
    "_executor": f"{COMMON} _api _script_runtime",
    "joblib": f"{COMMON} _api _executor",
    # The public API.
    "": f"{COMMON} _api _executor _features.runtime _runtime",
    "blocking": (
        f"{COMMON} _api _features _features.runtime _runtime _script_runtime "
        "accelerators joblib"
    ),
    "_cli": (
        f"{COMMON} _api _enforcement _features _features.runtime _queries _runtime "
        "_web accelerators"
    ),
    "__main__": f"{COMMON} _cli",
    "_pytest_plugin": f"{COMMON} _runtime accelerators blocking",
}
"""What each subpackage may import, the lowest layer first; ``""`` is ``actorlib``."""

IMPORT_ACTORLIB = {"blocking", "_cli", "__main__", "_pytest_plugin"}
"""The subpackages that may import ``actorlib`` itself, as users do."""

PURE = [
    "_api.gang_calls",
    "_api.map_window",
    "_cli.actor_columns",
    "_cli.completion_scripts",
    "_cli.top_figures",
    "_cli.top_page",
    "_cli.top_screen",
    "_options.actor_options",
    "_options.call_options",
    "_options.callee",
    "_base.deadlines",
    "_futures.flow_control",
    "_options.function_options",
    "_options.group_spec",
    "_base.ids",
    "_options.hooks",
    "_options.interface",
    "_options.kinds",
    "_base.labels",
    "_base.public",
    "_options.resources",
    "_rows.rows",
    "_options.runtime_env",
    "_options.runtime_options",
    "_options.shares",
    "_rows.snapshot",
    "_rows.tables",
    "_base.validation",
    "_base.value",
    "_web.address",
    "_queries.protocol",
    "_queries.rows",
    "_enforcement.caps",
    "_enforcement.tiers",
    "_enforcement.draining",
    "_enforcement.gpu_processes",
    "_features.frameworks.tier",
    "_features.memory_monitor.policy",
    "_features.mps.decisions",
    "_features.watchdog.judgement",
    "_features.watchdog.resident",
    "_owner.actors.actor_record",
    "_owner.calls.call_policy",
    "_owner.calls.call_table",
    "_owner.calls.calls_under_way",
    "_owner.requests.deadlocks",
    "_owner.actors.exit_reason",
    "_owner.observation.log_tail",
    "_owner.calls.mailbox",
    "_owner.actors.names",
    "_owner.objects.refcount",
    "_owner.actors.restart_policy",
    "_owner.functions.task_queue",
    "_ray.connection_errors",
    "_ray.deadlines",
    "_ray.errors",
    "_ray.options",
    "_scheduler.backtracking",
    "_scheduler.bundle_arrangement",
    "_scheduler.bundle_packing",
    "_scheduler.bundle_spreading",
    "_scheduler.bundles",
    "_scheduler.candidates",
    "_scheduler.catalogue",
    "_scheduler.device_pool",
    "_scheduler.explain",
    "_scheduler.free_buckets",
    "_scheduler.ledger",
    "_scheduler.overtaking",
    "_scheduler.request",
    "_scheduler.topology",
    "_scheduler.wait_queue",
    "_shm.allocator",
    "_wire.codec",
    "_wire.forkserver_protocol",
    "_wire.messages",
    "_wire.ordering",
    "_wire.worker_messages",
    "_worker.executors.concurrency_groups",
    "_worker.template.demand",
    "_web.looks",
    "_worker.links.outgoing_links",
    "accelerators.base",
    "accelerators.masks",
    "accelerators.types",
    "blocking._options",
    "exceptions",
    "_features.recording.trace_events",
]
"""What decides from values alone: time, chance and the system come in as arguments."""

IMPURE = {
    "asyncio",
    "logging",
    "os",
    "random",
    "secrets",
    "select",
    "socket",
    "subprocess",
    "threading",
    "time",
}


def name_of(file: Path) -> str:
    """``_local.engine`` for a file of the package; ``actorlib`` itself has no name."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}
PACKAGES = sorted(n for n, file in FILES.items() if n and file.stem == "__init__")


@functools.cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


@functools.cache
def imports_of(name: str) -> frozenset[str]:
    """The full names of everything that a file imports, anywhere in it."""
    return frozenset(_imports(tree_of(name)))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_file = whole.removeprefix("actorlib.") in FILES
                yield whole if is_file else str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The name of a package alone may be that of something else.
            found = FILES.get(node.value.removeprefix("actorlib."))
            if node.value.startswith("actorlib.") and found and found.stem[0] != "_":
                yield node.value


def own_imports_of(name: str) -> set[str]:
    """The files of the package that one of them imports."""
    return {
        found.removeprefix("actorlib").removeprefix(".")
        for found in imports_of(name)
        if found.split(".")[0] == "actorlib"
    } - {name}


def subpackage_of(name: str) -> str:
    """The subpackage of a file; of a feature, those for the owner are another one."""
    subpackage, _, rest = name.partition(".")
    is_of_runtime = rest.rpartition(".")[2].startswith("runtime")
    is_upper = subpackage == "_features" and is_of_runtime
    return "_features.runtime" if is_upper else subpackage


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split())


# Arrows.


def test_subpackages_when_listed_then_every_one_has_its_imports() -> None:
    assert {subpackage_of(name) for name in FILES} == set(SUBPACKAGES)


@pytest.mark.slow
def test_subpackage_when_it_imports_another_then_the_plan_allows_it() -> None:
    allowed = {
        subpackage: {subpackage, *below.split()}
        for subpackage, below in SUBPACKAGES.items()
    }
    for subpackage in IMPORT_ACTORLIB:
        allowed[subpackage].add("")

    broken = {
        f"{name or 'actorlib'} -> {other or 'actorlib'}"
        for name in FILES
        for other in own_imports_of(name)
        if subpackage_of(other) not in allowed[subpackage_of(name)]
    }

    assert broken == set()


def test_subpackages_when_in_their_order_then_every_import_goes_down() -> None:
    order = list(SUBPACKAGES)

    assert [
        (subpackage, below)
        for place, subpackage in enumerate(order)
        for below in SUBPACKAGES[subpackage].split()
        if below not in order[:place]
    ] == []


@pytest.mark.slow
def test_engine_when_named_then_by_the_runtime_alone() -> None:
    engines = {"_client", "_inline", "_owner", "_ray"}

    assert {
        subpackage_of(name)
        for name in FILES
        for found in own_imports_of(name)
        if subpackage_of(found) in engines - {subpackage_of(name)}
    } == {"_runtime", "_features.runtime"}


@pytest.mark.slow
def test_imports_when_followed_then_there_is_no_cycle() -> None:
    above: list[str] = []
    done: set[str] = set()
    cycles: list[str] = []

    def follow(name: str) -> None:
        if name in above:
            cycles.append(" -> ".join([*above[above.index(name) :], name]))
        elif name not in done:
            above.append(name)
            for other in sorted(own_imports_of(name)):
                follow(other)
            above.pop()
            done.add(name)

    for name in FILES:
        follow(name)

    assert cycles == []


def test_imports_when_of_this_package_then_each_names_a_file() -> None:
    unknown = [
        (name, other)
        for name in FILES
        for other in own_imports_of(name)
        if other not in FILES
    ]

    assert unknown == []


def test_ray_when_looked_for_then_one_file_imports_it() -> None:
    assert [n for n in FILES if "ray" in imports_of(n)] == ["_ray.ray_api"]


# What decides is pure.


def test_pure_file_when_it_imports_then_nothing_that_acts() -> None:
    broken = {
        f"{name} -> {found}"
        for name in PURE
        for found in imports_of(name)
        if found.split(".")[0] in IMPURE
    }

    assert broken == set()


def test_global_when_looked_for_then_one_slot_alone() -> None:
    found = {
        (name, *node.names)
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Global)
    }

    assert found == {("_core.engine", "_engine")}


# Import budgets.


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import actorlib",
            "actorlib._inline actorlib._owner actorlib._ray actorlib._worker "
            "actorlib._wire actorlib._scheduler actorlib.accelerators actorlib._api "
            "actorlib._runtime asyncio "
            "msgpack cloudpickle numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib; actorlib.remote, actorlib.init, actorlib.run",
            "actorlib._inline actorlib._owner actorlib._ray actorlib._worker "
            "actorlib._wire actorlib._scheduler actorlib.accelerators "
            "msgpack cloudpickle numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib.blocking",
            "actorlib._inline actorlib._owner actorlib._worker actorlib.accelerators "
            "msgpack cloudpickle numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.executors.serial_executor",
            "actorlib._owner actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.executors.async_executor",
            "actorlib._owner actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.template.forkserver\n"
            "import actorlib._worker.executors.serial_executor",
            "actorlib._api actorlib._runtime actorlib._worker.executors.async_executor "
            "actorlib._owner actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._features.frameworks.worker, actorlib._features.mps.worker"
            ", actorlib._features.cgroups.worker, actorlib._features.cgroups.files",
            "actorlib._enforcement actorlib._owner actorlib._worker "
            "actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._owner.launching",
            "actorlib._owner.machine actorlib._scheduler actorlib.accelerators "
            "actorlib._wire.async_channel msgpack cloudpickle pathlib",
        ),
        (
            "import actorlib._owner.engine",
            "actorlib._inline actorlib._ray actorlib._worker numpy pynvml ray rich "
            "torch",
        ),
        (
            "import actorlib.accelerators",
            "actorlib._owner actorlib._wire actorlib._worker "
            "msgpack cloudpickle numpy pynvml ray torch",
        ),
    ],
)
def test_import_when_in_a_fresh_interpreter_then_it_keeps_to_its_budget(
    statement: str, forbidden: str
) -> None:
    assert loaded_by(statement) & set(forbidden.split()) == set()


# Maps.


def test_package_when_it_has_files_then_its_docstring_names_each_and_no_other() -> None:
    wrong = {
        package: sorted(named_in(package) ^ files_in(package)) for package in PACKAGES
    }

    assert {package: names for package, names in wrong.items() if names} == {}


def files_in(package: str) -> set[str]:
    """The files and packages that lie in a package."""
    return {
        name.removeprefix(f"{package}.").partition(".")[0]
        for name in FILES
        if name.startswith(f"{package}.")
    }


def named_in(package: str) -> set[str]:
    """The subpackages that the map of a package names."""
    text = ast.get_docstring(tree_of(package)) or ""
    # A line of the map begins with what it is about: * ``a``, ``b``: ...
    entries = [part.split(":", 1)[0] for part in text.split("\n* ")[1:]]
    return {name for entry in entries for name in entry.split("``")[1::2]}


# Tests.


def test_files_of_tests_when_in_several_folders_then_no_two_have_one_name() -> None:
    # The folders are no packages, so pytest imports each by its name alone.
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []
