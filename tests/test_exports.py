from __future__ import annotations

import ast
import asyncio
import dataclasses
import functools
import importlib
import inspect
import pickle
import pkgutil
import re
import typing
from collections import Counter
from contextlib import suppress
from importlib import resources

import pytest

import actorlib
import actorlib.accelerators
import actorlib.blocking
import actorlib.exceptions
import actorlib.observe
from actorlib._futures.object_ref import BorrowedRef, ObjectRef, immediate_loop

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = [
    "actorlib",
    "actorlib.accelerators",
    "actorlib.blocking",
    "actorlib.exceptions",
    "actorlib.observe",
    "actorlib.types",
]
EVERY_NAME = [
    (module, name)
    for module in PUBLIC
    for name in importlib.import_module(module).__all__
]
CLASSES = [
    value
    for module in (actorlib, actorlib.types)
    for name in module.__all__
    if inspect.isclass(value := getattr(module, name))
]


def public_names(module: str) -> set[str]:
    """The names without an underscore, modules of the language apart."""
    found = vars(importlib.import_module(module))
    return {
        name
        for name, value in found.items()
        if not name.startswith("_")
        and not (inspect.ismodule(value) and not value.__name__.startswith("actorlib"))
    }


def public(module: str, name: str) -> typing.Any:
    """What a public name stands for."""
    return getattr(importlib.import_module(module), name)


def is_alias(value: object) -> bool:
    return typing.get_origin(value) is not None


def test_names_when_public_then_each_is_there_once_and_documented() -> None:
    counts = Counter(EVERY_NAME)

    assert [name for name, count in counts.items() if count > 1] == []
    assert [
        f"{module}.{name}"
        for module, name in EVERY_NAME
        if not isinstance(value := public(module, name), (str, tuple))
        and not is_alias(value)
        and not inspect.getdoc(value)
    ] == []


def test_module_when_looked_at_then_nothing_is_public_but_what_all_says() -> None:
    submodules = {found.name for found in pkgutil.iter_modules(actorlib.__path__)}
    faces = {name for name in public_names("actorlib") if name not in submodules}

    assert faces <= set(actorlib.__all__)


def test_submodules_when_without_underscore_then_the_public_ones() -> None:
    submodules = {found.name for found in pkgutil.iter_modules(actorlib.__path__)}

    assert {name for name in submodules if not name.startswith("_")} == {
        "accelerators",
        "blocking",
        "exceptions",
        "joblib",  # which needs joblib
        "mypy",  # its plugin, which mypy alone loads
        "observe",
        "types",
    }


def test_class_when_it_is_public_then_so_is_every_method_documented() -> None:
    undocumented = [
        f"{made.__name__}.{method}"
        for made in CLASSES
        for method, found in vars(made).items()
        if not method.startswith("_")
        and (inspect.isroutine(found) or isinstance(found, property))
        and not inspect.getdoc(found)
    ]

    assert undocumented == []


def test_package_when_installed_then_it_is_typed_and_has_a_version() -> None:
    assert resources.files("actorlib").joinpath("py.typed").is_file()
    assert [part.isdigit() for part in actorlib.__version__.split(".")] == [True] * 3


def test_names_when_listed_then_what_is_public_and_nothing_else() -> None:
    modules = map(importlib.import_module, [*PUBLIC, "actorlib.blocking.util"])
    beside = {"actorlib.accelerators": ["types"]}

    assert [
        found.__name__
        for found in modules
        if dir(found) != sorted([*found.__all__, *beside.get(found.__name__, ())])
    ] == []


# What engines do with public objects is not on them.

FIELDS = {"call", "callee", "first_waiter", "generator", "result_owner"}
"""What is in refs for engines; ``dir()`` does not list it."""

HELD = [
    actorlib.types.ActorClass,
    actorlib.ActorHandle,
    actorlib.types.ActorMethod,
    actorlib.ActorPool,
    actorlib.types.MapResult,
    actorlib.ObjectRef,
    actorlib.ObjectRefGenerator,
    actorlib.PlacementGroup,
    actorlib.Queue,
    actorlib.types.RemoteFunction,
    actorlib.Results,
    actorlib.Runtime,
    actorlib.types.Waiting,
]


def test_public_class_when_looked_at_then_each_name_is_a_verb_for_users() -> None:
    assert [
        f"{made.__name__}.{name}"
        for made in HELD
        for name, found in vars(made).items()
        if not name.startswith("_")
        and name not in FIELDS
        and not (inspect.isfunction(found) or isinstance(found, property))
    ] == []


@pytest.mark.parametrize("made", [ObjectRef, BorrowedRef])
def test_ref_when_listed_then_without_what_engines_need(
    made: type[ObjectRef[object]],
) -> None:
    for_all = {name for name in dir(asyncio.Future) if not name.startswith("_")}

    listed = {n for n in dir(made(loop=immediate_loop())) if not n.startswith("_")}

    of_ray = {"as_future", "binary", "task_id"}
    assert listed - for_all - of_ray == {"future", "get", "hex"}
    assert for_all - listed == {"set_exception", "set_result"}


def test_context_when_listed_then_without_what_engines_need() -> None:
    hidden = {"captures", "group", "own", "process"}

    assert hidden.isdisjoint(dir(actorlib.types.RuntimeContext()))


# Where public things are at home.


MADE = [
    value
    for module, name in EVERY_NAME
    if isinstance(value := getattr(importlib.import_module(module), name), type)
    or inspect.isfunction(value)
    or isinstance(value, typing.NewType)
]


def test_public_thing_when_asked_for_its_module_then_where_users_import_it() -> None:
    assert [
        f"{made.__module__}.{made.__name__}"
        for made in MADE
        if made.__module__ not in PUBLIC
        or public(made.__module__, made.__name__) is not made
    ] == []


def test_public_thing_when_pickled_then_by_its_public_name() -> None:
    assert [
        (made, pickled)
        for made in MADE
        if b"._" in (pickled := pickle.dumps(made)) or pickle.loads(pickled) is not made
    ] == []


def written() -> Iterator[typing.Any]:
    """The functions and methods among them that are written in some file."""
    for made in MADE:
        found = [made] if not isinstance(made, type) else vars(made).values()
        for function in map(inspect.unwrap, filter(inspect.isfunction, found)):
            # As dataclasses do; and Python 3.14 makes a function of annotations.
            is_made = function.__code__.co_filename == "<string>"
            if not is_made and function.__name__ != "__annotate__":
                yield function


def test_public_function_when_inspected_then_its_source_is_found() -> None:
    assert [
        function
        for function in written()
        if inspect.getfile(function)
        != inspect.getfile(importlib.import_module(file_of(function)))
        or f"def {function.__name__}(" not in inspect.getsource(function)
    ] == []


def test_public_class_when_inspected_then_its_own_source_or_none() -> None:
    for made in MADE:
        if isinstance(made, type):
            with suppress(OSError):  # its file is not that of its public module
                assert f"class {made.__name__}" in inspect.getsource(made)


# Whatever the annotations of public things name is public too.

INSIDE = {
    "GroupReference": "what a PlacementGroup is to the options that name it",
    "GroupSpec": "what a PlacementGroup was asked to be, as engines read it",
    "CallLookup": "how a RuntimeContext asks the process that it is of",
    "ResultOwner": "what fills an ObjectRef, as engines give it to the ref",
    "Resources": "exact amounts, as engines read them in options",
    "Unary": "what has remote(item): a method of an actor, or a remote function",
}
"""What annotations of public things may name without being public, and why."""


@functools.cache
def origins(module: str) -> dict[str, str]:
    """The names that a file has from the package or defines itself, with the home."""
    source = inspect.getsource(importlib.import_module(module))
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("actorlib"):
            found |= {
                alias.asname or alias.name: str(node.module) for alias in node.names
            }
        elif isinstance(node, ast.ClassDef):
            found[node.name] = module
    return found


def file_of(made: typing.Any) -> str:
    """The module in whose file a function is written."""
    return str(inspect.unwrap(made).__globals__["__name__"])


def named_by(annotation: object, module: str) -> set[str]:
    """The names from the package that an annotation has in it."""
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return set(re.findall(r"\w+", text)) & origins(module).keys()


def annotations_of(made: typing.Any) -> Iterator[tuple[str, str]]:
    """The places of a public thing where a type is named, each with such a name."""
    if not isinstance(made, type):
        functions = [made] if inspect.isfunction(made) else []
    else:
        members = [found for n, found in vars(made).items() if not n.startswith("_")]
        getters = [found.fget for found in members if isinstance(found, property)]
        functions = [*filter(inspect.isfunction, members), *filter(None, getters)]
    for function in functions:
        for annotation in function.__annotations__.values():
            for name in named_by(annotation, file_of(function)):
                yield function.__qualname__, name
    if dataclasses.is_dataclass(made):
        module = str(made.__init__.__module__)
        for field in dataclasses.fields(made):
            for name in named_by(field.type, module):
                yield f"{made.__name__}.{field.name}", name


def test_public_thing_when_its_annotations_name_a_type_then_that_is_public() -> None:
    known = {name for _, name in EVERY_NAME} | INSIDE.keys()

    missing = {
        (where, name)
        for made in MADE
        for where, name in annotations_of(made)
        if name not in known and not name.startswith("_")
    }

    assert missing == set()
