"""The places that modules are imported from, for other processes."""

from __future__ import annotations

import sys
from typing import cast


def import_path() -> list[str]:
    """Returns ``sys.path`` without what an import skips, such as a ``Path``."""
    entries = cast("list[object]", sys.path)
    return [entry for entry in entries if isinstance(entry, str)]
