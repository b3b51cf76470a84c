"""Cuts the last lines of a worker's standard error down to what helps a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.own_files import OWN_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LINES = 20
"""Lines of a tail at the most."""
_LINES_BEFORE = 5
"""How many of them are what stands before the report of a fatal error."""
FATAL = "Fatal Python error"
"""How faulthandler begins the report of a fatal error."""
_THREADS = ("Current thread 0x", "Thread 0x")
"""How it begins the stack of a thread; not that of C, which 3.14 shows besides."""


def log_tail(lines: Sequence[str], ours: str = OWN_FILES) -> str:
    """Gives the last lines of a process's standard error that tell a user something.

    Of a fatal error that is the error and the innermost frames of the user's code, with
    what stood before it. Our own frames, and threads without others, tell nothing.

    Args:
        lines: The last lines.
        ours: How the paths of files begin whose frames tell nothing.
    """
    begins = [place for place, line in enumerate(lines) if line.startswith(FATAL)]
    if not begins:
        return "\n".join(list(_without_ours(lines, ours))[-_LINES:])
    begin = begins[-1]
    report = [lines[begin], *_threads(lines[begin + 1 :], ours)]
    before = _without_ours(lines[max(0, begin - _LINES_BEFORE) : begin], ours)
    return "\n".join([*before, *report][:_LINES])


def _threads(lines: Sequence[str], ours: str) -> Iterator[str]:
    """Gives the frames of the thread that failed, or of all if none is marked."""
    blocks: list[list[str]] = []
    for line in lines:
        if line.endswith("(most recent call first):"):
            blocks.append([line])
        elif blocks and line.startswith("  "):
            blocks[-1].append(line)
    threads = [block for block in blocks if block[0].startswith(_THREADS)]
    current = [block for block in threads if block[0].startswith("Current")]
    for head, *frames in current or threads:
        place = next(
            (n for n, f in enumerate(frames) if _is_ours(f, ours)), len(frames)
        )
        if place:
            yield from (head, *frames[:place])


def _without_ours(lines: Sequence[str], ours: str) -> Iterator[str]:
    """Lines without our frames in tracebacks: the file, and the code below it."""
    is_ours = False
    for line in lines:
        if line.startswith("  File "):
            is_ours = _is_ours(line, ours)
        elif not line.startswith("    "):
            is_ours = False
        if not is_ours:
            yield line


def _is_ours(line: str, ours: str) -> bool:
    return line.startswith(f'  File "{ours}')
