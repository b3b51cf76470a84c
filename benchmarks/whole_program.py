"""Measures a whole program: import, start, one actor, one answer, a clean end.

Run it with ``python -m benchmarks.whole_program``.
"""

import inspect
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks._cases import (
    DASK,
    OURS,
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
from benchmarks._subject import Figures, main, middle

_PROGRAMS = {
    OURS: ("_with_actorlib", ""),
    POOL: ("_with_pool", "stdlib"),
    RAY: ("_with_ray", "ray"),
    XOSCAR: ("_with_xoscar", "xoscar"),
    DASK: ("_with_distributed", "distributed"),
}

_NOTES = ("From the start of the interpreter until its end. process pool: one worker.",)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = 3 if scale.is_quick else 7
    case = Case(
        section="a whole program",
        title="import, start, one actor, one answer, end",
        unit=Unit(name="s"),
        cells={column: f"{column}/time" for column in _PROGRAMS},
        targets=(Target(bound=2, against=POOL), Target(bound=0.1, against=RAY)),
    )
    return Plan(
        name="whole_program",
        question="A whole program",
        notes=_NOTES,
        jobs=[
            Job(
                name=column,
                subject="whole_program.program",
                arguments={"program": program, "times": 1 if column == RAY else times},
                peer=peer,
            )
            for column, (program, peer) in _PROGRAMS.items()
        ],
        cases=[case],
        panels=[Panel(title=case.title, cases=[case], is_logarithmic=True)],
    )


# Each function here is the text of a program of its own, which imports nothing of ours.


def _with_actorlib() -> None:
    import actorlib

    @actorlib.remote(num_gpus=0.01)
    class Echo:
        def echo(self, value: int) -> int:
            return value

    async def main() -> None:
        async with actorlib.init(num_gpus=8):
            assert await Echo.remote().echo.remote(1) == 1

    actorlib.run(main())


def _with_many() -> None:
    import asyncio

    import actorlib

    @actorlib.remote(num_gpus=0.01)
    class Echo:
        def echo(self, value: int) -> int:
            return value

    async def main() -> None:
        async with actorlib.init(num_gpus=8):
            actors = [Echo.remote() for _ in range(64)]
            calls = [actor.echo.remote(1) for actor in actors]
            assert await asyncio.gather(*calls) == [1] * 64

    actorlib.run(main())


def _with_pool() -> None:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(int, 1).result() == 1


def _with_ray() -> None:
    import ray

    @ray.remote(num_cpus=0, num_gpus=0.01)
    class Echo:
        def echo(self, value: int) -> int:
            return value

    ray.init(num_gpus=8, include_dashboard=False, log_to_driver=False)
    assert ray.get(Echo.remote().echo.remote(1)) == 1
    ray.shutdown()


def _with_xoscar() -> None:
    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class Echo(xoscar.StatelessActor):
        def echo(self, value: int) -> int:
            return value

    async def main() -> None:
        async with pool_of(1) as address:
            assert await (await placed(Echo, address)).echo(1) == 1

    uvloop.run(main())


def _with_distributed() -> None:
    import asyncio

    from benchmarks._distributed import client_of

    class Echo:
        def echo(self, value: int) -> int:
            return value

    async def main() -> None:
        async with client_of(1) as client:
            assert await (await client.submit(Echo, actor=True)).echo(1) == 1

    asyncio.run(main())


def measure_program(program: str, times: int) -> Figures:
    """The time of a whole program, from its start to its end."""
    text = inspect.getsource(globals()[program])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(f"{text}\n\nif __name__ == '__main__':\n    {program}()\n")
        return {"time": middle([_time_of(file) for _ in range(times)])}


def _time_of(file: Path) -> float:
    # A file, not a pipe: a daemon that a peer leaves behind would keep a pipe open.
    with tempfile.TemporaryFile("w+") as err:
        begun = time.perf_counter()
        command = [sys.executable, str(file)]
        code = subprocess.call(command, stdout=subprocess.DEVNULL, stderr=err)
        took = time.perf_counter() - begun
        err.seek(0)
        if code != 0:
            sys.exit(f"{err.read()}the program ended with code {code}")
    return took


SUBJECTS: Final = {
    "program": measure_program,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
