"""Steps of everyday work enter no more files than ARCHITECTURE.md says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.process
@pytest.mark.slow
def test_code_paths_when_measured_then_none_is_longer_than_written() -> None:
    page = (TESTS.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| \d+ \| (\d+) \| \d+", page, re.MULTILINE)
    written = {name: int(files) for name, files in rows}

    told = subprocess.run(
        [sys.executable, TESTS / "code_paths.py", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )

    measured = json.loads(told.stdout)
    assert measured.keys() == written.keys()
    longer = {name: files for name, files in measured.items() if files > written[name]}
    assert longer == {}, "shorten them, or say so in ARCHITECTURE.md"
