"""The peers: which are requested, and which are installed."""

import argparse
import importlib.util
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from benchmarks._cases import DASK, FORKSERVER, ON_RAY, POOL, RAY, XOSCAR, Case, Plan

COLUMNS_OF: Final = {
    "ray": (RAY, ON_RAY),
    "xoscar": (XOSCAR,),
    "distributed": (DASK,),
    "stdlib": (POOL, FORKSERVER),
}
"""The columns of each peer, by its name."""

PEER_OF: Final = {column: peer for peer, each in COLUMNS_OF.items() for column in each}
"""The peer of each column."""


def peers_of(text: str) -> frozenset[str]:
    """The peers that a list with commas names; an empty one names none.

    Raises:
        argparse.ArgumentTypeError: One of them is no peer.
    """
    names = frozenset(filter(None, (name.strip() for name in text.split(","))))
    if strange := sorted(names - COLUMNS_OF.keys()):
        raise argparse.ArgumentTypeError(
            f"no peer is called {', '.join(map(repr, strange))}; "
            f"there are {', '.join(COLUMNS_OF)}"
        )
    return names


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not."""
    return importlib.util.find_spec(module) is not None


def missing(peers: Collection[str]) -> frozenset[str]:
    """Which of these peers are not installed."""
    return frozenset(
        peer for peer in peers if peer != "stdlib" and not is_installed(peer)
    )


def asked(plan: Plan, peers: Collection[str], absent: Collection[str] = ()) -> Plan:
    """A plan with those peers alone.

    Args:
        plan: What there is to measure.
        peers: Who of the peers is measured; of the others no cell is left.
        absent: Who of them is not installed: their cells stay, and say so.
    """
    jobs = [
        replace(job, absence="not installed") if job.peer in absent else job
        for job in plan.jobs
        if not job.peer or job.peer in peers
    ]
    return replace(
        plan,
        jobs=jobs,
        cases=[_asked(case, peers) for case in plan.cases],
        panels=[
            replace(panel, cases=[_asked(case, peers) for case in panel.cases])
            for panel in plan.panels
        ],
    )


def _asked(case: Case, peers: Collection[str]) -> Case:
    cells = {
        column: cell
        for column, cell in case.cells.items()
        if PEER_OF.get(column) in {None, *peers}
    }
    return replace(case, cells=cells)
