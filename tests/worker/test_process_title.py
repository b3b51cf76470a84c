"""What ``ps`` shows of a runtime's processes: what they are, not how they began."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from helpers.actors import Echo
from helpers.program_runner import printed_by

import actorlib

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]

SHOWS = """
import sys
from actorlib._worker.os_process import ProcessTitle
before = open("/proc/self/cmdline", "rb").read()
title = ProcessTitle()
for text in eval(sys.argv[1]):
    title.show(text)
    shown = open("/proc/self/cmdline", "rb").read()
    assert len(shown) == len(before), (before, shown)
    print(shown.rstrip(b"\\0"), shown[-1:])
print(sys.argv[1:], sys.orig_argv[-1])
"""


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def test_title_when_there_is_no_room_then_cut_and_nothing_else_is_touched() -> None:
    texts = ["x" * 10_000, "\u00e9t\u00e9", ""]
    shown = printed_by(SHOWS, f"['x' * 10_000, *{texts[1:]!r}]", "last")

    first, second, third, words = shown.splitlines()
    assert set(first.removeprefix("b'").partition("'")[0]) == {"x"}
    assert second == f"{texts[1].encode()!r} b'\\x00'"
    assert third == "b'' b'\\x00'"
    assert words.endswith("'last'] last")


@pytest.mark.parametrize("method", ["template", "spawn"])
async def test_processes_when_looked_at_then_they_say_what_they_are(
    method: str,
) -> None:
    async with actorlib.init(start_method=method, num_cpus=4, num_gpus=0):
        named = [Echo.options(name=f"m{number}").remote() for number in range(3)]
        pids = await asyncio.gather(*(echo.pid.remote() for echo in named))
        template = parent_of(pids[0])

        titles = [title_of(pid) for pid in pids]

        assert titles == [f"actorlib: Echo 'm{number}'" for number in range(3)]
        assert title_of(template) == f"actorlib: workers of pid {os.getpid()}"
