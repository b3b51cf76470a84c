"""Reads a page: its title, its order, its blocks of Python and what is said of them.

Comments of a page tell what readers need not see. Each stands on lines of its own:

``<!-- order: 2 -->``
    Where the page stands among those of its folder. Pages without it come behind, by
    their titles.
``<!-- needs: fastapi, httpx -->``
    Its blocks are run where these modules can be imported.
``<!-- run: ... -->``
    Code that is run at this place and not shown.
``<!-- not run: why -->``
    The block below it is compiled and not run.
``<!-- wrong: to type checkers -->``
    Likewise, and every type checker has to reject each line of that block.
``<!-- checked by: mypy -->``
    Other type checkers may reject the block below it.
``<!-- pages -->``, ``<!-- sections -->``
    Here the site lists the other pages of the folder, or the sections.

A block below a paragraph with the words "into `name.py`" is the content of that file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = re.compile(r"(?m)^(?:actorlib|asyncio)\.run\(|\bactorlib\.blocking\b")
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
        line: The line of the page that its first line is, from 1.
        code: Its text.
        why_not: Why it is not run; None: it is.
        shows: What the page says that it prints: the next block, if that is ``text``.
        file: The name of the file that readers write it into; None: they type it.
        is_wrong: Whether every type checker has to reject each of its lines.
        checker: The only type checker that has to accept it; None: all of them do.
    """

    line: int
    code: str
    why_not: str | None = None
    shows: str | None = None
    file: str | None = None
    is_wrong: bool = False
    checker: str | None = None

    @property
    def is_program(self) -> bool:
        """Whether it starts an event loop itself, and so is run as a script."""
        return _PROGRAM.search(self.code) is not None

    @property
    def is_test(self) -> bool:
        """Whether it is a file of tests for pytest."""
        return self.file is not None and self.file.startswith("test_")

    def compiled(self, name: str) -> object:
        """Makes code of it whose errors name the page and the line there.

        Args:
            name: What the page is called in errors.
        """
        code = "\n" * (self.line - 1) + self.code
        return compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@dataclass(frozen=True)
class Page:
    """A page of docs/, as its file has it.

    Attributes:
        text: All of it.
    """

    text: str

    @classmethod
    def of(cls, path: Path) -> Page:
        """Reads the file of one."""
        return cls(path.read_text(encoding="utf-8"))

    @property
    def title(self) -> str:
        """Its first heading."""
        found = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return "" if found is None else found[1].strip()

    @property
    def summary(self) -> str:
        """The first sentence below its title, if that is prose."""
        _, _, below = _COMMENT.sub("", self.text).partition(f"# {self.title}\n")
        first = " ".join(below.strip().partition("\n\n")[0].split())
        if first.startswith(("#", "```", "|", "<", "!", "* ", "- ")):
            return ""
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)  # read from elsewhere
        sentence = re.split(r"(?<=\.)\s", plain)[0]
        return f"{sentence[:-1]}." if sentence.endswith(":") else sentence

    @property
    def order(self) -> int:
        """Its place in its folder; large if it says none."""
        said = self._said("order")
        return int(said) if said else _LAST

    @property
    def needs(self) -> list[str]:
        """The modules without which its blocks are not run."""
        return [name.strip() for name in self._said("needs").split(",") if name.strip()]

    @property
    def shown(self) -> str:
        """Its text without the comments."""
        return _COMMENT.sub("", self.text)

    @property
    def blocks(self) -> list[Block]:
        """Its blocks of Python, hidden ones too, in order."""
        found: list[Block] = []
        marks: dict[str, str] = {}
        was_python, end = False, 0
        for piece in _PIECE.finditer(self.text):
            if piece["hidden"] is not None:
                found.append(Block(self._line(piece.start("hidden")), piece["hidden"]))
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
                found.append(block)
            elif piece["language"] == "text" and was_python:
                found.append(replace(found.pop(), shows=piece["code"]))
            was_python, end = piece["language"] == "python", piece.end()
            marks = {}
        return found

    @property
    def typed(self) -> list[Block]:
        """The blocks that readers type one after another, and the hidden ones."""
        return [b for b in self.blocks if not b.is_program and b.file is None]

    @property
    def starts_runtime(self) -> bool:
        """Whether a block starts one; if not, it goes on from how-to/index.md."""
        blocks = (block for block in self.blocks if not block.is_program)
        return any("init(" in block.code for block in blocks)

    def _line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def _said(self, word: str) -> str:
        found = re.search(rf"^<!-- {word}: (.*?) -->", self.text, re.MULTILINE)
        return "" if found is None else found[1]
