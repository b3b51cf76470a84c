"""Runs calls of functions in a worker, one at a time on the main thread.

Every call is answered exactly once, even one that was cancelled or returned unstarted,
so the owner always knows which calls are here. A function is sent once, before its
first call.

No thread reads the pipe while a function runs. If a frame has to be read then, the
owner sends a signal after it; see ``interrupt_signal``.

A call that waits, for a result or for the reader of its stream, lends its CPUs to
others meanwhile, and the calls behind it are returned. The owner decides that: it
leaves both here if it has sent the result already.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.engine import set_engine
from actorlib._shm.running_calls import MARK
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import (
    BLOCKED,
    CALL,
    CALL_WITH,
    CANCEL,
    DURATION,
    FAILURE,
    READY,
    RESUME,
    RESUMED,
    RETURN_UNSTARTED,
    STOP,
    UNSTARTED,
    Frame,
)
from actorlib._worker.executors import invoke
from actorlib._worker.executors.generators import is_stream
from actorlib._worker.executors.interrupt_signal import (
    InterruptSignal,
    NoInterrupts,
    is_below,
)
from actorlib._worker.executors.invoke import (
    CallExecutor,
    FunctionWorker,
    MethodTiming,
    label_of,
)
from actorlib._worker.executors.serial_executor import SerialOwnerClient
from actorlib._worker.requests.client import TOO_LATE, WAIT_REPORT_DELAY
from actorlib._worker.requests.inbox import PipeInbox
from actorlib._worker.startup import enter_directory
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.startup import Start


class InterruptibleGenerator:
    """Wraps a generator whose code may be interrupted while it runs, and only then."""

    def __init__(
        self, source: Generator[Any, Any, Any], executor: TaskExecutor, call: int
    ) -> None:
        self._source = source
        self._executor = executor
        self._call = call
        self.close = source.close

    def __next__(self) -> Any:
        self._executor.current = self._call
        try:
            return next(self._source)
        finally:
            self._executor.current = 0


_MOST_GATHERED = 32
"""Answers that are sent together at most."""
_FORGIVENESS = 0.8
"""The factor by which the longest run of a function shrinks with each run."""
_CHANGE = 2.0
"""The factor by which a duration has to change to be reported again."""


class FunctionTiming:
    """Records the longest recent run of each function, in seconds.

    The owner sends more calls ahead of a function the quicker it is. A slow run is
    forgiven faster than one of a method: calls sent ahead in vain can be taken back.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def record(self, function: str, seconds: float) -> float | None:
        """Records a run; returns the duration to report, or None if hardly changed."""
        longest = max(seconds, self._longest.get(function, 0.0) * _FORGIVENESS)
        self._longest[function] = longest
        reported = self._reported.get(function)
        if reported is not None and reported / _CHANGE < longest < reported * _CHANGE:
            return None
        self._reported[function] = longest
        return longest


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Runs a worker of functions from its start to its end."""
    enter_directory(start)
    client = TaskOwnerClient(start, pipe)
    set_engine(client)
    client.executor = TaskExecutor(client, is_inline=start.config.is_inline)
    try:
        client.executor.run()
    except SystemExit:  # it ends the process, behind earlier answers
        pipe.flush()
        raise


class TaskInbox(PipeInbox):
    """Keeps frames in order; returns calls to the owner while the current one waits.

    Attributes:
        is_waiting: Whether the call that runs waits for a result.
        must_return: Whether the owner wants the calls back that have not begun.
        resumed_wait: The number of the last wait that may end: its CPUs are back.
    """

    def __init__(self, client: TaskOwnerClient, pipe: BlockingChannel) -> None:
        super().__init__(client, pipe)
        self.is_waiting = False
        self.must_return = False
        self.resumed_wait = 0
        self._client = client

    def _sort(self, frame: Frame) -> None:
        kind = frame[0]
        if kind == RETURN_UNSTARTED and self.is_waiting:
            self._client.executor.return_unstarted()
        elif kind == RETURN_UNSTARTED:
            self.must_return = True
        elif kind == RESUME:
            self.resumed_wait = frame[1]
        else:
            super()._sort(frame)
            if kind == CANCEL:
                # Even of a stream; see ``TaskExecutor.stop_if_cancelled``.
                self.cancelled.add(frame[1])
                self._client.executor.interrupt_if_current(frame[1])


class TaskOwnerClient(FunctionWorker, SerialOwnerClient):
    """The engine of a worker of functions, which lends its CPUs while a call waits."""

    inbox: TaskInbox  # pyright: ignore[reportIncompatibleVariableOverride]  # it is set once
    executor: TaskExecutor

    def __init__(self, start: Start, pipe: BlockingChannel) -> None:
        super().__init__(start, pipe)
        self._waits = itertools.count(1)

    def _new_inbox(self, start: Start, pipe: BlockingChannel) -> TaskInbox:
        del start
        return TaskInbox(self, pipe)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        if self.is_over:
            self.check_parent()
        executor, inbox = self.executor, self.inbox
        is_poll = timeout is not None and timeout <= 0
        if ref.done() or is_poll or not executor.runs_here():
            super().wait(ref, timeout)
            return
        inbox.read_available()

        def is_over() -> bool:
            return ref.done() or executor.is_cancelled()

        awaited = ref.awaited_calls
        deadline = None if timeout is None else time.monotonic() + timeout
        while not is_over():
            seconds = (
                None if deadline is None else max(0.0, deadline - time.monotonic())
            )
            with self.lending_cpus(*awaited) as number:
                if not inbox.read(
                    lambda: is_over() or inbox.resumed_wait == number, seconds
                ):
                    raise GetTimeoutError(TOO_LATE)
            # The wait is for more than those calls, or for calls that the owner does
            # not know. From here on the CPUs are lent in any case, and this worker
            # reports the end of the wait.
            awaited = (), 0
        executor.stop_if_cancelled()

    @contextmanager
    def lending_cpus(self, calls: Sequence[int] = (), count: int = 0) -> Generator[int]:
        """Reports a wait to the owner, so that it may lend the CPUs to others.

        The owner does not lend them if it has answered ``count`` of the awaited calls
        already. Otherwise it takes back the calls that have not begun here.

        Yields:
            The number of the wait, which ends when the owner permits it.
        """
        inbox = self.inbox
        if inbox.is_waiting:  # a value that is loaded during the wait waits, too
            yield -1
            return
        number = next(self._waits)
        inbox.is_waiting = True
        self.post((BLOCKED, number, tuple(calls), count))
        try:
            yield number
            self._resume(number)
        except GetTimeoutError:
            self._resume(number)
            raise
        finally:
            inbox.is_waiting = False

    def _resume(self, number: int) -> None:
        """Waits for the CPUs; a cancelled call continues without them, to its end."""
        inbox, executor = self.inbox, self.executor
        if inbox.resumed_wait != number:
            self.post((RESUMED, number))

            def may_go() -> bool:
                return inbox.resumed_wait == number or executor.is_cancelled()

            inbox.read(may_go)


class TaskExecutor(CallExecutor[TaskOwnerClient]):
    """Runs the calls of functions, one after the other.

    Attributes:
        functions: The functions, by their names on the pipe.
        current: The call whose code runs and may be interrupted, or 0.
    """

    _label_of = staticmethod(label_of)

    def __init__(self, client: TaskOwnerClient, *, is_inline: bool) -> None:
        super().__init__(client, client.inbox.streams, client.inbox.cancelled)
        self._pipe = client.pipe
        self._inbox = client.inbox
        self._timing = MethodTiming()
        self._function_timing = FunctionTiming()
        self.functions: dict[str, Callable[..., Any]] = {
            ADD_FUNCTION: self._add_function
        }
        client.functions = self.functions
        self.current = 0
        self._gathered_count = 0
        self._cells = client.memory.call_cells() or [0]
        self._main = threading.get_ident()
        # The frame of the current call, and its start time.
        self._served: Frame = ()
        self._started = 0.0
        # The current call if its function has begun; 0 for a stream, which is not
        # timed.
        self._timed_call = 0
        self._find = self._function_of
        self._interrupts: InterruptSignal | NoInterrupts = NoInterrupts()
        self._outermost = {
            self._run_code.__code__,
            InterruptibleGenerator.__next__.__code__,
        }
        if not is_inline:
            self._interrupts = InterruptSignal(
                lambda: bool(self.current),
                self._read_interrupts,
                partial(is_below, self._outermost),
            )

    def run(self) -> None:
        inbox, calls, pipe = self._inbox, self._inbox.calls, self._pipe
        has_calls = cast("Callable[[], bool]", calls.__len__)
        pipe.send((READY, "", os.getpid()))
        while True:
            if self._interrupts.is_pending or inbox.must_return:
                self._interrupts.is_pending = False
                inbox.read_available()
                self._return_if_asked()
            if not calls:
                for returned in self._client.release_frames():
                    pipe.gather(returned)
                pipe.flush()
                self._gathered_count = 0
                inbox.must_return = False
                inbox.read(has_calls)
                continue
            frame = calls.popleft()
            if frame[0] == STOP:
                self._client.finish()
                return
            if frame[0] == CALL_WITH and is_stream(frame):
                self._serve_stream(frame)
            else:
                self._serve_call(frame)

    def _serve_call(self, frame: Frame) -> None:
        name, pipe = frame[2], self._pipe
        if pipe.has_gathered and (
            self._gathered_count >= _MOST_GATHERED or not self._timing.is_quick(name)
        ):
            pipe.flush()
            self._gathered_count = 0
        self._served = frame
        self._started = started = time.perf_counter()
        if self.execute(frame) and not self._timing.record(
            name, time.perf_counter() - started
        ):
            self._inbox.read_available()

    def _serve_stream(self, frame: Frame) -> None:
        """Runs a stream to its end.

        Unlike an actor, this thread waits for a reader that is behind: it runs one call
        at a time.
        """
        self._pipe.flush()
        self._served = frame
        call, streams = frame[1], self._streams
        try:
            self.execute(frame)
            while len(streams):
                self._wait_for_reader(call)
                self.execute(streams.of(call).wake_frame)
        except KeyboardInterrupt as error:
            self._end_stream(
                streams.of(call), self._failure(call, frame[2], error), error
            )

    def _wait_for_reader(self, call: int) -> None:
        inbox, stream = self._inbox, self._streams.of(call)

        def may_go() -> bool:
            return inbox.streams.may_go(stream)

        if not inbox.read(may_go, WAIT_REPORT_DELAY):
            with self._client.lending_cpus():
                inbox.read(may_go)

    def _function_of(self, name: str) -> Callable[..., Any]:
        return self._interruptible(self.functions[name])

    def _interruptible(self, code: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the code that runs next so that it may be interrupted."""
        self._cells[MARK] = self._timed_call = self._served[1]
        return partial(self._run_code, code)

    def _code_of(self, frame: Frame) -> Callable[..., Any]:
        call, function = frame[1], self.functions[frame[2]]
        headers: Mapping[str, Any] = frame[4] if frame[0] == CALL_WITH else {}
        if "stream" in headers:
            self._cells[MARK] = call
            return lambda *args, **kwargs: InterruptibleGenerator(
                function(*args, **kwargs), self, call
            )
        if "batch" in headers:
            from actorlib._wire.batches import call_each  # noqa: PLC0415  # asyncio

            self._outermost.add(call_each.__code__)
            function = invoke.code_of_chunk(function, headers["batch"])
        return self._interruptible(function)

    def _run_code(self, code: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.current = self._served[1]
        try:
            return code(*args, **kwargs)
        finally:
            self.current = 0

    def _answer(self, answer: Frame) -> None:
        if answer[1] == self._timed_call:
            self._report_duration()
        self._pipe.gather(answer)
        self._gathered_count += 1

    def _report_duration(self) -> None:
        self._timed_call = 0
        name = self._served[2]
        if name != ADD_FUNCTION:
            took = time.perf_counter() - self._started
            duration = self._function_timing.record(name, took)
            if duration is not None:
                self._pipe.gather((DURATION, name, duration))

    def _send_item(self, item: Frame) -> None:
        self._pipe.send(item)

    def _pause(self, call: int) -> None:
        """Does nothing: the thread waits for the reader."""

    def _others_wait(self) -> bool:
        return False  # no call is sent behind a stream

    def _read_now(self) -> None:
        self._inbox.read_available()

    def _add_function(self, name: str, function: Callable[..., Any]) -> None:
        self.functions[name] = function

    def runs_here(self) -> bool:
        return bool(self.current) and threading.get_ident() == self._main

    def is_cancelled(self) -> bool:
        return self.current in self._inbox.cancelled

    def stop_if_cancelled(self) -> None:
        """Raises KeyboardInterrupt here, once, if the call that runs was cancelled."""
        if self.current and self.is_cancelled():
            self.current = 0
            raise KeyboardInterrupt("the call was cancelled")

    def return_unstarted(self) -> None:
        calls = self._inbox.calls
        remaining: list[Frame] = []
        while calls:
            frame = calls.popleft()
            if frame[0] in (CALL, CALL_WITH) and frame[2] != ADD_FUNCTION:
                unstarted = (FAILURE, frame[1], UNSTARTED, "", "", "", None, b"")
                self._refuse(frame, unstarted)
                self._pipe.flush()
            else:
                remaining.append(frame)
        calls.extend(remaining)
        self._pipe.flush()

    def _return_if_asked(self) -> None:
        if self._inbox.must_return:
            self._inbox.must_return = False
            self.return_unstarted()

    def _read_interrupts(self) -> None:
        self._inbox.read_available()
        self._return_if_asked()
        self.stop_if_cancelled()

    def interrupt_if_current(self, call: int) -> None:
        """Interrupts a cancelled call if it runs and another thread has read that."""
        if call == self.current and threading.get_ident() != self._main:
            self._interrupts.send()
