"""A terminal that keeps what was written to it, in place of the program's output."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    """A terminal that keeps what was written to it."""

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        """Makes one the program's standard output and standard error.

        In the test itself: pytest sets both again between a fixture and its test.
        """
        terminal = cls()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        return terminal

    def isatty(self) -> bool:
        """Whether it is a terminal: it is."""
        return True

    def screen(self) -> list[str]:
        """The rows that somebody sees."""
        rows: list[list[str]] = [[]]
        at = 0
        for character in self.getvalue():
            if character == "\n":
                rows.append([])
                at = 0
            elif character == "\r":
                at = 0
            else:
                rows[-1][at : at + 1] = [character]
                at += 1
        return ["".join(row).rstrip() for row in rows]
