"""``actorlib cache``: what is listed and removed, and how it is shown."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from actorlib._api.cache_folder import open_cache, write_entry

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.listings import Command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has two results of one function, one of them old, and one of another."""
    for function, number in (("m.train", 0), ("m.train", 1), ("m.\x1btest", 2)):
        path = open_cache(tmp_path, function, "v1") / f"{number}{'a' * 39}.pickle"
        write_entry(path, number)
        if number == 1:
            day_ago = time.time() - 86400
            os.utime(path, (day_ago, day_ago))
    return tmp_path


def test_results_when_listed_then_each_function_and_the_total(
    folder: Path, command: Command
) -> None:
    ended = command("cache", "ls", str(folder))
    rows = json.loads(command("cache", "ls", str(folder), "--json").out)

    assert ended.code == 0
    assert "m.train" in ended.out
    assert "m.\\x1btest" in ended.out
    assert f"3 results of {sum(row['nbytes'] for row in rows)} B in all." in ended.out
    assert [(row["function"], row["version"], row["count"]) for row in rows] == [
        ("m.\x1btest", "v1", 1),
        ("m.train", "v1", 2),
    ]
    assert rows[1]["last"] - rows[1]["first"] >= 86400 - 60


def test_results_when_removed_then_those_that_were_listed(
    folder: Path, command: Command
) -> None:
    words = [str(folder), "--function", "train", "--older-than", "0.5"]
    listed = command("cache", "ls", *words, "--json").out
    removed = command("cache", "rm", *words, "--json").out

    assert json.loads(listed) == json.loads(removed)
    assert json.loads(removed)[0]["count"] == 1
    assert "There are no such results." in command("cache", "rm", *words).out
    assert "2 results of" in command("cache", "ls", str(folder)).out
    assert "were removed." in command("cache", "rm", str(folder)).out
    assert command("cache", "ls", str(folder)).out == "There are none.\n"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("ls", "missing"), 1, "missing is not a folder"),
        (("rm", "missing"), 1, "missing is not a folder"),
        (("rm", ""), 1, "'' is not a folder"),
        (("rm",), 2, "DIR"),
        (("mv", "x"), 2, "'mv'"),
        (("rm", "x", "--older-than", "-1"), 2, "'-1' is not a number of days"),
        (("rm", "x", "--older-than", "nan"), 2, "'nan' is not a number of days"),
    ],
)
def test_command_when_misused_then_it_says_so(
    words: tuple[str, ...], code: int, why: str, command: Command
) -> None:
    ended = command("cache", *words)

    assert (ended.code, why in ended.err) == (code, True)
