"""What ``actorlib objects`` shows of what a runtime has told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actorlib import ObjectInfo, ObjectStoreInfo
from actorlib._cli.objects import DOCUMENT, draw
from actorlib._cli.pages import console
from actorlib._queries.rows import Objects


def told(**changed: Any) -> Objects:
    """What a runtime with a value and a ref to it tells."""
    value = ObjectInfo(
        object_id="aa" * 24,
        kind="block",
        state="live",
        nbytes=5 << 20,
        age=75.0,
        maker="the program",
        holders={"Model 'm1' (pid 812)": 2, "the program": 1},
        arguments_of=("Model.predict of 'm1' (pid 812)",),
    )
    ref = replace(
        value, object_id="bb" * 16, kind="ref", nbytes=0, age=None, block="aa" * 24
    )
    warm = replace(value, object_id="", state="warm", holders={}, age=None)
    known: dict[str, Any] = {
        "pid": 811,
        "objects": (value, ref, warm),
        "has_more": False,
        "object_store": ObjectStoreInfo(live=5 << 20, warm=1 << 20, limit=1 << 30),
    }
    return Objects(**{**known, **changed})


@pytest.fixture(autouse=True)
def _as_wide_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def page(told: Objects) -> str:
    out = console()
    with out.capture() as captured:
        out.print(draw(told), crop=False)
    return captured.get()


def test_page_when_values_are_kept_then_by_whom_and_since_when() -> None:
    shown = page(told())

    first, second, third = shown.splitlines()[3:6]
    assert first.split()[:6] == ["1", "block", "live", "5", "MiB", "1m"]
    assert "Model 'm1' (pid 812) (2 times), the program" in first
    assert "Model.predict of 'm1'" in first
    assert second.split()[:6] == ["2", "ref", "live", "in", "1", "-"]
    assert third.split()[:3] == ["3", "block", "warm"]
    assert "5 MiB of values, 1 MiB kept warm; the limit is 1 GiB" in shown
    assert "-n says" not in shown
    assert "-n says" in page(told(has_more=True))


def test_page_when_there_is_nothing_then_said_so() -> None:
    shown = page(told(objects=(), object_store=ObjectStoreInfo()))

    assert "holds nothing" in shown
    assert "object_store_memory is 0" in shown


def test_document_when_written_then_its_columns_have_their_names() -> None:
    found = DOCUMENT.encode(told())

    assert {name: found[name] for name in ("pid", "has_more", "object_store")} == {
        "pid": 811,
        "has_more": False,
        "object_store": {"live": 5 << 20, "warm": 1 << 20, "limit": 1 << 30},
    }
    assert found["objects"][1] == {
        "id": "bb" * 16,
        "kind": "ref",
        "state": "live",
        "nbytes": 0,
        "age": None,
        "maker": "the program",
        "holders": {"Model 'm1' (pid 812)": 2, "the program": 1},
        "arguments_of": ("Model.predict of 'm1' (pid 812)",),
        "block": "aa" * 24,
    }
