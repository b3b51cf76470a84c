"""``ObjectRef``, the future of a call's result.

An ``ObjectRef`` *is* an ``asyncio.Future``, so ``gather``, ``wait``, ``as_completed``
and ``wait_for`` accept it. Two things differ, because several tasks may wait for one
result and the work is in another process:

* ``await ref`` waits through a separate waiter. A wait that is cancelled or times out
  does not affect other waits; a plain future would be cancelled with it.
* If a cancelled wait was the last holder of the ref, no code can read the result, so
  the call itself is cancelled. ``async with asyncio.timeout(1): await
  h.slow.remote()`` stops the remote work; with ``ref = h.slow.remote()`` outside, it
  continues.

``gather``, and ``wait_for`` of Python 3.11, cancel the future itself when they are
cancelled or time out: that is asyncio's rule, and cancels the call.
``asyncio.shield(ref)`` keeps the call.

For the second point, the engine's table holds the ref strongly until a wait is
cancelled and weakly from then on. So the check costs nothing unless a wait is
cancelled.

If the runtime's loop has a thread to itself, refs are hidden from ``asyncio.isfuture``
on any other loop: there they are plain awaitables, which ``gather`` and ``wait_for``
accept too. Where no loop runs at all, as in plain methods of actors, refs are made with
``immediate_loop``.
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
_future: Any = asyncio.Future  # looked up once: every result needs it
_result_of: Any = _future.result

IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes})
"""The exact classes of immutable values; a subclass may be mutable."""

KeptValue: TypeAlias = "tuple[Any, Collection[bytes] | None, object, bool]"
"""The value of a ref as it was produced, to be sent and to be decoded again: the
payload, or a function that makes the value again; the counted ids in it; the holder of
those; whether the object that was decoded first was handed out."""
_cell_checks: list[Callable[[], bool]] = []
"""Return whether the user interrupts the running code: in a notebook only."""
# Reentrant: a signal handler may interrupt its holder and read a result, too.
_handing_out = threading.RLock()


class Waiter(Protocol):
    """An object that a ref wakes when it is filled, for example a future."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...


class ResultOwner(Protocol):
    """The interface of the object that fills a ref.

    The owner's ``CallRouter`` and ``TaskPool``, the worker's clients, Ray's tasks and
    ``StreamReader`` implement it, and ``QueueClient`` for the results of a queue. Three
    methods are optional, looked up by their name: ``label_of(call)`` returns the name
    of a call in messages; ``force_cancel(call, recursive=...)`` cancels a call and ends
    the process that runs it; ``interrupt(call, recursive=...)`` cancels a call as
    ``cancel`` does, and interrupts a running plain method as well.
    """

    def cancel(self, call: int, *, recursive: bool = True) -> bool | None:
        """Cancels the call; a result that still comes is dropped.

        With ``recursive`` the calls that it has made are cancelled, too.

        Returns:
            True if its code may continue for a while, as an ``async def`` that cleans
            up, and the ref is cancelled after that; else the caller cancels the ref.
        """
        ...

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """From now on, cancels the call as soon as the ref has no holder."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; may be called from any thread."""
        ...

    def name(self) -> bytes:
        """Makes an id for the object of a ref, unique among all processes."""
        ...

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Reduces a ref for pickle, in a value that is being sent.

        Raises:
            TypeError: It is not pickled for a call or its result.
            ValueError: It belongs to another runtime than the sending one.
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
        """Allows ``ObjectRef[int]`` at run time."""

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

    Await it any number of times, from any number of tasks of the loop: every wait gets
    the result, or raises the exception of the method. A cancelled ``await`` does not
    affect other waits. But ``gather``, and ``wait_for`` of Python 3.11, cancel the ref
    and its call when they are cancelled, as they do with any future:
    ``asyncio.shield(ref)`` prevents that.

    Every wait in one process gets the same object. A change of that object is visible
    in this process only: a process that receives the ref gets the result as it was
    produced. For that purpose the encoded result stays with the ref, unless it is None,
    a number, ``str`` or ``bytes``. Actors whose handles are in the result live until
    the ref is dropped.

    Operators such as ``+`` and ``>`` raise TypeError, as the value may not be there
    yet. ``==`` compares the refs and not their values: ``ref == 3`` is False.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> ref = double.remote(1)
        >>> await ref, await ref  # any number of times
        (2, 2)
        >>> await double.remote(double.remote(1))  # a call gets the value of the ref
        4
    """

    __slots__ = ("_object_id", "_payload", "call", "callee", "result_owner")

    call: int
    """The engine's number for the call."""
    callee: object
    """The callee, for messages, if its result owner keeps no table of calls."""
    result_owner: ResultOwner
    """The object that fills it."""
    _payload: KeptValue | None
    """The value as it was produced; None if it is immutable. Set with the value."""
    _object_id: bytes
    """Its id in every process; set when it is first read."""
    # Not a slot: few refs are awaited one by one, and a new ref must not cost more.
    first_waiter: Waiter | None = None
    """Woken when it is filled: the first wait on its loop, or a tally."""
    generator: object = None
    """The generator, for a ref of a generator's whole call; the ref keeps it alive."""

    def __await__(self) -> Generator[Any, None, R]:
        """Waits for the result.

        Raises:
            TaskCancelledError: The call was cancelled, by any code.
            asyncio.CancelledError: This wait was cancelled; the ref is not.
            Exception: The exception of the method, or ActorDiedError.
        """
        if not self.done():
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None]
            callback: Callable[[object], None] | None = None
            if loop is not self.get_loop():
                waiter, callback = self._waiter_on(loop)
            elif self.first_waiter is None:
                # Done when the ref is filled, and not by a callback one turn later.
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
        if is_immutable:  # as below, faster for most results
            value: R = _result_of(self)
            return value
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def result(self) -> R:
        """Returns the result, the same object each time; see ``asyncio.Future``."""
        value: R = _result_of(self)
        original = self._payload
        if original is not None and not original[3]:
            self._payload = (original[0], original[1], original[2], True)
        return value

    def set_result(self, result: R, original: KeptValue | None = None, /) -> None:
        """Fills the ref; see ``asyncio.Future``.

        Args:
            result: The value.
            original: The value as it was produced; None if it is immutable.
        """
        self._payload = original  # first: some loops call back at once
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
        """Fails the ref; see ``asyncio.Future``."""
        _future.set_exception(self, exception)
        if self.first_waiter is not None:
            self._end_failed_wait()

    def _waiter_on(
        self, loop: asyncio.AbstractEventLoop
    ) -> tuple[asyncio.Future[None], Callable[[object], None] | None]:
        """Makes the future of a wait on another loop, and its done callback."""
        home = portal_of(self.get_loop())
        if home is None:
            # For example asyncio.run() in a plain method: a thread of its pool waits.
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

        A running ``async def`` gets ``CancelledError`` at its await. The ref is
        cancelled when the method has cleaned up and ended, like a task. A running plain
        method is interrupted only with ``interrupt=True``; without it, its result is
        dropped.

        Args:
            msg: As for any future. Default: None.
            recursive: If True, the calls that it has made are cancelled, too. Default:
                True.
            force: If True, the process of a running function is ended. A call of an
                actor does not accept it: ``kill`` ends the actor. Default: False.
            interrupt: If True, a running plain method gets ``KeyboardInterrupt`` at its
                current line; see ``actorlib.cancel``. Default: False.

        Raises:
            TypeError: ``recursive``, ``force`` or ``interrupt`` is not a bool.
            ValueError: ``force`` for a ref that is not of a function call made here;
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
        # The loop decides what is possible: a call of another thread has a result
        # owner only after it has crossed to the loop.
        cancel = partial(self._cancel, msg, recursive, force)
        return run_on_loop_of(self, partial(cancel, interrupt, is_cell_interrupted))

    def _interruption(self) -> Callable[..., bool | None]:
        interrupt = getattr(self.result_owner, "interrupt", None)
        if interrupt is None:
            raise ValueError(
                "interrupt=True works in the program that has started the runtime and "
                "has made the call, and not on Ray. Elsewhere cancel(ref) stops a "
                "waiting call, and a running method reads is_canceled()"
            )
        return cast("Callable[..., bool | None]", interrupt)

    def _cancel(
        self,
        msg: Any | None,
        recursive: bool,  # noqa: FBT001  # called through partial()
        force: bool,  # noqa: FBT001
        interrupt: bool,  # noqa: FBT001
        is_cell_interrupted: bool,  # noqa: FBT001
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
                "kill(handle), which also ends its other calls; without force, a "
                "running method reads is_canceled()"
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
            timeout: The maximum wait in seconds, or None for no limit. Default: None.

        Raises:
            GetTimeoutError: The result did not come in time; the call continues.
            RuntimeError: This thread runs the event loop: await the ref instead.
            TaskCancelledError: The call was cancelled.
            Exception: The exception of the method, or ActorDiedError.
        """
        if not self.done():
            self.block_until_done(timeout)
        if self.cancelled():
            raise TaskCancelledError("the call was cancelled")
        return self.result()

    def future(self) -> concurrent.futures.Future[R]:
        """Returns the result as a ``concurrent.futures.Future``, for threads.

        A cancellation of that future does not cancel the call.
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
                error = self.exception()
                callback(self.result() if error is None else error)

        self.watch(call_back)

    def hex(self) -> str:
        """Returns its id, in hex; the same in every process."""
        return self.object_id.hex()

    # For scripts written for Ray.

    def binary(self) -> bytes:
        """Its id, as bytes; see ``hex``."""
        return self.object_id

    def task_id(self) -> bytes:
        """An id of its call: that of the ref.

        ``get_task_id()`` in the call returns another one, which is new each time that
        the call is sent.
        """
        return self.object_id

    def as_future(self) -> asyncio.Future[R]:
        """A future of the running loop; cancelling it leaves the call alone."""
        return asyncio.wrap_future(self.future())

    def __copy__(self) -> Self:
        """Itself: a copy of a container holds the same ref."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Itself, as for ``copy.copy``; ``dataclasses.asdict`` needs it."""
        return self

    def __repr__(self) -> str:
        """Shows its state, and the name of a call that is pending or has raised.

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
        """Omits the attributes for engines."""
        return sorted(set(object.__dir__(self)) - _OF_ENGINES)

    def __reduce__(self) -> tuple[object, ...]:
        return self.result_owner.travel(self)

    # For engines; dir() does not list them.

    def bind(self, engine: ResultOwner, call: int) -> None:
        """Sets its result owner, and the number of its call there."""
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
        """Fills another ref with its value and its kept value."""
        to.set_result(_result_of(self), self.kept_value)

    def hand_out(self) -> bool:
        """Records that other code has its object and may change it.

        Returns whether other code had the object before.
        """
        with _handing_out:
            original = self.kept_value
            if original is None or original[3]:
                return original is not None
            self._payload = (*original[:3], True)
        return False

    @property
    def object_id(self) -> bytes:
        """Its id, the same in every process."""
        try:
            return self._object_id
        except AttributeError:
            object_id = self._object_id = self.result_owner.name()
            return object_id

    @property
    def awaited_calls(self) -> tuple[tuple[int, ...], int]:
        """The numbers of the calls that it waits for, and how many must be answered.

        Empty if the engine does not know the calls by number.
        """
        return ((self.call,), 1) if self.call else ((), 0)

    @property
    def call_label(self) -> str:
        """The name of its call in messages; empty if unknown."""
        owner: object = getattr(self, "result_owner", None)
        if owner is None:  # not bound yet; a repr must not raise
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
        """Calls back when it is filled, on the thread that fills it.

        The loop calls done callbacks, and the loop is blocked while a plain method of
        an actor waits. So refs that such a method may wait for use this. A cancelled
        ref calls done callbacks only. Call it on the thread of the ref's loop.
        """
        if self.done():
            then()
            return
        filled = _Filled(then)
        if not self._wake_beside(filled):
            self.first_waiter = filled

    def _wake_beside(self, waiter: Waiter) -> bool:
        """Adds a waiter to the tally of its call; False if that is not possible."""
        first = self.first_waiter
        if type(first) is Tally:
            self.first_waiter = TalliedWait(first, waiter)
        elif type(first) is TalliedWait and first.waiter is None:
            first.waiter = waiter
        else:
            return False
        return True

    def _end_failed_wait(self) -> None:
        """Ends its wait when it is done without a value."""
        waiter = self.first_waiter
        if isinstance(waiter, Tally | TalliedWait):
            waiter.count(self)
        elif waiter is not None:
            end_wait(waiter)

    def interrupt_call(self) -> None:
        """Interrupts its call, because the cell that waits for it was interrupted."""
        # Without a number it is not a call: the next item of a stream, for example.
        if self.call:
            options = {"recursive": True, "force": False, "interrupt": False}
            self._cancel(None, is_cell_interrupted=True, **options)

    def release_if_unused(self) -> None:
        """Cancels its call as soon as it has no holder; on the loop.

        Only the loop knows the result owner of a call from another thread, after the
        call has crossed to the loop.
        """
        self.result_owner.release_if_unused(self)

    if not TYPE_CHECKING:  # type checkers refuse them without this
        # Operators on the ref were meant for its value, which may not exist yet.
        def __bool__(self) -> NoReturn:
            """Refuses: a ref is always true, whatever its value is."""
            raise _not_awaited("bool(ref)")

        def __getitem__(self, key: object) -> NoReturn:
            """Refuses: the value has items, not the ref."""
            raise _not_awaited(f"ref[{key!r}]")

        def __len__(self) -> NoReturn:
            raise _not_awaited("len(ref)")

        def __iter__(self) -> NoReturn:
            """Refuses: a future that is done would seem to be empty."""
            raise _not_awaited("iter(ref)")

        def __int__(self) -> NoReturn:
            raise _not_awaited("int(ref)")

        def __float__(self) -> NoReturn:
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
    """A ref that came from another process; the first wait fetches its value."""

    __slots__ = ("_cancel_call", "_fetch")

    _fetch: Callable[[], None] | None
    """Requests the value; None after it was called."""
    _cancel_call: Callable[[], None]
    """Cancels the call of the result."""

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Adds a done callback, and fetches the value; see ``asyncio.Future``."""
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
        """Cancels the call of the result, and the calls that it has made."""
        if not self.done() and not force and not interrupt:
            run_on_loop_of(self, self._cancel_call)
        return super().cancel(
            msg, recursive=recursive, force=force, interrupt=interrupt
        )

    def __await__(self) -> Generator[Any, None, R]:
        if not self.done():
            self.fetch()
        return super().__await__()

    def set_source(
        self,
        fetch: Callable[[], None],
        cancel_call: Callable[[], None],
        object_id: bytes | None = None,
    ) -> None:
        """Sets the functions that fetch its value, and its id if that is known."""
        self._fetch, self._cancel_call = fetch, cancel_call
        if object_id is not None:
            self._object_id = object_id

    def fetch(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            run_on_loop_of(self, fetch)

    def block_until_done(self, timeout: float | None) -> None:
        self.fetch()
        if not self.done():  # else its value was here
            super().block_until_done(timeout)


REFS = frozenset({ObjectRef, BorrowedRef})
"""The classes of arguments that are replaced by their values."""


def hide_from_other_loops() -> None:
    """Hides refs from ``asyncio.isfuture`` on other loops, from now on.

    ``gather`` and ``wait_for`` on another loop refuse a future of this one, and accept
    a plain awaitable. ``isfuture`` then costs 0.3 us more, so only a process whose
    runtime's loop has a thread to itself does this.
    """
    cast("Any", ObjectRef)._asyncio_future_blocking = property(_future_mark)  # noqa: SLF001  # the attribute of asyncio
    cast("Any", ObjectRef).add_done_callback = _add_done_callback


def _future_mark(ref: ObjectRef[Any]) -> bool | None:
    """The attribute by which asyncio recognizes futures; None means not a future."""
    return False if asyncio._get_running_loop() is ref.get_loop() else None  # noqa: SLF001  # loops read it


def _add_done_callback(  # noqa: D417  # a method
    self: ObjectRef[Any],
    fn: Callable[[Any], object],
    /,
    *,
    context: Context | None = None,
) -> None:
    """Adds a done callback; see ``asyncio.Future``.

    Args:
        fn: The callback. That of ``asyncio.wait()`` wakes a task of the running loop.
        context: The context of the callback. Default: None, for a copy of the current
            one.
    """
    if getattr(fn, "__module__", "") == "asyncio.tasks":
        running = asyncio._get_running_loop()  # noqa: SLF001  # as above
        if running is not None and running is not self.get_loop():
            fn = partial(_call_soon_on, running, fn)
    _future.add_done_callback(self, fn, context=context)


def _call_soon_on(
    loop: asyncio.AbstractEventLoop, fn: Callable[[Any], object], ref: ObjectRef[Any]
) -> None:
    with suppress(RuntimeError):  # that loop is closed
        loop.call_soon_threadsafe(fn, ref)


def mark_seen(ref: asyncio.Future[Any]) -> None:
    """Marks the error of a done ref as seen, so that asyncio does not log it."""
    if not ref.cancelled():
        ref.exception()


def label_of_call(owner: object, call: int) -> str:
    """Returns a result owner's name for a call; empty if it keeps no table."""
    label: Callable[[int], str] | None = getattr(owner, "label_of", None)
    return "" if label is None else label(call)


class _ThreadFuture(concurrent.futures.Future[R]):
    """The result of a ref as a ``concurrent.futures.Future``; it holds the ref."""

    def __init__(self, ref: ObjectRef[R]) -> None:
        super().__init__()
        self._ref = ref

    def settle(self) -> None:
        if self.set_running_or_notify_cancel():
            fill_future(self, self._ref)


def fill_future(future: concurrent.futures.Future[R], ref: ObjectRef[R]) -> None:
    """Copies the outcome of a done ref to a running future of a thread."""
    if ref.cancelled():
        future.set_exception(TaskCancelledError("the call was cancelled"))
    elif (error := ref.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(ref.result())


def interrupt_with_cells(is_interrupted: Callable[[], bool]) -> None:
    """Interrupts the calls that an interrupted cell awaits, from now on."""
    _cell_checks[:] = (is_interrupted,)


def _is_cell_interrupted() -> bool:
    return any(is_interrupted() for is_interrupted in _cell_checks)


def interrupt_calls(refs: Iterable[asyncio.Future[Any]]) -> bool:
    """Interrupts calls if the cell that waits for their refs was interrupted.

    Returns whether it was.
    """
    if not _is_cell_interrupted():
        return False
    for ref in refs:
        if isinstance(ref, ObjectRef):
            run_on_loop_of(ref, ref.interrupt_call)
    return True


def release_if_unused(refs: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels the calls of refs without a holder, after a cancelled wait."""
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
    """A callback that takes the place of a ref's first waiter."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then: Callable[[], object] | None = then

    def done(self) -> bool:
        return self._then is None

    def set_result(self, _: None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()


def immediate_loop() -> asyncio.AbstractEventLoop:
    """Makes a loop for refs where no loop runs; it runs callbacks at once."""
    return cast("asyncio.AbstractEventLoop", _ImmediateLoop())


class _ImmediateLoop:
    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, report: dict[str, Any]) -> None:
        import logging  # noqa: PLC0415  # in a worker only this rare report needs it

        logging.getLogger("actorlib").error(
            "%s", report.get("message"), exc_info=report.get("exception")
        )

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: object = None
    ) -> None:
        del context
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001  # as a loop does
            report = {"message": f"{callback!r} failed", "exception": error}
            self.call_exception_handler(report)
