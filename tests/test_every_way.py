"""Every way that a value can travel, walked whole: see ``helpers.travel``."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from helpers import travel
from helpers.marks import USES_RUNTIME, in_processes
from helpers.rare_cases import rarely
from helpers.travel import ACTORS, ROLES, SHAPES, SIZES, Functions

pytestmark = [*in_processes(preload=["helpers.travel"]), USES_RUNTIME]

OWNER = "the owner"
CARRIERS = (OWNER, "plain", "async", "function")
WAYS = [
    *itertools.product(CARRIERS, ("plain", "async", "function")),
    *rarely(*itertools.product(CARRIERS, ("threaded", "mixed"))),
    *itertools.product(("threaded", "mixed"), ("plain", "function")),
    *itertools.product(("plain, linked", "async, linked"), ("plain", "async")),
]
LOADS = list(itertools.product(SHAPES, SIZES))


async def carried(carrier: str, target: Any, role: str) -> list[tuple[int, bool]]:
    """What came of each load, by one carrier."""
    if carrier == OWNER:
        return [await travel.exchanged(target, role, *load) for load in LOADS]
    if carrier == "function":
        call = travel.exchange_in_function
    else:
        kind, _, is_linked = carrier.partition(", ")
        actor = ACTORS[kind]()
        if is_linked:
            await actor.warm.remote(target)
        call = actor.exchange
    return [await call.remote(target, role, *load) for load in LOADS]


@pytest.mark.parametrize("roles", [ROLES[:2], *rarely((ROLES[2:],))])
@pytest.mark.parametrize(("carrier", "kind"), WAYS)
async def test_value_arrives_whichever_way_it_travels(
    carrier: str, kind: str, roles: tuple[str, ...]
) -> None:
    target = Functions if kind == "function" else ACTORS[kind]()
    for role in roles:
        found = await carried(carrier, target, role)
        assert found == [(nbytes, True) for _, nbytes in LOADS], role
