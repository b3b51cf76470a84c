"""Runtimes of other processes that tests are clients of."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from contextlib import (
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import actorlib
from actorlib._base.ids import ActorId
from actorlib._core.engine import find_engine, set_engine
from actorlib.exceptions import ActorDiedError
from helpers.actors import LENT, limited
from helpers.owners import PATHS, Owner

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from actorlib import Runtime
    from actorlib._client.engine import AttachedEngine
    from helpers.actors import Lend

_PROGRAM = """
    import asyncio, sys, threading
    import actorlib
    from helpers.actors import Counter, Echo, Keeper
    from helpers.owners import listen, tell

    async def main():
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def wait():
            listen()
            loop.call_soon_threadsafe(over.set)

        async with actorlib.init(
            name=sys.argv[1],
            num_cpus=int(sys.argv[2]),
            num_gpus=2,
            actor_history=0,
        ) as runtime:
            threading.Thread(target=wait, daemon=True).start()
            tell("ready")
            await over.wait()
        tell("over")

    actorlib.run(main())
"""


def new_name() -> str:
    """A name for a runtime that no other test has."""
    return f"test-{os.getpid()}-{os.urandom(4).hex()}"


@contextmanager
def named_owner(
    name: str, *, num_cpus: int = 4, modules: Path | None = None
) -> Generator[Owner]:
    """A program that has a runtime of a name, in a process of its own.

    Args:
        name: The name.
        num_cpus: The CPUs that it may give out.
        modules: A folder with modules that its workers can import, beside the helpers.
    """
    paths = PATHS if modules is None else f"{PATHS}{os.pathsep}{modules}"
    with (
        tempfile.TemporaryDirectory() as folder,
        Owner(
            _PROGRAM,
            name,
            str(num_cpus),
            folder=Path(folder),
            environ={"PYTHONPATH": paths},
        ) as owner,
    ):
        owner.told()
        yield owner


@asynccontextmanager
async def shared_by_attaching(
    *, num_cpus: int = 4, modules: Path | None = None
) -> AsyncGenerator[Lend]:
    """As ``shared``, of a client: the runtime is that of another process.

    Args:
        num_cpus: The CPUs that it may give out.
        modules: As for ``named_owner``.
    """
    name = new_name()
    with named_owner(name, num_cpus=num_cpus, modules=modules):
        runtime = actorlib.attach(name)
        async with runtime:
            engine = cast("AttachedEngine", find_engine())
            # Connections and memory stay open for the next test.
            engine.names()
            await actorlib.put(bytes(1 << 20))
            set_engine(None)
            LENT.append(cast("Any", engine))

            @asynccontextmanager
            async def lend() -> AsyncGenerator[Runtime]:
                set_engine(engine)
                with limited():
                    try:
                        yield runtime
                    finally:
                        gc.collect()  # a caught error keeps handles in a cycle
                        await _ended(engine)
                        set_engine(None)

            try:
                yield lend
            finally:
                LENT.remove(cast("Any", engine))


async def _ended(engine: AttachedEngine) -> None:
    """Ends the actors that a test has left."""
    for info in engine.snapshot().actors:
        with suppress(ActorDiedError):  # it has ended meanwhile
            await engine.kill(ActorId(bytes.fromhex(info.actor_id)))
    await asyncio.sleep(0)
