"""Code for the subjects of dask.distributed: a cluster that ends.

Client and cluster are asynchronous, so that no thread stands between a call and the
loop, and the dashboard is off. Actors are called from their worker directly, without
the scheduler, which is what dask has them for.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from distributed import Client, LocalCluster


@asynccontextmanager
async def client_of(workers: int) -> AsyncGenerator[Any]:
    """A client of a cluster with so many workers, one thread in each."""
    async with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            asynchronous=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        yield client
