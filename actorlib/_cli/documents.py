"""Writes documents for programs, and plain text, to standard output."""

from __future__ import annotations

import json
import os
import sys


def write_document(document: object, *, indent: int | None = 2) -> None:
    """Writes one document, and a line end.

    Args:
        document: The document, of types that json writes.
        indent: The indentation; None for one line.

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
