"""How many actors a second come to their first answer, and what an idle one costs.

A wave is a number of fractional actors created together, timed until the last first
answer is there. The cold wave is the first of a fresh runtime that has just started;
the second follows in the same runtime when all actors of the first were killed.

Run it with ``python -m benchmarks.placement``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks._cases import (
    FLOOR,
    FORKSERVER,
    OURS,
    POOL,
    RAY,
    Case,
    Panel,
    Plan,
    Target,
    Unit,
)
from benchmarks._command import Scale, conduct, is_installed
from benchmarks._jobs import Job
from benchmarks._machine import cores

_RATE = Unit(name="actors/s", more_is_better=True)
_MEMORY = Unit(name="MiB", scale=2**-20)
_TIME = Unit(name="s")

_GOALS: Final = {
    "cold": (Target(bound=0.45, against=FLOOR), Target(bound=80, against=RAY)),
    "second": (Target(bound=0.45, against=FLOOR),),
    "pss": (Target(bound=8 * 2**20),),
}
"""What plain actors are to reach in the largest wave, by figure."""

_NEEDED = ("asyncio", "msgpack", "cloudpickle", "uvloop")
"""What any asyncio actor needs: page tables and hot pages cost at every fork."""

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are taken round by round. The "
    "start of the runtime is not part of a wave. Ray has no preload.",
    "floor: a bare Python process forks children that write one byte and stay; for "
    "spawn, bare 'python -c pass', as many at a time as there are CPUs.",
    "process pool: ProcessPoolExecutor with fork, in the spawn rows with spawn; its "
    "waves are of workers, with the start of the pool. MiB: proportional set size of "
    "one idle actor, bytes that processes share divided among them.",
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
        goals: By figure, what the largest wave is to reach.
    """

    section: str
    counts: Sequence[int]
    method: str = "template"
    imports: tuple[str, ...] = ()
    preload: bool = False
    most: dict[str, int] = field(default_factory=dict[str, int])
    goals: dict[str, tuple[Target, ...]] = field(
        default_factory=dict[str, tuple[Target, ...]]
    )


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    plain, *others = _waves(scale)
    whole_jobs = _whole_jobs(scale)
    jobs: dict[str, Job] = {}
    cases: list[Case] = []
    for wave in (plain, *others):
        for count in wave.counts:
            found = _jobs(wave, count, scale)
            jobs |= {job.name: job for job in found.values()}
            cases += _cases(wave, count, found)
    whole = Case(
        section="whole program",
        title="import, start, one actor, one answer, end",
        unit=_TIME,
        cells={column: f"{job.name}/time" for column, job in whole_jobs.items()},
        targets=(Target(bound=3, against=POOL),),
    )
    of_plain = [case for case in cases if case.section == plain.section]
    return Plan(
        name="placement",
        question="Actors a second to their first answer",
        notes=_NOTES,
        jobs=[*whole_jobs.values(), *jobs.values()],
        cases=[*cases, whole],
        panels=[
            Panel(
                title="plain actors from the template",
                cases=[case for case in of_plain if case.unit is _RATE],
                is_logarithmic=True,
            ),
            Panel(
                title="memory of an idle actor",
                cases=[case for case in of_plain if case.unit is _MEMORY],
            ),
            Panel(title="a whole program", cases=[whole], is_logarithmic=True),
        ],
    )


def _waves(scale: Scale) -> Iterator[_Wave]:
    counts = (16, 256) if scale.is_quick else (16, 64, 256)
    yield _Wave(
        section="template, plain actors",
        counts=counts,
        most={RAY: 16} if scale.is_quick else {},
        goals=_GOALS,
    )
    yield _Wave(
        section=f"bare template that has imported {', '.join(_NEEDED)}",
        counts=counts,
        imports=_NEEDED,
        preload=True,
        most={OURS: 0, RAY: 0, POOL: 0, FORKSERVER: 0},
    )
    for name in filter(is_installed, ("numpy", "torch")):
        # An import of torch is a second of CPU and 200 MiB for each actor.
        few = counts[:1] if scale.is_quick or name == "torch" else counts[:2]
        preloaded = few if scale.is_quick else counts
        for counts_now, preload in ((few, False), (preloaded, True)):
            yield _Wave(
                section=f"template, each imports {name}"
                + (f", preload=[{name!r}]" if preload else ""),
                counts=counts_now,
                imports=(name,),
                preload=preload,
                most={RAY: 16, POOL: 64, FORKSERVER: 64},
            )
    yield _Wave(
        section="spawn, plain actors",
        counts=counts[:1] if scale.is_quick else (16, 32),
        method="spawn",
        most={RAY: 16, FORKSERVER: 0},
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
        POOL: ("placement_pool", "spawn" if is_spawn else "fork"),
        FORKSERVER: ("placement_pool", "forkserver"),
    }
    peers = {RAY: "ray", POOL: "stdlib", FORKSERVER: "stdlib"}
    found: dict[str, Job] = {}
    for column, (subject, method) in subjects.items():
        if peers.get(column, "") not in {"", *scale.peers}:
            continue
        if count > wave.most.get(column, count):
            continue
        # A large wave takes Ray minutes.
        preload = wave.preload and column != RAY
        waves = 1 if column == RAY and count > 64 else 2
        words = (*filter(None, (method,)), *wave.imports, *(["preload"] * preload))
        found[column] = Job(
            name=" ".join((column, *words, str(count))),
            subject=subject,
            arguments={
                "size": count,
                "waves": waves,
                "method": method,
                "imports": wave.imports,
                "preload": preload,
            },
            limit=600,
        )
    return found


def _cases(wave: _Wave, count: int, jobs: dict[str, Job]) -> Iterator[Case]:
    rows = ((_RATE, "cold"), (_RATE, "second"), (_MEMORY, "pss"))
    names = {"cold": "cold", "second": "second wave", "pss": "memory of each, idle"}
    for unit, figure in rows:
        unmeasured = [
            column
            for column, job in jobs.items()
            if (figure == "pss" and job.subject == "placement_spawn")
            or (figure == "second" and job.arguments["waves"] == 1)
        ]
        yield Case(
            section=wave.section,
            title=f"{count} {names[figure]}",
            unit=unit,
            cells={
                column: f"{job.name}/{figure}"
                for column, job in jobs.items()
                if column not in unmeasured
            },
            targets=wave.goals.get(figure, ()) if count == max(wave.counts) else (),
        )


def _whole_jobs(scale: Scale) -> dict[str, Job]:
    programs = {OURS: "whole_actorlib"}
    programs |= {POOL: "whole_pool"} if "stdlib" in scale.peers else {}
    programs |= {RAY: "whole_ray"} if "ray" in scale.peers else {}
    return {
        column: Job(
            name=f"{column} whole program",
            subject="whole_process",
            arguments={"program": program, "times": 1 if column == RAY else 5},
        )
        for column, program in programs.items()
    }


if __name__ == "__main__":
    conduct(make_plan)
