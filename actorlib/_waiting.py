"""Waiting for some of many refs: ``await`` where a loop runs, else ``get()``.

What is waited for is said once, as steps: a generator that asks for a wait, looks at
what is done, and asks for another or returns. Two drivers run the same steps, one on
an event loop and one on a thread without any, so neither face can differ from the
other. Between two steps a wait may be cancelled, and awaited again later.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from actorlib._apart import Apart
from actorlib._checks import count, seconds
from actorlib._ref import ObjectRef, loosen, replier_of, wake

T = TypeVar("T")


class Bell:
    """Wakes the tasks that wait for something which is no ref."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def ring(self, _: object = None) -> None:
        """Wakes everybody; called from the thread of their loop."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def add(self, waiter: asyncio.Future[None]) -> None:
        """One more is to be woken."""
        self._waiters.add(waiter)

    def remove(self, waiter: asyncio.Future[None]) -> None:
        """One has stopped waiting."""
        self._waiters.discard(waiter)


class Wish(NamedTuple):
    """What a step waits for; it may come back earlier, and looks again.

    Attributes:
        refs: Refs, none of them done.
        number: How many of them have to be done.
        timeout: Seconds to wait at the most, or None.
        also: A future of the running loop that ends the wait too.
        bell: What ends the wait of a task too.
    """

    refs: Sequence[asyncio.Future[Any]]
    number: int = 1
    timeout: float | None = None
    also: asyncio.Future[Any] | None = None
    bell: Bell | None = None


Steps: TypeAlias = Generator[Wish, None, T]


class Waiting(Generic[T]):
    """Something that takes time: await it, or, where no loop runs, ``get()`` it.

    A wait that is cancelled spoils nothing; it may be awaited again. It gives its
    result once.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, None, T]:
        """Waits on the event loop that is running."""
        return run_soon(self._unless_over()).__await__()

    def get(self) -> T:
        """Blocks this thread: for plain methods of actors.

        Raises:
            RuntimeError: This thread runs an event loop: await it instead.
        """
        return run_here(self._unless_over())

    def _unless_over(self) -> Steps[T]:
        if inspect.getgeneratorstate(self._steps) == inspect.GEN_CLOSED:
            raise RuntimeError("this has given its result already: ask anew")
        return self._steps


def wait(
    refs: Sequence[ObjectRef[T]],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
) -> Waiting[tuple[list[ObjectRef[T]], list[ObjectRef[T]]]]:
    """Waits until some refs are done, whether they have a value or an error.

    ``ready, left = await actorlib.wait(refs, num_returns=2)``; in plain methods of
    actors ``ready, left = actorlib.wait(refs, num_returns=2).get()``. A wait that is
    cancelled spoils nothing: the calls of refs that somebody holds go on.

    Args:
        refs: Refs, each of them once.
        num_returns: How many have to be done.
        timeout: Seconds after which it returns with fewer, or None. 0 only looks.

    Returns:
        The refs that are done, ``num_returns`` at the most, and all others; both in
        the order in which they were given.

    Raises:
        TypeError: It was given something else than a list of refs.
        ValueError: A ref is there twice, or a number is out of range.
    """
    given = ref_list("wait()", refs)
    if timeout is not None:
        seconds("timeout", timeout)
    count("num_returns", num_returns, 1)
    if given and num_returns > len(given):
        raise ValueError(
            f"num_returns={num_returns} of {len(given)} refs: it can be "
            f"{len(given)} at the most"
        )
    return Waiting(_until_enough(given, num_returns, timeout))


def ref_list(where: str, refs: object) -> list[ObjectRef[Any]]:
    """The refs that a function was given, each of them once.

    Raises:
        TypeError: It is no list of refs.
        ValueError: One is there twice.
    """
    if isinstance(refs, ObjectRef) or not isinstance(refs, Sequence):
        raise TypeError(f"{where} takes a list of refs, not {refs!r}")
    given = list(cast("Sequence[ObjectRef[Any]]", refs))
    for ref in cast("list[object]", given):
        if not isinstance(ref, ObjectRef):
            raise TypeError(
                f"{where} takes refs, not {ref!r} ({type(ref).__name__}): "
                "handle.method.remote() gives one"
            )
    if len(set(given)) < len(given):
        raise ValueError(f"{where} takes each ref once: one of them is there twice")
    return given


def _until_enough(
    refs: list[ObjectRef[Any]], number: int, timeout: float | None
) -> Steps[tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]]:
    deadline = None if timeout is None else time.monotonic() + timeout
    left, is_late = timeout, False
    while not is_late:
        pending = [ref for ref in refs if not ref.done()]
        missing = number - (len(refs) - len(pending))
        if not pending or missing <= 0:
            break
        yield Wish(pending, missing, left)
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            is_late = not left
    ready = [ref for ref in refs if ref.done()][:number]
    chosen = set(ready)
    return ready, [ref for ref in refs if ref not in chosen]


async def run_soon(steps: Steps[T]) -> T:
    """Runs steps on the running loop."""
    while True:
        try:
            wish = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        await _soon(wish)


def run_here(steps: Steps[T]) -> T:
    """Runs steps on this thread, which is blocked meanwhile."""
    while True:
        try:
            wish = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        _here(cast("Sequence[ObjectRef[Any]]", wish.refs), wish.number, wish.timeout)


def refuse_loop(ref: asyncio.Future[Any]) -> None:
    """Refuses to block a thread that runs an event loop.

    Only where the loop of a ref has a thread of its own is any other free to stand
    still.

    Args:
        ref: What is waited for.

    Raises:
        RuntimeError: It does.
    """
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    home = cast("object", ref.get_loop())
    if running is None or (isinstance(home, Apart) and home is not running):
        return
    raise RuntimeError(
        "this thread runs an event loop, which get() and a plain 'for' would block: "
        "use 'await' or 'async for'"
    )


async def _soon(wish: Wish) -> None:
    loop = asyncio.get_running_loop()
    if any(ref.get_loop() is not loop for ref in wish.refs):
        await _elsewhere(loop, wish)
        return
    if wish.timeout is not None and wish.timeout <= 0:
        await asyncio.sleep(0)  # who only looks, in a loop, lets answers come
        return
    left = wish.number
    waiter: asyncio.Future[None] = loop.create_future()

    def one_done(_: object) -> None:
        nonlocal left
        left -= 1
        if left <= 0 and not waiter.done():
            waiter.set_result(None)

    watched = [*wish.refs] if wish.also is None else [*wish.refs, wish.also]
    for ref in watched:
        ref.add_done_callback(one_done)
    if wish.bell is not None:
        wish.bell.add(waiter)
    timer = None
    if wish.timeout is not None:
        timer = loop.call_later(wish.timeout, partial(wake, waiter))
    try:
        await waiter
    except asyncio.CancelledError:
        loosen(wish.refs)
        raise
    finally:
        for ref in watched:
            ref.remove_done_callback(one_done)
        if wish.bell is not None:
            wish.bell.remove(waiter)
        if timer is not None:
            timer.cancel()


async def _elsewhere(loop: asyncio.AbstractEventLoop, wish: Wish) -> None:
    """Lets a thread wait on behalf of a loop that the engine does not run on."""
    refs = cast("Sequence[ObjectRef[Any]]", wish.refs)
    blocking = partial(_here, refs, wish.number, wish.timeout)
    waits: list[asyncio.Future[Any]] = [loop.run_in_executor(None, blocking)]
    if wish.also is not None:
        waits.append(wish.also)
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)


def _here(refs: Sequence[ObjectRef[Any]], number: int, timeout: float | None) -> None:
    refuse_loop(refs[0])
    enough = _Enough(refs, number)
    try:
        enough.wait(timeout)
    except TimeoutError:
        pass
    finally:
        enough.forget()


class _Enough(ObjectRef[None]):
    """Done when enough of some refs are: what an engine lets a thread wait for."""

    __slots__ = ("_number", "_refs", "_then")

    _then: Callable[[object], object]

    def __init__(self, refs: Sequence[ObjectRef[Any]], number: int) -> None:
        super().__init__(loop=refs[0].get_loop())
        self.call = 0  # any of several may end the wait, so it is for no call's sake
        self._refs = refs
        self._number = number

    def wait(self, timeout: float | None) -> None:
        """Blocks this thread until it is done."""
        replier_of(self._refs[0]).wait(self, timeout)

    def done(self) -> bool:
        """Whether enough of them are, looked at now."""
        left = self._number
        for ref in self._refs:
            if ref.done():
                left -= 1
                if not left:
                    return True
        return False

    def add_done_callback(  # type: ignore[override]
        self, fn: Callable[[Any], object], /, *, context: object = None
    ) -> None:
        """Calls back when it is done; from the thread that fills the refs."""
        del context
        self._then = fn
        for ref in self._refs:
            ref.add_done_callback(self._one_done)
        self._one_done(None)

    def _one_done(self, _: object) -> None:
        if self.done():
            self._then(self)

    def forget(self) -> None:
        """Takes back what may have been left on the refs: each of them may wait on."""
        loop = cast("object", self.get_loop())
        if isinstance(loop, asyncio.AbstractEventLoop):  # else nothing ever is
            loop.call_soon_threadsafe(self._take_back)

    def _take_back(self) -> None:
        for ref in self._refs:
            ref.remove_done_callback(self._one_done)
