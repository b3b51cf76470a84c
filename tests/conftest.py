"""What holds for every test: whatever it opened, started or created is gone after it.

The guards are fixtures that every test uses. They look at the operating system and at
the loop, not at what a test says of itself, so a leak fails the test that made it.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import pytest
import pytest_asyncio
from helpers.actors import IN_MEMORY, LENT, Stop, running, shared
from helpers.gpus import OneCard
from helpers.jumping_loop import JumpingLoop
from helpers.machines import Pretend, pretender
from helpers.on_ray import Addresses, cluster, shared_on_ray
from helpers.owners import Bell
from hypothesis import settings

from actorlib._core.engine import find_engine, set_engine

try:
    import uvloop
except ImportError:  # it is no dependency where it does not run
    uvloop = None

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Generator,
        Iterable,
        Iterator,
        Mapping,
    )
    from pathlib import Path

    from helpers.actors import Lend

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords

pytest_plugins = ["helpers.goldens"]

# The gate tries the same cases each time, so it fails for what was changed alone. New
# ones are searched with --hypothesis-profile=random, and --hypothesis-profile=thorough
# is for a long night. A deadline would be a flaky test.
settings.register_profile("quick", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("random", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=5_000, deadline=None)
settings.load_profile("quick")

# Who is started in the background of a script ignores SIGINT, and all it starts does.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TWINS = {"spawn", "asyncio.run"}
"""Parameters of tests with processes that have a twin, which finds nearly the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for what takes long and seldom finds what nothing else does."""
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run also the tests marked thorough, and workers started by spawn",
    )
    parser.addoption(
        "--only-thorough",
        action="store_true",
        help="run only what --thorough adds",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark of a module whose tests share a runtime."""
    mark = "runtime(**options): the options of the module's runtime; see helpers.marks"
    config.addinivalue_line("markers", mark)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Limits the time of each test, and leaves out what is for ``--thorough``."""
    for item in items:
        limit = _time_limit(item)
        if limit is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limit))
    only = config.getoption("--only-thorough")
    if config.getoption("--thorough") and not only:
        return
    left = [item for item in items if _is_thorough(item) != only]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if _is_thorough(item) == only]


def _time_limit(item: pytest.Item) -> int | None:
    """The seconds after which a test fails; None for those of ``pyproject.toml``."""
    names = {marker.name for marker in item.iter_markers()}
    if names & {"thorough", "ray", "accelerator"}:
        return _LONG
    return None if names & {"process", "slow"} else _SHORT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limits the teardown of a test that failed, for which pytest-timeout has no limit.

    A teardown that waits for what the test did not do would otherwise never end.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_REAL)[0]:
        return (yield)
    before = signal.signal(signal.SIGALRM, partial(_fail_teardown, item.nodeid))
    # Again and again: a teardown has many steps, and each may wait.
    signal.setitimer(signal.ITIMER_REAL, _TEARDOWN_LIMIT, _TEARDOWN_LIMIT)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _fail_teardown(test: str, *_: object) -> None:
    pytest.fail(f"the teardown of {test} took longer than {_TEARDOWN_LIMIT} s")


def _is_thorough(item: pytest.Item) -> bool:
    if item.get_closest_marker("thorough") is not None:
        return True
    if item.get_closest_marker("process") is None or not hasattr(item, "callspec"):
        return False
    values = cast("Any", item).callspec.params.values()
    return any(isinstance(value, str) and value in _TWINS for value in values)


_SHORT, _LONG = 20, 300
"""Seconds: for tests without processes, and for those that are long by nature."""
_TEARDOWN_LIMIT = 20
"""Seconds for each step of the teardown of a test that failed."""

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop
}
if uvloop is not None:
    LOOPS["uvloop"] = uvloop.new_event_loop
    # The first loop of a process opens descriptors that libuv never closes.
    uvloop.new_event_loop().close()


@pytest.hookimpl(optionalhook=True)  # pytest-asyncio has the hook from 1.4 on
def pytest_asyncio_loop_factories(
    item: pytest.Function,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Which loops an async test runs on: asyncio's, or all for ``on_both_loops``.

    One of the mark ``memory`` runs on a loop that jumps over idle time, and the workers
    of its runtimes are in memory. The contract for calls runs on uvloop where its
    workers are in memory.
    """
    if is_in_memory(item):
        jumping = {"memory": JumpingLoop}
        if uvloop is None or "on_both_loops" not in item.fixturenames:
            return jumping
        return {**jumping, "uvloop": _new_uvloop}
    if "on_both_loops" in item.fixturenames:
        return LOOPS
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if uvloop is not None and getattr(params.get("cell"), "engine", "") == "memory":
        return {"uvloop": _new_uvloop}
    return {"asyncio": LOOPS["asyncio"]}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Says where the workers of the next test are."""
    IN_MEMORY[0] = is_in_memory(item)


def _new_uvloop() -> asyncio.AbstractEventLoop:
    """As uvloop's own: another loop of a module, on which no workers are processes."""
    return uvloop.new_event_loop()


def is_in_memory(item: pytest.Item) -> bool:
    """Whether the workers of a test are in memory: it or its module says so."""
    if any(marker.name == "process" for marker in item.own_markers):
        return False
    return item.get_closest_marker("memory") is not None


def pytest_collection_finish() -> None:
    """Leaves the thousands of tests out of garbage collections."""
    gc.collect()
    gc.freeze()


_finished = itertools.count(1)
_FREEZE_EVERY = 150


def pytest_runtest_logfinish() -> None:
    """Leaves what pytest keeps of finished tests out of garbage collections, too.

    Many teardowns collect handles that a caught error keeps in a cycle, which took up
    to 90 ms each at the end of a run.
    """
    if next(_finished) % _FREEZE_EVERY == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def ray_addresses() -> Iterator[Addresses]:
    """Where a real cluster of two machines is, for all tests that ask for it."""
    with cluster() as addresses:
        yield addresses


@pytest.fixture(scope="session")
def ray_cluster(ray_addresses: Addresses) -> str:
    """The address of that cluster."""
    return ray_addresses.cluster


@pytest.fixture(scope="session")
def ray_client(ray_addresses: Addresses) -> str:
    """The address of its client server."""
    return ray_addresses.client


@pytest.fixture(scope="session", autouse=True)
def bytecode_is_kept() -> Iterator[None]:
    """Lets interpreters that tests start find compiled what the first has compiled.

    Where no bytecode may be written beside the sources, each of hundreds would compile
    actorlib for itself, which takes a runtime a fifth of its start.
    """
    if not sys.dont_write_bytecode:
        yield
        return
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", folder)
        yield


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Makes the owner believe that it runs on a recorded machine."""
    return pretender(monkeypatch)


@pytest.fixture
def on_both_loops() -> None:
    """Runs an async test once on asyncio's loop and once on uvloop's."""


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> OneCard:
    """The only card of the machine that the owner believes to be on."""
    return OneCard(monkeypatch)


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    """Where processes that a test starts say that they have come so far."""
    bell = Bell(tmp_path)
    yield bell
    bell.close()


@pytest.fixture
def stop() -> Iterator[Stop]:
    """Where actors' methods stop until the test lets them go on."""
    with Stop() as stop:
        yield stop


# One runtime for a module: its tests run on one loop, by
# pytest.mark.asyncio(loop_scope="module"), and ask for ``runtime``.


@pytest.fixture(scope="module")
def runtime_options(request: pytest.FixtureRequest) -> RuntimeKeywords:
    """The options of the module's runtime: those of the module's mark ``runtime``."""
    marker = request.node.get_closest_marker("runtime")
    return cast("RuntimeKeywords", marker.kwargs if marker else {})


@pytest.fixture(scope="module")
def machine() -> str:
    """The recorded machine that the module's runtime believes to be on, if any."""
    return ""


@pytest.fixture(scope="module")
def address() -> str:
    """The address of the cluster that the module's runtime is on, if any."""
    return ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend(
    machine: str, address: str, runtime_options: RuntimeKeywords
) -> AsyncIterator[Lend]:
    """What lends the module's runtime to one test after the other."""
    if address:
        async with shared_on_ray(address) as lend:
            yield lend
        return
    with pytest.MonkeyPatch.context() as patch:
        if machine:
            pretender(patch)(machine)
        async with shared(**runtime_options) as lend:
            yield lend


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(lend: Lend, address: str) -> AsyncIterator[Runtime]:
    """The module's runtime, without the actors of other tests."""
    async with lend() as runtime:
        yield runtime
    if address:
        return  # a cluster tells what is free in its own time
    # All processes are gone by now, and so is what they held.
    assert runtime.available_resources() == runtime.cluster_resources()
    assert runtime.snapshot().waiting == ()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lend_spawning(runtime_options: RuntimeKeywords) -> AsyncIterator[Lend]:
    """What lends one like it whose workers are fresh interpreters."""
    options: Any = {**runtime_options, "start_method": "spawn"}
    options.pop("preload", None)  # they have no template
    async with shared(**options) as lend:
        yield lend


@pytest_asyncio.fixture(loop_scope="module", params=["template", "spawn"])
async def each_runtime(
    request: pytest.FixtureRequest, lend: Lend, lend_spawning: Lend
) -> AsyncIterator[Runtime]:
    """A runtime of each start method."""
    async with (lend if request.param == "template" else lend_spawning)() as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="module")
async def own_runtime(runtime_options: RuntimeKeywords) -> AsyncIterator[Runtime]:
    """Another like it, for a test that harms more than its actors."""
    async with running(**runtime_options) as runtime:
        yield runtime


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def same_loop_in_workers() -> AsyncIterator[None]:
    """Makes workers run the owner's kind of loop; to be named before ``runtime``."""
    is_uvloop = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACTORLIB_UVLOOP", "1" if is_uvloop else "0")
        yield


# The guards. Thousands of tests pay for them: no pathlib, which doubles their price.


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves an engine, a child process or a descriptor."""
    if _is_on_shared_loop(request.node):
        request.getfixturevalue("shared_loop")  # opened by the first, left by the last
    children, files = _children(), _open_files()
    yield
    engine = find_engine()
    set_engine(None)  # the next test is not to blame
    born = _children() - children
    _kill(born)  # they would keep the clock of later tests from jumping
    assert engine is None, f"the test left the process with {engine}"
    assert not born, f"the test left child processes: {sorted(born)}"
    # Ray keeps connections to workers and closes them in its own time.
    is_ours = request.node.get_closest_marker("ray") is None
    after = _open_files() if is_ours else files
    new = sorted(after.keys() - files.keys())
    opened = [f"{n} -> {after[n]}" for n in new if not (LENT and _is_visit(after[n]))]
    assert not opened, f"the test left descriptors: {opened}"


@pytest.fixture(autouse=True)
def no_task_is_left(request: pytest.FixtureRequest, nothing_is_left: None) -> None:
    """Fails an async test that leaves a task on its loop."""
    del nothing_is_left  # set up before, so it looks when the loop is closed
    if pytest_asyncio.is_async_test(request.node):
        is_shared = _is_on_shared_loop(request.node)
        request.getfixturevalue("watched_shared_loop" if is_shared else "watched_loop")


def _is_on_shared_loop(item: pytest.Item) -> bool:
    """Whether a test runs on the loop of its module, and not on one of its own."""
    marker = item.get_closest_marker("asyncio")
    return marker is not None and marker.kwargs.get("loop_scope") == "module"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_loop() -> None:
    """Opens the loop of a module."""


@pytest_asyncio.fixture
async def watched_loop() -> AsyncIterator[None]:
    """Watches the loop of an async test, on which no task may be left."""
    before = asyncio.all_tasks()
    yield
    _assert_no_task_besides(before)


@pytest_asyncio.fixture(loop_scope="module")
async def watched_shared_loop() -> AsyncIterator[None]:
    """The same for the loop of a module, on which its runtime has tasks."""
    before = asyncio.all_tasks()
    yield
    _assert_no_task_besides(before)


def _assert_no_task_besides(known: set[asyncio.Task[object]]) -> None:
    left = asyncio.all_tasks() - known - {asyncio.current_task()}
    assert not left, f"the test left tasks: {left}"


_USAGE = ("/proc/meminfo", f"/proc/{os.getpid()}/cgroup", "/sys/fs/cgroup/")
"""Files that a runtime on another thread reads from time to time."""


def _open_files() -> dict[str, str]:
    """What each descriptor of this process stands for, where the system can say."""
    found: dict[str, str] = {}
    if sys.platform == "linux":
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  # half the time
            with suppress(FileNotFoundError):  # the folder's own
                target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115  # the same
                # The memory of a runtime that is lent to many tests stays with that.
                is_lent = LENT and target.startswith("/memfd:actorlib")
                if not (is_lent or target.startswith(_USAGE)):
                    found[number] = target
    return found


def _is_visit(target: str) -> bool:
    """Whether another program looks into a runtime of this process over this socket.

    ``actorlib ps`` looks into all runtimes of the user, as tests of commands do that
    run beside this one.
    """
    with open("/proc/net/unix", encoding="ascii", errors="replace") as table:  # noqa: PTH123  # the same
        sockets = [line.split() for line in table]
    servers = {f"socket:[{words[6]}]" for words in sockets if "actorlib-" in words[-1]}
    return target in servers


def _children(parent: str = "self") -> set[str]:
    """The process ids of a process's children, where the system can say."""
    found: set[str] = set()
    if sys.platform == "linux":
        folder = f"/proc/{parent}/task"
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for task in os.listdir(folder):  # noqa: PTH208  # the same
                with (
                    suppress(FileNotFoundError, ProcessLookupError),  # a thread has
                    open(f"{folder}/{task}/children", encoding="ascii") as children,  # noqa: PTH123  # the same
                ):
                    found.update(children.read().split())
    return found


def _kill(pids: Iterable[str]) -> None:
    """Kills children of this process, and their descendants."""
    for pid in pids:
        _kill_tree(pid)
        with suppress(ChildProcessError):
            os.waitpid(int(pid), 0)


def _kill_tree(pid: str) -> None:
    descendants = _children(pid)
    with suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)
    for descendant in descendants:
        _kill_tree(descendant)
