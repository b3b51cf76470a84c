"""How many actors a second come to their first answer.

A wave is a number of fractional actors created together, timed until the last first
answer is there. The cold wave is the first of a fresh runtime that has just started;
the second follows in the same runtime when all actors of the first were killed.

Run it with ``python -m benchmarks.placement``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    FORKSERVER,
    OURS,
    PEERS,
    POOL,
    RAY,
    XOSCAR,
    Case,
    Panel,
    Plan,
    Target,
    Unit,
)
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job
from benchmarks._machine import cores
from benchmarks._peers import PEER_OF, is_installed

_RATE = Unit(name="actors/s", more_is_better=True)

_Goals = Mapping[str, tuple[Target, ...]]
"""By figure, what the largest wave is to reach."""

_PLAIN: Final[_Goals] = {
    "cold": (Target(bound=0.5, against=FLOOR), Target(bound=100, against=RAY)),
    "second": (Target(bound=0.5, against=FLOOR),),
}
_PRELOADED: Final[_Goals] = {
    "cold": (Target(bound=0.6, against=FLOOR), Target(bound=150, against=RAY)),
    "second": (Target(bound=0.6, against=FLOOR),),
}
_SPAWNED: Final[_Goals] = {"cold": (Target(bound=0.4, against=FLOOR),)}

_NEEDED = ("asyncio", "msgpack", "cloudpickle", "uvloop")
"""What any asyncio actor needs: page tables and hot pages cost at every fork."""

_RAY_AT_BEST: Final = 16
"""The wave in which Ray makes the most actors a second; larger ones take it minutes."""

_NOTES = (
    "The start of the runtime is not part of a wave. Ray has no preload. "
    f"'of {_RAY_AT_BEST}': measured in a wave of so many, where its rate is highest.",
    "floor: a bare Python process forks children that write one byte and stay; for "
    "spawn, bare 'python -c pass', as many at a time as there are CPUs.",
    "process pool: ProcessPoolExecutor with fork, in the spawn rows with spawn; its "
    "waves are of workers, with the start of the pool, as are those of xoscar (a pool "
    "of so many processes) and distributed (a cluster of so many workers).",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """One kind of wave, and the largest that each subject is asked for.

    Attributes:
        section: What it is called.
        counts: How many actors.
        method: How actorlib starts them.
        imports: What each actor imports.
        preload: Whether it finds that imported.
        most: By column, the largest wave; 0 for none, nothing for any.
        goals: What is aimed at.
    """

    section: str
    counts: Sequence[int]
    method: str = "template"
    imports: tuple[str, ...] = ()
    preload: bool = False
    most: Mapping[str, int] = field(default_factory=dict[str, int])
    goals: _Goals = field(default_factory=dict[str, tuple[Target, ...]])


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    waves = list(_waves(scale))
    jobs: dict[str, Job] = {}
    cases: list[Case] = []
    for wave in waves:
        sizes = {count: _jobs(wave, count, scale) for count in wave.counts}
        for count, found in sizes.items():
            jobs |= {job.name: job for job in found.values()}
            at_best = sizes.get(_RAY_AT_BEST, {}).get(RAY)
            cases += _cases(wave, count, found, at_best)
    return Plan(
        name="placement",
        question="Actors a second to their first answer",
        notes=_NOTES,
        jobs=list(jobs.values()),
        cases=cases,
        panels=[
            Panel(
                title=wave.section,
                cases=[case for case in cases if case.section == wave.section],
                is_logarithmic=True,
            )
            for wave in waves
            if wave.goals
        ],
    )


def _waves(scale: Scale) -> Iterator[_Wave]:
    counts = (16, 256) if scale.is_quick else (16, 64, 256)
    nobody = dict.fromkeys(PEERS, 0)
    most = {XOSCAR: 16, DASK: 16}
    if scale.is_quick:
        most = {XOSCAR: 0, DASK: 0, RAY: 16, POOL: 16}
    yield _Wave(
        section="template, plain actors",
        counts=counts,
        most=most,
        goals=_PLAIN,
    )
    yield _Wave(
        section=f"bare template that has imported {', '.join(_NEEDED)}",
        counts=counts,
        imports=_NEEDED,
        preload=True,
        most=nobody | {OURS: 0},
    )
    heavy, why = ("torch", "")
    if not is_installed(heavy):
        heavy, why = ("numpy", " (torch is not installed)")
    importing = {RAY: 16, POOL: 16, FORKSERVER: 16, XOSCAR: 0, DASK: 0}
    yield _Wave(
        section=f"each imports {heavy}{why}, preload=[{heavy!r}]",
        counts=counts,
        imports=(heavy,),
        preload=True,
        most=importing,
        goals=_PRELOADED,
    )
    yield _Wave(
        # An import of torch is a second of CPU and 200 MiB for each actor.
        section=f"each imports {heavy}{why}, without preload",
        counts=counts[:1],
        imports=(heavy,),
        most=importing,
    )
    yield _Wave(
        section="spawn, plain actors",
        counts=counts[:1] if scale.is_quick else (16, 32),
        method="spawn",
        most=nobody | {RAY: 16, POOL: 32},
        goals=_SPAWNED,
    )


def _jobs(wave: _Wave, count: int, scale: Scale) -> dict[str, Job]:
    """By column, who is asked for a wave; figures of one job may stand in two rows."""
    is_spawn = wave.method == "spawn"
    subjects = {
        OURS: ("placement_actorlib", wave.method),
        FLOOR: ("placement_spawn", str(cores()))
        if is_spawn
        else ("placement_fork", ""),
        RAY: ("placement_ray", ""),
        XOSCAR: ("placement_xoscar", ""),
        DASK: ("placement_distributed", ""),
        POOL: ("placement_pool", "spawn" if is_spawn else "fork"),
        FORKSERVER: ("placement_pool", "forkserver"),
    }
    found: dict[str, Job] = {}
    for column, (subject, method) in subjects.items():
        if count > wave.most.get(column, count):
            continue
        peer = PEER_OF.get(column, "")
        preload = wave.preload and column != RAY
        words = (*filter(None, (method,)), *wave.imports, *(["preload"] * preload))
        found[column] = Job(
            name=" ".join((column, *words, str(count))),
            subject=subject,
            arguments={
                "size": count,
                "waves": 1 if peer and (scale.is_quick or count > 16) else 2,
                "method": method,
                "imports": wave.imports,
                "preload": preload,
            },
            limit=600,
            peer=peer,
        )
    return found


def _cases(
    wave: _Wave, count: int, jobs: Mapping[str, Job], at_best: Job | None
) -> Iterator[Case]:
    is_largest = count == max(wave.counts)
    for figure, name in (("cold", "cold"), ("second", "second wave")):
        cells = {
            column: f"{job.name}/{figure}"
            for column, job in jobs.items()
            if figure == "cold" or job.arguments["waves"] == 2
        }
        borrows = is_largest and figure == "cold" and RAY not in cells and at_best
        if borrows:
            cells[RAY] = f"{borrows.name}/{figure}"
        yield Case(
            section=wave.section,
            title=f"{count} {name}",
            unit=_RATE,
            cells=cells,
            targets=wave.goals.get(figure, ()) if is_largest else (),
            remarks={RAY: f"of {_RAY_AT_BEST}"} if borrows else {},
        )


if __name__ == "__main__":
    conduct(make_plan)
