"""Shows and follows the output and the log records of actors: ``actorlib logs``.

``actorlib logs --json`` prints a ``Logs``, and ``--json -f`` prints a ``LogLine`` per
line. The names of their columns are stable.

Following sends one query after another for new lines. The thread of the server answers
them without the loop of the program. Lines that were dropped before they were read are
counted, and the count is shown where they are missing.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from actorlib._base.log import checked_level
from actorlib._cli.choosing import find_actor
from actorlib._cli.pages import escaped, write_document, write_text
from actorlib._queries import processes
from actorlib._queries.client import ask, the_runtime
from actorlib._queries.protocol import BLOCKED, MOST_LINES
from actorlib._queries.rows import Logs
from actorlib._rows.rows import RowEncoder, encode_row
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actorlib._queries.addresses import Address
    from actorlib._rows.snapshot import LogLine

_PATIENCE = 2.0
_PAUSE = 0.3
"""Seconds between two queries, if there were no new lines."""
_MANY = 500
"""New lines after which there is no pause: about 1,000 are kept per actor."""
_SHORTEST = 4
_SLOT = re.compile(r"\[\d+\]$")
"""The end of the label of a replica."""
_STEERING = re.compile(
    r"\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
"""The control characters other than colours and carriage returns."""
_COLOURLESS = "\x1b[0m"
_LABELS = {"stdout": "out", "stderr": "err"}


DOCUMENT: Final = RowEncoder({Logs: "pid lines has_lost lost"})
"""The columns of the document."""


class Selection(NamedTuple):
    """The selection of lines.

    Attributes:
        since: The earliest time, in seconds since the epoch.
        level: The least level of log records; None for all lines, printed ones, too.
        pattern: A pattern that occurs in the line, or None.
    """

    since: float = 0.0
    level: int | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, *, ago: float | None, level: str | None, pattern: str | None) -> Self:
        """Checks the options of the command.

        Raises:
            ValueError: A value is invalid.
        """
        number = int(level) if level and level.isdecimal() else level
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"--grep {pattern!r} is not a regular expression: {error}"
            ) from None
        return cls(
            since=0.0 if ago is None else time.time() - ago,
            level=None if number is None else checked_level(number, "--level"),
            pattern=compiled,
        )

    @property
    def is_for_all(self) -> bool:
        """Whether it selects all lines that are recent enough."""
        return self.level is None and self.pattern is None

    def has(self, line: LogLine) -> bool:
        """Whether it selects a line that is recent enough."""
        if self.level is not None and (line.source != "log" or line.level < self.level):
            return False
        if self.pattern is None:
            return True
        texts = (line.text, line.logger, line.traceback)
        return any(map(self.pattern.search, texts))


def show(
    word: str | None,
    *,
    as_json: bool,
    count: int,
    ago: float | None = None,
    level: str | None = None,
    pattern: str | None = None,
    is_followed: bool = False,
    pid: int | None = None,
) -> None:
    """Prints the last ``count`` lines of an actor or of all, then those that come."""
    selection = Selection.of(ago=ago, level=level, pattern=pattern)
    address = the_runtime(pid)
    reader = _Reader(address, selection, *_find(address, word))
    logs = reader.last(count)
    if as_json and not is_followed:
        write_document(DOCUMENT.encode(logs))
        return
    _write(logs.lines, logs.lost, as_json=as_json)
    reader.unshown = logs.lost if as_json else 0
    pause = _PAUSE
    while is_followed:
        time.sleep(pause)
        try:
            page = reader.next_page()
        except RuntimeUnreachableError:
            if processes.exists(address.pid):
                raise
            if not as_json:
                write_text("(the program has ended; its last lines may be missing)\n")
            break
        _write(page.lines, page.lost, as_json=as_json)
        reader.unshown = page.lost if as_json else 0
        pause = _PAUSE * max(0.0, 1 - page.total / _MANY)


def _find(address: Address, word: str | None) -> tuple[str | None, str | None]:
    """Returns the id of the actor, or its word while the loop is blocked."""
    if word is None:
        return None, None
    answer = ask(address, "status", patience=_PATIENCE, dead=True)
    if answer.outcome == BLOCKED:
        return None, word
    return find_actor(answer.value.snapshot.actors, word).actor_id, None


class _Page(NamedTuple):
    """A page of selected lines, each with the number of lines that were lost before it.

    Attributes:
        lost: The number of lines that were lost after the last one.
        total: The number of lines before the selection.
        end: The time of the latest of them, or None.
    """

    lines: list[LogLine]
    lost: int
    total: int
    end: float | None


class _Reader:
    """Reads the selected lines of a runtime, or of an actor by its id or its word.

    Attributes:
        unshown: Lost lines that are added to the count of the next line.
    """

    def __init__(
        self,
        address: Address,
        selection: Selection,
        actor: str | None,
        word: str | None,
    ) -> None:
        self._address = address
        self._selection = selection
        self._options: dict[str, Any] = {} if actor is None else {"actor": actor}
        self._word = word
        self._after = 0
        self.unshown = 0

    def last(self, count: int) -> Logs:
        """Returns at most ``count`` of the last selected lines."""
        if self._selection.is_for_all and self._word is None and count <= MOST_LINES:
            page = self._page(most=count, newest=True)
            lines, lost = page.lines, page.lost
        else:
            lines, lost = self._search(count)
        return Logs(
            pid=self._address.pid, lines=tuple(lines), lost=lost, number=self._after
        )

    def next_page(self) -> _Page:
        """Returns the selected lines after those of the page before."""
        return self._page(after=self._after)

    def _search(self, count: int) -> tuple[list[LogLine], int]:
        """Reads all lines; returns the last selected ones, and the number of lost."""
        now = time.time()
        lines: deque[LogLine] = deque(maxlen=count)
        while True:
            page = self.next_page()
            lines += page.lines
            # Otherwise actors that print faster than this reads would keep it busy.
            if page.end is None or page.end > now:
                return list(lines), page.lost
            self.unshown = page.lost

    def _page(self, **options: Any) -> _Page:
        answer = self._ask(**options)
        self._after = answer.number
        lines: list[LogLine] = []
        lost, self.unshown = self.unshown, 0
        for line in answer.lines:
            lost += line.lost
            if self._includes(line):
                lines.append(replace(line, lost=lost) if lost != line.lost else line)
                lost = 0
        end = answer.lines[-1].time if answer.lines else None
        return _Page(lines, lost + answer.lost, len(answer.lines), end)

    def _includes(self, line: LogLine) -> bool:
        is_of_actor = self._word is None or is_of(line, self._word)
        return is_of_actor and self._selection.has(line)

    def _ask(self, **options: Any) -> Logs:
        logs: Logs = ask(
            self._address,
            "logs",
            **self._options,
            since=self._selection.since,
            **options,
        ).value
        return logs


def is_of(line: LogLine, word: str) -> bool:
    """Whether a line is of the actor of a word, as far as the line shows.

    The word is a name, a class, a replica as in ``Model[2]``, a pid, or the beginning
    or the end of an id.
    """
    if word == str(line.pid):
        return True
    actor, label = line.actor_id, line.label
    if len(word) >= _SHORTEST and (actor.startswith(word) or actor.endswith(word)):
        return True
    head = label.partition(" ")[0]
    return word in (head, _SLOT.sub("", head)) or label.endswith(f" {word!r}")


def _write(lines: Sequence[LogLine], lost: int, *, as_json: bool) -> None:
    if as_json:
        for line in lines:
            write_document(encode_row(line), indent=None)
        return
    text = "".join((*text_of(lines), *(f"{note}\n" for note in _describe_lost(lost))))
    if text:
        write_text(text)


def text_of(lines: Iterable[LogLine]) -> Iterator[str]:
    r"""Makes text of lines for people, with line ends.

    Colours stay, within their line. Other control characters are escaped, for example
    as ``\x1b``, because lines may contain what actors were sent from anywhere.
    """
    for line in _format_lines(lines):
        text = _STEERING.sub(escaped, line)
        ending = _COLOURLESS if "\x1b" in text else ""
        yield f"{text}{ending}\n"


def _format_lines(lines: Iterable[LogLine]) -> Iterator[str]:
    for line in lines:
        yield from _describe_lost(line.lost)
        when = time.strftime("%H:%M:%S", time.localtime(line.time))
        parts = int(line.time % 1 * 1000)
        is_record = line.source == "log"
        kind = (
            logging.getLevelName(line.level)
            if is_record
            else _LABELS.get(line.source, line.source)
        )
        of = f"{line.logger}: " if is_record else ""
        head = f"{when}.{parts:03} {line.label} [{line.pid}] {kind:<7} {of}"
        yield f"{head}{line.text}"
        for below in line.traceback.splitlines():
            yield f"    {below}"


def _describe_lost(count: int) -> Iterator[str]:
    if count:
        lines = "line is" if count == 1 else "lines are"
        yield (
            f"({count:,} {lines} lost here: the last 256 KiB of each actor are kept)"
        )
