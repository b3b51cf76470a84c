"""The dimensions of the contract for calls: engine, API, and what is called.

A test asks for ``api`` and ``callee`` and runs once for each cell. One that holds for
some of them alone says so::

    @pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)

and where an engine refuses what is tested, the test asserts the refusal. What does not
depend on the kind of callee asks for no ``callee``, and runs once for each engine and
API. A cell that is wrong today is an ``xfail(strict=True)`` with the reason.
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
from helpers.callers import Api, Awaiting, Blocking
from helpers.on_ray import NEEDS_CLIENT, NEEDS_RAY, PATIENCE, shared_on_ray

import actorlib.blocking
from actorlib._base.ids import ActorId
from actorlib._core.engine import find_engine, set_engine
from actorlib.exceptions import ActorDiedError, ActorNotFoundError

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
    (Cell("ray", "blocking", ("plain",)), (*_RAY, *_THOROUGH)),
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
    return Blocking() if cell.api == "blocking" else Awaiting()


@pytest.fixture(params=KINDS)
def callee(request: pytest.FixtureRequest, api: Api, runtime: object) -> Callee:
    """What the test calls, in its cell's runtime."""
    del runtime  # it runs
    return Callee(cast("str", request.param), is_blocking=api.is_blocking)


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
    for name, is_left_out in _LEFT_OUT.items():
        if name in cast("Any", item).fixturenames and is_left_out(cell, kind):
            return False
    kind = "async" if kind in ("mixed", "looped") else kind
    module = item.path.stem.removeprefix("test_")
    rare = cell.rare if module in _OF_KINDS else (*cell.rare, *cell.rare_elsewhere)
    if kind in rare or (cell.api == "blocking" and module not in _OF_WAITING):
        item.add_marker(pytest.mark.thorough)
    return kind is None or kind in (*cell.kinds, *cell.rare)


_OF_KINDS = {
    "actor_ends",
    "actor_restarts",
    "async_constructors",
    "call_cancelling",
    "call_contexts",
    "call_deadlines",
    "call_groups",
    "call_order",
    "call_results",
    "call_streams",
    "executors",
    "given_up_waits",
    "method_threads",
    "nested_calls",
    "recursive_cancelling",
    "retried_calls",
    "stream_ends",
    "stream_windows",
}
"""The files whose subject depends on how a callee runs its calls."""

_OF_WAITING = {
    "actor_ends",
    "actor_names",
    "call_cancelling",
    "call_deadlines",
    "call_results",
    "call_streams",
    "given_up_waits",
    "maps_and_queues",
    "program_threads",
    "put_and_changed_values",
    "runtime_ends",
    "stream_ends",
    "waits_for_refs",
}
"""The files whose subject depends on how a program waits.

The blocking API is tested there by default, and in the others with ``--thorough``.
"""


# Fixtures that leave a test out in some cells.


@pytest.fixture
def streams() -> None:
    """Leaves a test out with Ray's client, which refuses streams.

    On Ray, where each actor is an interpreter, it also leaves out the blocking API, and
    what ``few_kinds_on_ray`` does.
    """


@pytest.fixture
def few_kinds_on_ray() -> None:
    """Leaves out, on Ray, the kinds whose calls take the way of another kind there."""


@pytest.fixture
def own_engines() -> None:
    """Leaves a test out on Ray: what it asserts is up to Ray there."""


@pytest.fixture
def awaiting_api() -> None:
    """Leaves a test out with the blocking API, which has nothing like it."""


@pytest.fixture
def blocking_api() -> None:
    """Leaves a test out with the async API, which has nothing like it."""


def _is_rare(cell: Cell, kind: str | None) -> bool:
    """Whether a cell on Ray shows what a cheaper one shows, too."""
    few = {"ray": ("function", "plain", "async"), "client": ("function", "plain")}
    return kind is not None and kind not in few.get(cell.engine, (kind,))


_LEFT_OUT: dict[str, Callable[[Cell, str | None], bool]] = {
    "streams": lambda cell, kind: (
        cell.engine == "client"
        or (cell.engine == "ray" and cell.api == "blocking")
        or _is_rare(cell, kind)
    ),
    "few_kinds_on_ray": _is_rare,
    "own_engines": lambda cell, _: cell.engine in ("ray", "client"),
    "awaiting_api": lambda cell, _: cell.api == "blocking",
    "blocking_api": lambda cell, _: cell.api == "await",
}


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
        lending = (
            _scripts_on_ray(address)
            if cell.api == "blocking"
            else shared_on_ray(address)
        )
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
async def _scripts_on_ray(address: str) -> AsyncGenerator[Lend]:
    """The same, on a cluster."""
    await asyncio.to_thread(
        actorlib.blocking.init, address, engine="ray", log_to_driver=False
    )

    async def end_actors(engine: Any) -> None:
        ending = engine.living()
        for space, name in engine.names():
            with suppress(ActorNotFoundError):  # it has ended meanwhile
                ending.append(engine.find(name, space).actor_id)
        ends = [engine.kill(actor) for actor in ending]
        await asyncio.to_thread(_wait_for, ends)
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
