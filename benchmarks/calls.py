"""Measures calls of an actor: their time, and their rate.

A round trip is one call awaited before the next is made. Pipelined calls are made in
windows of 1,000 that end in one ``asyncio.gather``.

Run it with ``python -m benchmarks.calls``.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    POOL,
    RAY,
    XOSCAR,
    Case,
    Job,
    Plan,
    Scale,
    Target,
)
from benchmarks._processes import place
from benchmarks._subject import WINDOW, Figures, main, pipelined, prefixed, round_trips
from benchmarks._traffic import SECTIONS, UNITS, Traffic, awaited, got, panels

_GOALS: Final = {
    "p50": (Target(bound=1.3, against=FLOOR),),
    "p99": (Target(bound=1.3, against=FLOOR),),
    "rate": (Target(bound=0.45, against=FLOOR), Target(bound=40, against=RAY)),
}
"""The targets of actors on uvloop, by figure."""

_TOGETHER = "uvloop, one CPU"
_LOOPED = f"{FLOOR} uvloop"
_BLOCKING = f"{FLOOR} blocking"
_SCRIPT = "a script"
"""The blocking API: the loop in a thread of its own, no end bound to a CPU."""

_NOTES = (
    "floor: msgpack frames over a socket pair, a protocol on uvloop, a future for each "
    "call. The far end is a protocol on uvloop for round trips, and for windows a "
    "blocking read loop that answers a chunk in one write.",
    "a script: the blocking API with ray.get, its loop in a thread, no process bound "
    "to a CPU.",
    "actorlib and floor bind each end to its own CPU (with one CPU both ends to it, "
    "which avoids waking another CPU); peers are not bound. On a busy machine the 99th "
    "percentile of bound ends is a wait for a time slice.",
    "Ray: the better of ray.get and await. xoscar: actors without a lock, in their own "
    "process. distributed: actors, asynchronous client. process pool: submit and "
    "result of a ProcessPoolExecutor with one worker.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    cases: list[Case] = []
    loops = ("uvloop", _SCRIPT)
    if not scale.is_quick:
        loops += ("asyncio", _TOGETHER)
    for figure in SECTIONS:
        cases += [
            _case(figure, kind, loop) for loop in loops for kind in ("sync", "async")
        ]
        cases += _bare(figure)
    shown = [case for case in cases if OURS in case.cells]
    return Plan(
        name="calls",
        question="Calls of one actor",
        notes=_NOTES,
        jobs=_jobs(scale),
        cases=cases,
        panels=panels(shown),
    )


def _jobs(scale: Scale) -> list[Job]:
    trips, windows = (1500, 15) if scale.is_quick else (5000, 40)
    fast = {"trips": trips, "windows": windows}
    slow = {"trips": trips // 3, "windows": 2 if scale.is_quick else 5}
    ours_and_floors = [
        (f"{OURS} uvloop", "calls.actorlib", "uvloop"),
        (_LOOPED, "calls.floor", "uvloop"),
        (_BLOCKING, "calls.floor", "blocking"),
        (f"{OURS} {_SCRIPT}", "calls.script", ""),
    ]
    if not scale.is_quick:
        ours_and_floors += [
            (f"{OURS} {_TOGETHER}", "calls.actorlib", "uvloop"),
            (f"{_LOOPED}, one CPU", "calls.floor", "uvloop"),
            (f"{_BLOCKING}, one CPU", "calls.floor", "blocking"),
            (f"{OURS} asyncio", "calls.actorlib", "asyncio"),
        ]
    jobs = [
        Job(
            name=name,
            subject=subject,
            arguments={**fast, "method": method, "apart": not name.endswith("one CPU")},
        )
        for name, subject, method in ours_and_floors
    ]
    jobs += [
        Job(name=name, subject=subject, arguments=slow, peer=peer)
        for name, subject, peer in (
            (POOL, "calls.pool", "stdlib"),
            (RAY, "calls.ray", "ray"),
            (XOSCAR, "calls.xoscar", "xoscar"),
            (DASK, "calls.distributed", "distributed"),
        )
    ]
    return jobs


def _case(figure: str, kind: str, loop: str) -> Case:
    floor = _BLOCKING if figure == "rate" else _LOOPED
    if loop == _TOGETHER:
        floor += ", one CPU"
    cells = {OURS: f"{OURS} {loop}/{kind} {figure}", FLOOR: f"{floor}/{figure}"}
    if loop != _TOGETHER:
        cells |= {name: f"{name}/{kind} {figure}" for name in (RAY, XOSCAR, DASK)}
        cells |= {POOL: f"{POOL}/{figure}"} if kind == "sync" else {}
    return Case(
        section=SECTIONS[figure],
        title=f"{kind} actor, {loop}",
        unit=UNITS[figure],
        cells=cells,
        targets=_GOALS.get(figure, ()) if loop == "uvloop" else (),
    )


def _bare(figure: str) -> list[Case]:
    """What other floors there are: rows without anybody beside them."""
    if figure == "rate":
        title, metric = "frames only counted, no futures", "frames rate"
    else:
        title, metric = "far end with a blocking read loop", figure
    return [
        Case(
            section=SECTIONS[figure],
            title=title,
            unit=UNITS[figure],
            cells={FLOOR: f"{_BLOCKING}/{metric}"},
        )
    ]


class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


class Looped:
    """An actor with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def _echo(value: int) -> int:
    return value


def measure_actorlib(**told: Any) -> Figures:
    """Calls of a sync and of an async actor, on uvloop or on asyncio's own loop."""
    import actorlib

    traffic = Traffic(**told)

    async def measured() -> Figures:
        metrics: Figures = {}
        async with actorlib.init():
            for name, kind in (("sync", Plain), ("async", Looped)):
                actor: Any = actorlib.remote(kind).remote()
                place(await actor.pid.remote(), apart=traffic.apart)
                metrics |= prefixed(name, await awaited(actor.echo.remote, traffic))
        return metrics

    run = actorlib.run if traffic.method == "uvloop" else asyncio.run
    return run(measured())


def measure_script(**told: Any) -> Figures:
    """Calls of a sync and of an async actor from a plain script, by ``ray.get``."""
    import actorlib.blocking as ray

    traffic, metrics = Traffic(**told), {}
    with ray.init():
        for name, kind in (("sync", Plain), ("async", Looped)):
            actor: Any = ray.remote(kind).remote()
            metrics |= prefixed(name, got(actor.echo.remote, ray.get, ray.get, traffic))
    return metrics


def measure_floor(**told: Any) -> Figures:
    """The floor of calls: msgpack frames over a socket pair, a protocol on uvloop.

    Like a call it has a number, a value and a future of its own, and windows end in one
    ``gather``; nothing else. ``frames`` does without the futures: what the pipe alone
    can do. The far end is ``_bare_echo``, on uvloop or with a blocking read loop.
    """
    import uvloop

    return uvloop.run(_floor(Traffic(**told)))


async def _floor(traffic: Traffic) -> Figures:
    near, far = socket.socketpair()
    near.setblocking(False)  # noqa: FBT003  # the socket API
    echo = Path(__file__).with_name("_bare_echo.py")
    command = [sys.executable, str(echo), str(far.fileno()), traffic.method]
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[far.fileno()])
    far.close()
    loop = asyncio.get_running_loop()
    transport, caller = await loop.create_connection(lambda: _Caller(near), sock=near)
    try:
        await caller.call(0)
        place(process.pid, apart=traffic.apart)
        return await _bare_calls(caller, traffic)
    finally:
        transport.close()
        await process.wait()


class _Caller(asyncio.Protocol):
    def __init__(self, sock: socket.socket) -> None:
        import msgpack

        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._pack = msgpack.Packer().pack
        self._unpacker = msgpack.Unpacker()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._expected = 0
        self._all_came = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        if not self._expected:
            waiting = self._waiting
            for number, value in self._unpacker:
                waiting.pop(number).set_result(value)
            return
        self._expected -= sum(1 for _ in self._unpacker)
        if not self._expected:
            self._all_came.set_result(None)

    def call(self, number: int) -> asyncio.Future[Any]:
        """One call, written at once."""
        self._waiting[number] = future = self._loop.create_future()
        self._sock.send(self._pack((number, number)))
        return future

    def window(self) -> asyncio.Future[list[Any]]:
        """A window of calls, written together."""
        futures: list[asyncio.Future[Any]] = []
        frames: list[bytes] = []
        for number in range(WINDOW):
            self._waiting[number] = future = self._loop.create_future()
            futures.append(future)
            frames.append(self._pack((number, number)))
        self._transport.write(b"".join(frames))
        return asyncio.gather(*futures)

    def frames(self) -> asyncio.Future[Any]:
        """A window of frames whose answers are only counted."""
        self._expected = WINDOW
        self._all_came = self._loop.create_future()
        pack = self._pack
        self._transport.write(b"".join([pack((n, n)) for n in range(WINDOW)]))
        return self._all_came


async def _bare_calls(caller: _Caller, traffic: Traffic) -> Figures:
    trips: list[float] = []
    for number in range(traffic.trips):
        begun = time.perf_counter()
        await caller.call(number)
        trips.append(time.perf_counter() - begun)
    metrics = round_trips(trips)
    for prefix, send in (("", caller.window), ("frames", caller.frames)):
        windows: list[float] = []
        for _ in range(traffic.windows):
            begun = time.perf_counter()
            await send()
            windows.append(time.perf_counter() - begun)
        rates = pipelined(windows)
        metrics |= prefixed(prefix, rates) if prefix else rates
    return metrics


def measure_ray(**told: Any) -> Figures:
    """Calls of a sync and of an async actor."""
    import ray

    from benchmarks._ray import calls, cluster

    traffic, metrics = Traffic(**told), {}
    with cluster():
        for name, kind in (("sync", Plain), ("async", Looped)):
            actor: Any = ray.remote(num_cpus=0)(kind).remote()
            metrics |= prefixed(name, calls(actor.echo.remote, traffic))
    return metrics


def measure_xoscar(**told: Any) -> Figures:
    """Calls of a plain and of an async method."""
    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class Sync(Plain, xoscar.StatelessActor):
        pass

    class Async(Looped, xoscar.StatelessActor):
        pass

    async def measured() -> Figures:
        metrics: Figures = {}
        async with pool_of(1) as address:
            for name, kind in (("sync", Sync), ("async", Async)):
                actor = await placed(kind, address)
                metrics |= prefixed(name, await awaited(actor.echo, Traffic(**told)))
        return metrics

    return uvloop.run(measured())


def measure_distributed(**told: Any) -> Figures:
    """Calls of a plain and of an async method of an actor."""
    from benchmarks._distributed import client_of

    async def measured() -> Figures:
        metrics: Figures = {}
        async with client_of(1) as client:
            for name, kind in (("sync", Plain), ("async", Looped)):
                actor = await client.submit(kind, actor=True)
                metrics |= prefixed(name, await awaited(actor.echo, Traffic(**told)))
        return metrics

    return asyncio.run(measured())


def measure_pool(**told: Any) -> Figures:
    """Calls of functions, sent one at a time.

    With one worker it is the nearest that the standard library has to an actor.
    """
    from concurrent.futures import Future, ProcessPoolExecutor

    traffic = Traffic(**told)
    with ProcessPoolExecutor(traffic.workers) as pool:
        return got(partial(pool.submit, _echo), Future.result, _results, traffic)


def _results(answers: Sequence[Any]) -> None:
    for answer in answers:
        answer.result()


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "script": measure_script,
    "floor": measure_floor,
    "ray": measure_ray,
    "xoscar": measure_xoscar,
    "distributed": measure_distributed,
    "pool": measure_pool,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
