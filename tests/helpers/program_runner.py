"""Runs programs one after the other in one interpreter, which has to start only once.

``python tests/helpers/program_runner.py [SCRIPT [ARGUMENT ...]] ...``, where each
bracket is one JSON list. A line with MARK follows the output of each.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARK = "\0the next program\0"
_SETTINGS = ("ACTORLIB_", "CUDA_", "OMP_", "RAY_")
_ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """What a program has printed, without its last line end."""

    out: str
    err: str


def run(
    *words: str, limit: float, cwd: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these words, without settings of the session.

    Args:
        words: The words behind the name of the interpreter.
        limit: The most seconds that it may take.
        cwd: The folder where it runs.
        settings: Variables for it.
    """
    kept = {n: v for n, v in os.environ.items() if not n.startswith(_SETTINGS)}
    return subprocess.run(
        [sys.executable, *words],
        env={**kept, "PYTHONPATH": str(_ROOT), **settings},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def printed_by(program: str, *words: str, limit: float = 60, **settings: str) -> str:
    """Runs a program to its end, which has to be good; gives what it printed."""
    done = run("-c", dedent(program), *words, limit=limit, cwd=None, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_all(programs: Mapping[str, Sequence[str]], limit: float) -> dict[str, Ended]:
    """Runs programs in one interpreter, each in the folder of its script.

    Args:
        programs: The script and the arguments of each.
        limit: The most seconds that all of them may take.

    Returns:
        What each has printed.
    """
    lists = [json.dumps([*words]) for words in programs.values()]
    done = run(str(Path(__file__)), *lists, limit=limit)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(f"{MARK}\n"), done.stderr.split(f"{MARK}\n")
    return {
        name: Ended(out, err)
        for name, out, err in zip(programs, *outputs, strict=False)
    }


def _run(script: str, *arguments: str) -> None:
    folder = os.path.dirname(script)  # noqa: PTH120  # the program's own path
    before = {*sys.modules}
    sys.argv = [script, *arguments]
    sys.path.insert(0, folder)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        import actorlib.blocking  # noqa: PLC0415  # a program may be the first

        actorlib.blocking.shutdown()
        sys.path.remove(folder)
        for name in {*sys.modules} - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if os.path.dirname(file) == folder:  # noqa: PTH120  # the same
                del sys.modules[name]
        for stream in (sys.stdout, sys.stderr):
            stream.write(f"{MARK}\n")
            stream.flush()


if __name__ == "__main__":
    for words in sys.argv[1:]:
        _run(*json.loads(words))
