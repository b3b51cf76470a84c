"""Calls functions on an event loop that another thread runs.

Posted callbacks go through one queue, in order, and a burst of them wakes the loop
once. A loop of this package has a thread to itself (``ThreadedLoop``). Callbacks may be
added to its futures from any thread, so a thread can wait for a future without a trip
to the loop and back. With a loop of the user (``UserLoopPortal``) that is done on the
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib.exceptions import GetTimeoutError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    _Base = asyncio.AbstractEventLoop
else:
    _Base = object

T = TypeVar("T")

TOO_LATE = "the result did not come in time; the call goes on"
OTHER_LOOP = (
    "this runtime belongs to another event loop, which is not running: use it on the "
    "loop that it was started on, or from another thread while that runs. In pytest "
    "the tests need the loop of the fixture that has started it: write "
    '@pytest_asyncio.fixture(loop_scope="session") there and '
    'pytestmark = pytest.mark.asyncio(loop_scope="session") in the test\'s module'
)
_CHECK_PERIOD = 1.0
"""Seconds after which a waiting thread checks whether the loop still runs."""


class LoopPortal(ABC):
    """Calls functions on a loop, from other threads.

    Attributes:
        refusal: Why callbacks can no longer be posted; empty while the loop runs.
    """

    refusal: str
    _thread: int
    _posted: deque[tuple[Callable[..., object], tuple[Any, ...]]]
    _is_awake: bool
    _report_error: Callable[[dict[str, Any]], None]

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self.refusal = ""
        self._report_error = loop.call_exception_handler
        self._thread = threading.get_ident()
        self._posted = deque()
        self._is_awake = False

    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Calls back soon on the loop's thread, in the order of the posts.

        Raises RuntimeError if the loop has ended.
        """
        if self.refusal:
            raise RuntimeError(self.refusal)
        self._posted.append((callback, args))
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def _serve(self) -> None:
        self._is_awake = False  # first: a later post wakes the loop again
        posted = self._posted
        for _ in range(len(posted)):
            callback, args = posted.popleft()
            try:
                callback(*args)
            except Exception as error:  # noqa: BLE001  # as asyncio's loops do
                message = f"{callback!r} failed"
                self._report_error({"message": message, "exception": error})

    @abstractmethod
    def _wake(self) -> None:
        """Makes the loop run the posted callbacks; callable from any thread."""

    @abstractmethod
    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Adds a done callback to a future of this loop; callable from any thread."""

    def call(self, work: Callable[..., T], *args: object) -> T:
        """Calls a function on the loop's thread, and waits for its result.

        The function runs in a copy of the caller's context. On the loop's thread it
        runs at once.
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
                del run  # its frame would keep the error and the frames below it alive
        return value.pop()

    def wait(self, lock: threading.Lock, timeout: float | None) -> bool:
        """Blocks this thread until a lock is released; False after the timeout.

        Raises RuntimeError if the loop has ended, so the lock will not be released.
        """
        end = None if timeout is None else time.monotonic() + timeout
        period = _CHECK_PERIOD
        while True:
            if end is not None:
                period = min(_CHECK_PERIOD, max(0.0, end - time.monotonic()))
            if lock.acquire(timeout=period):
                return True
            if self.refusal:
                raise RuntimeError(self.refusal)
            self.check()
            if end is not None and not time.monotonic() < end:  # it may be not a number
                return False

    @abstractmethod
    def check(self) -> None:
        """Raises RuntimeError if the loop does not run: a wait would never end."""


class ThreadedLoop(LoopPortal, _Base):
    """Mixin for an event loop that runs on a thread of its own."""

    def begin(self) -> None:
        self._begin(cast("asyncio.AbstractEventLoop", self))
        # Looked up once: every callback needs them.
        self._soon = cast("Any", super()).call_soon
        self._wake_soon = cast("Any", super()).call_soon_threadsafe

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        future.add_done_callback(callback)

    def call_soon_threadsafe(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # no caller uses its handle
        self,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> None:
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
        """Schedules a callback, from any thread: a filled future calls this there."""
        if threading.get_ident() == self._thread:
            return self._soon(callback, *args, context=context)
        return self.call_soon_threadsafe(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs a function in a thread.

        While the interpreter shuts down it starts no more threads, but this loop runs
        until its runtime has ended. In that case the function runs here.
        """
        try:
            running = cast("Any", super()).run_in_executor(executor, func, *args)
            return cast("asyncio.Future[T]", running)
        except RuntimeError:
            future: asyncio.Future[T] = self.create_future()
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  # as an executor does
                future.set_exception(error)
            return future

    def _wake(self) -> None:
        # Not in the first caller's context.
        self._wake_soon(self._serve, context=Context())

    def check(self) -> None:
        """Does nothing: the code that ends this loop sets ``refusal``."""


class UserLoopPortal(LoopPortal):
    """Calls functions on a loop of the user; created on the thread that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begin(loop)
        _portals[id(loop)] = self

    def _wake(self) -> None:
        try:
            # It also runs the posts of others: not in the first one's context.
            self._loop.call_soon_threadsafe(self._serve, context=Context())
        except RuntimeError:  # it is closed
            self._is_awake = False
            raise RuntimeError(OTHER_LOOP) from None

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        if self.is_here():
            future.add_done_callback(callback)
        else:
            self.post(future.add_done_callback, callback)

    def check(self) -> None:
        if not self._loop.is_running():
            raise RuntimeError(OTHER_LOOP)


_portals: weakref.WeakValueDictionary[int, UserLoopPortal] = (
    weakref.WeakValueDictionary()
)
"""Portals to loops of the user that have a runtime, by the id of the loop."""


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

    Code on an event loop must not block, except for the plain methods of an actor that
    has ``async def`` methods, which run on its loop.
    """
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    if running is None:
        return True
    if threading.get_ident() not in _blockable_threads:
        return False
    return asyncio.current_task(running) is None


def is_on_actor_loop() -> bool:
    return threading.get_ident() in _blockable_threads


def call_soon_on(
    loop: asyncio.AbstractEventLoop, callback: Callable[[], object]
) -> None:
    """Schedules a callback on a loop, from a destructor in any thread."""
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # None, and no error, if there is none
        loop.call_soon(callback)
    else:
        loop.call_soon_threadsafe(callback)


def add_done_callback(
    future: asyncio.Future[Any], callback: Callable[[Any], object]
) -> None:
    """Adds a done callback to a future on its loop's thread, from any thread."""
    loop = future.get_loop()
    home = None if asyncio._get_running_loop() is loop else portal_of(loop)  # noqa: SLF001  # the same
    if home is None:
        future.add_done_callback(callback)
    else:
        home.watch(future, callback)


def new_loop(*mixins: type) -> asyncio.AbstractEventLoop:
    """Makes a loop of uvloop if it is installed and enabled, else of asyncio."""
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
    try:
        # uvloop creates its sockets when it runs, and a loop without cannot be closed.
        for end in socket.socketpair():
            end.close()
        return cast("asyncio.AbstractEventLoop", kind())
    except OSError as error:
        from actorlib._base.start_errors import advice_on_start  # noqa: PLC0415  # rarely needed

        advice = advice_on_start(error)
        if not advice:
            raise
        message = f"there can be no event loop: {error}: {advice}"
        raise TemplateError(message) from error


def run_on_loop_of(future: asyncio.Future[Any], work: Callable[[], T]) -> T:
    """Calls a function on the thread of a future's loop, if a runtime is on it."""
    loop = cast("object", future.get_loop())
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # the same
        return work()
    home = portal_of(loop)
    return work() if home is None else home.call(work)


def block(ref: asyncio.Future[Any], timeout: float | None, refusal: str) -> None:
    """Blocks this thread until a ref is done whose loop runs in another thread.

    Raises:
        GetTimeoutError: It took longer than ``timeout`` seconds.
        RuntimeError: This thread must not block (with the message ``refusal``), or the
            runtime was shut down.
    """
    loop = cast("object", ref.get_loop())
    home = portal_of(loop)
    if home is None or home.is_here():
        running = asyncio._get_running_loop()  # noqa: SLF001  # the same
        raise RuntimeError(OTHER_LOOP if running not in (None, loop) else refusal)
    if home.refusal:
        raise RuntimeError(home.refusal)
    if timeout is not None and timeout <= 0:
        # Lets the callbacks run that were posted before.
        home.call(lambda: None)
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
