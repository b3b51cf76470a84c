"""Code for the subjects of xoscar: a pool that ends, and the place of its actors.

An actor of its own process lives in a sub-pool; the main pool is in this process. Pool
and caller run on uvloop, which xoscar chooses by itself for its sub-pools. Actors are
``StatelessActor``: their calls take no lock, which is the faster of its two kinds.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import xoscar


@asynccontextmanager
async def pool_of(processes: int) -> AsyncGenerator[str]:
    """A pool with so many processes besides this one; gives its address."""
    pool = await xoscar.create_actor_pool("127.0.0.1", n_process=processes)
    try:
        yield pool.external_address
    finally:
        await pool.stop()


async def placed(kind: type, address: str, process: int = 1) -> Any:
    """An actor in one of the processes of a pool, counted from 1."""
    strategy = xoscar.allocate_strategy.ProcessIndex(process)
    return await xoscar.create_actor(kind, address=address, allocate_strategy=strategy)
