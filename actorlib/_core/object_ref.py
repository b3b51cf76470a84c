"""The result of a call, to be awaited: a standard future with an engine behind it.

An ``ObjectRef`` *is* an ``asyncio.Future``, so ``gather``, ``wait``, ``as_completed``
and ``wait_for`` take it as it is. Two things differ, because many may wait for one
result and the work is in another process:

* ``await ref`` waits through a waiter of its own. A wait that is cancelled or times
  out spoils no other; a plain future would be cancelled with it.
* When a cancelled wait leaves nobody who holds the ref, nobody can ever ask for the
  result, so the call itself is cancelled. ``async with asyncio.timeout(1): await
  h.slow.remote()`` stops the remote work; with ``ref = h.slow.remote()`` outside, it
  goes on.

``gather``, and ``wait_for`` of Python 3.11, cancel the very future that they were given
when they are cancelled or time out: that is asyncio's rule, and cancels the call.
``asyncio.shield(ref)`` keeps it.

For the second, the engine's table holds the ref strongly until a wait is cancelled
and weakly from then on, so the check costs nothing while nothing is cancelled.

Where the runtime's loop has a thread of its own, a ref is no future on any other loop
but merely something to be awaited, which ``gather`` and ``wait_for`` take too.

A loop for refs where none runs, as in plain methods.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar, cast

from actorlib._core.loop_thread import OTHER_LOOP, at_home, home_of
from actorlib._core.public import public
from actorlib._core.validation import truth
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable


R = TypeVar("R")
_future: Any = asyncio.Future  # at hand for every answer


class ResultOwner(Protocol):
    """What a ref needs of the engine that will fill it.

    One that knows what its calls are called also has ``called``, see ``Namer``.
    """

    def cancel(self, call: int, *, recursive: bool = True) -> bool | None:
        """Stops the call; its answer, if one still comes, is dropped.

        Args:
            call: Its number.
            recursive: Whether the calls that it has made are stopped too.

        Returns:
            True if its code may run on for a while, as an ``async def`` that cleans up,
            and the ref is told when that is over; else it is cancelled now.
        """
        ...

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref any more."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; may be called from any thread."""
        ...

    def name(self) -> bytes:
        """An id for what a ref stands for; no other process gives the same."""
        ...

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """How a ref is pickled into a value that is being sent.

        Raises:
            TypeError: It is pickled for something else.
            ValueError: It belongs to another runtime than the one that sends it.
        """
        ...

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until the ref is done.

        Raises:
            GetTimeoutError: It took longer than ``timeout`` seconds.
            RuntimeError: This thread must not block: it runs the event loop.
        """
        ...


class Namer(ResultOwner, Protocol):
    """A replier that keeps a table of its calls, where their names are looked up."""

    def called(self, call: int) -> str:
        """What a call is called in messages; empty if it is over, or not known.

        Args:
            call: Its number. From any thread.
        """
        ...


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable
    from contextvars import Context

    _Future = asyncio.Future
else:

    class _Future(asyncio.Future):
        """Only here so that ``ObjectRef[int]`` can be written at run time."""

        __slots__ = ()


_OF_ENGINES = frozenset(
    {
        "asked",
        "call",
        "set_exception",
        "set_result",
    }
)


@public("actorlib")
class ObjectRef(_Future[R]):
    """The result of a call, now or later.

    Await it as often and from as many tasks of the loop as you like: every wait gets
    the result, or raises what the method raised. A cancelled ``await`` spoils nothing,
    while ``gather``, and ``wait_for`` of Python 3.11, cancel the ref and its call with
    themselves, as they do with any future: ``asyncio.shield(ref)`` keeps it.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> ref = double.remote(1)
        >>> await ref, await ref  # as often as you like
        (2, 2)
        >>> await double.remote(double.remote(1))  # given to a call, it is its value
        4
    """

    __slots__ = ("_engine", "_kept", "_object_id", "asked", "call")

    call: int
    """The engine's number for the call."""
    asked: object
    """What was called, its ``str`` for messages, where its replier keeps no table."""
    _engine: ResultOwner
    _kept: tuple[Any, Collection[bytes] | None]
    """The value as it came, and what is in it; only if it lies in shared memory."""
    _object_id: bytes
    """What it is called in every process; only if somebody has asked."""
    # No slot: few are awaited themselves, and none pays for it before.
    _first: asyncio.Future[None] | None = None
    """What the first wait on its own loop waits for, if there is one."""
    _reader: object = None
    """The generator whose whole call it is; who waits for it reads on."""

    @property
    def _awaited(self) -> tuple[tuple[int, ...], int]:
        """Calls, and how many of them have to be answered until it is done.

        No calls if the engine does not know that by their numbers.
        """
        return ((self.call,), 1) if self.call else ((), 0)

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the result.

        Raises:
            TaskCancelledError: The call was cancelled, by whoever it was.
            asyncio.CancelledError: This wait was cancelled; the ref is not.
            Exception: What the method raised, or ActorDiedError.
        """
        if not self.done():
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None]
            undo: Callable[[object], None] | None = None
            if loop is not self.get_loop():
                waiter, undo = self._from_afar(loop)
            elif self._first is None:
                # Woken as the ref is filled, and not by a callback one turn later.
                waiter = self._first = loop.create_future()
            else:
                waiter = loop.create_future()
                undo = partial(wake, waiter)
                self.add_done_callback(undo)
            try:
                yield from waiter
            except asyncio.CancelledError:
                if undo is not None:
                    self.remove_done_callback(undo)
                elif self._first is waiter:
                    self._first = None
                loosen((self,))
                # The traceback keeps this frame, and the frame would keep the ref.
                del self
                raise
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def set_result(self, result: R, /) -> None:
        """Fills the ref; see asyncio.Future."""
        _future.set_result(self, result)
        if self._first is not None:
            wake(self._first)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Fails the ref; see asyncio.Future."""
        _future.set_exception(self, exception)
        if self._first is not None:
            wake(self._first)

    def _from_afar(
        self, loop: asyncio.AbstractEventLoop
    ) -> tuple[asyncio.Future[None], Callable[[object], None] | None]:
        """What wakes a task on a loop that the engine does not run on."""
        home = home_of(self.get_loop())
        if home is None:
            # For example asyncio.run() inside a plain method: let a thread wait on
            # its behalf.
            blocking = partial(self._engine.wait, self, None)
            return loop.run_in_executor(None, blocking), None
        if home.is_here():
            raise RuntimeError(OTHER_LOOP)
        home.check()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake_there(_: object) -> None:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(wake, waiter)

        home.watch(self, wake_there)
        return waiter, wake_there

    def cancel(
        self, msg: Any | None = None, *, recursive: bool = True, force: bool = False
    ) -> bool:
        """Cancels the call, waiting or running; False if it is done already.

        A running ``async def`` gets ``CancelledError`` at its await, and the ref is
        cancelled when the method has cleaned up and ended, as a task is; a running
        plain method is not interrupted, its result is dropped.

        Args:
            msg: As for any future. Default: None.
            recursive: Whether the calls that it has made are cancelled too. Default:
                True.
            force: Whether the process of a running function is ended; there is no force
                for a call of an actor but ``kill``. Default: False.

        Raises:
            TypeError: ``recursive`` or ``force`` is no bool.
            ValueError: ``force`` for what is no call of a function made here.
        """
        truth("recursive", recursive)
        truth("force", force)
        return at_home(self, partial(self._cancel, msg, recursive, force))

    def _cancel(
        self,
        msg: Any | None,
        recursive: bool,  # noqa: FBT001  # of the one that was asked
        force: bool,  # noqa: FBT001  # likewise
    ) -> bool:
        stop = getattr(self._engine, "force", None) if force else None
        if force and stop is None:
            raise ValueError(
                "force=True ends the process that runs a remote function, where it was "
                "called; an actor would end with the calls of others: kill(handle) "
                "does that. cancel() asks is_canceled() to be looked at"
            )
        if self.done():
            return False
        if stop is not None:
            stop(self.call, recursive=recursive)
        elif self._engine.cancel(self.call, recursive=recursive):
            return True  # it is told when it has ended
        give_up(self, msg)
        return True

    def get(self, timeout: float | None = None) -> R:
        """Blocks this thread until the result is there: for plain methods of actors.

        Args:
            timeout: Seconds to wait at the most, or None for as long as it takes.
                Default: None.

        Raises:
            GetTimeoutError: The result did not come in time; the call goes on.
            RuntimeError: This thread runs the event loop: await the ref instead.
            TaskCancelledError: The call was cancelled.
            Exception: What the method raised, or ActorDiedError.
        """
        if not self.done():
            self._engine.wait(self, timeout)
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def future(self) -> concurrent.futures.Future[R]:
        """The result as a future for threads, as ``concurrent.futures`` takes it.

        Cancelling it gives up that future; the call goes on.
        """
        made = _Passed(self)
        self._engine.watch(self, made.settle)
        return made

    def _on_completed(self, callback: Callable[[Any], None]) -> None:
        """Calls back once with the value, or with the error, as older scripts ask it.

        It is called where refs are filled, on the runtime's loop; soon if that is over.
        """

        def tell() -> None:
            if self.cancelled():
                callback(TaskCancelledError("the call was cancelled"))
            else:
                callback(self.exception() or self.result())

        self._engine.watch(self, tell)

    def hex(self) -> str:
        """What it is called in every process, in hex."""
        return object_id_of(self).hex()

    def __repr__(self) -> str:
        """Its state, and while it is pending which call it is of, if that is known."""
        shown = super().__repr__()
        where = "" if self.done() else called(self)
        return shown.replace("pending", f"pending: {where}", 1) if where else shown

    def __dir__(self) -> list[str]:
        """What is there for users; what fills a ref is the engine's."""
        return sorted(set(object.__dir__(self)) - _OF_ENGINES)

    def __reduce__(self) -> tuple[object, ...]:
        return self._engine.travel(self)

    if not TYPE_CHECKING:  # type checkers refuse them by themselves
        # What is done with a ref as if it were the value: it is not there yet.
        def __bool__(self) -> NoReturn:
            """Refuses: a ref is always something, whatever its value is."""
            raise _not_awaited("bool(ref)")

        def __getitem__(self, key: object) -> NoReturn:
            """Refuses: it is the value that has items."""
            raise _not_awaited(f"ref[{key!r}]")

        def __len__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("len(ref)")

        def __int__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("int(ref)")

        def __float__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("float(ref)")

        def __add__(self, other: object) -> NoReturn:
            """Refuses likewise, as do all other operators."""
            del other
            raise _not_awaited("ref + ...")

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __add__
        __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __xor__ = __add__


class BorrowedRef(ObjectRef[R]):
    """A ref that came from another process; its value comes when it is wanted."""

    __slots__ = ("_revoke", "_want")

    _want: Callable[[], None] | None
    """Asks for the value, once."""
    _revoke: Callable[[], None]
    """Cancels the call that it is the result of."""

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Calls back when it is done, and asks for its value; see asyncio.Future."""
        ask_for(self)
        super().add_done_callback(fn, context=context)

    def get(self, timeout: float | None = None) -> R:
        """Blocks this thread until the result is there; see ObjectRef."""
        ask_for(self)
        return super().get(timeout)

    def cancel(
        self, msg: Any | None = None, *, recursive: bool = True, force: bool = False
    ) -> bool:
        """Cancels the call that it is the result of, and what that has called."""
        if not self.done() and not force:
            at_home(self, self._revoke)
        return super().cancel(msg, recursive=recursive, force=force)

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the result, and asks for it; see ObjectRef."""
        if not self.done():
            ask_for(self)
        return super().__await__()


REFS = frozenset({ObjectRef, BorrowedRef})
"""What arrives as its value where it is an argument by itself."""


def be_known_by_home() -> None:
    """From now on a ref is a future to the loop that it is of, and to no other.

    ``gather`` and ``wait_for`` of another loop would refuse a future of this one, and
    take what is merely to be awaited. It is what ``asyncio.isfuture`` looks at, and a
    look costs 0.3 us instead of none; so only a process whose runtime has a loop in a
    thread of its own says so.
    """
    cast("Any", ObjectRef)._asyncio_future_blocking = property(_known_as)  # noqa: SLF001  # asyncio's name for it


def _known_as(ref: ObjectRef[Any]) -> bool | None:
    """What asyncio knows a future by; None is none."""
    return False if asyncio._get_running_loop() is ref.get_loop() else None  # noqa: SLF001  # it is for loops to look at


# What engines do with refs, out of the sight of users.


class Numbered(Protocol):
    """What an engine knows by the number of a call: a ref, or a stream."""

    call: int
    _engine: ResultOwner


def bind(ref: Numbered, engine: ResultOwner, call: int) -> None:
    """Tells a ref who will fill it, and by which number it is called there."""
    ref._engine = engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    ref.call = call


def give_up(ref: ObjectRef[Any], msg: Any | None = None) -> None:
    """Makes a ref cancelled, and leaves the call to whoever asks that."""
    _future.cancel(ref, msg)
    first = ref._first  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    if first is not None:
        wake(first)


def keep(ref: ObjectRef[Any], payload: Any, loans: Collection[bytes] | None) -> None:
    """Keeps the value of a ref as it came, for passing it on.

    Args:
        ref: The ref.
        payload: The value.
        loans: What is in it and counted.
    """
    ref._kept = payload, loans  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def kept_of(ref: ObjectRef[Any]) -> tuple[Any, Any] | None:
    """The value of a ref as it came, and what is in it, if that was kept."""
    return getattr(ref, "_kept", None)


def object_id_of(ref: ObjectRef[Any]) -> bytes:
    """What a ref is called in every process."""
    try:
        return ref._object_id  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    except AttributeError:
        made = ref._object_id = replier_of(ref).name()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # likewise
        return made


def read_by(ref: ObjectRef[Any], reader: object) -> None:
    """Makes the ref of a whole call keep its generator: who waits for it reads on."""
    ref._reader = reader  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def awaited_by(ref: ObjectRef[Any]) -> tuple[tuple[int, ...], int]:
    """Calls, and how many of them have to be answered until a ref is done."""
    return ref._awaited  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def borrow(
    ref: BorrowedRef[Any],
    want: Callable[[], None],
    revoke: Callable[[], None],
    object_id: bytes | None = None,
) -> None:
    """Tells a ref that came from elsewhere how to get its value.

    Args:
        ref: The ref.
        want: Asks for the value; called once.
        revoke: Cancels the call that it is the result of.
        object_id: What it is called in every process, if that is known.
    """
    ref._want, ref._revoke = want, revoke  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    if object_id is not None:
        ref._object_id = object_id  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # likewise


def ask_for(ref: BorrowedRef[Any]) -> None:
    """Asks for the value of a ref that came from elsewhere, if nobody has."""
    want, ref._want = ref._want, None  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    if want is not None:
        at_home(ref, want)


def watch(ref: ObjectRef[Any], then: Callable[[], None]) -> None:
    """Calls back once when a ref is done; from the thread that fills it."""
    ref._engine.watch(ref, then)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def replier_of(ref: ObjectRef[Any]) -> ResultOwner:
    """Who fills a ref, and lets threads wait for it."""
    return ref._engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file


def called(ref: ObjectRef[Any]) -> str:
    """What the call of a ref is called in messages; empty if that is not known."""
    replier: object = getattr(ref, "_engine", None)
    if replier is None:  # nobody fills it yet, and a repr never raises
        return ""
    return named(replier, ref.call) or str(getattr(ref, "asked", ""))


def named(replier: object, call: int) -> str:
    """What a replier calls one of its calls; empty if it keeps no table of them."""
    name: Callable[[int], str] | None = getattr(replier, "called", None)
    return "" if name is None else name(call)


def _not_awaited(what: str) -> TypeError:
    return TypeError(
        f"{what}: a ref is the result of a call that may still be running, and no "
        "value yet: write 'await ref', or in plain code ref.get(), and use what that "
        "gives. A call takes the ref itself as an argument"
    )


class _Passed(concurrent.futures.Future[R]):
    """A ref's result for threads; who holds it holds the ref."""

    def __init__(self, ref: ObjectRef[R]) -> None:
        super().__init__()
        self._ref = ref

    def settle(self) -> None:
        ref = self._ref
        if not self.set_running_or_notify_cancel():
            return
        if ref.cancelled():
            self.set_exception(TaskCancelledError("the call was cancelled"))
            return
        error = ref.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(ref.result())


def loosen(refs: Iterable[asyncio.Future[Any]]) -> None:
    """A wait for some refs was cancelled: nobody may be left who holds one of them."""
    for ref in refs:
        if isinstance(ref, ObjectRef) and not ref.done():
            at_home(ref, partial(replier_of(ref).loosen, ref))


def wake(waiter: asyncio.Future[None], _: object = None) -> None:
    """Ends a wait; harmless if it has ended. Futures call it with themselves."""
    if not waiter.done():
        waiter.set_result(None)


def unlooped(
    error: Callable[[dict[str, Any]], None] | None = None,
) -> asyncio.AbstractEventLoop:
    """What a ref takes for its loop where none runs: callbacks run at once.

    Args:
        error: Gets the report of a failure that nobody looked at; by default it is
            logged.
    """
    return cast("asyncio.AbstractEventLoop", _Unlooped(error or _log_failure))


def _log_failure(report: dict[str, Any]) -> None:
    import logging  # noqa: PLC0415  # only this rare report needs it in a worker

    logging.getLogger("actorlib").error(
        "%s", report.get("message"), exc_info=report.get("exception")
    )


class _Unlooped:
    def __init__(self, error: Callable[[dict[str, Any]], None]) -> None:
        self.call_exception_handler = error

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: object = None
    ) -> None:
        del context
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001  # what a loop does with it
            report = {"message": f"{callback!r} failed", "exception": error}
            self.call_exception_handler(report)
