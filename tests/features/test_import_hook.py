"""Who asks is told of a module once, when it has been imported."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from actorlib._features.frameworks.import_hook import when_imported

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.memory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that are imported by name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_when_imported_when_it_is_there_then_at_once() -> None:
    told: list[object] = []

    when_imported({"sys": told.append})

    assert told == [sys]


def test_when_imported_when_it_comes_later_then_once_it_is_whole(folder: Path) -> None:
    (folder / "later_one.py").write_text("half = 1\nwhole = 2\n")
    told: list[object] = []
    before = list(sys.meta_path)

    when_imported({"later_one": lambda module: told.append(vars(module)["whole"])})
    importlib.import_module("later_one")

    assert told == [2]
    assert sys.meta_path == before


def test_when_imported_when_it_fails_first_then_the_next_import_tells(
    folder: Path,
) -> None:
    file = folder / "failing_one.py"
    file.write_text("raise ValueError(1)")
    told: list[object] = []

    when_imported({"failing_one": told.append})
    with pytest.raises(ValueError, match="1"):
        importlib.import_module("failing_one")
    file.write_text("good = True  # longer than before\n")
    importlib.invalidate_caches()
    module = importlib.import_module("failing_one")

    assert told == [module]
