"""Selects the useful last lines of a worker's standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.stack_frames import OWN_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LINES = 20
"""The maximum number of lines of a tail."""
_LINES_BEFORE = 5
"""How many of them may come from before the report of a fatal error."""
FATAL = "Fatal Python error"
"""The beginning of faulthandler's report of a fatal error."""
_THREADS = ("Current thread 0x", "Thread 0x")
"""The beginning of a thread's Python stack; 3.14 shows the stack in C, too."""


def log_tail(lines: Sequence[str], ours: str = OWN_FILES) -> str:
    """Returns the useful last lines of a process's standard error.

    For a fatal error: the lines before it, the error, and the innermost frames of the
    user's code. Our own frames, and threads with only these, are left out.

    Args:
        lines: The last lines.
        ours: The path prefix of the files whose frames are left out.
    """
    begins = [place for place, line in enumerate(lines) if line.startswith(FATAL)]
    if not begins:
        return "\n".join(list(_without_ours(lines, ours))[-_LINES:])
    begin = begins[-1]
    report = [lines[begin], *_threads(lines[begin + 1 :], ours)]
    before = _without_ours(lines[max(0, begin - _LINES_BEFORE) : begin], ours)
    return "\n".join([*before, *report][:_LINES])


def _threads(lines: Sequence[str], ours: str) -> Iterator[str]:
    """Yields the frames of the thread that failed, or of all if none is marked."""
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
    """Yields lines without our frames in tracebacks: the file, and the code below."""
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
