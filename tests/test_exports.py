from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib import resources

import pytest

import actorlib
import actorlib.accelerators
import actorlib.blocking
import actorlib.exceptions

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

    assert isinstance(value, (str, tuple)) or inspect.getdoc(value)


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
