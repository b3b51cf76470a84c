"""The examples and the README's program print the output that the documents show."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from helpers.on_ray import NEEDS_RAY
from helpers.program_runner import run, run_all

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LIMIT = 120.0
SHOWN: dict[str, str] = dict(
    re.findall(
        r"<!-- example: (\S+) -->\n\n```text\n(.*?)```",
        (ROOT / "docs/tutorial/examples.md").read_text("utf-8"),
        re.DOTALL,
    )
)
"""The output of each example, as the page of examples shows it."""

NUMBERS = r"(?<=\D) *\d[\d.]*\b"
VARYING = {
    "hello.py": r"\d{3,}",
    "two_models_one_gpu.py": r"Held: .*|\(0: .*?\)",
    "deadlines.py": r"(?<=pid )\d+",
    "pipeline.py": r"(?<=at most )\d+",
    "sweep.py": rf"{NUMBERS}|complete|pruned",
}
"""What differs from run to run, as a pattern."""
NEEDED = {"data_parallel.py": "torch", "sweep.py": "optuna"}
"""What some examples import besides: see the extras of the tests."""
ALONE = {"data_parallel.py", "pipeline.py", "sweep.py"}
"""What takes long."""
FIRST = {
    "actors_calling_actors.py",
    "functions.py",
    "hello.py",
    "on_a_cluster.py",
    "streams.py",
    "supervised.py",
    "two_models_one_gpu.py",
    "unit_test.py",
}
"""What runs by default; the others show features of one part."""

pytestmark = [pytest.mark.process, pytest.mark.slow]


def assert_shown(name: str, printed: str) -> None:
    """Compares an output with that of the page."""
    parts = re.split(VARYING.get(name, r"\Z"), SHOWN[name])
    pattern = "[^\n]*".join(map(re.escape, parts))
    assert re.fullmatch(pattern, printed), f"{name} has printed\n{printed}"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FIRST, id="first"),
        pytest.param(
            SHOWN.keys() - FIRST - ALONE, id="others", marks=pytest.mark.thorough
        ),
    ],
)
def test_examples_when_run_one_after_the_other_then_they_print_what_the_page_shows(
    names: set[str],
) -> None:
    ended = run_all({name: [str(EXAMPLES / name)] for name in sorted(names)}, LIMIT)

    assert ended.keys() == names
    for name, each in ended.items():
        assert_shown(name, each.out)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(ALONE))
def test_example_when_run_alone_then_it_prints_what_the_page_shows(name: str) -> None:
    if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")

    done = run(str(EXAMPLES / name), limit=LIMIT)

    assert (done.returncode, done.stderr) == (0, "")  # no progress in a file
    assert_shown(name, done.stdout)


def test_page_of_examples_when_read_then_it_has_each_example() -> None:
    assert sorted(SHOWN) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.ray
@NEEDS_RAY
def test_example_when_the_environment_says_ray_then_it_prints_the_same() -> None:
    name = "on_a_cluster.py"
    settings = {"ACTORLIB_ENGINE": "ray", "RAY_AUTH_MODE": "disabled"}

    done = run(str(EXAMPLES / name), limit=LIMIT, **settings)

    assert done.returncode == 0, done.stderr
    assert_shown(name, done.stdout)


def test_readme_program_when_run_then_it_prints_what_the_readme_says(
    tmp_path: Path,
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    program, says = found.groups()
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")

    done = run(str(script), limit=LIMIT)

    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d{2,}", "PID", done.stdout) == re.sub(r"\d{2,}", "PID", says)
