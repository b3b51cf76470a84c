"""A terminal that keeps what was written to it, in place of the program's output."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pytest

_PART = re.compile(r"\x1b\[\??([0-9;]*)([a-zA-Z])|(.)", re.DOTALL)
"""A control sequence, or a character."""


class Terminal(io.StringIO):
    """A terminal that keeps what was written to it."""

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        """Makes one the program's standard output and standard error.

        In the test itself: pytest sets both again between a fixture and its test.
        """
        terminal = cls()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    def isatty(self) -> bool:
        """Whether it is a terminal: it is."""
        return True

    def screen(self) -> list[str]:
        """The rows that somebody sees, down to the cursor or to the last text."""
        rows: list[list[str]] = [[]]
        row = at = 0
        for number, end, character in _PART.findall(self.getvalue()):
            if end == "A":
                row = max(0, row - int(number or 1))
            elif end == "K":
                rows[row].clear()
            elif character == "\n":
                row, at = row + 1, 0
                rows += [[]] * (row == len(rows))
            elif character == "\r":
                at = 0
            elif character:
                rows[row] += " " * (at - len(rows[row]))
                rows[row][at : at + 1] = [character]
                at += 1
        texts = ["".join(each).rstrip() for each in rows]
        while len(texts) > row + 1 and not texts[-1]:
            texts.pop()
        return texts
