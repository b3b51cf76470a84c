"""Writes documents for machines, and text as it is, on standard output."""

from __future__ import annotations

import json
import os
import sys


def write_document(document: object, *, indent: int | None = 2) -> None:
    """Writes one document, and a line end.

    Args:
        document: What json can write.
        indent: How far what is inside is moved in; None for one line.

    Raises:
        SystemExit: Nobody reads it any more (1).
    """
    write_text(f"{json.dumps(document, indent=indent)}\n")


def write_text(text: str) -> None:
    """Writes text as it is, as far as the output has characters for it.

    Raises:
        SystemExit: Nobody reads it any more (1).
    """
    coding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(coding, "backslashreplace").decode(coding))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would be complained of once more at the exit.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
        raise SystemExit(1) from None
