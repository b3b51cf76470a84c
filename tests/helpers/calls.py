"""What becomes of calls; not for workers, which would have to import pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable


async def raised(waiting: Awaitable[object]) -> Any:
    """What a wait raised, which has to be an Exception."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the test looks closer
        await waiting
    return caught.value
