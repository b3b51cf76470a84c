"""The examples and the README's program print the output that the documents show."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.on_ray import NEEDS_RAY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LIMIT = 60.0
SETTINGS = ("ACTORLIB_", "CUDA_", "OMP_", "RAY_")

PROMISED = {
    "hello.py": r"""
\[\('m0', \[0\], '0', \d+\), \('m1', \[0\], '0', \d+\), \('m2', \[1\], '1', \d+\)\]
42
\('big', \[1\], '1', \d+\)
""",
    "pool.py": r"""
9592 primes below 100000, counted by 4 processes
each with OMP_NUM_THREADS=1
""",
    "queue_.py": r"""
100 lines, 500 words, 0 left
""",
    "two_models_one_gpu.py": r"""
desserts
0 0
Decoder asks GPU=0\.4; all of GPU=1 is taken\. Held: GPU=0\.6 by Encoder.*
hi
Encoder asks GPU=2; this machine has GPU=1 \(.*\)\. Lower num_gpus.*
""",
    "supervised.py": r"""
crashed 6 work
exited 3 work
done at attempt 3
it raised: no such thing
""",
    "gang.py": r"""
free outside: 0\.0 GPU
\[\[0\], \[1\], \[1\]\]
19
second group reserved: False
second group reserved: True
ActorPlacementGroupRemoved
""",
    "data_parallel.py": r"""
rank 0: the loss fell below 1 %: True
rank 1: the loss fell below 1 %: True
same weights: True
the model: \[1\.0, 2\.0, 3\.0, 4\.0\]
""",
    "deadlines.py": r"""
searched 1000 shelves
Desk\.answer \(pid \d+\) was not done within the 0\.5 s that it was given:.*
Ada's request was cancelled
""",
    "functions.py": r"""
\[0, 1, 4, 9, 16\]
328350
\[\('A', \[0\]\), \('B', \[0\]\)\]
3
True
""",
    "async_functions.py": r"""
4950 in 1 process
\[\('A', \[0\]\), \('B', \[0\]\), \('C', \[0\]\)\]
\['line 0', 'line 1', 'line 2'\]
45
""",
    "executor.py": r"""
42
\[0, 1, 4, 9, 16\]
\[0, 2, 4, 6, 8\]
""",
    "on_a_cluster.py": r"""
2262 primes below 20000
""",
    "actors_calling_actors.py": r"""
4
14
""",
    "sweep.py": r"""
12 trials, [1-9] stopped early
\d+ epochs of 480 were run
trial    rate  momentum  epochs      loss
( +\d+  \d\.\d{4}      0\.\d\d +\d+ +\d+\.\d{6}
){5}""",
    "pipeline.py": r"""
8 arrays of 2 MB, the mean of all is 3\.5
32 MB were created, at most \d+ MB existed at once
bounded: True
""",
    "unit_test.py": r"""
passed
""",
    "streams.py": r"""
LINE 0
LINE 1
LINE 2
line 0 line 1
True
""",
}

SMALLER = {"sweep.py": ("12",), "pipeline.py": ("8", "2")}
"""Arguments for less than what the example does without any."""
WHOLE = {
    "sweep.py": r"""
40 trials, [1-3]\d stopped early
\d+ epochs of 1600 were run
trial    rate  momentum  epochs      loss
( +\d+  \d\.\d{4}      0\.\d\d +\d+ +\d+\.\d{6}
){5}""",
    "pipeline.py": r"""
24 arrays of 50 MB, the mean of all is 11\.5
2400 MB were created, at most \d{2,3} MB existed at once
bounded: True
""",
}
NEEDED = {"data_parallel.py": "torch"}
"""What some examples import besides; the extra ``torch-test`` brings it."""
LONG = {"data_parallel.py", "pipeline.py"}

pytestmark = [pytest.mark.process, pytest.mark.slow]


def run(
    script: Path, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(SETTINGS)}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**kept, "PYTHONPATH": str(ROOT), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def names() -> Iterator[Any]:
    for name in sorted(path.name for path in EXAMPLES.glob("*.py")):
        marks = [pytest.mark.thorough] if name in LONG else []
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(names()))
def test_example_when_run_then_it_prints_what_it_promises(name: str) -> None:
    if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")

    done = run(EXAMPLES / name, *SMALLER.get(name, ()))

    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or name not in SMALLER  # no progress in a file
    assert re.fullmatch(PROMISED[name].lstrip("\n"), done.stdout), done.stdout


def test_examples_page_when_read_then_it_shows_the_output_of_each_example() -> None:
    text = (ROOT / "docs/tutorial/examples.md").read_text(encoding="utf-8")
    parts = re.findall(r"<!-- example: (\S+) -->\n\n```text\n(.*?)```", text, re.DOTALL)

    assert sorted(name for name, _ in parts) == sorted(PROMISED)
    for name, output in parts:
        promise = WHOLE.get(name, PROMISED[name]).lstrip("\n")
        assert re.fullmatch(promise, output), name


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(WHOLE))
def test_example_when_run_as_a_whole_then_it_prints_what_it_promises(name: str) -> None:
    done = run(EXAMPLES / name)

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(WHOLE[name].lstrip("\n"), done.stdout), done.stdout


@pytest.mark.ray
@NEEDS_RAY
def test_example_when_the_environment_says_ray_then_it_prints_the_same() -> None:
    name = "on_a_cluster.py"
    settings = {"ACTORLIB_ENGINE": "ray", "RAY_AUTH_MODE": "disabled"}
    done = run(EXAMPLES / name, **settings)

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(PROMISED[name].lstrip("\n"), done.stdout), done.stdout


def test_readme_program_when_run_then_it_prints_what_the_readme_says(
    tmp_path: Path,
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    program, says = found.groups()
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")

    done = run(script)

    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d{2,}", "PID", done.stdout) == re.sub(r"\d{2,}", "PID", says)
