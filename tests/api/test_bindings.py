"""What names in code stand for; the namespaces here are as a notebook's."""

from __future__ import annotations

import functools
import logging
from typing import Any

import pytest

from actorlib._api.bindings import Bindings, CurrentSource
from actorlib._options.interface import Interface

CELLS = """
import functools, logging, math

log = logging.getLogger("cells")
number = 1
config = {"lr": 0.1}

def helper():
    return number

def other():
    return 2

@functools.cache
def kept():
    return other()

class Base:
    rate = 1

    def based(self):
        return helper()

class Model(Base):
    count: int = 0

    def plain(self):
        return [helper() for _ in range(math.floor(2.5))]

    @staticmethod
    def static():
        return other()

    @property
    def late(self):
        return later()

    def appended(self):
        log.info("x")
        return [].append(len("abc"))

class Configured:
    def rate(self):
        return config["lr"]

def caller():
    return kept() + helper()

def enclosing(value):
    def inner():
        return value
    def change(new):
        nonlocal value
        value = new
    return inner, change
"""


@pytest.fixture
def cells() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS, names)
    return names


@pytest.mark.parametrize("code", ["Model", "caller"])
def test_bindings_when_nothing_was_written_anew_then_unchanged(
    cells: dict[str, Any], code: str
) -> None:
    bindings = Bindings(cells[code])
    cells["unused"] = 1

    assert bindings
    assert not bindings.have_changed()
    assert not bindings.are_mutable


@pytest.mark.parametrize("code", ["Model", "caller"])
@pytest.mark.parametrize(
    "cell", ["def helper(): ...", "number = 2", "def other(): ...", "other = 3"]
)
def test_bindings_when_a_cell_was_run_again_then_changed(
    cells: dict[str, Any], code: str, cell: str
) -> None:
    bindings = Bindings(cells[code])
    exec(cell, cells)
    assert bindings.have_changed()


@pytest.mark.parametrize(
    "cell",
    [
        "def later(): ...",  # it was missing
        "del helper",
        "math = None",
        "Model.count = 1",
        "Base.rate = 2",
        "Model.plain = lambda self: 0",
    ],
)
def test_bindings_of_a_class_when_a_name_in_it_was_changed_then_changed(
    cells: dict[str, Any], cell: str
) -> None:
    bindings = Bindings(cells["Model"])
    exec(cell, cells)
    assert bindings.have_changed()
    assert not Bindings(cells["Model"]).have_changed()


def test_bindings_when_what_may_change_in_place_is_used_then_mutable(
    cells: dict[str, Any],
) -> None:
    bindings = Bindings(cells["Configured"])
    cells["config"]["lr"] = 0.2

    assert bindings.are_mutable
    assert not bindings.have_changed()


def test_bindings_when_a_path_is_used_then_not_mutable(cells: dict[str, Any]) -> None:
    exec("import pathlib\nhere = pathlib.Path('a')\ndef look(): return here", cells)

    assert not Bindings(cells["look"]).are_mutable


def test_bindings_of_a_closure_when_its_cell_was_changed_then_changed(
    cells: dict[str, Any],
) -> None:
    inner, change = cells["enclosing"](1)
    bindings = Bindings(inner)
    assert not bindings.have_changed()
    change(2)
    assert bindings.have_changed()


def test_bindings_when_code_travels_by_its_name_then_none() -> None:
    assert not Bindings(Interface)
    assert not Bindings(functools.partial(logging.getLogger))
    assert not Bindings(test_bindings_when_code_travels_by_its_name_then_none)


def test_source_when_a_name_stands_for_something_else_then_another_one(
    cells: dict[str, Any],
) -> None:
    source = CurrentSource(cells["caller"], "first", object, is_kept_if_mutable=True)
    assert source.get() == "first"
    exec("def helper(): ...", cells)

    changed = source.get()

    assert changed != "first"
    assert source.may_change
    exec("def other(): ...", cells)
    assert source.get() not in {"first", changed}


def test_source_when_nothing_changed_then_the_same(cells: dict[str, Any]) -> None:
    source = CurrentSource(cells["Model"], "first", object, is_kept_if_mutable=False)
    assert [source.get(), source.get()] == ["first", "first"]


def test_source_when_it_may_be_changed_in_place_then_another_one_if_that_counts(
    cells: dict[str, Any],
) -> None:
    code = cells["Configured"]
    renewed = CurrentSource(code, "first", object, is_kept_if_mutable=False)
    kept = CurrentSource(code, "first", object, is_kept_if_mutable=True)
    assert renewed.get() == kept.get() == "first"

    assert renewed.get() != "first"
    assert kept.get() == "first"


def test_source_when_code_travels_by_its_name_then_it_never_changes() -> None:
    source = CurrentSource(Interface, "first", object, is_kept_if_mutable=False)
    assert source.get() == "first"
    assert not source.may_change
