"""What ``actorlib trace`` says of its file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from actorlib._cli.trace import Traced, in_words

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.listings import Command


def test_words_when_something_is_missing_then_they_say_what() -> None:
    found = Traced(
        pid=812,
        path="out.json",
        seconds=5.04,
        calls=10,
        runs=9,
        dropped=3,
        silent=("Model 'm1' (pid 813)",),
    )

    first, dropped, silent = in_words(found)

    assert first == (
        "5.0 s of pid 812 are in out.json: 10 calls, 9 runs. Open it in "
        "https://ui.perfetto.dev or chrome://tracing."
    )
    assert dropped.startswith("3 older calls and runs were dropped: --kept N")
    assert silent.startswith("Model 'm1' (pid 813) did not send")
    assert len(in_words(replace(found, dropped=0, silent=()))) == 1


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no/out.json", "not a writable folder"),
        ("file/out.json", "not a writable folder"),
        ("", "it is not a writable file"),
        ("\x1b[2J/out.json", r"\x1b[2J"),
    ],
)
def test_file_when_it_cannot_be_written_then_that_is_said_at_once(
    path: str, why: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "file").touch()

    ended = command("trace", "-o", str(tmp_path / path))

    assert ended.code == 1
    assert why in ended.err
