"""Golden files: recorded outputs that tests compare with, in ``goldens/`` beside them.

``pytest --update-goldens`` rewrites those of the tests that run, and prints what has
changed. A golden file shows that something has changed, not that it is right: each test
also asserts what its output means.
"""

from __future__ import annotations

import difflib
import os
import re
from pprint import pformat
from typing import TYPE_CHECKING, final

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CHANGED = "changed golden file"

_STATED: Mapping[str, str] = {
    r"\b\d+(\.\d+)? (?=(s|us|ms)\b)": "N ",
    r"\b\d\d:\d\d:\d\d\.\d+": "TIME",
    r"\bpid[ =]\d+": "pid PID",
}
"""What no two runs have in common, and what stands for it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the switch that rewrites golden files."""
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="rewrite the golden files of the tests that run, and print the changes",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses to rewrite where nobody reads the changes."""
    if config.getoption("--update-goldens") and os.environ.get("CI"):
        raise pytest.UsageError("--update-goldens does not run under CI")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what was rewritten; with xdist, by whichever process."""
    for report in terminalreporter.stats.get("passed", []):
        for name, change in getattr(report, "user_properties", []):
            if name == _CHANGED and report.when == "call":
                terminalreporter.write_line(str(change))


@final
class Golden:
    """Compares outputs with the golden files of a test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._folder = request.path.with_name("goldens")
        self._is_updating = request.config.getoption("--update-goldens")
        self._properties = request.node.user_properties

    def check(self, name: str, text: str) -> None:
        """Fails with the difference unless the text is that of the golden file.

        Args:
            name: The name of the file.
            text: The output, without what differs from run to run. Spaces at the ends
                of its lines do not count.
        """
        path: Path = self._folder / name
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
        recorded = path.read_text("utf-8") if path.exists() else ""
        if text == recorded:
            return
        change = _difference(path.name, recorded, text)
        if not self._is_updating:
            pytest.fail(
                f"{change}\nIf this is right: pytest --update-goldens", pytrace=False
            )
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        self._properties.append((_CHANGED, change))

    def check_value(self, name: str, value: object) -> None:
        """As ``check``, of a document that a program reads."""
        text = pformat(value, width=100, sort_dicts=False, compact=True)
        self.check(name, f"{text}\n")


def _difference(name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"recorded {name}", name, lineterm=""
    )
    return "\n".join(lines) or f"{name}: only the end of the last line differs"


def stable(text: str, known: Mapping[str, object] | None = None) -> str:
    """Replaces process ids and times.

    Args:
        text: The output.
        known: What to replace besides, such as folders and process ids that stand
            alone: the word that stands for each.
    """
    for word, value in (known or {}).items():
        text = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", word, text)
    for pattern, word in _STATED.items():
        text = re.sub(pattern, word, text)
    return text


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of a test."""
    return Golden(request)
