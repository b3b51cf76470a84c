"""Measures the rate of new actors to their first answers.

A wave is a number of fractional actors created together, timed until the last first
answer is there. The cold wave is the first of a fresh runtime that has just started;
the second follows in the same runtime when all actors of the first were killed.

Run it with ``python -m benchmarks.placement``.
"""

import importlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks._cases import (
    DASK,
    FLOOR,
    FORKSERVER,
    LOADED_FLOOR,
    OURS,
    PEERS,
    POOL,
    RAY,
    XOSCAR,
    Case,
    Job,
    Panel,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._subject import Figures, distinct, main

_RATE = Unit(name="actors/s", more_is_better=True)

_Goals = Mapping[str, tuple[Target, ...]]
"""The targets of the largest wave, by figure."""

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
"""What our template has imported of others': page tables and hot pages cost at every
fork."""

_RAY_AT_BEST: Final = 16
"""The wave in which Ray creates actors fastest; larger ones take minutes."""

_NOTES = (
    "The start of the runtime is not part of a wave. Ray has no preload. 'of "
    f"{_RAY_AT_BEST}': measured in a wave of that size, at its highest rate.",
    "floor: a bare Python process forks children that write one byte and stay. For "
    "spawn: bare 'python -c pass', one for each CPU at a time.",
    "loaded floor: the same forks by a process with the imports of our template: "
    f"{', '.join(_NEEDED)}.",
    "process pool: ProcessPoolExecutor with fork, in the spawn rows with spawn. Its "
    "waves are of workers, and include the start of the pool, as do those of xoscar (a "
    "pool of that many processes) and distributed (a cluster of that many workers).",
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
    from benchmarks._peers import is_installed

    counts = (16, 256) if scale.is_quick else (16, 64, 256)
    # Ray takes 2 to 10 minutes for 256, at a lower rate than for 16.
    most = {RAY: 64, XOSCAR: 16, DASK: 16}
    if scale.is_quick:
        most = {XOSCAR: 0, DASK: 0, RAY: 16, POOL: 16}
    yield _Wave(
        section="template, plain actors",
        counts=counts,
        most=most,
        goals=_PLAIN,
    )
    heavy, why = ("torch", "")
    if not is_installed(heavy):
        heavy, why = ("numpy", " (torch is not installed)")
    importing = {RAY: 16, POOL: 16, FORKSERVER: 16, XOSCAR: 0, DASK: 0}
    spawned = dict.fromkeys((*PEERS, LOADED_FLOOR), 0) | {RAY: 16, POOL: 32}
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
        most=importing | {LOADED_FLOOR: 0},
    )
    yield _Wave(
        section="spawn, plain actors",
        counts=counts[:1] if scale.is_quick else (16, 32),
        method="spawn",
        most=spawned,
        goals=_SPAWNED,
    )


def _jobs(wave: _Wave, count: int, scale: Scale) -> dict[str, Job]:
    """By column, who is asked for a wave; figures of one job may stand in two rows."""
    from benchmarks._machine import cores
    from benchmarks._peers import PEER_OF

    is_spawn = wave.method == "spawn"
    subjects = {
        OURS: ("placement.actorlib", wave.method),
        FLOOR: ("placement.spawn", str(cores()))
        if is_spawn
        else ("placement.fork", ""),
        LOADED_FLOOR: ("placement.fork", ""),
        RAY: ("placement.ray", ""),
        XOSCAR: ("placement.xoscar", ""),
        DASK: ("placement.distributed", ""),
        POOL: ("placement.pool", "spawn" if is_spawn else "fork"),
        FORKSERVER: ("placement.pool", "forkserver"),
    }
    found: dict[str, Job] = {}
    for column, (subject, method) in subjects.items():
        if count > wave.most.get(column, count):
            continue
        peer = PEER_OF.get(column, "")
        needed = _NEEDED if column == LOADED_FLOOR else ()
        imports = (*needed, *wave.imports)
        preload = (wave.preload or bool(needed)) and column != RAY
        words = (*filter(None, (method,)), *wave.imports, *(["preload"] * preload))
        found[column] = Job(
            name=" ".join((column, *words, str(count))),
            subject=subject,
            arguments={
                "size": count,
                "waves": 1 if peer and (scale.is_quick or count > 16) else 2,
                "method": method,
                "imports": imports,
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


class Wave(NamedTuple):
    """What a subject is told.

    Attributes:
        size: How many actors there are in a wave.
        waves: How many waves, 1 or 2.
        method: How processes are started, in the words of the subject.
        imports: What each actor imports when it is built.
        preload: Whether that was imported before, where all actors come from.
    """

    size: int
    waves: int = 2
    method: str = ""
    imports: Sequence[str] = ()
    preload: bool = False

    @property
    def preloads(self) -> list[str]:
        """What is imported before."""
        return list(self.imports) if self.preload else []

    @property
    def names(self) -> Sequence[str]:
        """What the figures of the waves are called."""
        return ("cold", "second")[: self.waves]


class Idle:
    """An actor that does nothing but say where it is."""

    def __init__(self, imports: Sequence[str] = ()) -> None:
        for name in imports:
            importlib.import_module(name)

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def measure_actorlib(**told: Any) -> Figures:
    """Waves of fractional actors to their first answers."""
    import asyncio

    import actorlib

    wave = Wave(**told)

    async def measured() -> Figures:
        metrics: Figures = {}
        made: Any = actorlib.remote(num_gpus=0.01)(Idle)
        begun = time.perf_counter()
        method: Any = "spawn" if wave.method == "spawn" else "template"
        runtime = actorlib.init(num_gpus=8, start_method=method, preload=wave.preloads)
        async with runtime:
            metrics["start"] = time.perf_counter() - begun
            for name in wave.names:
                begun = time.perf_counter()
                actors = [made.remote(wave.imports) for _ in range(wave.size)]
                pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
                metrics[name] = wave.size / (time.perf_counter() - begun)
                distinct(pids, wave.size)
                begun = time.perf_counter()
                await asyncio.gather(*(actorlib.kill(actor) for actor in actors))
                metrics["down"] = wave.size / (time.perf_counter() - begun)
        return metrics

    return actorlib.run(measured())


def measure_fork(**told: Any) -> Figures:
    """The floor: a bare template forks children that answer with one byte."""
    import socket
    import struct
    import subprocess

    from benchmarks._bare_template import COUNT

    wave = Wave(**told)
    metrics: Figures = {}
    control, far_control = socket.socketpair()
    answers, far_answers = socket.socketpair()
    descriptors = (far_control.fileno(), far_answers.fileno())
    template = Path(__file__).with_name("_bare_template.py")
    command = [sys.executable, str(template), *map(str, descriptors)]
    command += [",".join(wave.preloads), ",".join(wave.imports)]
    begun = time.perf_counter()
    with subprocess.Popen(command, pass_fds=descriptors), control, answers:
        far_control.close()
        far_answers.close()
        _receive(control, 1)
        metrics["start"] = time.perf_counter() - begun
        for name in wave.names:
            begun = time.perf_counter()
            control.sendall(COUNT.pack(wave.size))
            _receive(answers, wave.size)
            metrics[name] = wave.size / (time.perf_counter() - begun)
            found = _receive(control, wave.size * COUNT.size)
            distinct(struct.unpack(f"<{wave.size}i", found), wave.size)
            begun = time.perf_counter()
            control.sendall(COUNT.pack(0))
            _receive(control, 1)
            metrics["down"] = wave.size / (time.perf_counter() - begun)
        control.shutdown(socket.SHUT_RDWR)
    return metrics


def _receive(sock: Any, nbytes: int) -> bytes:
    found = b""
    while len(found) < nbytes:
        more = sock.recv(nbytes - len(found))
        if not more:
            raise EOFError("the bare template is gone")
        found += more
    return found


def measure_spawn(**told: Any) -> Figures:
    """The floor of spawning: bare interpreters, as many at a time as there are CPUs."""
    wave = Wave(**told)
    metrics: Figures = {}
    for name in wave.names:
        begun = time.perf_counter()
        _start_each(wave.size, int(wave.method))
        metrics[name] = wave.size / (time.perf_counter() - begun)
    return metrics


def _start_each(count: int, at_a_time: int) -> None:
    for begun in range(count):
        if begun >= at_a_time:
            os.wait()
        command = [sys.executable, "-c", "pass"]
        os.posix_spawn(sys.executable, command, os.environ)
    for _ in range(min(count, at_a_time)):
        os.wait()


def measure_ray(**told: Any) -> Figures:
    """Waves of fractional actors to their first answers."""
    import ray

    from benchmarks._processes import await_end

    wave = Wave(**told)
    metrics: Figures = {}
    made: Any = ray.remote(num_cpus=0, num_gpus=0.01)(Idle)
    begun = time.perf_counter()
    ray.init(num_gpus=8, include_dashboard=False, log_to_driver=False)
    metrics["start"] = time.perf_counter() - begun
    for name in wave.names:
        begun = time.perf_counter()
        actors = [made.remote(wave.imports) for _ in range(wave.size)]
        pids = ray.get([actor.pid.remote() for actor in actors])
        metrics[name] = wave.size / (time.perf_counter() - begun)
        distinct(pids, wave.size)
        for actor in actors:
            ray.kill(actor)
        await_end(pids)
    ray.shutdown()
    return metrics


def measure_xoscar(**told: Any) -> Figures:
    """Pools of so many processes with an actor in each."""
    import asyncio

    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class XoscarIdle(xoscar.StatelessActor):
        def pid(self) -> int:
            return os.getpid()

    wave = Wave(**told)

    async def measured() -> Figures:
        metrics: Figures = {}
        for name in wave.names:
            begun = time.perf_counter()
            async with pool_of(wave.size) as address:
                actors = await asyncio.gather(
                    *(placed(XoscarIdle, address, n + 1) for n in range(wave.size))
                )
                pids = await asyncio.gather(*(actor.pid() for actor in actors))
                metrics[name] = wave.size / (time.perf_counter() - begun)
            distinct(pids, wave.size)
        return metrics

    return uvloop.run(measured())


def measure_distributed(**told: Any) -> Figures:
    """Clusters of so many workers with an actor in each."""
    import asyncio

    from benchmarks._distributed import client_of

    wave = Wave(**told)

    async def measured() -> Figures:
        metrics: Figures = {}
        for name in wave.names:
            begun = time.perf_counter()
            async with client_of(wave.size) as client:
                workers = list(client.cluster.scheduler.workers)
                actors = await asyncio.gather(
                    *(client.submit(Idle, actor=True, workers=[w]) for w in workers)
                )
                pids = await asyncio.gather(*(actor.pid() for actor in actors))
                metrics[name] = wave.size / (time.perf_counter() - begun)
            distinct(pids, wave.size)
        return metrics

    return asyncio.run(measured())


_gate: list[Any] = []


def _begin(gate: Any, imports: Sequence[str]) -> None:
    _gate.append(gate)
    for name in imports:
        importlib.import_module(name)


def _pid() -> int:
    _gate[0].wait()
    return os.getpid()


def measure_pool(**told: Any) -> Figures:
    """Waves of workers of a process pool to their first answers.

    A worker's first answer waits until all workers are there, or the first ones would
    do the work of the later ones.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.context import ForkServerContext

    wave = Wave(**told)
    metrics: Figures = {}
    context = multiprocessing.get_context(wave.method)
    if isinstance(context, ForkServerContext):
        context.set_forkserver_preload([__spec__.name, *wave.preloads])
    else:
        for name in wave.preloads:
            importlib.import_module(name)
    for name in wave.names:
        begun = time.perf_counter()
        gate = context.Barrier(wave.size)
        with ProcessPoolExecutor(
            wave.size, context, _begin, (gate, wave.imports)
        ) as pool:
            answers = [pool.submit(_pid) for _ in range(wave.size)]
            pids = [answer.result() for answer in answers]
            metrics[name] = wave.size / (time.perf_counter() - begun)
            distinct(pids, wave.size)
    return metrics


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "fork": measure_fork,
    "spawn": measure_spawn,
    "ray": measure_ray,
    "xoscar": measure_xoscar,
    "distributed": measure_distributed,
    "pool": measure_pool,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
