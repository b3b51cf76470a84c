"""Every way that a value can travel through the blocking API, walked whole."""

from __future__ import annotations

import itertools

import pytest
from helpers import travel
from helpers.rare_cases import rarely
from helpers.travel import ACTORS, ROLES, SHAPES, SIZES, Functions

pytestmark = pytest.mark.process

LOADS = list(itertools.product(SHAPES, SIZES))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", ["plain", "function", *rarely("async")])
@pytest.mark.usefixtures("ray")
def test_value_arrives_whichever_way_it_travels(kind: str, role: str) -> None:
    target = Functions if kind == "function" else ACTORS[kind]()
    found = [travel.exchange(target, role, *load) for load in LOADS]
    assert found == [(nbytes, True) for _, nbytes in LOADS]
