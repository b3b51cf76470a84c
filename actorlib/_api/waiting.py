"""Waits for some of many refs: ``await`` where a loop runs, else ``get()``.

Each kind of wait is written once, as a generator of ``WaitRequest``: it yields a
request, checks which refs are done, and yields again or returns. Two drivers run it,
one on an event loop (``run_async``) and one on a blocked thread (``run_blocking``), so
that ``await`` and ``get()`` cannot differ. A wait may be cancelled, and awaited again.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from actorlib._base.public import public
from actorlib._base.validation import check_count, check_seconds
from actorlib._futures.object_ref import (
    IMMUTABLE,
    BorrowedRef,
    ObjectRef,
    end_wait,
    interrupt_calls,
    release_if_unused,
)
from actorlib._futures.stream_reader import ObjectRefGenerator, reader_of
from actorlib._loops.loop_thread import OTHER_LOOP, may_block, portal_of, run_on_loop_of
from actorlib.exceptions import GetTimeoutError

T = TypeVar("T")
Awaited: TypeAlias = ObjectRef[Any] | ObjectRefGenerator[Any]
W = TypeVar("W", bound=Awaited)

_POLLS = 8
"""How often refs are polled before each gets a callback, which costs more."""


class Wakeup:
    """Wakes tasks that wait for other events than refs: its ``waiters``."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: set[asyncio.Future[None]] = set()

    def notify(self, _: object = None) -> None:
        """Wakes all waiting tasks; on the thread of their loop."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)


class WaitRequest(NamedTuple):
    """The next event of a wait. The driver may return early; the wait checks again.

    Attributes:
        refs: Refs, none of them done.
        number: How many of them have to be done.
        timeout: The limit in seconds, or None.
        also: A future of the running loop that ends the wait too, or None.
        wakeup: Ends the wait of a task too, or None.
    """

    refs: Sequence[asyncio.Future[Any]]
    number: int = 1
    timeout: float | None = None
    also: asyncio.Future[Any] | None = None
    wakeup: Wakeup | None = None


Steps: TypeAlias = Generator[WaitRequest, None, T]


@public("actorlib.types")
class Waiting(Generic[T]):
    """A result that takes time: await it or, where no loop runs, ``get()`` it.

    After a cancelled wait it may be awaited again. It returns its result once.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> waiting = actorlib.wait([double.remote(1)])
        >>> ready, left = await waiting
        >>> len(ready)
        1
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, None, T]:
        """Waits on the event loop that is running."""
        return run_async(self._unless_over()).__await__()

    def get(self) -> T:
        """Blocks this thread: for plain methods of actors.

        Raises:
            RuntimeError: This thread runs an event loop: await it instead.
        """
        return run_blocking(self._unless_over())

    def _unless_over(self) -> Steps[T]:
        if inspect.getgeneratorstate(self._steps) == inspect.GEN_CLOSED:
            raise RuntimeError(
                "this wait has returned its result: keep that, or call the function "
                "again for a new wait"
            )
        return self._steps


@public("actorlib")
def wait(
    refs: Sequence[W],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
) -> Waiting[tuple[list[W], list[W]]]:
    """Waits until some refs are done, whether they have a value or an error.

    A stream counts as done when its next item is available, or there are no more: so
    this can wait for the next item of several streams.

    ``ready, left = await actorlib.wait(refs, num_returns=2)``; in plain methods of
    actors ``ready, left = actorlib.wait(refs, num_returns=2).get()``. After a cancelled
    wait the calls go on as long as their refs exist.

    Args:
        refs: Refs and streams, each of them once.
        num_returns: How many have to be done. Default: 1.
        timeout: Seconds after which it returns with fewer, or None. 0 does not wait.
            Default: None.

    Returns:
        Those that are done, at most ``num_returns``, and all others; both in the order
        of ``refs``.

    Raises:
        TypeError: ``refs`` is not a list of refs and streams.
        ValueError: A ref is in it twice, or a number is out of range.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> refs = [double.remote(x) for x in range(3)]
        >>> ready, left = await actorlib.wait(refs, num_returns=3, timeout=10)
        >>> [await ref for ref in ready], left
        ([0, 2, 4], [])
    """
    listed = ref_list("wait()", refs)
    if timeout is not None:
        check_seconds("timeout", timeout)
    check_count("num_returns", num_returns, 1)
    if listed and num_returns > len(listed):
        raise ValueError(
            f"num_returns={num_returns} of {len(listed)} refs: it can be at most "
            f"{len(listed)}"
        )
    steps = _until_enough(listed, num_returns, timeout)
    return cast("Waiting[tuple[list[W], list[W]]]", Waiting(steps))


def ref_list(where: str, refs: object) -> list[Awaited]:
    """Checks a list of refs and streams; ``where`` names the function in messages."""
    if not isinstance(refs, Sequence):
        raise TypeError(f"{where} takes a list of refs, not {refs!r}")
    listed = list(cast("Sequence[Awaited]", refs))
    for ref in cast("list[object]", listed):
        if not isinstance(ref, ObjectRef | ObjectRefGenerator):
            raise TypeError(
                f"{where} takes refs, not {ref!r} ({type(ref).__name__}): "
                "handle.method.remote() returns one"
            )
    if len(set(listed)) < len(listed):
        raise ValueError(f"{where} takes each ref once: one of them is there twice")
    return listed


def readiness_of(awaited: Awaited) -> ObjectRef[Any]:
    """Returns the ref itself, or for a stream the ref of its next arrival."""
    if isinstance(awaited, ObjectRef):
        return awaited
    return reader_of(awaited).arrival()


def _until_enough(
    listed: list[Awaited], number: int, timeout: float | None
) -> Steps[tuple[list[Awaited], list[Awaited]]]:
    deadline = None if timeout is None else time.monotonic() + timeout
    remaining, is_late = timeout, False
    while not is_late:
        signs = [readiness_of(awaited) for awaited in listed]
        pending = [sign for sign in signs if not sign.done()]
        missing = number - (len(listed) - len(pending))
        if not pending or missing <= 0:
            break
        yield WaitRequest(pending, missing, remaining)
        if deadline is not None:
            remaining = max(0.0, deadline - time.monotonic())
            is_late = not remaining
    ready = [awaited for awaited in listed if readiness_of(awaited).done()][:number]
    chosen = set(ready)
    return ready, [awaited for awaited in listed if awaited not in chosen]


async def run_async(steps: Steps[T]) -> T:
    """Runs a wait on the running loop."""
    while True:
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            await _wait_async(request)
        except BaseException:
            del steps  # the traceback would keep refs alive
            raise
        finally:
            del request  # an error of its refs would refer to itself


def get_on_loop(waiting: Waiting[T]) -> T:
    """Blocks this thread for a result, even if it runs the event loop of an actor."""
    return run_blocking(waiting._unless_over(), blocks_loop=True)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # of this file


def run_blocking(steps: Steps[T], *, blocks_loop: bool = False) -> T:
    """Runs a wait on this thread, which is blocked meanwhile.

    With ``blocks_loop`` the thread may run the event loop of an actor.
    """
    while True:
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        _wait_blocking(
            cast("Sequence[ObjectRef[Any]]", request.refs),
            request.number,
            request.timeout,
            blocks_loop=blocks_loop,
        )
        del request  # an error of its refs would refer to itself


def refuse_running_loop(
    ref: asyncio.Future[Any],
    called: str = "get() and a plain 'for'",
    instead: str = "'await' or 'async for'",
) -> None:
    """Makes sure that this thread may be blocked by a wait.

    A thread that runs an event loop may be blocked in a plain method of an actor, or if
    a loop on another thread fills the ref. The error names the blocking function and
    the alternative.
    """
    home = portal_of(ref.get_loop())
    if may_block() or (home is not None and not home.is_here()):
        return
    refuse_other_loop(ref)
    raise RuntimeError(
        f"this thread runs an event loop, which {called} would block: use {instead}"
    )


def refuse_other_loop(ref: asyncio.Future[Any]) -> None:
    """Makes sure that this thread does not run another loop than that of a ref.

    Otherwise the ref's loop does not run.
    """
    home, running = portal_of(ref.get_loop()), asyncio._get_running_loop()  # noqa: SLF001  # None in a fork, too
    if home is not None and home.is_here() and running is not ref.get_loop():
        raise RuntimeError(OTHER_LOOP)


def limited(steps: Steps[T], timeout: float) -> Steps[T]:
    """Limits a wait to a number of seconds; it may be continued later."""
    deadline = time.monotonic() + timeout
    remaining = timeout
    is_late = False
    while True:
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        if is_late:
            raise GetTimeoutError(
                f"not all results came within {timeout:g} s; the calls go on"
            )
        if request.timeout is None or request.timeout > remaining:
            request = request._replace(timeout=remaining)
        yield request
        remaining = max(0.0, deadline - time.monotonic())
        is_late = not remaining


async def _wait_async(request: WaitRequest) -> None:
    loop = asyncio.get_running_loop()
    if any(ref.get_loop() is not loop for ref in request.refs):
        await _wait_in_thread(loop, request)
        return
    if request.timeout is not None and request.timeout <= 0:
        await asyncio.sleep(0)  # lets the loop read answers that have arrived
        return
    remaining = request.number
    waiter: asyncio.Future[None] = loop.create_future()

    def one_done(_: object) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining <= 0 and not waiter.done():
            waiter.set_result(None)

    watched = [*request.refs] if request.also is None else [*request.refs, request.also]
    _call_back(watched, one_done)
    if request.wakeup is not None:
        request.wakeup.waiters.add(waiter)
    timer = None
    if request.timeout is not None:
        timer = loop.call_later(request.timeout, partial(end_wait, waiter))
    try:
        await waiter
    except asyncio.CancelledError:
        release_if_unused(request.refs)
        raise
    finally:
        while watched:
            watched.pop().remove_done_callback(one_done)
        if request.wakeup is not None:
            request.wakeup.waiters.discard(waiter)
        if timer is not None:
            timer.cancel()
        del request  # the traceback would keep its refs alive


def _call_back(
    refs: Iterable[asyncio.Future[Any]], then: Callable[[object], object]
) -> None:
    for ref in refs:
        ref.add_done_callback(then)


async def _wait_in_thread(
    loop: asyncio.AbstractEventLoop, request: WaitRequest
) -> None:
    """Waits in a thread, for a loop that the engine does not run on."""
    refs = cast("Sequence[ObjectRef[Any]]", request.refs)
    refuse_other_loop(refs[0])
    blocking = partial(_wait_blocking, refs, request.number, request.timeout)
    waits: list[asyncio.Future[Any]] = [loop.run_in_executor(None, blocking)]
    if request.also is not None:
        waits.append(request.also)
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        interrupt_calls(refs)
        raise
    if waits[0].done():
        waits[0].result()  # raises if the engine's loop has ended


def get_fresh(refs: object, timeout: float | None) -> Any:
    """Returns the value of a ref, or of a list, each as a new object for the caller."""
    if not isinstance(refs, ObjectRef):
        return get_all(refs, timeout, _fresh_value)
    ref = cast("ObjectRef[Any]", refs)
    if not ref.done():
        ref.block_until_done(timeout)
    return _fresh_value(ref)


def _fresh_value(ref: ObjectRef[Any]) -> Any:
    """Returns the value of a ref that is done, unless it failed."""
    is_shared = ref.hand_out()
    value, original = ref.get(0), ref.kept_value
    if original is None or not is_shared or type(value) in IMMUTABLE:
        return value
    from actorlib._wire.errors import load_kept  # noqa: PLC0415  # it loads msgpack

    # Handles and refs are counted on the engine's thread; others can be loaded here.
    load = partial(load_kept, original)
    return run_on_loop_of(ref, load) if original[2] else load()


def _value(ref: ObjectRef[Any]) -> Any:
    return ref.get(0)


def get_all(
    refs: object,
    timeout: float | None,
    value_of: Callable[[ObjectRef[Any]], Any] = _value,
) -> list[Any]:
    """Returns the values of refs, in their order; blocks this thread.

    It raises as soon as one has failed, wherever in the list; see ``actorlib.get``.
    """
    if isinstance(refs, ObjectRefGenerator):
        raise _refused_stream(cast("object", refs))
    if isinstance(refs, str) or not isinstance(refs, Sequence):
        raise TypeError(
            f"get() takes a ref or a list of refs, not {refs!r} "
            f"({type(refs).__name__}): handle.method.remote() returns a ref"
        )
    listed = list(cast("Sequence[ObjectRef[Any]]", refs))
    for ref in cast("list[object]", listed):
        if isinstance(ref, ObjectRefGenerator):
            raise _refused_stream(cast("object", ref))
        if not isinstance(ref, ObjectRef):
            raise TypeError(
                f"get() takes refs, not {ref!r} ({type(ref).__name__}): "
                "handle.method.remote() returns one"
            )
    pending = [ref for ref in dict.fromkeys(listed) if not ref.done()]
    if not pending:
        return [value_of(ref) for ref in listed]
    if not any(ref.done() and _has_failed(ref) for ref in listed):
        _until_over(_AllOf(pending), timeout)
    for ref in listed:
        if ref.done() and _has_failed(ref):
            ref.get(0)
    return [value_of(ref) for ref in listed]


def _refused_stream(stream: object) -> TypeError:
    return TypeError(
        f"get() takes refs, and {stream!r} is a stream of refs: write "
        "[get(ref) for ref in generator], or get(list(generator)) to wait for all; "
        "in async code 'async for ref in generator: await ref'"
    )


def _until_over(every: _AllOf, timeout: float | None) -> None:
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while not every.is_over():
            every.wait(timeout)
            if deadline is not None:
                timeout = max(0.0, deadline - time.monotonic())
    finally:
        every.forget()


def _has_failed(ref: asyncio.Future[Any]) -> bool:
    return ref.cancelled() or ref.exception() is not None


def _wait_blocking(
    refs: Sequence[ObjectRef[Any]],
    number: int,
    timeout: float | None,
    *,
    blocks_loop: bool = False,
) -> None:
    if not blocks_loop:
        refuse_running_loop(refs[0])
    enough = _SomeOf(refs, number)
    try:
        enough.wait(timeout)
    except TimeoutError:
        pass
    finally:
        enough.forget()


class CombinedRef(ObjectRef[None], ABC):
    """A ref that is done when several others are, so that a thread can wait for it.

    An engine may poll ``done()`` or add a done callback.
    """

    __slots__ = ("_is_watched", "_then", "refs")

    def __init__(self, refs: Sequence[ObjectRef[Any]]) -> None:
        super().__init__(loop=refs[0].get_loop())
        self.refs = refs
        self._then: Callable[[object], object] | None = None
        self._is_watched = False

    def wait(self, timeout: float | None) -> None:
        try:
            self.refs[0].result_owner.wait(self, timeout)
        except KeyboardInterrupt:
            interrupt_calls(self.refs)
            raise

    @abstractmethod
    def done(self) -> bool:
        """Whether it is done, by the state of the refs now."""

    def add_done_callback(  # type: ignore[override]
        self, fn: Callable[[Any], object], /, *, context: object = None
    ) -> None:
        """Calls back when it is done, on the thread that fills the refs."""
        del context
        self._then = fn
        self._watch()
        if self.done():
            fn(self)

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            for ref in self.refs:
                ref.add_done_callback(self._one_done)

    def _one_done(self, ref: asyncio.Future[Any]) -> None:
        del ref  # done() checks all of them
        if self._then is not None and self.done():
            self._then(self)

    def forget(self) -> None:
        """Removes its callbacks from the refs."""
        if not self._is_watched or all(ref.done() for ref in self.refs):
            return
        if has_loop(self.refs[0]):
            self.get_loop().call_soon_threadsafe(self._take_back)
        else:
            self._take_back()

    def _take_back(self) -> None:
        for ref in self.refs:
            ref.remove_done_callback(self._one_done)


class _SomeOf(CombinedRef):
    """Done when a number of refs are done."""

    __slots__ = ("_number",)

    def __init__(self, refs: Sequence[ObjectRef[Any]], number: int) -> None:
        super().__init__(refs)
        self.call = 0  # it does not wait for one certain call
        self._number = number
        fetch_values(refs)

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The calls that it waits for, and how many of them it needs."""
        calls = [ref.call for ref in self.refs if not ref.done()]
        missing = self._number - (len(self.refs) - len(calls))
        return (tuple(calls), missing) if all(calls) else ((), 0)

    def done(self) -> bool:
        remaining = self._number
        for ref in self.refs:
            if ref.done():
                remaining -= 1
                if not remaining:
                    return True
        return False


class _AllOf(CombinedRef):
    """Done when all refs have a value, or one has failed.

    A worker reports the call of a long wait: it reads ``call``, that of the first ref
    that is not done. From then on this is done when that ref is, so that the wait
    begins again and the next call is reported.
    """

    __slots__ = ("_at", "_failed", "_polls", "_reported")

    def __init__(self, refs: Sequence[ObjectRef[Any]]) -> None:
        super().__init__(refs)
        self._at = 0
        self._failed = False
        self._reported: int | None = None
        self._polls = 0
        fetch_values(refs)

    @property
    def call(self) -> int:  # type: ignore[override]
        """The call of the first ref that is not done."""
        self.is_over()
        self._reported = at = self._at
        return self.refs[at].call if at < len(self.refs) else 0

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The calls that it waits for: all of them, unless one fails."""
        calls = tuple(ref.call for ref in self.refs if not ref.done())
        return (calls, len(calls)) if all(calls) else ((), 0)

    def wait(self, timeout: float | None) -> None:
        self._reported = None
        super().wait(timeout)

    def done(self) -> bool:
        """Whether the wait is over, or has to begin again."""
        return self.is_over() or (
            self._reported is not None and self._reported < self._at
        )

    def is_over(self) -> bool:
        if self._failed:
            return True
        # Several threads may run this at once: an older index that overwrites a newer
        # one only makes the next check longer.
        at, refs = self._at, self.refs
        while at < len(refs) and refs[at].done():
            self._failed = self._failed or _has_failed(refs[at])
            at += 1
        self._at = at
        if not self._is_watched:
            self._failed |= any(ref.done() and _has_failed(ref) for ref in refs[at:])
            self._polls += 1
            if self._polls == _POLLS and not has_loop(refs[0]):
                self._watch()
        return self._failed or at == len(refs)

    def _one_done(self, ref: asyncio.Future[Any]) -> None:
        if _has_failed(ref):
            self._failed = True
        if self._then is not None and self.done():
            self._then(self)


def fetch_values(refs: Iterable[ObjectRef[Any]]) -> None:
    for ref in refs:
        if isinstance(ref, BorrowedRef):
            ref.fetch()


def has_loop(ref: asyncio.Future[Any]) -> bool:
    """Whether done callbacks of a ref run on a loop; else they run at once."""
    return isinstance(cast("object", ref.get_loop()), asyncio.AbstractEventLoop)
