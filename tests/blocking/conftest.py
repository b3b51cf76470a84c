"""The blocking API's runtime: one for a module, lent to one test after the other."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import LENT, living_actors

import actorlib.blocking
from actorlib._core.engine import find_engine, set_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._base.ids import ActorId
    from actorlib._owner.engine import LocalEngine


@pytest.fixture(scope="module")
def crossing() -> Iterator[LocalEngine]:
    """The engine of the module, hidden between tests."""
    actorlib.blocking.init(num_cpus=4, num_gpus=2)
    engine = cast("LocalEngine", find_engine())
    set_engine(None)
    LENT.append(engine)
    yield engine
    LENT.remove(engine)
    set_engine(engine)
    actorlib.blocking.shutdown()


@pytest.fixture
def ray(crossing: LocalEngine) -> Iterator[Any]:
    """The face, with a runtime that has no actor."""
    set_engine(crossing)
    yield actorlib.blocking
    home: Any = crossing.loop
    ends = home.call(_kill_all, crossing)
    while ends:
        for end in ends:
            end.get(20)
        # A function whose worker was killed may be called once more.
        ends = home.call(_kill_all, crossing, living_actors(crossing))
    gc.collect()  # a caught error keeps handles in a cycle
    set_engine(None)


def _kill_all(crossing: LocalEngine, ending: list[ActorId] | None = None) -> list[Any]:
    """In one turn of the loop, in which none of them can end by itself."""
    if ending is None:
        ending = [life.record.id for life in crossing.actor_table]
    return [crossing.kill(actor) for actor in ending]
