from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pickle
import pkgutil
import re
import typing
from importlib import resources

import pytest

import actorlib
import actorlib.accelerators
import actorlib.blocking
import actorlib.exceptions

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = [
    "actorlib",
    "actorlib.accelerators",
    "actorlib.blocking",
    "actorlib.exceptions",
]
EVERY_NAME = [
    (module, name)
    for module in PUBLIC
    for name in importlib.import_module(module).__all__
]
CLASSES = [n for n in actorlib.__all__ if inspect.isclass(getattr(actorlib, n))]
FUNCTIONS = [n for n in actorlib.__all__ if inspect.isfunction(getattr(actorlib, n))]


def public_names(module: str) -> set[str]:
    """The names without an underscore, modules of the language apart."""
    found = vars(importlib.import_module(module))
    return {
        name
        for name, value in found.items()
        if not name.startswith("_")
        and not (inspect.ismodule(value) and not value.__name__.startswith("actorlib"))
    }


def is_alias(value: object) -> bool:
    return typing.get_origin(value) is not None


@pytest.mark.parametrize("module", PUBLIC)
def test_all_when_read_then_no_name_is_there_twice(module: str) -> None:
    names = importlib.import_module(module).__all__

    assert len(names) == len(set(names))


@pytest.mark.parametrize(("module", "name"), EVERY_NAME)
def test_name_when_it_is_public_then_it_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("module", "name"), EVERY_NAME)
def test_name_when_it_is_public_then_it_is_documented(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)

    assert isinstance(value, (str, tuple)) or is_alias(value) or inspect.getdoc(value)


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
    }


@pytest.mark.parametrize("name", CLASSES)
def test_class_when_it_is_public_then_so_is_every_method_documented(name: str) -> None:
    undocumented = [
        method
        for method, found in vars(getattr(actorlib, name)).items()
        if not method.startswith("_")
        and (inspect.isroutine(found) or isinstance(found, property))
        and not inspect.getdoc(found)
    ]

    assert undocumented == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_when_it_is_public_then_it_is_annotated(name: str) -> None:
    value = getattr(actorlib, name)

    unannotated = [
        parameter.name
        for parameter in inspect.signature(value).parameters.values()
        if parameter.annotation is parameter.empty
    ]

    assert unannotated == []
    assert "return" in value.__annotations__


def test_typing_when_a_checker_looks_then_the_package_says_that_it_is_typed() -> None:
    assert resources.files("actorlib").joinpath("py.typed").is_file()


def test_version_when_read_then_three_numbers() -> None:
    assert [part.isdigit() for part in actorlib.__version__.split(".")] == [True] * 3


def test_names_when_listed_then_what_is_public_and_nothing_else() -> None:
    assert dir(actorlib) == sorted(actorlib.__all__)


# Where public things are at home.


MADE = [
    pytest.param(value, id=f"{module}.{name}")
    for module, name in EVERY_NAME
    if isinstance(value := getattr(importlib.import_module(module), name), type)
    or inspect.isfunction(value)
    or isinstance(value, typing.NewType)
]


@pytest.mark.parametrize("made", MADE)
def test_public_thing_when_asked_for_its_module_then_where_users_import_it(
    made: typing.Any,
) -> None:
    assert made.__module__ in PUBLIC
    assert getattr(importlib.import_module(made.__module__), made.__name__) is made


@pytest.mark.parametrize("made", MADE)
def test_public_thing_when_pickled_then_by_its_public_name(made: typing.Any) -> None:
    pickled = pickle.dumps(made)

    assert pickle.loads(pickled) is made
    assert b"._" not in pickled


# Whatever the annotations of public things name is public too.

INSIDE = {
    "GroupSpec": "what a PlacementGroup was asked to be, as engines read it",
    "Process": "how a RuntimeContext asks the process that it is of",
    "Resources": "exact amounts, as engines read them in options",
    "RestartPolicy": "as engines read it in options",
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
        module = file_of(made.__init__)
        for field in dataclasses.fields(made):
            for name in named_by(field.type, module):
                yield f"{made.__name__}.{field.name}", name


@pytest.mark.parametrize("made", MADE)
def test_public_thing_when_its_annotations_name_a_type_then_that_is_public(
    made: typing.Any,
) -> None:
    public = {name for _, name in EVERY_NAME} | INSIDE.keys()

    missing = {
        (where, name)
        for where, name in annotations_of(made)
        if name not in public and not name.startswith("_")
    }

    assert missing == set()
