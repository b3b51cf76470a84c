"""Actors that many tests use, and ways to wait for what happens in processes.

Workers import this module, so it imports little. Nothing here sleeps or polls: an
actor says where it is, and the kernel says when a process is gone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import socket
import threading
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast, final

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._base.ids import ActorId
from actorlib._core.engine import find_engine, set_engine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from actorlib import ActorHandle, Runtime
    from actorlib._options.runtime_options import RuntimeKeywords
    from actorlib._owner.engine import LocalEngine
    from actorlib.types import ActorInfo

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

LIMIT = 20.0
"""Seconds after which a test is taken to hang."""
LENT: list[LocalEngine] = []
"""The engines of runtimes that are lent to many tests: what they open is theirs."""

IN_MEMORY = [False]
"""Whether the workers of the test that runs are in memory; see its mark."""


@asynccontextmanager
async def running(**options: Unpack[RuntimeKeywords]) -> AsyncGenerator[Runtime]:
    """A runtime of known size around a test; a test that hangs in it is cancelled.

    Args:
        **options: As for ``init()``; four CPUs and no GPU unless they say otherwise.
    """
    with limited(), _workers(options):
        async with _known(options) as runtime:
            yield runtime


@asynccontextmanager
async def shared(**options: Unpack[RuntimeKeywords]) -> AsyncGenerator[Lend]:
    """A runtime for many tests, lent to one after the other.

    Between them it is hidden, as if none was running, and has no actor.

    Args:
        **options: As for ``running``.

    Yields:
        What lends the runtime to one test.
    """
    # For longer than one test may take.
    async with AsyncExitStack() as stack:
        settled = stack.enter_context(_workers(options))
        runtime = await stack.enter_async_context(_known(options))
        engine = cast("LocalEngine", find_engine())
        set_engine(None)
        LENT.append(engine)

        @asynccontextmanager
        async def lend() -> AsyncGenerator[Runtime]:
            set_engine(engine)
            with limited():
                try:
                    yield runtime
                finally:
                    ending = [life.record.id for life in engine.actor_table]
                    while True:
                        await asyncio.gather(*map(engine.kill, ending))
                        # An end by itself is reported to others a turn later.
                        await asyncio.sleep(0)
                        # A function whose worker was killed may be called once more.
                        ending = living_actors(engine)
                        if not ending:
                            break
                    collect_handles(runtime)
                    await settled()
                    await drained(engine)
                    set_engine(None)

        try:
            yield lend
        finally:
            memory: Any = engine.actor_table.object_store.memory
            shown = memory._foreign
            LENT.remove(engine)
            assert not shown, f"segments of workers that are gone are left: {shown}"


def collect_handles(runtime: Runtime) -> None:
    """Collects handles that a caught error keeps in a cycle; they are mostly young."""
    for generation in range(3):
        if not runtime.snapshot().actors:
            return
        gc.collect(generation)


def living_actors(engine: LocalEngine) -> list[ActorId]:
    """The actors and workers of functions that have not ended."""
    table = engine.actor_table
    return [life.record.id for life in table if not life.ended.done()]


async def drained(engine: LocalEngine | None = None) -> None:
    """Waits until no share of a device drains, as NVML is asked in a thread.

    Args:
        engine: Whose shares. Default: None, for those of the runtime that runs.
    """
    engine = engine or cast("LocalEngine", find_engine())
    for drain in list(engine.actor_table.placer.draining):
        if not drain.is_over:
            await drain.ended()


@asynccontextmanager
async def shared_in_memory(
    **options: Unpack[RuntimeKeywords],
) -> AsyncGenerator[Lend]:
    """As ``shared``, with workers in memory on whatever loop."""
    before, IN_MEMORY[0] = IN_MEMORY[0], True
    try:
        async with shared(**options) as lend:
            yield lend
    finally:
        IN_MEMORY[0] = before


def _workers(
    options: RuntimeKeywords,
) -> AbstractContextManager[Callable[[], Awaitable[None]]]:
    """Workers as the test wants them: processes, or in memory.

    Returns:
        Around a runtime; gives what waits until nothing is left of those that ended.
    """
    if not IN_MEMORY[0] or "engine" in options:
        return nullcontext(partial(asyncio.sleep, 0))
    from helpers.memory_launcher import memory_workers  # noqa: PLC0415  # not in workers

    options["engine"] = "inline"
    options["object_store_memory"] = 0  # there are no processes to share it
    return memory_workers()


def _known(options: RuntimeKeywords) -> Runtime:
    known: RuntimeKeywords = {
        "num_cpus": 4,
        "num_gpus": 0,
        "actor_history": 0,  # most tests look for whom somebody holds
        "memory_threshold": 1,  # other programs may have filled the machine
        **options,
    }
    return actorlib.init(**known)


@contextmanager
def limited(limit: float = LIMIT) -> Generator[None]:
    """Cancels what the test's loop does, actors' lives apart, if it takes too long."""
    loop = asyncio.get_running_loop()
    watchdog = loop.call_later(limit, _interrupt, loop, limit)
    try:
        yield
    finally:
        watchdog.cancel()


def _interrupt(loop: asyncio.AbstractEventLoop, limit: float) -> None:
    for task in asyncio.all_tasks(loop):
        if "ActorSupervisor." not in repr(task.get_coro()):
            task.cancel(f"the test has been running for {limit:g} s")


@actorlib.remote
class Echo:
    """Gives back what it is given."""

    def echo(self, value: Any) -> Any:
        """The value that was given."""
        return value

    def both(self, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments."""
        return args, kwargs

    def kind(self, value: object) -> str:
        """The name of the value's class."""
        return type(value).__name__

    def pid(self) -> int:
        """The process it is in."""
        return os.getpid()

    def fail(self, error: BaseException) -> None:
        """Raises what it is given."""
        raise error


@actorlib.remote
class Counter:
    """Adds up.

    Args:
        start: What it starts from.
    """

    LIMIT = 1_000

    def __init__(self, start: int = 0) -> None:
        self._total = start

    def add(self, number: int = 1) -> int:
        """Adds and gives the sum."""
        self._total += number
        return self._total

    def limit(self) -> int:
        """A class attribute, by the decorated name."""
        return cast("int", Counter.LIMIT)

    @classmethod
    def make(cls, start: int) -> Any:
        """A plain instance, not an actor."""
        return cls(start)

    @staticmethod
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number


@actorlib.remote
class Keeper:
    """Keeps a value.

    Args:
        kept: What it keeps at first.
    """

    def __init__(self, kept: Any = None) -> None:
        self._kept = kept

    def keep(self, value: Any) -> None:
        """Keeps another value instead."""
        self._kept = value

    def kept(self) -> Any:
        """What it keeps."""
        return self._kept

    def pid(self) -> int:
        """The process it is in."""
        return os.getpid()


@actorlib.remote
class Target:
    """What is held, or not."""

    def ping(self) -> int:
        """The process it is in."""
        return os.getpid()


@actorlib.remote
class Caller:
    """Calls other actors from plain methods."""

    def call(self, handle: ActorHandle[Any], method: str, *args: Any) -> Any:
        """Calls a method and waits for the answer."""
        return actorlib.get(getattr(handle, method).remote(*args))

    def make(self, made: Any, *args: Any) -> ActorHandle[Any]:
        """Makes an actor and gives its handle away."""
        return made.remote(*args)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs a function here."""
        return function(*args)


@actorlib.remote
class AsyncCaller:
    """Calls other actors from ``async def`` methods."""

    async def call(self, handle: ActorHandle[Any], method: str, *args: Any) -> Any:
        """Calls a method and waits for the answer."""
        return await getattr(handle, method).remote(*args)

    async def make(self, made: Any, *args: Any) -> ActorHandle[Any]:
        """Makes an actor and gives its handle away."""
        return made.remote(*args)

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs a function here, and awaits what it gives if that can be awaited."""
        value = function(*args)
        return await value if asyncio.iscoroutine(value) else value


class Signal:
    """An event for coroutines of several loops, as groups have their own."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()

    def set(self) -> None:
        """Lets everybody go on, now and later."""
        with self._lock:
            self._is_set = True
            waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.get_loop().call_soon_threadsafe(self._wake, waiter)

    async def wait(self) -> None:
        """Waits until it is set."""
        with self._lock:
            if self._is_set:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
        await waiter

    def _wake(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)


@actorlib.remote
class Gate:
    """Named places where callers wait until somebody lets them through."""

    def __init__(self) -> None:
        self._reached: dict[str, Signal] = {}
        self._opened: dict[str, Signal] = {}
        self._left: list[str] = []

    async def wait(self, name: str = "") -> str:
        """Waits until the place is opened; notes it if the wait is given up."""
        self._reached.setdefault(name, Signal()).set()
        try:
            await self._opened.setdefault(name, Signal()).wait()
        except asyncio.CancelledError:
            self._left.append(name)
            self._opened[name].set()
            raise
        return name

    async def reached(self, name: str = "") -> None:
        """Waits until somebody waits there."""
        await self._reached.setdefault(name, Signal()).wait()

    async def open(self, name: str = "") -> None:
        """Lets everybody through, now and later."""
        self._opened.setdefault(name, Signal()).set()

    async def left(self) -> list[str]:
        """Where a wait was given up, in order."""
        return self._left


@actorlib.remote
class Cleaner:
    """Cleans up when it is cancelled, until it is told that it may end."""

    def __init__(self) -> None:
        self._began, self._cleans, self._may_end = (asyncio.Event() for _ in range(3))
        self._ended: list[str] = []

    async def work(self, name: str = "") -> str:
        """Runs until it is cancelled, and gives a value all the same."""
        self._began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._cleans.set()
            await self._may_end.wait()
        self._ended.append(name)
        return name

    async def began(self) -> None:
        """Waits until it works."""
        await self._began.wait()

    async def cleans(self) -> None:
        """Waits until it cleans up."""
        await self._cleans.wait()

    async def end(self) -> None:
        """Lets it end."""
        self._may_end.set()

    async def ended(self) -> list[str]:
        """What has ended."""
        return self._ended


class Log:
    """Writes down what is called, in order; not decorated, to be derived from.

    Args:
        place: Where the constructor stops.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._seen: list[Any] = []
        if place is not None:
            place.stop_here()

    def note(self, value: Any) -> Any:
        """Writes a value down and gives it back."""
        self._seen.append(value)
        return value

    def stop(self, place: Place, value: Any = None) -> Any:
        """Writes a value down and stops before giving it back."""
        self._seen.append(value)
        place.stop_here()
        return value

    def seen(self) -> list[Any]:
        """What was written down."""
        return self._seen


class MixedLog(Log):
    """The same, with an event loop."""

    async def note_later(self, value: Any) -> Any:
        """Writes a value down and gives it back."""
        self._seen.append(value)
        return value

    async def seen_now(self) -> list[Any]:
        """What was written down until now."""
        return list(self._seen)


class Place(NamedTuple):
    """Where an actor's method can stop; travels as an argument."""

    host: str
    port: int

    def stop_here(self) -> None:
        """Blocks this thread in the kernel until the test lets it go on."""
        with socket.create_connection(self) as sock:
            sock.recv(1)

    def tell(self, word: str) -> None:
        """Sends a word to the test; see ``Stop.told``."""
        with socket.create_connection(self) as sock:
            sock.sendall(word.encode())


_LEAVING = 1.0
"""Seconds that a released method may take until it closes its socket."""


@final
class Stop:
    """Stops a plain method where the test wants it: nothing in its process runs on.

    ``place.stop_here()`` blocks in the actor, ``await stop.reached()`` returns in the
    test when it does, and ``stop.release()`` lets it go on.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)  # noqa: FBT003  # the socket API
        self._stopped: list[socket.socket] = []
        self._released: list[socket.socket] = []
        self.place = Place(*self._listener.getsockname())

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        """Releases all that are stopped, and waits until their sockets are closed.

        A thread of this process would otherwise still have its socket when the next
        guard counts descriptors.
        """
        while self._stopped:
            self.release()
        for sock in self._released:
            sock.settimeout(_LEAVING)
            with sock, suppress(OSError):  # it was killed, or it is stopped by a signal
                sock.recv(1)
        self._listener.close()

    async def reached(self) -> None:
        """Waits until the next one has stopped."""
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(self._listener)
        self._stopped.append(sock)

    def release(self) -> None:
        """Lets the one that has been stopped for longest go on."""
        sock = self._stopped.pop(0)
        with suppress(OSError):  # it was killed
            sock.shutdown(socket.SHUT_WR)
        self._released.append(sock)

    def has_word(self) -> bool:
        """Whether a word has come that the test has not asked for yet."""
        return bool(select.select([self._listener], [], [], 0)[0])

    async def told(self) -> str:
        """Waits for the next word of ``Place.tell``; words come in their order."""
        loop = asyncio.get_running_loop()
        sock, _ = await loop.sock_accept(self._listener)
        word = bytearray()
        with sock:
            while part := await loop.sock_recv(sock, 1 << 12):
                word += part
        return word.decode()


def living(runtime: Runtime) -> list[ActorInfo]:
    """The actors that are not dead: of the dead, a failed test may keep handles."""
    return [actor for actor in runtime.snapshot().actors if actor.state != "dead"]


def end_of(actor: ActorHandle[Any] | str) -> asyncio.Future[None]:
    """Done when an actor's process is gone and its share is back.

    Args:
        actor: Its handle, which is not kept, or its id in hex.
    """
    engine = cast("LocalEngine", find_engine())
    number = bytes.fromhex(actor) if isinstance(actor, str) else pin_of(actor).actor_id
    if not hasattr(engine, "actor_table"):  # it is on a cluster
        return asyncio.ensure_future(
            _end_on_cluster(engine, engine.ready(cast("ActorId", number)), number.hex())
        )
    life = engine.actor_table.by_id.get(ActorId(number))
    assert life is not None
    return asyncio.shield(life.ended)


async def _end_on_cluster(engine: Any, ready: asyncio.Future[None], key: str) -> None:
    await asyncio.wait([ready])
    pids = [info.pid for info in engine.actors() if info.actor_id == key]
    await asyncio.gather(*map(gone, pids))  # of one that is dead nothing is known


async def gone(pid: int) -> None:
    """Waits until a process has ended, as the kernel says it."""
    if IN_MEMORY[0]:
        from helpers.memory_launcher import FIRST_PID, end_of_worker  # noqa: PLC0415  # likewise

        if pid >= FIRST_PID:  # else it is on a cluster
            await end_of_worker(pid)
            return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
