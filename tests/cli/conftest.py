"""What tests of commands share: the command, without settings of the session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from helpers.listings import Ended

from actorlib.__main__ import main

if TYPE_CHECKING:
    from helpers.listings import Command

# What a machine or a session may have set, and what would change what is shown.
SETTINGS = ("ACTORLIB_", "COLUMNS", "CUDA_", "NO_COLOR", "FORCE_COLOR", "RAY_", "TERM")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process: its output is not a terminal's."""

    def run(*words: str) -> Ended:
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        return Ended(code, *capsys.readouterr())

    return run
