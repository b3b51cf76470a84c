"""The dimensions of the contract for calls: engine, API, and what is called.

A test asks for ``api`` and ``callee`` and runs once for each cell. One that holds for
some of them alone says so, by a mark of ``helpers.kinds``::

    @kinds("plain", "async")

and where an engine refuses what is tested, the test asserts the refusal. What does not
depend on the kind of callee asks for no ``callee``, and runs once for each engine and
API. A cell that is wrong today is an ``xfail(strict=True)`` with the reason.

On Ray, where each actor is an interpreter, only tests run that show something of their
own there, and they share actors; see ``OWN_ENGINES`` and ``helpers.reused``.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import pytest_asyncio
from helpers.actors import LENT, limited, living_actors, shared, shared_in_memory
from helpers.attached import named_owner, new_name, shared_by_attaching
from helpers.callees import KINDS, Callee
from helpers.callers import Api, Blocking
from helpers.on_ray import NEEDS_CLIENT, NEEDS_RAY, PATIENCE, shared_on_ray

import actorlib.blocking
from actorlib._base.ids import ActorId
from actorlib._core.engine import find_engine, set_engine
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Lend = Callable[[], AbstractAsyncContextManager[Any]]

CPUS, GPUS = 4, 2
"""What every runtime of the contract has."""


class Cell(NamedTuple):
    """An engine with an API.

    Attributes:
        engine: ``local``, ``memory`` (the local one, with workers that are threads),
            ``inline``, ``attached``, ``ray``, or ``client`` (Ray, over its client).
        api: ``await`` or ``blocking``.
        kinds: The kinds of callees that are tested there.
        rare: Other kinds that are tested there with ``--thorough``: their calls take
            the way of another kind between the processes.
        rare_elsewhere: Kinds that are rare in files whose subject is the same for all.
    """

    engine: str
    api: str
    kinds: tuple[str, ...] = KINDS
    rare: tuple[str, ...] = ()
    rare_elsewhere: tuple[str, ...] = ()


_RAY = (pytest.mark.ray, NEEDS_RAY)
_CLIENT = (pytest.mark.ray, NEEDS_CLIENT)
_THOROUGH = (pytest.mark.thorough,)

_CELLS: list[tuple[Cell, tuple[pytest.MarkDecorator, ...]]] = [
    (
        Cell(
            "local",
            "await",
            ("plain", "async"),
            ("function", "threaded", "group"),
            ("async",),
        ),
        (),
    ),
    # All kinds, as its calls need no processes, and most tests take milliseconds.
    (Cell("memory", "await", rare_elsewhere=("threaded", "group")), ()),
    # Its workers are threads, too: what differs is how they are made.
    (Cell("inline", "await", (), KINDS), ()),
    (Cell("local", "blocking", ("plain",), ("function", "async")), ()),
    (Cell("inline", "blocking", ("plain",)), _THOROUGH),
    (Cell("attached", "await"), _THOROUGH),
    (Cell("attached", "blocking", ("plain",)), _THOROUGH),
    # Each actor there is an interpreter, which takes seconds.
    (Cell("ray", "await", ("plain",), ("function", "async")), _RAY),
    # Everything but streams takes the way of the cell above.
    (Cell("client", "await", ("plain",)), (*_CLIENT, *_THOROUGH)),
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(cell, id=f"{cell.engine}-{cell.api}", marks=marks)
        for cell, marks in _CELLS
    ],
)
def cell(request: pytest.FixtureRequest) -> Cell:
    """The engine and the API of a test."""
    return cast("Cell", request.param)


@pytest.fixture(scope="module")
def engine(cell: Cell) -> str:
    """The engine of a test; see Cell."""
    return cell.engine


@pytest.fixture(scope="module")
def is_on_ray(engine: str) -> bool:
    """Whether Ray runs the calls."""
    return engine in ("ray", "client")


@pytest.fixture(scope="module")
def api(cell: Cell) -> Api:
    """How the test waits."""
    return Blocking() if cell.api == "blocking" else Api()


@pytest.fixture(params=KINDS)
def callee(request: pytest.FixtureRequest, api: Api, runtime: object) -> Callee:
    """What the test calls, in its cell's runtime."""
    del runtime  # it runs
    kind = cast("str", request.param)
    return Callee(kind, is_blocking=api.is_blocking, is_reused=True)


_LEFT_OUT: dict[str, tuple[str, Callable[[Cell], bool]]] = {
    "own_engines": (
        "leaves a test out on Ray, where it is up to Ray or shown by another test",
        lambda cell: cell.engine in ("ray", "client"),
    ),
    "streams": (
        "leaves a test out with Ray's client, which refuses streams",
        lambda cell: cell.engine == "client",
    ),
    "awaiting_api": (
        "leaves a test out with the blocking API",
        lambda cell: cell.api == "blocking",
    ),
    "blocking_api": (
        "leaves a test out with the async API",
        lambda cell: cell.api == "await",
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks that leave a test out in some cells; see ``helpers.kinds``."""
    for name, (text, _) in _LEFT_OUT.items():
        config.addinivalue_line("markers", f"{name}: {text}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leaves out kinds of callees that are not tested in a cell; marks rare ones."""
    kept = [item for item in items if _is_in_its_cell(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list({*items} - {*kept}))
        items[:] = kept


def _is_in_its_cell(item: pytest.Item) -> bool:
    if not hasattr(item, "callspec"):
        return True
    params: dict[str, Any] = cast("Any", item).callspec.params
    cell, kind = params.get("cell"), params.get("callee")
    if not isinstance(cell, Cell):
        return True
    for mark in item.iter_markers():
        if mark.name in _LEFT_OUT and _LEFT_OUT[mark.name][1](cell):
            return False
    kind = "async" if kind in ("mixed", "looped") else kind
    module = item.path.stem.removeprefix("test_")
    of_kinds = _OF_PROCESSES if cell.engine == "local" else _OF_KINDS
    rare = cell.rare if module in of_kinds else (*cell.rare, *cell.rare_elsewhere)
    waits_likewise = cell.api == "blocking" and not (
        module in _OF_WAITING or item.get_closest_marker("blocking_api")
    )
    if kind in rare or waits_likewise:
        item.add_marker(pytest.mark.thorough)
    return kind is None or kind in (*cell.kinds, *cell.rare)


_OF_KINDS = {
    "actor_ends",
    "call_deadlines",
    "cancelling",
    "executors",
    "groups_and_threads",
    "nested_calls",
    "retried_calls",
    "streams",
}
"""The files whose subject depends on how a callee runs its calls."""

_OF_PROCESSES = {
    "actor_ends",
    "call_deadlines",
    "cancelling",
    "nested_calls",
    "streams",
}
"""Those of them where it matters, too, that the callee is a process."""

_OF_WAITING = {
    "maps_and_queues",
    "program_threads",
    "refs",
    "runtime_ends",
    "streams",
}
"""The files whose subject depends on how a program waits.

The blocking API is tested there by default, and in the others with ``--thorough``.
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend(cell: Cell, request: pytest.FixtureRequest) -> AsyncIterator[Lend]:
    """What lends the runtime of the cell to one test after the other."""
    # Modules of tests import pytest, which takes a worker longer than all the rest.
    known: Any = {
        "num_cpus": CPUS,
        "num_gpus": GPUS,
        "preload": [cast("Any", request).module.__name__],
    }
    if cell.engine in ("ray", "client"):
        name = "ray_cluster" if cell.engine == "ray" else "ray_client"
        address = request.getfixturevalue(name)
        lending = shared_on_ray(address)
    elif cell.engine == "attached":
        modules = request.path.parent
        lending = (
            _scripts_by_attaching(modules)
            if cell.api == "blocking"
            else shared_by_attaching(num_cpus=CPUS, modules=modules)
        )
    elif cell.engine == "memory":
        lending = shared_in_memory(num_cpus=CPUS, num_gpus=GPUS)
    elif cell.engine == "inline":
        del known["preload"]
        lending = (
            _scripts(engine="inline", **known)
            if cell.api == "blocking"
            else shared(engine="inline", **known)
        )
    else:
        lending = _scripts(**known) if cell.api == "blocking" else shared(**known)
    async with lending as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend) -> AsyncIterator[Any]:
    """The runtime of the cell, without the actors of other tests.

    It is an ``actorlib.Runtime``; that of a script is None, as scripts have none.
    """
    async with lend() as runtime:
        yield runtime


@asynccontextmanager
async def _scripts(**options: Any) -> AsyncGenerator[Lend]:
    """As ``helpers.actors.shared``, of a script."""
    await asyncio.to_thread(actorlib.blocking.init, actor_history=0, **options)

    async def end_actors(engine: Any) -> None:
        ends = engine.loop.call(_kill, engine)
        while ends:
            await asyncio.to_thread(_wait_for, ends)
            # A function whose worker was killed may be called once more.
            ends = engine.loop.call(_kill, engine, living_actors(engine))
        if engine.loop.call(_knows_actors, engine):
            gc.collect()  # a caught error keeps handles in a cycle

    async with _lent_script(end_actors) as lend:
        yield lend


@asynccontextmanager
async def _scripts_by_attaching(modules: Path) -> AsyncGenerator[Lend]:
    """The same, of a script that is a client."""
    name = new_name()
    with named_owner(name, num_cpus=CPUS, modules=modules):
        await asyncio.to_thread(actorlib.blocking.init, name)
        # Connections and memory stay open for the next test.
        await asyncio.to_thread(_put_and_get, bytes(1 << 20))
        await asyncio.to_thread(actorlib.blocking.util.state.list_tasks)

        async def end_actors(engine: Any) -> None:
            snapshot = await asyncio.to_thread(engine.snapshot)
            for info in snapshot.actors:
                with suppress(ActorDiedError):  # it has ended meanwhile
                    end = engine.kill(ActorId(bytes.fromhex(info.actor_id)))
                    await asyncio.to_thread(_wait_for, [end])
            gc.collect()  # a caught error keeps handles in a cycle

        async with _lent_script(end_actors) as lend:
            yield lend


@asynccontextmanager
async def _lent_script(end_actors: Callable[[Any], Any]) -> AsyncGenerator[Lend]:
    """Lends the runtime of a script that has begun, and ends it at last.

    Args:
        end_actors: Ends the actors that a test has left.
    """
    engine: Any = find_engine()
    set_engine(None)
    LENT.append(engine)

    @asynccontextmanager
    async def lend() -> AsyncGenerator[None]:
        set_engine(engine)
        with limited(PATIENCE):
            try:
                yield None
            finally:
                await end_actors(engine)
                set_engine(None)

    try:
        yield lend
    finally:
        LENT.remove(engine)
        set_engine(engine)
        await asyncio.to_thread(actorlib.blocking.shutdown)


def _kill(engine: Any, ending: list[ActorId] | None = None) -> list[Any]:
    """In one turn of the loop, in which none of them can end by itself."""
    if ending is None:
        ending = [life.record.id for life in engine.actor_table]
    return [engine.kill(actor) for actor in ending]


def _knows_actors(engine: Any) -> bool:
    return any(True for _ in engine.actor_table)


def _wait_for(ends: list[Any]) -> None:
    for end in ends:
        end.get(PATIENCE)


def _put_and_get(value: bytes) -> None:
    actorlib.blocking.get(actorlib.blocking.put(value))
