"""Holds the code to the plan of the house: who may import whom, and who may not.

Every import counts, also one inside a function or for the type checker alone: what a
file names it depends on. What is allowed here is what is needed; an arrow that is
missing from ``ARROWS`` is a question to be asked before it is answered by adding it.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import actorlib

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(actorlib.__file__).parent
PACKAGES = {
    "actorlib",
    "actorlib._enforcement",
    "actorlib._inline",
    "actorlib._local",
    "actorlib._ray",
    "actorlib._wire",
    "actorlib._worker",
    "actorlib.accelerators",
    "actorlib.blocking",
    "actorlib.blocking.util",
}

ARROWS: dict[str, str] = {
    # The ground: it knows nothing.
    "exceptions": "",
    "_apart": "exceptions",
    "_spelling": "",
    "_label": "",
    "_checks": "_spelling",
    "_kinds": "",
    "_ids": "",
    "_resources": "_kinds",
    "_runtime_env": "exceptions _spelling",
    "_bundles": "_kinds _resources",
    "_group_options": "_bundles _checks",
    "_call_options": "_checks",
    "_propagation": "",
    "_interface": "_call_options _label _options",
    "_snapshot": "",
    "_calling": "",
    "_streams": "",
    "_forking": "",
    "_serializers": "",
    "_naming": "_runtime_env",
    "_function_options": (
        "_checks _kinds _options _resources _runtime_env _bundles _call_options "
        "_group_options"
    ),
    "_options": ("_bundles _checks _group_options _kinds _resources _runtime_env"),
    "_runtime_options": "_checks _resources _runtime_env",
    # The waist.
    "_ref": "exceptions _checks _apart",
    "_owner_thread": "_apart _ref",
    "_unlooped": "",
    "_window": "",
    "_reading": "_ref _window exceptions",
    "_generator": "_apart _reading _ref",
    "_context": "_bundles _calling _runtime_env",
    "_pending": "_ref",
    "_batch": "_ref",
    "_chunks": "_engine exceptions",
    "_parts": "_ref",
    "_reservations": "_bundles _ref _snapshot",
    "_engine": (
        "_ids "
        "_bundles _interface _options _pending _ref _reservations _snapshot _context "
        "_reading _function_options _label"
    ),
    "_owner": "_ids _bundles _engine _function_options _options _snapshot",
    # The agreements: with another process, with hardware, and how a lease is kept.
    "_wire": "_wire exceptions _serializers",
    "accelerators": "accelerators _kinds exceptions",
    "_enforcement": "_enforcement accelerators _kinds _resources exceptions",
    "_code": "_ids _engine _wire exceptions",
    "_inspection": "_checks _wire",
    "_values": "_ids _engine _ref _wire _interface",
    # What both wings do with the arguments of a call.
    "_arguments": "_ids _engine _ref _wire exceptions _values",
    "_telling": "_calling _propagation _wire exceptions",
    # The wings: each knows the waist and the agreements, neither knows the other.
    "_local": (
        "_ids _local _bundles _engine _pending _ref _arguments _snapshot _streams "
        "_interface _options _runtime_options _kinds _resources _runtime_env "
        "exceptions _wire accelerators _enforcement _calling _context _propagation "
        "_telling _reading _window _values _code _function_options _spelling _apart "
        "_forking _label _owner_thread"
    ),
    "_worker": (
        "_ids "
        "_chunks _worker _bundles _calling _engine _pending _ref _arguments _interface "
        "_options _runtime_env _snapshot exceptions _wire _context "
        "_propagation _telling _reading _window _values _code _function_options "
        "_forking _label _streams _unlooped"
    ),
    "_ray": (
        "_ids "
        "_ray _apart _bundles _calling _chunks _context _engine _function_options "
        "_handle _interface _kinds _options _owner_thread _pending _propagation "
        "_reading _ref _remote _resources _runtime_env _runtime_options _serializers "
        "_snapshot _telling _label _unlooped _waiting _wire exceptions"
    ),
    # The owner's side and a worker's in one process: the pipe is between them still.
    "_inline": "_inline _engine _runtime_options _local _wire _worker",
    # The faces.
    "_method": "_actor_method _call_options _handle _interface _generator",
    "_actor_method": (
        "_ids _batch _checks _call_options _engine _interface _parts _ref exceptions "
        "_generator _reading"
    ),
    "_handle": "_ids _actor_method _engine _interface _spelling",
    "_function": (
        "_bindings _engine _function_options _interface _naming _ref _bundles "
        "_context _generator _parts _placement_group _reading"
    ),
    "_placement_group": (
        "_bundles _checks _engine _group_options _options _ref _snapshot"
    ),
    "_remote": (
        "_bindings _engine _handle _interface _options _placement_group _function "
        "_function_options _naming"
    ),
    "_bindings": "_handle _naming _ref",
    "_lookup": "_checks _engine _handle _snapshot",
    "_waiting": "_checks _generator _ref _apart",
    "_results": "_checks _generator _ref _waiting",
    "_source": "_results",
    "_flow": "_actor_method _checks _ref _results _source _waiting",
    "_work": "_flow _handle _ref _waiting exceptions",
    "_progress": "",
    "_pool": (
        "_checks _flow _handle _progress _results _source _waiting _work exceptions"
    ),
    "_buffer": "",
    "_queue_actor": "_ids _buffer _engine _remote",
    "_desk": "_ids _engine _handle _interface _ref _waiting _wire exceptions",
    "_queue": "_checks _desk _handle _queue_actor _ref _remote _waiting exceptions",
    "_choosing": "_checks _inline _local _owner _ray _runtime_options",
    "_runtime": (
        "_checks _engine _function _handle _placement_group _ref _remote "
        "_runtime_options _snapshot _streams _context _generator _choosing _owner "
        "_waiting _apart _naming _runtime_env"
    ),
    "": (
        "exceptions _actor_method _batch _flow _handle _lookup _method "
        "_placement_group _pool _queue _ref "
        "_remote _results _runtime _snapshot _waiting _context _propagation "
        "_generator _function _serializers _inspection"
    ),
    "blocking": (
        " blocking accelerators exceptions _actor_method _apart _bundles _checks "
        "_choosing _context _engine _spelling "
        "_flow _function _generator _handle _inspection _local _method _naming "
        "_placement_group _ref _remote _results _runtime _runtime_env _runtime_options "
        "_serializers _snapshot _streams _waiting"
    ),
    "_demo": "_handle _remote _runtime",
    "_cli": " _demo accelerators",
    "_summary": " accelerators",
    "_devices": "_summary accelerators",
    "__main__": " _cli _devices _runtime_options exceptions",
}
"""The rooms that each room may import; the empty name is ``actorlib`` itself."""

ACTORLIB_ITSELF = {"blocking", "_cli", "_summary", "__main__"}

PURE = [
    "blocking._options",
    "_buffer",
    "_checks",
    "_kinds",
    "_resources",
    "_bundles",
    "_group_options",
    "_options",
    "_call_options",
    "_runtime_options",
    "_runtime_env",
    "_interface",
    "_snapshot",
    "_label",
    "_ids",
    "_local.last_words",
    "exceptions",
    "accelerators.base",
    "accelerators.masks",
    "accelerators.types",
    "_enforcement.caps",
    "_local.arrange",
    "_local.bundles",
    "_local.group_reasons",
    "_local.holders",
    "_local.ledger",
    "_local.levels",
    "_local.line",
    "_local.mailbox",
    "_local.marks",
    "_local.under_way",
    "_local.names",
    "_local.packing",
    "_local.placement",
    "_local.postmortem",
    "_local.log_style",
    "_local.reasons",
    "_local.repeats",
    "_local.registry",
    "_local.restarts",
    "_local.retries",
    "_local.reach",
    "_local.scopes",
    "_local.topology",
    "_local.where",
    "_worker.gate",
    "_worker.ways",
    "_local.wishes",
    "_wire.codec",
    "_wire.control",
    "_wire.frames",
    "_wire.lanes",
    "_wire.upward",
    "_local.asked",
    "_local.deadlines",
    "_local.timeline",
    "_local.waits",
    "_window",
    "_wire.blocks",
    "_function_options",
    "_local.ahead",
    "_worker.tempo",
    "_spelling",
    "_ray.deadlines",
    "_ray.options",
    "_ray.refusal",
    "_ray.translate",
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


def own_imports_of(name: str) -> set[str]:
    """The files of the package that one of them imports."""
    return {
        found.removeprefix("actorlib").removeprefix(".")
        for found in imports_of(name)
        if found.split(".")[0] == "actorlib"
    } - {name}


def room_of(name: str) -> str:
    return name.partition(".")[0]


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


def test_rooms_when_listed_then_every_one_has_its_arrows() -> None:
    assert {room_of(name) for name in FILES} == set(ARROWS)


@pytest.mark.parametrize("room", ARROWS, ids=lambda room: room or "actorlib")
def test_room_when_it_imports_another_then_the_plan_allows_it(room: str) -> None:
    allowed = set(ARROWS[room].split())
    if room in ACTORLIB_ITSELF:
        allowed.add("")

    broken = {
        f"{name or 'actorlib'} -> {other or 'actorlib'}"
        for name in FILES
        if room_of(name) == room
        for other in own_imports_of(name)
        if room_of(other) not in allowed
    }

    assert broken == set()


@pytest.mark.parametrize(
    ("wing", "other"), [("_local", "_worker"), ("_worker", "_local")]
)
def test_wing_when_it_imports_then_never_the_other_wing(wing: str, other: str) -> None:
    broken = [
        (name, found)
        for name in FILES
        if room_of(name) == wing
        for found in own_imports_of(name)
        if room_of(found) == other
    ]

    assert broken == []


@pytest.mark.parametrize(("wing", "places"), [("_worker", []), ("_ray", ["_ray.here"])])
def test_wing_when_it_imports_a_face_then_in_one_place_at_most(
    wing: str, places: list[str]
) -> None:
    broken = [
        name
        for name in FILES
        if room_of(name) == wing and {"_handle", "_remote"} & own_imports_of(name)
    ]

    assert broken == places


def test_engine_when_named_then_in_one_place_and_nothing_else_of_the_wings() -> None:
    named = {name for name in own_imports_of("_choosing") if "." in name}

    assert named <= {
        "_inline.launcher",
        "_local.machine",
        "_local.which",
        "_ray.owner",
    }


def test_inline_when_it_imports_the_wings_then_what_starts_and_serves_alone() -> None:
    named = {
        found
        for name in FILES
        if room_of(name) == "_inline"
        for found in own_imports_of(name)
        if room_of(found) in ("_local", "_worker")
    }

    assert named == {
        "_local.descriptors",
        "_local.launcher",
        "_worker.__main__",
        "_worker.birth",
        "_worker.crew",
        "_worker.functions",
        "_worker.looped",
        "_worker.loops",
        "_worker.serial",
        "_worker.threaded",
    }


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
    assert [n for n in FILES if "ray" in imports_of(n)] == ["_ray.library"]


# What decides is pure.


@pytest.mark.parametrize("name", PURE)
def test_pure_file_when_it_imports_then_nothing_that_acts(name: str) -> None:
    tops = {found.split(".")[0] for found in imports_of(name)}

    assert tops & IMPURE == set()


def test_global_when_looked_for_then_one_slot_alone() -> None:
    found = {
        (name, *node.names)
        for name in FILES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Global)
    }

    assert found == {("_engine", "_engine")}


# Import budgets.


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import actorlib",
            "actorlib._inline actorlib._local actorlib._ray actorlib._worker "
            "actorlib._wire actorlib.accelerators "
            "msgpack cloudpickle numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib.blocking",
            "actorlib._inline actorlib._local actorlib._worker actorlib.accelerators "
            "msgpack cloudpickle numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.serial",
            "actorlib._local actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.looped",
            "actorlib._local actorlib.accelerators numpy pynvml ray rich torch uvloop",
        ),
        (
            "import actorlib._worker.template",
            "actorlib._local actorlib.accelerators numpy pynvml ray rich torch",
        ),
        (
            "import actorlib._local.engine",
            "actorlib._inline actorlib._ray actorlib._worker numpy pynvml ray rich "
            "torch",
        ),
        (
            "import actorlib.accelerators",
            "actorlib._local actorlib._wire actorlib._worker "
            "msgpack cloudpickle numpy pynvml ray torch",
        ),
    ],
)
def test_import_when_in_a_fresh_interpreter_then_it_keeps_to_its_budget(
    statement: str, forbidden: str
) -> None:
    assert loaded_by(statement) & set(forbidden.split()) == set()


# Maps.


def test_packages_when_listed_then_these() -> None:
    found = {
        ".".join(("actorlib", *file.parent.relative_to(PACKAGE).parts))
        for file in FILES.values()
    }

    assert found == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES - {"actorlib"}))
def test_package_when_it_has_rooms_then_its_docstring_names_each_and_no_other(
    package: str,
) -> None:
    package = package.removeprefix("actorlib.")
    rooms = {
        name.removeprefix(f"{package}.").partition(".")[0]
        for name in FILES
        if name.startswith(f"{package}.")
    }
    text = ast.get_docstring(tree_of(package)) or ""
    # A line of the map begins with the rooms that it is about: * ``a``, ``b``: ...
    entries = [part.split(":", 1)[0] for part in text.split("\n* ")[1:]]
    named = {name for entry in entries for name in entry.split("``")[1::2]}

    assert named == rooms
