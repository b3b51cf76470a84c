"""``ObjectRef``, the future of a call's result.

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

Where the runtime's loop has a thread of its own, refs are hidden from
``asyncio.isfuture`` on any other loop: there they are plain awaitables, which
``gather`` and ``wait_for`` take too. Where no loop runs at all, as in plain methods of
actors, refs are made with ``immediate_loop``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextlib import suppress
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
)

from actorlib._base.public import public
from actorlib._base.validation import check_bool
from actorlib._futures.tally import TalliedWait, Tally
from actorlib._loops.loop_thread import OTHER_LOOP, portal_of, run_on_loop_of
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable
    from contextvars import Context


R = TypeVar("R")
_future: Any = asyncio.Future  # looked up once, as every answer needs it
_result_of: Any = _future.result

IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes})
"""The classes of values that cannot be changed: exact, as a subclass may be mutable."""

KeptValue: TypeAlias = "tuple[Any, Collection[bytes] | None, object, bool]"
"""The value of a ref as it was produced, to be sent and to be decoded once more: the
payload, or a function that makes the value once more; the ids that are counted in it;
what holds those; whether the object that was decoded first was handed out."""
_cell_checks: list[Callable[[], bool]] = []
"""Say whether the user interrupts what is running now: in a notebook alone."""
# Reentrant: a signal handler may interrupt its holder and ask for a result, too.
_handing_out = threading.RLock()


class Waiter(Protocol):
    """What a ref wakes as it is filled: a future, for example."""

    def done(self) -> bool:
        """Whether it was woken."""
        ...

    def set_result(self, result: None, /) -> None:
        """Wakes it."""
        ...


class ResultOwner(Protocol):
    """What a ref needs of whatever fills it.

    The owner's ``CallRouter`` and ``TaskPool``, the worker's clients, Ray's tasks and
    ``StreamReader`` implement it, and ``QueueClient`` for the answers of a queue. Three
    methods are optional, looked up by their name: ``label_of(call)`` returns the name
    of a call in messages; ``force_cancel(call, recursive=...)`` cancels a call and ends
    the process that runs it; ``interrupt(call, recursive=...)`` cancels a call as
    ``cancel`` does, and a plain method also where it is.
    """

    def cancel(self, call: int, *, recursive: bool = True) -> bool | None:
        """Cancels the call; its answer, if one still comes, is dropped.

        Args:
            call: Its number.
            recursive: If True, the calls that it has made are cancelled, too.

        Returns:
            True if its code may run on for a while, as an ``async def`` that cleans up,
            and the ref is cancelled when that is over; else the caller cancels it.
        """
        ...

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """From now on, cancels the call as soon as nobody holds the ref."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; may be called from any thread."""
        ...

    def name(self) -> bytes:
        """Makes an id for what a ref stands for, unique among all processes."""
        ...

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Reduces a ref for pickle, in a value that is being sent.

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


if TYPE_CHECKING:
    _Future = asyncio.Future
else:

    class _Future(asyncio.Future):
        """Only here so that ``ObjectRef[int]`` can be written at run time."""

        __slots__ = ()


_OF_ENGINES = frozenset(
    {
        "awaited_calls",
        "bind",
        "block_until_done",
        "call",
        "call_label",
        "call_when_filled",
        "callee",
        "fetch",
        "first_waiter",
        "generator",
        "give_value",
        "hand_out",
        "interrupt_call",
        "kept_value",
        "object_id",
        "release_if_unused",
        "result_owner",
        "set_cancelled",
        "set_exception",
        "set_result",
        "set_source",
        "watch",
    }
)


def _not_awaited(what: str) -> TypeError:
    return TypeError(
        f"{what}: a ref is the result of a call that may still be running, and not a "
        "value yet: write 'await ref', or in plain code ref.get(), and use the value "
        "that this returns. A call takes the ref itself as an argument"
    )


def _refusing(expression: str) -> Callable[..., NoReturn]:
    """Makes a special method that raises TypeError: the ref has no value yet."""

    def refuse(*_: object) -> NoReturn:
        raise _not_awaited(expression)

    return refuse


@public("actorlib")
class ObjectRef(_Future[R]):
    """The result of a call, now or later.

    Await it as often and from as many tasks of the loop as you like: every wait gets
    the result, or raises what the method raised. A cancelled ``await`` spoils no other
    wait. But ``gather``, and ``wait_for`` of Python 3.11, cancel the ref and its call
    when they are cancelled, as they do with any future: ``asyncio.shield(ref)`` keeps
    it.

    Every wait in one process gets the same object. What is done to that object is seen
    there alone: whoever is sent the ref gets the result as it was produced. For that
    the encoded result stays with the ref, unless it is None, a number, ``str`` or
    ``bytes``. Actors whose handles are in it live until the ref is dropped.

    Operators such as ``+`` and ``>`` raise TypeError, as the value may not be there
    yet. ``==`` compares the refs and not their values: ``ref == 3`` is False.

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

    __slots__ = ("_object_id", "_payload", "call", "callee", "result_owner")

    call: int
    """The engine's number for the call."""
    callee: object
    """What was called, for messages, where its result owner keeps no table of calls."""
    result_owner: ResultOwner
    """Fills it."""
    _payload: KeptValue | None
    """The value as it was produced; None if it cannot be changed. Set with it."""
    _object_id: bytes
    """Its id in every process; only once somebody has asked for it."""
    # No slot: few are awaited one by one, and making a ref must not cost more.
    first_waiter: Waiter | None = None
    """What is woken as it is filled: the first wait on its own loop, or a tally."""
    generator: object = None
    """The generator whose whole call it is; the ref keeps it alive."""

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
            callback: Callable[[object], None] | None = None
            if loop is not self.get_loop():
                waiter, callback = self._waiter_on(loop)
            elif self.first_waiter is None:
                # Done as the ref is filled, and not by a callback one turn later.
                waiter = self.first_waiter = loop.create_future()
            else:
                waiter = loop.create_future()
                if not self._wake_beside(waiter):
                    callback = partial(end_wait, waiter)
                    self.add_done_callback(callback)
            try:
                yield from waiter
            except asyncio.CancelledError:
                if callback is not None:
                    self.remove_done_callback(callback)
                elif self.first_waiter is waiter:
                    self.first_waiter = None
                elif type(self.first_waiter) is TalliedWait:
                    self.first_waiter.waiter = None
                release_if_unused((self,))
                # The traceback keeps this frame, and the frame would keep the ref.
                del self
                raise
        try:
            is_immutable = self._payload is None
        except AttributeError:  # it has no value
            is_immutable = False
        if is_immutable:  # as below, at hand for most
            value: R = _result_of(self)
            return value
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def result(self) -> R:
        """Returns the result, the same object each time; see asyncio.Future."""
        value: R = _result_of(self)
        kept = self._payload
        if kept is not None and not kept[3]:
            self._payload = (kept[0], kept[1], kept[2], True)
        return value

    def set_result(self, result: R, kept: KeptValue | None = None, /) -> None:
        """Fills the ref; see asyncio.Future.

        Args:
            result: The value.
            kept: The same as it was produced; None if it cannot be changed. Default:
                None.
        """
        self._payload = kept  # first: there are loops that call back at once
        try:
            _future.set_result(self, result)
        except asyncio.InvalidStateError:
            del self._payload
            raise
        waiter = self.first_waiter
        if type(waiter) is Tally:
            waiter.ok += 1
        elif waiter is not None:
            end_wait(waiter)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Fails the ref; see asyncio.Future."""
        _future.set_exception(self, exception)
        if self.first_waiter is not None:
            self._end_failed_wait()

    def _waiter_on(
        self, loop: asyncio.AbstractEventLoop
    ) -> tuple[asyncio.Future[None], Callable[[object], None] | None]:
        """Makes the future of a wait on another loop, and its done callback."""
        home = portal_of(self.get_loop())
        if home is None:
            # For example asyncio.run() in a plain method: a thread of it waits.
            blocking = partial(self.result_owner.wait, self, None)
            return loop.run_in_executor(None, blocking), None
        if home.is_here():
            raise RuntimeError(OTHER_LOOP)
        home.check()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake_waiter(_: object) -> None:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(end_wait, waiter)

        home.watch(self, wake_waiter)
        return waiter, wake_waiter

    def cancel(
        self,
        msg: Any | None = None,
        *,
        recursive: bool = True,
        force: bool = False,
        interrupt: bool = False,
    ) -> bool:
        """Cancels the call, waiting or running; False if it is done already.

        A running ``async def`` gets ``CancelledError`` at its await, and the ref is
        cancelled when the method has cleaned up and ended, as a task is; a running
        plain method is not interrupted unless that is asked for, its result is dropped.

        Args:
            msg: As for any future. Default: None.
            recursive: If True, the calls that it has made are cancelled, too. Default:
                True.
            force: If True, the process of a running function is ended. A call of an
                actor does not take it: ``kill`` ends the actor. Default: False.
            interrupt: If True, a running plain method gets ``KeyboardInterrupt`` where
                it is; see ``actorlib.cancel``. Default: False.

        Raises:
            TypeError: ``recursive``, ``force`` or ``interrupt`` is no bool.
            ValueError: ``force`` for what is no call of a function made here;
                ``interrupt`` for a call that this program has not made itself, or with
                ``force``.
        """
        check_bool("recursive", recursive)
        check_bool("force", force)
        check_bool("interrupt", interrupt)
        if interrupt and force:
            raise ValueError(
                "interrupt=True and force=True exclude each other: force ends the "
                "process that runs a function, and needs no interruption before"
            )
        is_cell_interrupted = not force and _is_cell_interrupted()
        # The loop decides what is possible: a call of another thread has its result
        # owner when it has crossed to the loop, and not before.
        cancel = partial(self._cancel, msg, recursive, force)
        return run_on_loop_of(self, partial(cancel, interrupt, is_cell_interrupted))

    def _interruption(self) -> Callable[..., bool | None]:
        interrupt = getattr(self.result_owner, "interrupt", None)
        if interrupt is None:
            raise ValueError(
                "interrupt=True is for a call of an actor or a function in the program "
                "that has started the runtime and has made the call, and not on Ray. "
                "Elsewhere cancel(ref) stops what waits, and is_canceled() tells a "
                "running method"
            )
        return cast("Callable[..., bool | None]", interrupt)

    def _cancel(
        self,
        msg: Any | None,
        recursive: bool,  # noqa: FBT001  # by partial() alone
        force: bool,  # noqa: FBT001  # likewise
        interrupt: bool,  # noqa: FBT001  # likewise
        is_cell_interrupted: bool,  # noqa: FBT001  # likewise
    ) -> bool:
        owner = self.result_owner
        cancel = owner.cancel
        if interrupt:
            cancel = self._interruption()
        elif is_cell_interrupted:
            cancel = getattr(owner, "interrupt", cancel) or cancel
        force_cancel = getattr(owner, "force_cancel", None) if force else None
        if force and force_cancel is None:
            raise ValueError(
                "force=True is for a ref of a remote function, in the process that has "
                "called it: it ends the process that runs the call. For an actor write "
                "kill(handle), which ends it with all calls of others; without force, "
                "a running method sees the cancellation by is_canceled()"
            )
        if self.done():
            return False
        if force_cancel is not None:
            force_cancel(self.call, recursive=recursive)
        elif cancel(self.call, recursive=recursive):
            return True  # it is cancelled once its code has ended
        self.set_cancelled(msg)
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
            self.block_until_done(timeout)
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def future(self) -> concurrent.futures.Future[R]:
        """Gives the result as a future for threads, as ``concurrent.futures`` takes it.

        Cancelling it gives up that future; the call goes on.
        """
        future = _ThreadFuture(self)
        self.watch(future.settle)
        return future

    def _on_completed(self, callback: Callable[[Any], None]) -> None:
        """Calls back once with the value or the error; for scripts written for Ray.

        It runs where refs are filled: on the runtime's loop.
        """

        def call_back() -> None:
            if self.cancelled():
                callback(TaskCancelledError("the call was cancelled"))
            else:
                callback(self.exception() or self.result())

        self.watch(call_back)

    def hex(self) -> str:
        """Its id, in hex; the same in every process."""
        return self.object_id.hex()

    def __repr__(self) -> str:
        """Its state, and the name of its call, while it is pending or if that raised.

        asyncio logs this for an error that no caller has received.
        """
        text = super().__repr__()
        state, label = "pending", ""
        if not self.done():
            label = self.call_label
        elif not self.cancelled():
            # Not by exception(), which would mark the error as received.
            state, label = "finished", getattr(self._exception, "where", "")
        return text.replace(state, f"{state}: {label}", 1) if label else text

    def __dir__(self) -> list[str]:
        """Leaves out what engines need."""
        return sorted(set(object.__dir__(self)) - _OF_ENGINES)

    def __reduce__(self) -> tuple[object, ...]:
        return self.result_owner.travel(self)

    # For engines; dir() does not list these.

    def bind(self, engine: ResultOwner, call: int) -> None:
        """Gives it its result owner, and the number of its call there."""
        self.result_owner = engine
        self.call = call

    def set_cancelled(self, msg: Any | None = None) -> None:
        """Marks it as cancelled; does not cancel its call."""
        _future.cancel(self, msg)
        self._end_failed_wait()

    @property
    def kept_value(self) -> KeptValue | None:
        """Its value as it was produced; None if that was not kept."""
        return getattr(self, "_payload", None)

    def give_value(self, to: ObjectRef[R]) -> None:
        """Fills another ref with its value, and with what it has kept."""
        to.set_result(_result_of(self), self.kept_value)

    def hand_out(self) -> bool:
        """Notes that somebody has its object and may change it.

        Returns:
            Whether somebody had it before.
        """
        with _handing_out:
            kept = self.kept_value
            if kept is None or kept[3]:
                return kept is not None
            self._payload = (*kept[:3], True)
        return False

    @property
    def object_id(self) -> bytes:
        """Its id, the same in every process."""
        try:
            return self._object_id
        except AttributeError:
            made = self._object_id = self.result_owner.name()
            return made

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The calls that it waits for, and how many of them have to be answered.

        No calls if the engine does not know them by their numbers.
        """
        return ((self.call,), 1) if self.call else ((), 0)

    @property
    def call_label(self) -> str:
        """The name of its call in messages; empty if that is not known."""
        owner: object = getattr(self, "result_owner", None)
        if owner is None:  # it is not bound yet, and a repr must not raise
            return ""
        return label_of_call(owner, self.call) or str(getattr(self, "callee", ""))

    def block_until_done(self, timeout: float | None) -> None:
        """Blocks this thread until it is done; see ``get``."""
        try:
            self.result_owner.wait(self, timeout)
        except KeyboardInterrupt:
            interrupt_calls((self,))
            raise

    def watch(self, then: Callable[[], None]) -> None:
        """Calls back once when it is done, on the thread that fills it."""
        self.result_owner.watch(self, then)

    def call_when_filled(self, then: Callable[[], object]) -> None:
        """Calls back as it is filled, by whoever fills it.

        A done callback is called by the loop, which stands still where a plain method
        of an actor waits; so what such a method may wait for is filled by this. A ref
        that is cancelled calls done callbacks alone. On the thread of the ref's loop.
        """
        if self.done():
            then()
            return
        filled = _Filled(then)
        if not self._wake_beside(filled):
            self.first_waiter = filled

    def _wake_beside(self, waiter: Waiter) -> bool:
        """Has a waiter woken by what counts its call, if that can be."""
        first = self.first_waiter
        if type(first) is Tally:
            self.first_waiter = TalliedWait(first, waiter)
        elif type(first) is TalliedWait and first.waiter is None:
            first.waiter = waiter
        else:
            return False
        return True

    def _end_failed_wait(self) -> None:
        """Ends the wait for it when it is done without a value."""
        waiter = self.first_waiter
        if isinstance(waiter, Tally | TalliedWait):
            waiter.count(self)
        elif waiter is not None:
            end_wait(waiter)

    def interrupt_call(self) -> None:
        """Interrupts its call, as a cell that waits for it was interrupted."""
        # What has no number is not a call: the next item of a stream, for example.
        if self.call:
            how = {"recursive": True, "force": False, "interrupt": False}
            self._cancel(None, is_cell_interrupted=True, **how)

    def release_if_unused(self) -> None:
        """Cancels its call as soon as nobody holds it; on the loop.

        Before, a call of another thread that has not crossed to the loop has no result
        owner yet that could cancel it.
        """
        self.result_owner.release_if_unused(self)

    if not TYPE_CHECKING:  # type checkers refuse them by themselves
        # Operators that would be meant for the value, which is not there yet.
        def __bool__(self) -> NoReturn:
            """Refuses: a ref is always something, whatever its value is."""
            raise _not_awaited("bool(ref)")

        def __getitem__(self, key: object) -> NoReturn:
            """Refuses: it is the value that has items."""
            raise _not_awaited(f"ref[{key!r}]")

        def __len__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("len(ref)")

        def __iter__(self) -> NoReturn:
            """Refuses likewise; a future that is done would seem to be empty."""
            raise _not_awaited("iter(ref)")

        def __int__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("int(ref)")

        def __float__(self) -> NoReturn:
            """Refuses likewise."""
            raise _not_awaited("float(ref)")

        __neg__ = _refusing("-ref")
        __abs__ = _refusing("abs(ref)")
        __add__, __radd__ = _refusing("ref + ..."), _refusing("... + ref")
        __sub__, __rsub__ = _refusing("ref - ..."), _refusing("... - ref")
        __mul__, __rmul__ = _refusing("ref * ..."), _refusing("... * ref")
        __truediv__, __rtruediv__ = _refusing("ref / ..."), _refusing("... / ref")
        __floordiv__, __rfloordiv__ = _refusing("ref // ..."), _refusing("... // ref")
        __mod__, __rmod__ = _refusing("ref % ..."), _refusing("... % ref")
        __pow__, __rpow__ = _refusing("ref ** ..."), _refusing("... ** ref")
        __matmul__, __rmatmul__ = _refusing("ref @ ..."), _refusing("... @ ref")
        __and__, __or__ = _refusing("ref & ..."), _refusing("ref | ...")
        __xor__ = _refusing("ref ^ ...")
        __lt__, __le__ = _refusing("ref < ..."), _refusing("ref <= ...")
        __gt__, __ge__ = _refusing("ref > ..."), _refusing("ref >= ...")


class BorrowedRef(ObjectRef[R]):
    """A ref that came from another process; its value is fetched on the first wait."""

    __slots__ = ("_cancel_call", "_fetch")

    _fetch: Callable[[], None] | None
    """Asks for the value; None once it was called."""
    _cancel_call: Callable[[], None]
    """Cancels the call that it is the result of."""

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Calls back when it is done, and fetches its value; see asyncio.Future."""
        self.fetch()
        super().add_done_callback(fn, context=context)

    def cancel(
        self,
        msg: Any | None = None,
        *,
        recursive: bool = True,
        force: bool = False,
        interrupt: bool = False,
    ) -> bool:
        """Cancels the call that it is the result of, and what that has called."""
        if not self.done() and not force and not interrupt:
            run_on_loop_of(self, self._cancel_call)
        return super().cancel(
            msg, recursive=recursive, force=force, interrupt=interrupt
        )

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the result, and fetches it; see ObjectRef."""
        if not self.done():
            self.fetch()
        return super().__await__()

    def set_source(
        self,
        fetch: Callable[[], None],
        cancel_call: Callable[[], None],
        object_id: bytes | None = None,
    ) -> None:
        """Gives it the means to get its value.

        Args:
            fetch: Asks for the value; called once.
            cancel_call: Cancels the call that it is the result of.
            object_id: Its id, if that is known.
        """
        self._fetch, self._cancel_call = fetch, cancel_call
        if object_id is not None:
            self._object_id = object_id

    def fetch(self) -> None:
        """Fetches its value, unless that was done before."""
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            run_on_loop_of(self, fetch)

    def block_until_done(self, timeout: float | None) -> None:
        """Blocks this thread until it is done, and fetches its value; see ObjectRef."""
        self.fetch()
        if not self.done():  # else its value was here
            super().block_until_done(timeout)


REFS = frozenset({ObjectRef, BorrowedRef})
"""The classes that an argument has if it is replaced by its value."""


def hide_from_other_loops() -> None:
    """From now on, hides refs from ``asyncio.isfuture`` on loops that they are not of.

    ``gather`` and ``wait_for`` on another loop refuse a future of this one, and take a
    plain awaitable. The look-up of ``isfuture`` then costs 0.3 us instead of none, so
    only a process does so whose runtime's loop has a thread of its own.
    """
    cast("Any", ObjectRef)._asyncio_future_blocking = property(_future_mark)  # noqa: SLF001  # asyncio's name for it


def _future_mark(ref: ObjectRef[Any]) -> bool | None:
    """The attribute by which asyncio knows futures; None means that it is none."""
    return False if asyncio._get_running_loop() is ref.get_loop() else None  # noqa: SLF001  # it is for loops to look at


def mark_seen(ref: asyncio.Future[Any]) -> None:
    """Marks the error of a done ref as seen, so that asyncio does not log it."""
    if not ref.cancelled():
        ref.exception()


def label_of_call(owner: object, call: int) -> str:
    """The name that a result owner has for a call; empty if it keeps no table."""
    label: Callable[[int], str] | None = getattr(owner, "label_of", None)
    return "" if label is None else label(call)


class _ThreadFuture(concurrent.futures.Future[R]):
    """The result of a ref as a ``concurrent.futures.Future``; it holds the ref."""

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


def interrupt_with_cells(is_interrupted: Callable[[], bool]) -> None:
    """From now on, interrupts the calls that an interrupted cell of a notebook awaits.

    Args:
        is_interrupted: Whether the user has interrupted the cell that runs.
    """
    _cell_checks[:] = (is_interrupted,)


def _is_cell_interrupted() -> bool:
    return any(is_interrupted() for is_interrupted in _cell_checks)


def interrupt_calls(refs: Iterable[asyncio.Future[Any]]) -> bool:
    """Interrupts the calls whose refs an interrupted cell waits for; else does nothing.

    Returns:
        Whether it has.
    """
    if not _is_cell_interrupted():
        return False
    for ref in refs:
        if isinstance(ref, ObjectRef):
            run_on_loop_of(ref, ref.interrupt_call)
    return True


def release_if_unused(refs: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels the calls of those refs that nobody holds; after a cancelled wait."""
    if interrupt_calls(refs):
        return
    for ref in refs:
        if isinstance(ref, ObjectRef) and not ref.done():
            run_on_loop_of(ref, ref.release_if_unused)


def end_wait(waiter: Waiter, _: object = None) -> None:
    """Ends a wait; harmless if it has ended. May be a done callback."""
    if not waiter.done():
        waiter.set_result(None)


class _Filled:
    """What a ref wakes as it is filled, in the place of its first waiter."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then: Callable[[], object] | None = then

    def done(self) -> bool:
        return self._then is None

    def set_result(self, _: None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()


def immediate_loop(
    error: Callable[[dict[str, Any]], None] | None = None,
) -> asyncio.AbstractEventLoop:
    """Makes a loop for refs where none runs, which runs callbacks at once.

    Args:
        error: The exception handler; see asyncio. By default errors are logged.
    """
    return cast("asyncio.AbstractEventLoop", _ImmediateLoop(error or _log_failure))


def _log_failure(report: dict[str, Any]) -> None:
    import logging  # noqa: PLC0415  # only this rare report needs it in a worker

    logging.getLogger("actorlib").error(
        "%s", report.get("message"), exc_info=report.get("exception")
    )


class _ImmediateLoop:
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
