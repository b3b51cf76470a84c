"""Parameters of tests that run with ``--thorough`` only."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def rarely(*cases: object) -> list[ParameterSet]:
    """Marks variants that seldom find what their neighbours do not.

    Args:
        *cases: Each the value of a parameter; a tuple has one for each parameter.
    """
    values: list[tuple[object, ...]] = [
        cast("tuple[object, ...]", case) if isinstance(case, tuple) else (case,)
        for case in cases
    ]
    return [pytest.param(*value, marks=pytest.mark.thorough) for value in values]
