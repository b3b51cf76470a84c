"""Reads a page: its title, its place, and its blocks of Python.

A block that starts an event loop is a *program*: readers paste it into a file. Blocks
behind it *continue* it. Their code belongs at the end of ``main()`` of that program,
inside its last ``async with``; a program without ``main()`` is continued at its end.
The first line of such a block is a comment that says so. A program that is not run is
not continued.

Comments of a page are for the tests and the site. Each stands on lines of its own:

``<!-- group: Call -->``, ``<!-- order: 2 -->``
    The page's group in its folder, and its place in the group. Pages without an order
    come last, sorted by title.
``<!-- needs: fastapi, httpx -->``
    The tests skip the page if one of these modules cannot be imported.
``<!-- run: ... -->``
    Code that the tests run at this place. It is not shown.
``<!-- not run: reason -->``
    The block below it is compiled and not run.
``<!-- wrong: to type checkers -->``
    The block below it is compiled and not run, and every type checker has to reject
    each of its lines.
``<!-- checked by: mypy -->``
    Other type checkers may reject the block below it.
``<!-- pages -->``
    The site lists the other pages of the folder here.
``<!-- example: hello.py -->``
    The site shows this file of examples/ here.

A block below a paragraph with the words "into `name.py`" is the content of that file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MARK = "\0"
"""A tested program prints this before the output of each block that continues it."""

_PROGRAM = re.compile(
    r"(?m)^(?:actorlib|asyncio)\.run\(|\bactorlib\.blocking\b|\bactorlib\.(?:Executor|joblib)\b"
)
_PIECE = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*$"
    r"|^<!-- (?P<mark>not run|wrong|checked by): (?P<words>.*?) -->[ ]*$"
    r"|^<!-- run:(?P<hidden>.*?)-->[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"\binto\s+`(\w+\.py)`")
_COMMENT = re.compile(r"^<!--.*?-->[ ]*\n?", re.MULTILINE | re.DOTALL)
_LAST = 1_000


@dataclass(frozen=True)
class Block:
    """A block of Python.

    Attributes:
        line: The line of the page with the block's first line, from 1.
        code: Its text.
        why_not: The reason why it is not run, or None.
        shows: The output that the page promises: the next block, if that is ``text``.
        file: The name of the file that readers write it into, or None.
        is_wrong: Whether every type checker has to reject each of its lines.
        checker: The only type checker that has to accept it; None: all of them.
        is_hidden: Whether readers do not see it.
    """

    line: int
    code: str
    why_not: str | None = None
    shows: str | None = None
    file: str | None = None
    is_wrong: bool = False
    checker: str | None = None
    is_hidden: bool = False

    @property
    def is_program(self) -> bool:
        """Whether it starts a runtime itself, and so is run as a script."""
        return _PROGRAM.search(self.code) is not None

    @property
    def is_test(self) -> bool:
        """Whether it is a file of tests for pytest."""
        return self.file is not None and self.file.startswith("test_")

    def compiled(self, name: str) -> object:
        """Compiles the code so that errors name the page and the line there.

        Args:
            name: The name of the page in errors.
        """
        code = "\n" * (self.line - 1) + self.code
        return compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@dataclass(frozen=True)
class Program:
    """A program of a page, and the blocks that continue it.

    Attributes:
        block: The program.
        continuations: The blocks that continue it, in order.
    """

    block: Block
    continuations: list[Block] = field(default_factory=list)

    def source(self, *, with_wrong: bool = False) -> str:
        """Joins the blocks into one program, in which each line keeps its number.

        It prints ``MARK`` before each continuation.

        Args:
            with_wrong: Whether to include blocks that are not run.
        """
        first = self.block
        start, indent = _end_of_main(first.code)
        code = first.code.splitlines()
        lines = [""] * (first.line - 1) + code[:start]
        for block in self.continuations:
            if block.why_not is None or with_wrong:
                lines += [""] * (block.line - 2 - len(lines))
                lines.append(f"{indent}print({MARK!r})")
                lines += [line and indent + line for line in block.code.splitlines()]
        return "\n".join([*lines, *code[start:], ""])

    @property
    def outputs(self) -> list[str | None]:
        """The output that the page promises for each block that is run."""
        shown = [block.shows for block in self.continuations if block.why_not is None]
        return [self.block.shows, *shown]


def _end_of_main(code: str) -> tuple[int, str]:
    """Returns the number of lines that a continuation follows, and its indentation."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "main":
            last = node.body[-1]
            while isinstance(last, ast.AsyncWith):
                last = last.body[-1]
            return last.end_lineno or 0, " " * last.col_offset
    return len(code.splitlines()), ""


@dataclass(frozen=True)
class Page:
    """A page of docs/, as its file has it.

    Attributes:
        text: All of it.
    """

    text: str

    @classmethod
    def of(cls, path: Path) -> Page:
        """Reads the file of a page."""
        return cls(path.read_text(encoding="utf-8"))

    @property
    def title(self) -> str:
        """Its first heading."""
        heading = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return "" if heading is None else heading[1].strip()

    @property
    def summary(self) -> str:
        """The first sentence below its title, if that is prose."""
        _, _, below = _COMMENT.sub("", self.text).partition(f"# {self.title}\n")
        first = " ".join(below.strip().partition("\n\n")[0].split())
        if first.startswith(("#", "```", "|", "<", "!", "* ", "- ")):
            return ""
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)  # links are relative
        sentence = re.split(r"(?<=\.)\s", plain)[0]
        return f"{sentence[:-1]}." if sentence.endswith(":") else sentence

    @property
    def group(self) -> str:
        """Its group in its folder; "" if it names none."""
        return self._comment("group")

    @property
    def order(self) -> int:
        """Its place in its group; a large number if it names none."""
        order = self._comment("order")
        return int(order) if order else _LAST

    @property
    def needs(self) -> list[str]:
        """The modules without which its blocks are not run."""
        names = self._comment("needs").split(",")
        return [name.strip() for name in names if name.strip()]

    @property
    def shown(self) -> str:
        """Its text without the comments."""
        return _COMMENT.sub("", self.text)

    @property
    def blocks(self) -> list[Block]:
        """Its blocks of Python, hidden ones too, in order."""
        blocks: list[Block] = []
        marks: dict[str, str] = {}
        was_python, end = False, 0
        for piece in _PIECE.finditer(self.text):
            if piece["hidden"] is not None:
                line = self._line(piece.start("hidden"))
                blocks.append(Block(line, piece["hidden"], is_hidden=True))
            elif piece["mark"] is not None:
                marks[piece["mark"]] = piece["words"]
                continue
            elif piece["language"] == "python":
                code = re.sub(
                    rf"^{piece['indent']}", "", piece["code"], flags=re.MULTILINE
                )
                before = _COMMENT.sub("", self.text[end : piece.start()]).rstrip()
                file = _FILE.search(before.rpartition("\n\n")[2])
                block = Block(
                    self._line(piece.start("code")),
                    code,
                    why_not=marks.get("not run", marks.get("wrong")),
                    file=file and file[1],
                    is_wrong="wrong" in marks,
                    checker=marks.get("checked by"),
                )
                blocks.append(block)
            elif piece["language"] == "text" and was_python:
                blocks.append(replace(blocks.pop(), shows=piece["code"]))
            was_python, end = piece["language"] == "python", piece.end()
            marks = {}
        return blocks

    @property
    def programs(self) -> list[Program]:
        """Its programs, files too, each with the blocks that continue it."""
        return self._split()[1]

    @property
    def typed(self) -> list[Block]:
        """The blocks that continue no program: readers type them into a notebook."""
        return self._split()[0]

    def _split(self) -> tuple[list[Block], list[Program]]:
        typed: list[Block] = []
        programs: list[Program] = []
        target = typed
        for block in self.blocks:
            if block.is_program:
                programs.append(Program(block))
                if block.why_not is None:
                    target = programs[-1].continuations
            elif block.file is None:
                target.append(block)
        return typed, programs

    def _line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def _comment(self, word: str) -> str:
        comment = re.search(rf"^<!-- {word}: (.*?) -->", self.text, re.MULTILINE)
        return "" if comment is None else comment[1]
