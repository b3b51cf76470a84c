"""The output of commands: consoles, documents, times, short ids and escaped texts.

Nothing here loads rich, except for ``console``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._rows import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

_WIDE = 100_000
"""The width where the output is not a terminal: wider than any line."""
_SHORTEST = 6
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tabs and line ends

_PLAIN = (int, float, type(None))

T = TypeVar("T")


def console() -> Console:
    """Returns a console; it is wide for pipes, so that programs read whole lines."""
    is_seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    return tables.console(width=None if is_seen else _WIDE)


def write_document(document: object, *, indent: int | None = 2) -> None:
    """Writes one document, and a line end; on one line without an indentation.

    Raises:
        SystemExit: The reader has gone (1).
    """
    write_text(f"{json.dumps(document, indent=indent)}\n")


def write_text(text: str) -> None:
    """Writes text; characters that the output cannot encode are escaped.

    Raises:
        SystemExit: The reader has gone (1).
    """
    coding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(coding, "backslashreplace").decode(coding))
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter reports the rest of the buffer again at the exit.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
        raise SystemExit(1) from None


def printable(content: T) -> T:
    r"""Escapes control characters, for example as ``\x1b``.

    Names, reasons and errors may contain what programs were sent from anywhere.

    Args:
        content: A text, a row, or a tuple, list or dict of these. Keys stay unchanged.
    """
    value: Any = content
    if isinstance(value, str):
        value = value if value.isprintable() else _CONTROLS.sub(escaped, value)
    elif isinstance(value, dict):
        values = cast("dict[object, object]", value)
        value = {key: printable(each) for key, each in values.items()}
    elif isinstance(value, list):
        value = [*map(printable, cast("list[object]", value))]
    elif isinstance(value, tuple):
        value = tuple(map(printable, cast("tuple[object, ...]", value)))
    elif is_dataclass(value) and not isinstance(value, type):
        value = _printable_row(value)
    return cast("T", value)


def _printable_row(row: Any) -> Any:
    columns = ((field.name, getattr(row, field.name)) for field in fields(row))
    texts = {name: each for name, each in columns if not isinstance(each, _PLAIN)}
    escaped_texts = printable(texts)
    # Most rows have nothing to escape, and there may be thousands.
    return row if escaped_texts == texts else replace(row, **escaped_texts)


def escaped(match: re.Match[str]) -> str:
    """Returns the escape of a control character."""
    return f"\\x{ord(match[0]):02x}"


def in_time(seconds: float | None) -> str:
    """Formats seconds in the two largest units, ``3h 5m``, or in tenths, ``0.3s``."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def id_endings(ids: Sequence[str]) -> dict[str, str]:
    """Returns the shortest endings that distinguish ids, all of one length.

    Ids of one runtime have a common beginning and are counted at the end.
    """
    longest = max(map(len, ids), default=0)
    for length in range(_SHORTEST, longest):
        if len({each[-length:] for each in ids}) == len(set(ids)):
            return {each: each[-length:] for each in ids}
    return {each: each for each in ids}
