"""Tables of cases in text files: one case a line, with ``|`` between its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def rows_of(test: str, table: str) -> list[list[str]]:
    """The rows of a table in the folder ``data`` beside a test."""
    text = (Path(test).parent / "data" / f"{table}.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [[value.strip() for value in line.split("|")] for line in lines]


def values_of(test: str, table: str, names: dict[str, Any]) -> list[list[Any]]:
    """The same of a table whose values are written in Python."""
    return [[eval(value, names) for value in row] for row in rows_of(test, table)]
