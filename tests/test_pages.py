"""The pages of docs/ are true: their blocks run and print what they say.

``docs/building/pages.py`` describes what the blocks and comments of a page mean. A
program is run together with the blocks that continue it. ``helpers/page_runner.py``
runs the cells of notebooks. By default the tests run the tutorial, which readers run
first; with ``--thorough`` they run all pages.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.page_runner import matches, write_files
from helpers.program_runner import run, run_all

from docs.building.navigation import in_order, listing, navigation
from docs.building.pages import MARK, Block, Page, Program
from docs.building.typecheck import Finding, check, complaints, modules_of

if TYPE_CHECKING:
    from helpers.goldens import Golden

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DATA = ROOT / "tests" / "data"
RUNNER = ROOT / "tests" / "helpers" / "page_runner.py"
LIMIT = 90.0

PATHS = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "decisions")
PAGES = {path.relative_to(DOCS).as_posix(): Page.of(path) for path in PATHS}
BLOCKS = [(name, block) for name, page in PAGES.items() for block in page.blocks]
EARLY = "tutorial/"
NOTEBOOKS = {"how-to/notebooks.md"}
"""Pages whose blocks are cells of a notebook."""
FRAGMENTS = {"explanation/trust.md"}
"""Pages whose code is a line for the reader's own program."""

needs_checkers = pytest.mark.skipif(
    not (importlib.util.find_spec("mypy") and importlib.util.find_spec("basedpyright")),
    reason="mypy and basedpyright are not both installed",
)
MARKS = [pytest.mark.process, pytest.mark.slow]
SELDOM = [*MARKS, pytest.mark.thorough]
TYPED = [
    pytest.param(name, marks=SELDOM)
    for name, page in PAGES.items()
    if any(block.why_not is None for block in page.typed)
]
PROGRAMS = [
    (name, program)
    for name, page in PAGES.items()
    for program in page.programs
    if program.block.why_not is None
]
TESTS = [
    pytest.param(name, block, marks=SELDOM, id=f"{name}:{block.line}")
    for name, block in BLOCKS
    if block.is_test and block.why_not is None
]


def need(name: str) -> None:
    for module in PAGES[name].needs:
        pytest.importorskip(module)


@pytest.mark.parametrize("name", TYPED)
def test_blocks_when_typed_one_after_another_then_they_run(
    name: str, tmp_path: Path
) -> None:
    need(name)

    done = run(str(RUNNER), str(DOCS / name), limit=LIMIT, cwd=tmp_path)

    assert done.returncode == 0, done.stderr


def write_program(name: str, program: Program, folder: Path) -> Path:
    """Writes a program and the files that its page has before it."""
    folder.mkdir(exist_ok=True)
    line = program.block.line
    write_files([b for b in PAGES[name].blocks if b.line < line], folder)
    file = folder / (program.block.file or "program.py")
    file.write_text(program.source())
    return file


def assert_promised(program: Program, printed: str) -> None:
    """Compares the outputs of a program with those that its page shows."""
    outputs = printed.split(f"{MARK}\n")
    for promise, output in zip(program.outputs, outputs, strict=True):
        assert promise is None or matches(promise, output), (promise, output)


@pytest.mark.process
@pytest.mark.slow
def test_tutorial_when_its_programs_run_then_they_print_what_it_promises(
    tmp_path: Path,
) -> None:
    programs = {
        f"{name}:{program.block.line}": (name, program)
        for name, program in PROGRAMS
        if name.startswith(EARLY)
    }
    files = {
        place: [str(write_program(*each, tmp_path / str(number)))]
        for number, (place, each) in enumerate(programs.items())
    }

    ended = run_all(files, LIMIT)

    assert len(ended) == len(programs) > 1
    for place, (_, program) in programs.items():
        assert_promised(program, ended[place].out)


@pytest.mark.parametrize(
    ("name", "program"),
    [
        pytest.param(name, program, marks=SELDOM, id=f"{name}:{program.block.line}")
        for name, program in PROGRAMS
        if not name.startswith(EARLY)
    ],
)
def test_program_when_continued_and_run_then_it_prints_what_the_page_promises(
    name: str, program: Program, tmp_path: Path
) -> None:
    need(name)
    file = write_program(name, program, tmp_path)

    done = run(file.name, limit=LIMIT, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert_promised(program, done.stdout)


@pytest.mark.parametrize(("name", "block"), TESTS)
def test_file_of_tests_when_run_then_its_tests_pass(
    name: str, block: Block, tmp_path: Path
) -> None:
    need(name)
    write_files(PAGES[name].blocks, tmp_path)

    done = run("-m", "pytest", str(block.file), limit=LIMIT, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_page_when_it_has_code_then_its_first_block_is_a_program_or_a_file() -> None:
    for name, page in PAGES.items():
        shown = [block for block in page.blocks if not block.is_hidden]
        if shown and name not in NOTEBOOKS | FRAGMENTS:
            assert shown[0].is_program or shown[0].file, f"{name}:{shown[0].line}"


def test_block_when_it_continues_a_program_then_its_first_line_says_so() -> None:
    for name, page in PAGES.items():
        for program in page.programs:
            for block in program.continuations:
                if not block.is_hidden:
                    assert block.code.startswith("# Continue"), f"{name}:{block.line}"


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
        for parts in section.values()
        for part in parts
        for path in (next(iter(part.values())) if isinstance(part, dict) else [part])
    ]

    assert sorted(placed) == sorted(every)
    assert [name for name, page in every.items() if not page.title] == []
    assert [name for name, page in PAGES.items() if not page.summary] == []


def test_page_when_its_folder_or_group_is_unknown_then_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"docs/odd/a\.md is not in a section"):
        navigation({"odd/a.md": Page("# A")})
    with pytest.raises(ValueError, match=r"how-to/a\.md names the group 'Odd'"):
        navigation({"how-to/a.md": Page("<!-- group: Odd -->\n# A")})


def test_pages_when_put_in_order_then_by_index_group_order_and_title() -> None:
    pages = {
        "how-to/a.md": Page("# Zebras\n"),
        "how-to/b.md": Page("# Ants\n\nAnts [carry](a.md). They are many.\n"),
        "how-to/c.md": Page("<!-- order: 1 -->\n# Pools\n"),
        "how-to/d.md": Page("<!-- group: Call -->\n# Calls\n"),
        "how-to/e.md": Page("<!-- group: Start -->\n# Install\n"),
        "how-to/index.md": Page("# How-to\n\n<!-- pages -->\n"),
    }
    names = [f"how-to/{name}.md" for name in ("index", "c", "b", "a", "e", "d")]

    assert in_order("how-to", pages) == names
    assert navigation(pages) == [
        {"How-to": [*names[:4], {"Start": [names[4]]}, {"Call": [names[5]]}]}
    ]
    assert listing("how-to", pages) == (
        "* [Pools](c.md)\n* [Ants](b.md)  \n  Ants carry.\n* [Zebras](a.md)\n\n"
        "## Start\n\n* [Install](e.md)\n\n## Call\n\n* [Calls](d.md)"
    )


CHECKED = Page.of(DATA / "types.md")
MODULE = "docs__how_to__types_md.py"


def test_parts_of_pages(golden: Golden) -> None:
    page, continued = (Page.of(DATA / name) for name in ("page.md", "continued.md"))
    first, second = continued.programs
    modules = dict(modules_of("docs/how-to/types.md", CHECKED))

    assert page.needs == ["numpy", "torch"]
    assert page.summary == "Prose: says what."
    assert [program.block for program in page.programs] == [page.blocks[-1]]
    assert page.typed == page.blocks[:3]
    # Each line has the number that it has on the page.
    assert first.source().splitlines()[3:6] == continued.text.splitlines()[3:6]
    written, made = (modules[n].splitlines() for n in ("model.py", MODULE))
    assert (written[21], made[3]) == ("size = 1", "    number = await ref")
    parts = {
        "shown": page.shown,
        **{f"block {n}": repr(block) for n, block in enumerate(page.blocks)},
        "program": first.source(),
        "program with wrong blocks": first.source(with_wrong=True),
        "second program": second.source(),
        "outputs": repr((first.outputs, second.outputs)),
        **modules,
    }
    text = "".join(f"== {name}\n{part}\n" for name, part in parts.items())
    golden.check("pages.txt", re.sub(r"\n\n+", "\n", text).replace("\0", "NUL"))


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
        "types.md:11: mypy accepts it, and the page marks it as wrong",
        "types.md:16: mypy: no such class",
    ]


@needs_checkers
@pytest.mark.slow
@pytest.mark.thorough
def test_page_when_type_checked_then_errors_name_its_lines(tmp_path: Path) -> None:
    page = Page(
        """# Types

```python
import actorlib


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
    assert where == [f"{example}:2", f"{example}:2", "types.md:19", "types.md:19"]


def test_documents_when_two_write_one_file_then_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"b\.md and a\.md both write model\.py"):
        check({"a.md": CHECKED, "b.md": CHECKED}, [])


def test_output_when_compared_then_pids_and_dots_may_be_anything() -> None:
    assert matches("m0 [0] 13721\n", "m0 [0] 99\n")
    assert matches("took ... s", "took 0.12 s\n")
    assert not matches("42", "43")
    assert not matches("a", "ab")
