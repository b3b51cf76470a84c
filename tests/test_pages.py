"""The pages of docs/ are true: their blocks run and print what they say.

What a page may say to its tests stands in ``docs/building/pages.py``, how its blocks
are run in ``helpers/page_runner.py``. By default those of the tutorial run, as readers
run these first; with ``--thorough`` all of them do.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.page_runner import matches, write_files

from docs.building.navigation import in_order, list_sections, listing, navigation
from docs.building.pages import Block, Page
from docs.building.typecheck import Finding, check, complaints, modules_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUNNER = ROOT / "tests" / "helpers" / "page_runner.py"
LIMIT = 90.0
SETTINGS = ("ACTORLIB_", "CUDA_", "OMP_", "RAY_")

PATHS = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "decisions")
PAGES = {path.relative_to(DOCS).as_posix(): Page.of(path) for path in PATHS}
BLOCKS = [(name, block) for name, page in PAGES.items() for block in page.blocks]
RUN = [(name, block) for name, block in BLOCKS if block.why_not is None]
EARLY = "tutorial/"


needs_checkers = pytest.mark.skipif(
    not (importlib.util.find_spec("mypy") and importlib.util.find_spec("basedpyright")),
    reason="mypy and basedpyright are not both installed",
)
MARKS = [pytest.mark.process, pytest.mark.slow]
SELDOM = [*MARKS, pytest.mark.thorough]
TYPED = [
    pytest.param(name, marks=MARKS if name.startswith(EARLY) else SELDOM)
    for name, page in PAGES.items()
    if any(block.why_not is None for block in page.typed)
]
PROGRAMS = [
    pytest.param(
        name,
        block,
        marks=MARKS if name.startswith(EARLY) else SELDOM,
        id=f"{name}:{block.line}",
    )
    for name, block in RUN
    if block.is_program or block.is_test
]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(SETTINGS)}
    return subprocess.run(
        [sys.executable, *words],
        env={**kept, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def need(name: str) -> None:
    for module in PAGES[name].needs:
        pytest.importorskip(module)


@pytest.mark.parametrize("name", TYPED)
def test_blocks_when_typed_one_after_another_then_they_run(
    name: str, tmp_path: Path
) -> None:
    need(name)

    done = run(str(RUNNER), str(DOCS / name), cwd=tmp_path)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("name", "block"), PROGRAMS)
def test_program_when_run_then_it_prints_what_the_page_says(
    name: str, block: Block, tmp_path: Path
) -> None:
    need(name)
    program = replace(block, file=block.file or "program.py")
    earlier = [each for each in PAGES[name].blocks if each.line < block.line]
    write_files([*earlier, program], tmp_path)
    words = ["-m", "pytest"] if block.is_test else []

    done = run(*words, str(program.file), cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert block.shows is None or matches(block.shows, done.stdout), done.stdout


def test_tutorial_when_it_has_a_block_then_it_names_the_file_of_it() -> None:
    shown = [
        (name, block)
        for name, block in BLOCKS
        if name.startswith(EARLY) and block.code.strip() in PAGES[name].shown
    ]

    unnamed = [f"{name}:{block.line}" for name, block in shown if block.file is None]

    assert len(shown) > len(unnamed) == 0, unnamed


def test_block_when_it_is_python_then_it_compiles() -> None:
    for name, block in BLOCKS:
        block.compiled(name)


def test_page_when_it_is_in_docs_then_it_has_a_place_a_title_and_a_summary() -> None:
    every = {
        path.relative_to(DOCS).as_posix(): Page.of(path) for path in DOCS.rglob("*.md")
    }

    placed = [
        path
        for section in navigation(every)
        for paths in section.values()
        for path in paths
    ]

    assert sorted(placed) == sorted(every)
    assert [name for name, page in every.items() if not page.title] == []
    assert [name for name, page in PAGES.items() if not page.summary] == []


def test_page_when_its_folder_is_no_section_then_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"docs/odd/a\.md is in no section"):
        navigation({"odd/a.md": Page("# A")})


def test_pages_when_put_in_order_then_index_said_order_titles() -> None:
    pages = {
        "how-to/a.md": Page("# Zebras\n"),
        "how-to/b.md": Page("# Ants\n\nAnts [carry](a.md). They are many.\n"),
        "how-to/c.md": Page("<!-- order: 1 -->\n# Pools\n"),
        "how-to/index.md": Page("# How-to\n\n<!-- pages -->\n"),
    }

    assert in_order("how-to", pages) == [
        "how-to/index.md",
        "how-to/c.md",
        "how-to/b.md",
        "how-to/a.md",
    ]
    assert listing("how-to", pages) == (
        "* [Pools](c.md)\n* [Ants](b.md)  \n  Ants carry.\n* [Zebras](a.md)"
    )
    assert list_sections({"how-to/index.md": Page("# How-to\n\nDo it. Well.\n")}) == (
        "* [How-to](how-to/index.md)  \n  Do it."
    )


WRITTEN = """# Title

<!-- needs: numpy, torch -->
<!-- run:
before = 1
-->

Prose: says what.

```python
print(before)
```

```text
1
```

<!-- not run: takes a day -->
```python
train()
```

Write this into
`first.py`:

<!-- checked by: mypy -->
```python
import first
```

*   Indented:

    ```python
    actorlib.run(main())
    ```

```sh
ls
```
"""


def test_page_when_read_then_its_blocks_and_what_is_said_of_them() -> None:
    page = Page(WRITTEN)
    hidden, first, second, file, third = page.blocks

    assert page.needs == ["numpy", "torch"]
    assert page.summary == "Prose: says what."
    assert "needs" not in page.shown
    assert "before = 1" not in page.shown
    assert hidden.code.strip() == "before = 1"
    assert first == Block(line=11, code="print(before)\n", shows="1\n")
    assert (second.why_not, third.why_not) == ("takes a day", None)
    assert (file.file, file.checker, second.file) == ("first.py", "mypy", None)
    assert third.code == "actorlib.run(main())\n"
    assert [block for block in page.blocks if block.is_program] == [third]
    assert page.typed == [hidden, first, second]


CHECKED = Page(
    """# Types

```python
number = await ref
```

<!-- wrong: to type checkers -->
```python
model.spawn(5)

model.guess()  # there is none
```

<!-- checked by: mypy -->
```python
handle: Model
```

Write this into `model.py`:

```python
size = 1
```
"""
)


def test_page_when_made_into_modules_then_each_line_keeps_its_number() -> None:
    modules = dict(modules_of("docs/how-to/types.md", CHECKED))

    assert modules.keys() == {"model.py", "docs__how_to__types_md.py"}
    lines = modules["docs__how_to__types_md.py"].splitlines()
    assert lines[:2] == [
        "import actorlib",
        "async def session(runtime: actorlib.Runtime):",
    ]
    assert lines[3] == "    number = await ref"
    assert lines[10] == "    model.guess()  # there is none"
    assert modules["model.py"].splitlines()[20:] == ["", "size = 1"]


def test_findings_when_reported_then_those_that_the_page_expects_are_left_out() -> None:
    made = Path("/pages/types.py")
    findings = [
        Finding("mypy", made, 4, "no ref\nat all"),
        Finding("mypy", made, 9, "an error"),
        Finding("pyright", made, 9, "an error"),
        Finding("pyright", made, 11, "an error"),
        Finding("pyright", made, 16, "pyright cannot know"),
        Finding("mypy", made, 16, "no such class"),
    ]

    lines = complaints(findings, {"types.md": CHECKED}, {made: "types.md"})

    assert lines == [
        "types.md:4: mypy: no ref",
        "types.md:11: mypy accepts it, and the page says that it is wrong",
        "types.md:16: mypy: no such class",
    ]


@needs_checkers
@pytest.mark.slow
@pytest.mark.thorough
def test_page_when_type_checked_then_errors_name_its_lines(tmp_path: Path) -> None:
    page = Page(
        """# Types

```python
@actorlib.remote
class Model:
    def ping(self, name: str) -> str:
        return name

    def items(self):
        yield 1


replicas = actorlib.Replicas(Model, 2)
async for ref in (await Model.remote()).items.remote():
    print(await ref)
actorlib.Replicas("Model", 2)
```
"""
    )
    example = tmp_path / "example.py"
    example.write_text("\nnumber: int = '1'\n")

    lines = check({"types.md": page}, [example])

    where = [line.partition(": ")[0] for line in lines]
    assert where == [f"{example}:2", f"{example}:2", "types.md:16", "types.md:16"]


def test_documents_when_two_write_one_file_then_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"b\.md and a\.md both write model\.py"):
        check({"a.md": CHECKED, "b.md": CHECKED}, [])


def test_output_when_compared_then_pids_and_dots_may_be_anything() -> None:
    assert matches("m0 [0] 13721\n", "m0 [0] 99\n")
    assert matches("took ... s", "took 0.12 s\n")
    assert not matches("42", "43")
    assert not matches("a", "ab")
