"""Commands whose output is missing, or has no characters for what they say."""

from __future__ import annotations

import io
import os
import sys

import pytest

from actorlib.__main__ import main
from actorlib._cli import metrics


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime whose metrics have an actor with an odd name."""
    monkeypatch.setattr(metrics, "the_runtime", lambda pid: pid)
    monkeypatch.setattr(metrics, "ask_loop", lambda *_, **__: "Modèle\udcff\n")


def test_output_when_its_coding_lacks_a_character_then_its_escape_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))

    assert main(["metrics"]) == 0
    assert written.getvalue() == b"Mod\\xe8le\\udcff\n"


@pytest.mark.parametrize("words", [["metrics"], ["completion", "bash"]])
def test_output_when_it_is_closed_then_the_command_does_its_work(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)

    assert main(words) == 0
    assert main(["trace", "-o", "/no such/folder"]) == 1
    sys.stdout.close()
    sys.stderr.close()


def test_output_when_nobody_reads_it_then_nothing_is_said_of_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as left:
            main(["completion", "bash"])

    assert left.value.code == 1
    assert capsys.readouterr().err == ""
