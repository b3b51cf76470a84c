"""What actors print, as the owner's environment wants it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from helpers.owners import Owner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.memory,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

HEAD = """
import asyncio, os, sys
import actorlib

@actorlib.remote
class Talker:
    def say(self, text):
        print(text)

@actorlib.remote
class Other(Talker.__wrapped__):
    pass

async def main():
    async with actorlib.init():
        actors = [Talker.remote(), Talker.remote(), Talker.remote(), Other.remote()]
        for number, actor in enumerate(actors):
            await actor.say.remote(f"ready {number}")
        await actors[0].say.remote("alone")
        await actors[0].say.remote("alone")

asyncio.run(main())
"""


def printed(folder: Path, text: str = HEAD, **environ: str) -> tuple[list[str], str]:
    """The lines of a program, with ``PID`` for process ids, and its errors."""
    with Owner(text, folder=folder, environ=environ) as owner:
        assert owner.end() == 0, owner.err
        out = re.sub(r"pid=\d+", "pid=PID", owner.out)
    return out.splitlines(), owner.err


@pytest.mark.process
def test_equal_lines_when_asked_for_then_appear_once_and_are_counted(
    tmp_path: Path,
) -> None:
    """Every variable is a case in ``processes/test_log_printer.py``."""
    environ = {"ACTORLIB_DEDUP_LOGS": "1", "ACTORLIB_COLOR_PREFIX": "1"}
    out, _ = printed(tmp_path, **environ)

    assert [re.sub(r"\033\[\d+m", "", line) for line in out] == [
        "(Talker pid=PID) ready 0",
        "(Talker pid=PID) alone",
        "(Talker pid=PID) alone",
        "(Other pid=PID) ready 3 [repeated 3x across actors]",
    ]
    assert re.fullmatch(r"\033\[\d\dm\(Talker pid=PID\)\033\[0m ready 0", out[0])


@pytest.mark.process
def test_equal_lines_when_nothing_is_asked_for_then_every_one_appears(
    tmp_path: Path,
) -> None:
    out, err = printed(tmp_path)

    assert [line.partition(") ")[2] for line in out] == [
        *(f"ready {number}" for number in range(4)),
        "alone",
        "alone",
    ]
    assert err == "", "the library speaks, and nobody has asked it to"


@pytest.mark.process
def test_a_class_that_cannot_be_imported_is_told_on_stderr(
    tmp_path: Path,
) -> None:
    (tmp_path / "here_alone.py").write_text(
        "import os, sys\n"
        "if os.getpid() != int(os.environ['OWNER']):\n"
        "    raise ModuleNotFoundError(\"No module named 'nowhere'\")\n"
        "class Model:\n"
        "    def run(self): pass\n"
    )
    text = """
import asyncio, os, sys
os.environ["OWNER"] = str(os.getpid())
sys.path.insert(0, os.environ["HERE"])
import actorlib, here_alone

async def main():
    async with actorlib.init():
        model = actorlib.remote(here_alone.Model).remote()
        try:
            await model
        except actorlib.exceptions.ActorDiedError:
            print("it died")

asyncio.run(main())
"""
    out, err = printed(tmp_path, text, HERE=str(tmp_path))

    assert out == ["it died"]
    assert "Model" in err
    assert "ModuleNotFoundError: No module named 'nowhere'" in err


@pytest.mark.process
def test_what_python_says_of_errors_is_whole_for_each_actor(
    tmp_path: Path,
) -> None:
    text = HEAD.replace("print(text)", "fail()")
    text = text.replace(
        "@actorlib.remote\nclass Talker",
        "import traceback\n"
        "def fail():\n"
        "    try:\n"
        "        raise ValueError('no')\n"
        "    except ValueError:\n"
        "        traceback.print_exc()\n\n"
        "@actorlib.remote\nclass Talker",
    ).replace("        await actors[0]", "        # ")

    out, err = printed(tmp_path, text)

    assert out == []
    told = [line.partition(") ")[2] for line in err.splitlines()]
    first = told[: told.index("ValueError: no") + 1]
    assert first[0] == "Traceback (most recent call last):"
    assert told == first * 4
