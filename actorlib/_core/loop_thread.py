"""How threads cross to the one that runs a runtime's loop.

What others post goes through one line, in order, and a burst of it wakes the loop once.
A loop of our own has a thread to itself (``LoopThread``): its futures may be given
callbacks from any thread, so a thread can wait for one without a trip to the loop and
back. To a loop of the user's all of it goes by way of that (``Beside``).
"""

from __future__ import annotations

import asyncio
import contextlib
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
_LOOK = 1.0
"""Seconds after which who waits looks whether the loop still runs."""


class Crossing(ABC):
    """How other threads cross to the thread of a loop.

    Attributes:
        refusal: Why nothing can be posted any more; empty while it runs.
    """

    refusal: str
    _thread: int
    _posted: deque[tuple[Callable[..., object], tuple[Any, ...]]]
    _is_woken: bool

    def _begin(self) -> None:
        """Takes this thread for the loop's."""
        self.refusal = ""
        self._thread = threading.get_ident()
        self._posted = deque()
        self._is_woken = False

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
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def _serve(self) -> None:
        self._is_woken = False  # first: what is posted from here on wakes it anew
        posted = self._posted
        for _ in range(len(posted)):
            callback, args = posted.popleft()
            try:
                callback(*args)
            except Exception as error:  # noqa: BLE001  # what a loop does with it
                self.report(callback, error)

    @abstractmethod
    def _wake(self) -> None:
        """Has the loop serve what was posted; from any thread."""

    @abstractmethod
    def report(self, callback: object, error: Exception) -> None:
        """Tells of a callback that has failed."""

    @abstractmethod
    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Calls back when a future of this loop is done; from any thread."""

    def across(self, work: Callable[..., T], *args: object) -> T:
        """Does something on the loop's thread, and waits until it is done.

        It is done in a copy of the caller's context. Where this thread is the loop's it
        is done at once.

        Raises:
            RuntimeError: The loop has ended.
            Exception: What the work raised.
        """
        if self.is_here():
            return work(*args)
        done = _closed()
        value: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            try:
                value.append(work(*args))
            except BaseException as error:  # noqa: BLE001  # it is raised where it was asked
                raised.append(error)
            done.release()

        self.post(copy_context().run, run)
        self.wait(done, None)
        if raised:
            try:
                raise raised.pop()
            finally:
                del run  # its frame would keep the error, and all that led there
        return value.pop()

    def wait(self, lock: threading.Lock, timeout: float | None) -> bool:
        """Blocks this thread until somebody releases a lock; whether in time.

        Raises:
            RuntimeError: The loop has ended, so nobody will.
        """
        end = None if timeout is None else time.monotonic() + timeout
        left = _LOOK
        while True:
            if end is not None:
                left = min(_LOOK, max(0.0, end - time.monotonic()))
            if lock.acquire(timeout=left):
                return True
            if self.refusal:
                raise RuntimeError(self.refusal)
            self.check()
            if end is not None and time.monotonic() >= end:
                return False

    @abstractmethod
    def check(self) -> None:
        """Makes sure that somebody runs the loop.

        Raises:
            RuntimeError: Nobody does, so it would be waited for in vain.
        """


class LoopThread(Crossing, _Base):
    """What an event loop becomes that runs in a thread of its own."""

    def begin(self) -> None:
        """Takes this thread for the loop's."""
        self._begin()
        # At hand for every callback.
        self._soon = cast("Any", super()).call_soon
        self._wake_soon = cast("Any", super()).call_soon_threadsafe

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Calls back when a future of this loop is done; from any thread."""
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
        """The same; a future that is done calls it from whoever adds a callback."""
        if threading.get_ident() == self._thread:
            return self._soon(callback, *args, context=context)
        return self.call_soon_threadsafe(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs a function in a thread; see asyncio's loops.

        An interpreter that is going down starts no threads any more, and this loop goes
        on until its runtime is ended: then it is run here.
        """
        try:
            running = cast("Any", super()).run_in_executor(executor, func, *args)
            return cast("asyncio.Future[T]", running)
        except RuntimeError:
            made: asyncio.Future[T] = self.create_future()
            try:
                made.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  # whose it is
                made.set_exception(error)
            return made

    def _wake(self) -> None:
        self._wake_soon(self._serve, context=Context())  # not in that of who is first

    def check(self) -> None:
        """Nothing: whoever ends the loop says so; see Crossing."""

    def report(self, callback: object, error: Exception) -> None:
        """Tells of a callback that has failed."""
        _report(cast("asyncio.AbstractEventLoop", self), callback, error)


class Beside(Crossing):
    """How other threads cross to a loop of the user's, from the thread that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begin()
        _homes[id(loop)] = self

    def _wake(self) -> None:
        try:
            # What others post is served too, and not in the context of who is first.
            self._loop.call_soon_threadsafe(self._serve, context=Context())
        except RuntimeError:  # it is closed
            self._is_woken = False
            raise RuntimeError(OTHER_LOOP) from None

    def report(self, callback: object, error: Exception) -> None:
        """Tells of a callback that has failed."""
        _report(self._loop, callback, error)

    def watch(
        self, future: asyncio.Future[Any], callback: Callable[[Any], object]
    ) -> None:
        """Calls back when a future of this loop is done; from any thread."""
        if self.is_here():
            future.add_done_callback(callback)
        else:
            self.post(future.add_done_callback, callback)

    def check(self) -> None:
        """Makes sure that somebody runs the loop; see Crossing."""
        if not self._loop.is_running():
            raise RuntimeError(OTHER_LOOP)


_homes: weakref.WeakValueDictionary[int, Beside] = weakref.WeakValueDictionary()
"""The loops of the user's that a runtime is on, by identity; its engine holds it."""


def home_of(loop: object) -> Crossing | None:
    """How to cross to a loop, if a runtime of this process is on it."""
    return loop if isinstance(loop, LoopThread) else _homes.get(id(loop))


_freely_blocked: set[int] = set()
"""The threads of actors whose plain methods run on a loop, and may block it."""


@contextlib.contextmanager
def blocked_freely() -> Generator[None]:
    """Around the life of a loop on this thread that plain methods of an actor block."""
    thread = threading.get_ident()
    _freely_blocked.add(thread)
    try:
        yield
    finally:
        _freely_blocked.discard(thread)


def may_block() -> bool:
    """Whether the code that runs may block the loop of its thread, if it has one.

    That is what a plain method of an actor does that has ``async def`` methods; its
    coroutines must not.
    """
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    if running is None:
        return True
    if threading.get_ident() not in _freely_blocked:
        return False
    return asyncio.current_task(running) is None


def soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Calls back soon on a loop, from a destructor, which may run in any thread."""
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # None, and no error, if there is none
        loop.call_soon(callback)
    else:
        loop.call_soon_threadsafe(callback)


def notify(future: asyncio.Future[Any], callback: Callable[[Any], object]) -> None:
    """Calls back when a future is done, where its loop runs; from any thread."""
    loop = future.get_loop()
    home = None if asyncio._get_running_loop() is loop else home_of(loop)  # noqa: SLF001  # the same
    if home is None:
        future.add_done_callback(callback)
    else:
        home.watch(future, callback)


def _report(
    loop: asyncio.AbstractEventLoop, callback: object, error: Exception
) -> None:
    loop.call_exception_handler({"message": f"{callback!r} failed", "exception": error})


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop for a thread of its own, of the fastest kind there is.

    It is an ``LoopThread``.
    """
    try:
        import uvloop  # noqa: PLC0415  # it is no dependency where it does not run
    except ImportError:
        base: type = asyncio.SelectorEventLoop
    else:
        base = uvloop.Loop
    kind: Any = type("ApartLoop", (LoopThread, base), {})
    return cast("asyncio.AbstractEventLoop", kind())


def at_home(future: asyncio.Future[Any], work: Callable[[], T]) -> T:
    """Does something where a future's loop runs, if a runtime is on that."""
    loop = cast("object", future.get_loop())
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # the same
        return work()
    home = home_of(loop)
    return work() if home is None else home.across(work)


def block(ref: asyncio.Future[Any], timeout: float | None, refusal: str) -> None:
    """Blocks this thread until a ref is done whose loop runs in another one.

    Args:
        ref: The ref.
        timeout: Seconds, or None.
        refusal: What is said if this thread must not wait.

    Raises:
        GetTimeoutError: It took longer.
        RuntimeError: This thread must not block, or the runtime was shut down.
    """
    loop = cast("object", ref.get_loop())
    home = home_of(loop)
    if home is None or home.is_here():
        running = asyncio._get_running_loop()  # noqa: SLF001  # the same
        raise RuntimeError(OTHER_LOOP if running not in (None, loop) else refusal)
    if home.refusal:
        raise RuntimeError(home.refusal)
    if timeout is not None and timeout <= 0:
        # Who only looks lets come what is there.
        home.across(_nothing)
        if ref.done():
            return
        raise GetTimeoutError(TOO_LATE)
    lock = _closed()

    def ring(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # it rang before
            lock.release()

    home.watch(ref, ring)
    try:
        if not home.wait(lock, timeout) and not ref.done():
            raise GetTimeoutError(TOO_LATE)
    finally:
        ref.remove_done_callback(ring)


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _nothing() -> None:
    """Something to be done elsewhere."""
