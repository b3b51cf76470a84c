"""Calls functions on an event loop that another thread runs.

Posted callbacks go through one queue, in order, and a burst of them wakes the loop
once. A loop of our own has a thread to itself (``ThreadedLoop``): callbacks may be
added to its futures from any thread, so a thread can wait for one without a trip to the
loop and back. With a loop of the user's (``UserLoopPortal``) that too is done on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    _Base = asyncio.AbstractEventLoop
else:
    _Base = object

T = TypeVar("T")

TOO_LATE = "the result did not come in time; the call goes on"
OTHER_LOOP = (
    "this runtime belongs to another event loop, which does not run now: use it on the "
    "loop that it was started on, or from another thread while that runs. In pytest "
    "the tests need the loop of the fixture that has started it: write "
    '@pytest_asyncio.fixture(loop_scope="session") there and '
    'pytestmark = pytest.mark.asyncio(loop_scope="session") in the test\'s module'
)
_CHECK_PERIOD = 1.0
"""Seconds after which a waiting thread looks whether the loop still runs."""


class LoopPortal(ABC):
    """Calls functions on a loop, from other threads.

    Attributes:
        refusal: Why nothing can be posted any more; empty while the loop runs.
    """

    refusal: str
    _thread: int
    _posted: deque[tuple[Callable[..., object], tuple[Any, ...]]]
    _is_awake: bool

    def _begin(self) -> None:
        """Makes this thread the loop's."""
        self.refusal = ""
        self._thread = threading.get_ident()
        self._posted = deque()
        self._is_awake = False

    def is_here(self) -> bool:
        """Whether this thread is the loop's."""
        return threading.get_ident() == self._thread

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Calls back soon on the loop's thread, in the order of the posts.

        Raises:
            RuntimeError: The loop has ended.
        """
        if self.refusal:
            raise RuntimeError(self.refusal)
        self._posted.append((callback, args))
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def _serve(self) -> None:
        self._is_awake = False  # first: what is posted from here on wakes it again
        posted = self._posted
        for _ in range(len(posted)):
            callback, args = posted.popleft()
            try:
                callback(*args)
            except Exception as error:  # noqa: BLE001  # as asyncio's loops do
                self.report(callback, error)

    @abstractmethod
    def _wake(self) -> None:
        """Makes the loop run what was posted; from any thread."""

    @abstractmethod
    def report(self, callback: object, error: Exception) -> None:
        """Reports a callback that has raised."""

    @abstractmethod
    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Adds a done callback to a future of this loop; from any thread."""

    def call(self, work: Callable[..., T], *args: object) -> T:
        """Calls a function on the loop's thread, and waits for its result.

        It runs in a copy of the caller's context; on the loop's thread, at once.

        Raises:
            RuntimeError: The loop has ended.
            Exception: What the function raised.
        """
        if self.is_here():
            return work(*args)
        done = _locked()
        value: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                value.append(work(*args))
            except BaseException as error:  # noqa: BLE001  # raised below, in the calling thread
                raised.append(error)
            done.release()

        self.post(copy_context().run, run)
        self.wait(done, None)
        if raised:
            try:
                raise raised.pop()
            finally:
                del run  # its frame would keep the error, and the frames below it
        return value.pop()

    def wait(self, lock: threading.Lock, timeout: float | None) -> bool:
        """Blocks this thread until a lock is released; False if that took too long.

        Raises:
            RuntimeError: The loop has ended, so it never will be.
        """
        end = None if timeout is None else time.monotonic() + timeout
        left = _CHECK_PERIOD
        while True:
            if end is not None:
                left = min(_CHECK_PERIOD, max(0.0, end - time.monotonic()))
            if lock.acquire(timeout=left):
                return True
            if self.refusal:
                raise RuntimeError(self.refusal)
            self.check()
            if end is not None and time.monotonic() >= end:
                return False

    @abstractmethod
    def check(self) -> None:
        """Makes sure that the loop runs.

        Raises:
            RuntimeError: It does not, so a wait for it would never end.
        """


class ThreadedLoop(LoopPortal, _Base):
    """Mixed into an event loop, lets it run on a thread of its own."""

    def begin(self) -> None:
        """Makes this thread the loop's."""
        self._begin()
        # Looked up once, as every callback needs them.
        self._soon = cast("Any", super()).call_soon
        self._wake_soon = cast("Any", super()).call_soon_threadsafe

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Adds a done callback to a future of this loop; from any thread."""
        future.add_done_callback(callback)

    def call_soon_threadsafe(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # nobody takes its handle
        self,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> None:
        """Calls back soon, from any thread; see asyncio's loops."""
        if context is None:
            self.post(copy_context().run, callback, *args)
        else:
            self.post(context.run, callback, *args)

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> Any:
        """Calls back soon, from any thread: futures call it where they are filled."""
        if threading.get_ident() == self._thread:
            return self._soon(callback, *args, context=context)
        return self.call_soon_threadsafe(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs a function in a thread; see asyncio's loops.

        While the interpreter shuts down it starts no more threads, and this loop runs
        until its runtime has ended: then the function is run here.
        """
        try:
            running = cast("Any", super()).run_in_executor(executor, func, *args)
            return cast("asyncio.Future[T]", running)
        except RuntimeError:
            made: asyncio.Future[T] = self.create_future()
            try:
                made.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  # as an executor does
                made.set_exception(error)
            return made

    def _wake(self) -> None:
        self._wake_soon(
            self._serve, context=Context()
        )  # not in that of the first caller

    def check(self) -> None:
        """Does nothing: whoever ends this loop sets ``refusal``; see LoopPortal."""

    def report(self, callback: object, error: Exception) -> None:
        """Reports a callback that has raised; see LoopPortal."""
        _report(cast("asyncio.AbstractEventLoop", self), callback, error)


class UserLoopPortal(LoopPortal):
    """Calls functions on a loop of the user's; made on the thread that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begin()
        _portals[id(loop)] = self

    def _wake(self) -> None:
        try:
            # It runs what others post, too: not in the context of the first caller.
            self._loop.call_soon_threadsafe(self._serve, context=Context())
        except RuntimeError:  # it is closed
            self._is_awake = False
            raise RuntimeError(OTHER_LOOP) from None

    def report(self, callback: object, error: Exception) -> None:
        """Reports a callback that has raised; see LoopPortal."""
        _report(self._loop, callback, error)

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Adds a done callback to a future of this loop; from any thread."""
        if self.is_here():
            future.add_done_callback(callback)
        else:
            self.post(future.add_done_callback, callback)

    def check(self) -> None:
        """Makes sure that the loop runs; see LoopPortal."""
        if not self._loop.is_running():
            raise RuntimeError(OTHER_LOOP)


_portals: weakref.WeakValueDictionary[int, UserLoopPortal] = (
    weakref.WeakValueDictionary()
)
"""Portals to loops of the user's that runtimes are on, by the id of the loop."""


def portal_of(loop: object) -> LoopPortal | None:
    """Returns the portal to a loop, or None if no runtime of this process is on it."""
    return loop if isinstance(loop, ThreadedLoop) else _portals.get(id(loop))


_blockable_threads: set[int] = set()
"""The threads whose loop the plain methods of an actor may block."""


@contextlib.contextmanager
def blocking_allowed() -> Generator[None]:
    """Lets plain methods of an actor block the loop of this thread."""
    thread = threading.get_ident()
    _blockable_threads.add(thread)
    try:
        yield
    finally:
        _blockable_threads.discard(thread)


def may_block() -> bool:
    """Whether the running code may block its thread.

    Code on an event loop must not, except for the plain methods of an actor that has
    ``async def`` methods, which run on its loop.
    """
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    if running is None:
        return True
    if threading.get_ident() not in _blockable_threads:
        return False
    return asyncio.current_task(running) is None


def call_soon_on(
    loop: asyncio.AbstractEventLoop, callback: Callable[[], object]
) -> None:
    """Calls back soon on a loop; from a destructor, which may run in any thread."""
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # None, and no error, if there is none
        loop.call_soon(callback)
    else:
        loop.call_soon_threadsafe(callback)


def add_done_callback(
    future: asyncio.Future[Any], callback: Callable[[Any], object]
) -> None:
    """Adds a done callback to a future on its loop's thread; from any thread."""
    loop = future.get_loop()
    home = None if asyncio._get_running_loop() is loop else portal_of(loop)  # noqa: SLF001  # the same
    if home is None:
        future.add_done_callback(callback)
    else:
        home.watch(future, callback)


def _report(
    loop: asyncio.AbstractEventLoop, callback: object, error: Exception
) -> None:
    loop.call_exception_handler({"message": f"{callback!r} failed", "exception": error})


def new_loop(*mixins: type) -> asyncio.AbstractEventLoop:
    """Makes uvloop's loop where it is installed and not switched off, else asyncio's.

    Args:
        mixins: Classes that it is besides, as ``ThreadedLoop``.
    """
    kind: Any = asyncio.SelectorEventLoop
    if os.environ.get("ACTORLIB_UVLOOP", "1") != "0":
        try:
            import uvloop  # noqa: PLC0415  # optional, and warm in the template

            kind = uvloop.Loop
        except ImportError:
            pass
        except Exception as error:
            raise ImportError(
                f"uvloop is installed and cannot be loaded ({error!r}): install it "
                "again, or set ACTORLIB_UVLOOP=0 to use asyncio's event loop"
            ) from error
    if mixins:
        kind = type("ThreadedLoop", (*mixins, kind), {})
    return cast("asyncio.AbstractEventLoop", kind())


def run_on_loop_of(future: asyncio.Future[Any], work: Callable[[], T]) -> T:
    """Calls a function on the thread of a future's loop, if a runtime is on it."""
    loop = cast("object", future.get_loop())
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # the same
        return work()
    home = portal_of(loop)
    return work() if home is None else home.call(work)


def block(ref: asyncio.Future[Any], timeout: float | None, refusal: str) -> None:
    """Blocks this thread until a ref is done whose loop runs in another one.

    Args:
        ref: The ref.
        timeout: Seconds, or None.
        refusal: The error's message if this thread must not wait.

    Raises:
        GetTimeoutError: It took longer.
        RuntimeError: This thread must not block, or the runtime was shut down.
    """
    loop = cast("object", ref.get_loop())
    home = portal_of(loop)
    if home is None or home.is_here():
        running = asyncio._get_running_loop()  # noqa: SLF001  # the same
        raise RuntimeError(OTHER_LOOP if running not in (None, loop) else refusal)
    if home.refusal:
        raise RuntimeError(home.refusal)
    if timeout is not None and timeout <= 0:
        # Lets callbacks run that are posted already.
        home.call(_do_nothing)
        if ref.done():
            return
        raise GetTimeoutError(TOO_LATE)
    lock = _locked()

    def release(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # it is released already
            lock.release()

    home.watch(ref, release)
    try:
        if not home.wait(lock, timeout) and not ref.done():
            raise GetTimeoutError(TOO_LATE)
    finally:
        ref.remove_done_callback(release)


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _do_nothing() -> None:
    """Waited for, it lets everything run that was posted before it."""
