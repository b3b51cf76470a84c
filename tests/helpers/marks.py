"""The marks of files whose tests share one runtime: ``pytestmark = in_memory()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import pytest

if TYPE_CHECKING:
    from actorlib._options.runtime_options import RuntimeKeywords


def in_memory(**options: Unpack[RuntimeKeywords]) -> list[pytest.MarkDecorator]:
    """Workers are in memory, on a loop that jumps over idle time.

    Args:
        **options: Those of the runtime. One whose actors have classes of the file says
            ``preload=[__name__]``: it imports pytest, which takes a worker longer than
            all the rest of its life.
    """
    return [pytest.mark.memory, *_shared(options)]


def in_processes(**options: Unpack[RuntimeKeywords]) -> list[pytest.MarkDecorator]:
    """Workers are processes. The options are those of ``in_memory``."""
    return [pytest.mark.process, *_shared(options)]


def _shared(options: RuntimeKeywords) -> list[pytest.MarkDecorator]:
    return [pytest.mark.asyncio(loop_scope="module"), pytest.mark.runtime(**options)]


USES_RUNTIME = pytest.mark.usefixtures("runtime")
"""Every test of the file needs the runtime."""
