"""The reference has every public name, option, command, variable and metric."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from test_exports import PUBLIC

import actorlib
from docs.building.reference import (
    MODULES,
    exceptions,
    made_for,
    metrics,
    options,
    other_names,
    page_of_others,
    public_names,
    refusals,
    shown_names,
)

ROOT = Path(__file__).parents[1]
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "reference").glob("*.md")
}
OPTIONS = [
    actorlib.types.ActorOptions,
    actorlib.types.CallOptions,
    actorlib.types.FunctionOptions,
    actorlib.types.RuntimeOptions,
]


def test_modules_when_public_then_the_reference_reads_each() -> None:
    assert sorted(MODULES) == sorted(PUBLIC)


def test_public_name_when_the_site_is_built_then_some_page_has_it() -> None:
    others = page_of_others(other_names(PAGES.values()))

    assert set(public_names()) <= set(shown_names([*PAGES.values(), others]))


def test_public_name_when_no_page_has_it_then_it_is_on_the_page_of_others() -> None:
    assert "actorlib.init" in other_names(["::: actorlib.run\n"])
    assert "actorlib.run" not in other_names(["::: actorlib.run\n"])
    assert "actorlib.init" not in other_names(["## I { #actorlib.init }\n"])
    assert "::: actorlib.init\n" in page_of_others(["actorlib.init"])


def test_ref_when_a_page_shows_it_then_without_what_engines_need() -> None:
    griffe = pytest.importorskip("griffe")
    docstrings = importlib.import_module("docs.building.docstrings")
    extensions = griffe.load_extensions(docstrings.Docstrings)

    folder = griffe.load(
        "_futures", search_paths=[ROOT / "actorlib"], extensions=extensions
    )
    shown = folder["object_ref.ObjectRef"].members

    assert [name for name in shown if not name.startswith("_")] == [
        "result",
        "cancel",
        "get",
        "future",
        "hex",
        "binary",
        "task_id",
        "as_future",
    ]


def test_name_when_a_page_shows_it_then_it_is_there_and_shown_once() -> None:
    counts = Counter(shown_names(PAGES.values()))

    assert [name for name, count in counts.items() if count > 1] == []
    for name in counts:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


@pytest.mark.parametrize("made", OPTIONS)
def test_options_when_written_then_each_has_a_row_a_heading_and_its_default(
    made: type,
) -> None:
    text = options(made)
    names = sorted(field.name for field in fields(made) if field.init)

    rows = re.findall(r"^\| \[`(\w+)`\]", text, re.MULTILINE)
    headings = re.findall(r"^#### (\w+) \{", text, re.MULTILINE)
    assert sorted(rows) == names
    assert headings == rows
    assert text.count("Default: ") >= len(headings)
    assert f"<!-- options: {made.__name__} -->" in PAGES["options.md"]


def test_actor_options_when_written_then_in_five_groups() -> None:
    groups = re.findall(
        r"^### (.*)$", options(actorlib.types.ActorOptions), re.MULTILINE
    )

    assert groups == [
        "Resources",
        "Placement",
        "Visibility and enforcement",
        "Calls",
        "Name and life",
    ]


def test_exception_when_public_then_it_is_not_on_the_page_of_others() -> None:
    others = other_names(PAGES.values())

    assert [name for name in others if name.startswith("actorlib.exceptions.")] == []


def test_option_when_given_what_is_wrong_then_the_reference_has_its_errors() -> None:
    assert refusals(actorlib.types.ActorOptions, "max_restarts") == [
        "TypeError: max_restarts takes a whole number, or -1 for no limit, not b'?' "
        "(bytes)",
        "ValueError: max_restarts takes a whole number >= 0, or -1 for no limit, not "
        "-2",
    ]


def test_variables_when_the_code_reads_them_then_the_page_names_each() -> None:
    files = (ROOT / "actorlib").rglob("*.py")
    name = re.compile(r"\bACTORLIB_[A-Z_]+\b")
    read = {found for file in files for found in name.findall(file.read_text())}

    rows = re.findall(r"^\| `(ACTORLIB_\w+)`", PAGES["environment.md"], re.MULTILINE)

    assert sorted(read) == sorted(rows)


def test_metrics_when_written_then_under_the_names_of_a_scrape() -> None:
    pytest.importorskip("prometheus_client")
    table = metrics()

    assert "| `actorlib_calls_total` | counter | `actor_class`, `method`," in table
    assert "| `actorlib_waiting` | gauge | none |" in table


def test_exceptions_when_drawn_then_each_once_below_what_it_derives_from() -> None:
    lines = exceptions().splitlines()
    names = [re.sub(r"^ *\* \[(\w+)\].*", r"\1", line) for line in lines]

    assert Counter(names) == Counter(
        name
        for name in actorlib.exceptions.__all__
        if issubclass(getattr(actorlib.exceptions, name), BaseException)
    )
    assert "    * [Empty][actorlib.exceptions.Empty], also a `queue.Empty`" in lines


def test_marker_when_a_page_has_it_then_something_is_made_for_it() -> None:
    for marker in ("options: CallOptions", "commands", "exceptions"):
        assert made_for(marker)
        assert any(f"<!-- {marker} -->" in page for page in PAGES.values())
