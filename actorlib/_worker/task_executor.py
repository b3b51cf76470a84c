"""The worker of functions: one call at a time on the main thread, of any function.

Every call is answered exactly once, also one that was cancelled or given back, so the
owner knows at any time what is here. A function is sent once, before its first call.

What a worker of functions does when its owner wants it to look at its pipe.

While a function runs nobody reads. The owner writes a frame first and then sends a
signal, which says no more than *look*: what is to be done, and whether it still is, the
frame says, in the worker, where it is known which call is running. So a signal that
comes late harms nobody.

Functions that yield: each runs until its reader is behind, and then waits for it.

An actor sets such a stream aside and serves other calls. A worker of functions has one
call at a time, so it waits; but as one that waits for a result it gives its CPU back.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from actorlib._core.current_call import is_late, running
from actorlib._core.engine import set_engine
from actorlib._core.object_ref import awaited_by
from actorlib._wire.forkserver_protocol import INTERRUPT_SIGNAL
from actorlib._wire.messages import (
    BLOCKED,
    CALL,
    CALL_WITH,
    CANCEL,
    FAILURE,
    GO_ON,
    PACE,
    READY,
    RESUMED,
    RETURN_UNSTARTED,
    STOP,
    UNBEGUN,
    Frame,
)
from actorlib._worker import invoke
from actorlib._worker.client import MOMENT
from actorlib._worker.generator_runner import GeneratorRunner
from actorlib._worker.generators import is_stream
from actorlib._worker.inbox import Inbox
from actorlib._worker.invoke import within
from actorlib._worker.method_timing import FunctionTiming, MethodTiming
from actorlib._worker.serial_executor import SerialOwnerClient
from actorlib._worker.startup import settle_down
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType

    from actorlib._core.object_ref import ObjectRef
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.client import OwnerClient
    from actorlib._worker.startup import Start


_AGAIN = 0.001
_OWN = "actorlib."


class InterruptSignal:
    """Looks when the signal comes, but never in the middle of actorlib's own work.

    Args:
        is_running: Whether the user's code is being run.
        look: Looks at the pipe; may raise KeyboardInterrupt.
        outermost: The pieces of code that run the user's.

    Attributes:
        is_wanted: Whether the signal has come and nobody has looked yet.
    """

    def __init__(
        self,
        is_running: Callable[[], bool],
        look: Callable[[], None],
        outermost: Collection[CodeType],
    ) -> None:
        self.is_wanted = False
        self._is_running = is_running
        self._look = look
        self._outermost = outermost
        self._main = threading.get_ident()
        self._pid = os.getpid()
        signal.signal(INTERRUPT_SIGNAL, self._signalled)

    def again(self) -> None:
        """Has the main thread look; from any thread."""
        signal.pthread_kill(self._main, INTERRUPT_SIGNAL)

    def _signalled(self, _: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a fork: the pipe is its parent's
            return
        self.is_wanted = True
        if not self._is_running():  # whoever runs the next call looks first
            return
        if self._is_busy(frame):
            timer = threading.Timer(_AGAIN, self._once_more)
            timer.daemon = True
            timer.start()
            return
        self.is_wanted = False
        self._look()

    def _once_more(self) -> None:
        if self.is_wanted:
            self.again()

    def _is_busy(self, frame: FrameType | None) -> bool:
        """Whether the signal came while actorlib was at work below the user's code."""
        while frame is not None and frame.f_code not in self._outermost:
            if frame.f_globals.get("__name__", "").startswith(_OWN):
                return True
            frame = frame.f_back
        return False


class Inattention:
    """What stands there in a thread, which no signal reaches.

    What was sent is seen when the function looks, or waits for something.
    """

    is_wanted = False

    def again(self) -> None:
        """Nothing; see InterruptSignal."""


class Runner(Protocol):
    """Who runs functions here."""

    functions: dict[str, Callable[..., Any]]
    current: int
    """The call whose code runs and may be interrupted, or 0."""

    def lending(self) -> AbstractContextManager[object]:
        """Around a wait: others may have the CPU meanwhile."""
        ...

    def interrupted(self, call: int, name: str, error: BaseException) -> Frame:
        """The answer of a call whose code was interrupted."""
        ...

    def where(self, name: str) -> str:
        """Names a function for messages."""
        ...


class Steps:
    """A generator whose code may be interrupted while it runs, and only then.

    Args:
        source: The generator.
        runner: Told what runs.
        call: Its call.
    """

    def __init__(
        self, source: Generator[Any, Any, Any], runner: Runner, call: int
    ) -> None:
        self._source = source
        self._runner = runner
        self._call = call
        self.close = source.close

    def __next__(self) -> Any:
        """The next item."""
        self._runner.current = self._call
        try:
            return next(self._source)
        finally:
            self._runner.current = 0


class TaskGenerators:
    """Serves calls of functions that yield.

    Args:
        runner: Who runs functions here.
        uplink: The engine.
        pipe: Where the items go.
        inbox: What came.
    """

    def __init__(
        self, runner: Runner, uplink: OwnerClient, pipe: BlockingChannel, inbox: Inbox
    ) -> None:
        self._runner = runner
        self._inbox = inbox
        self._settle = uplink.settle
        self._send = pipe.send
        self._producer = GeneratorRunner(
            self._find,
            runner.where,
            uplink,
            inbox.streams,
            pipe.send,
            pipe.send,
            lambda: False,  # nobody waits: no call is sent behind one of these
            inbox.cancelled,
            lambda: inbox.read_what_is_there(self._settle),
            runner.interrupted,
        )

    def serve(self, frame: Frame) -> None:
        """Runs a call to its end, and sends its last frame.

        Raises:
            BaseException: What ends the process.
        """
        _, call, name, *_ = frame
        streams = self._inbox.streams
        try:
            while not self._producer.serve(frame):
                self._wait_for_reader(call)
                frame = streams.of(call).wake
        except KeyboardInterrupt as error:
            streams.end(call)
            self._send(self._runner.interrupted(call, name, error))

    def _find(self, name: str) -> Callable[..., Steps]:
        function = self._runner.functions[name]
        asked = running.get()
        assert asked is not None  # the producer has said so
        return lambda *args, **kwargs: Steps(
            function(*args, **kwargs), self._runner, asked[0]
        )

    def _wait_for_reader(self, call: int) -> None:
        inbox, stream = self._inbox, self._inbox.streams.of(call)

        def may_go() -> bool:
            return inbox.streams.may_go(stream)

        if not inbox.wait(may_go, self._settle, MOMENT):
            with self._runner.lending():
                inbox.read(may_go, self._settle)


LEARN = "learn"
"""The call that brings a function; every other one is a number and a label."""
_TOGETHER = 32


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Lives the life of a worker of functions.

    Raises:
        BaseException: A function raised what ends its process, as SystemExit does.
        EOFError: The owner is gone.
    """
    settle_down(start)
    inbox = _Inbox(pipe)
    uplink = TaskOwnerClient(start, pipe, inbox)
    set_engine(uplink)
    functions = _Functions(pipe, inbox, uplink, is_inline=start.config.is_inline)
    try:
        functions.run()
    except SystemExit:  # it ends the process, behind what was answered before
        pipe.flush()
        raise


class _Inbox(Inbox):
    """The frames that came; while the function that runs waits, calls go back.

    Attributes:
        is_waiting: Whether it waits for a result.
        is_recalled: Whether the calls here are wanted back.
        went_on: The number of the last wait that may be over: its CPUs are back.
        give_back: Gives one back.
        cancelling: Called when a call is cancelled.
    """

    give_back: Callable[[Frame], None]
    cancelling: Callable[[int], None]

    def __init__(self, pipe: BlockingChannel) -> None:
        super().__init__(pipe)
        self.is_waiting = False
        self.is_recalled = False
        self.went_on = 0

    def _sort(self, frame: Frame, settle: Callable[[Frame], None]) -> None:
        kind = frame[0]
        if kind == RETURN_UNSTARTED:
            self.is_recalled = True
        elif kind == GO_ON:
            self.went_on = frame[1]
        elif self.is_waiting and kind in (CALL, CALL_WITH) and frame[2] != LEARN:
            self.give_back(frame)
        else:
            super()._sort(frame, settle)
            if kind == CANCEL:
                self.cancelled.add(frame[1])  # also of a stream: see stop_if_cancelled
                self.cancelling(frame[1])


class TaskOwnerClient(SerialOwnerClient):
    """The engine of a worker of functions: who waits in one gives its CPUs back."""

    _waiter: _Functions
    _calls_here: _Inbox

    def __init__(self, start: Start, pipe: BlockingChannel, inbox: Inbox) -> None:
        super().__init__(start, pipe, inbox)
        self._waits = itertools.count(1)

    def serves(self, functions: _Functions, inbox: _Inbox) -> None:
        """Says what is run here."""
        self._waiter = functions
        self._calls_here = inbox

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Reads until the ref is done, and lets others have the CPU; see Replier."""
        if self.is_over:
            self.check_parent()
        waiter, inbox = self._waiter, self._calls_here
        is_look = timeout is not None and timeout <= 0
        if ref.done() or is_look or not waiter.is_mine():
            super().wait(ref, timeout)
            return

        def is_over() -> bool:
            return ref.done() or waiter.is_cancelled()

        awaited = awaited_by(ref)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not is_over():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            with self.lending(*awaited) as number:
                inbox.read(
                    lambda: is_over() or inbox.went_on == number, self.settle, left
                )
            awaited = (), 0  # more than those: it says itself when it is over
        waiter.stop_if_cancelled()

    @contextmanager
    def lending(self, calls: Sequence[int] = (), count: int = 0) -> Generator[int]:
        """Around a wait: others may have the CPU, and the calls that are here.

        Args:
            calls: What is waited for, if that is known: so many of these calls.
            count: How many.

        Yields:
            Its number; it goes on behind the frame that says that it may.
        """
        inbox = self._calls_here
        if inbox.is_waiting:  # what is loaded meanwhile waits as well
            yield -1
            return
        number = next(self._waits)
        inbox.is_waiting = True
        # First, so that nothing is sent here again.
        self.post((BLOCKED, number, tuple(calls), count))
        self._waiter.give_back_all()
        try:
            yield number
            self._go_on(number)
        except GetTimeoutError:
            self._go_on(number)
            raise
        finally:
            inbox.is_waiting = False

    def _go_on(self, number: int) -> None:
        """Waits for the CPUs; who was cancelled goes on without, to its end."""
        inbox, waiter = self._calls_here, self._waiter
        if inbox.went_on != number:
            self.post((RESUMED, number))
            inbox.read(
                lambda: inbox.went_on == number or waiter.is_cancelled(), self.settle
            )

    def where(self, method: str) -> str:
        """Names a function, for messages: its number is nobody else's affair."""
        return f"{method.rpartition(':')[2]} (pid {os.getpid()})"

    def function_name(self, method: str) -> str:
        """A function, with its module; see Process."""
        return self._waiter.function_name(method)

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks any thread until the owner has answered; see OwnerClient."""
        super().wait(ref, None)

    def leave(self) -> NoReturn:
        """Refuses: this is no actor; see Engine."""
        raise TypeError("exit_actor() ends the actor whose code calls it: this is none")


class _Functions:
    def __init__(
        self,
        pipe: BlockingChannel,
        inbox: _Inbox,
        uplink: TaskOwnerClient,
        *,
        is_inline: bool,
    ) -> None:
        self._pipe = pipe
        self._inbox = inbox
        self._uplink = uplink
        self._pace = MethodTiming()
        self._tempo = FunctionTiming()
        self.functions: dict[str, Callable[..., Any]] = {LEARN: self._learn}
        self.current = 0
        self._gathered = 0
        self._marker = pipe.memory.running_call_cell()
        self._main = threading.get_ident()
        inbox.give_back = self._give_back
        inbox.cancelling = self._cancelling
        uplink.serves(self, inbox)
        self.lending = uplink.lending
        self._yielding = TaskGenerators(self, uplink, pipe, inbox)
        self._attention: InterruptSignal | Inattention = Inattention()
        if not is_inline:
            outermost = (self._run_one.__code__, Steps.__next__.__code__)
            self._attention = InterruptSignal(
                lambda: bool(self.current), self._look, outermost
            )

    def run(self) -> None:
        inbox, calls, pipe = self._inbox, self._inbox.calls, self._pipe
        has_calls = cast("Callable[[], bool]", calls.__len__)
        pipe.send((READY, "", os.getpid()))
        while True:
            if self._attention.is_wanted or inbox.is_recalled:
                self._attention.is_wanted = False
                inbox.read_what_is_there(self._uplink.settle)
                self._heed_recall()
            if not calls:
                for returned in self._uplink.returns():
                    pipe.gather(returned)
                pipe.flush()
                self._gathered = 0
                inbox.is_recalled = False
                inbox.read(has_calls, self._uplink.settle)
                continue
            frame = calls.popleft()
            if frame[0] == STOP:
                self._uplink.finish()
                return
            if inbox.cancelled and frame[1] in inbox.cancelled:
                inbox.cancelled.discard(frame[1])
                self._let_go(frame, invoke.cancelled(frame[1]))
            elif frame[0] == CALL_WITH:
                self._run_with(frame)
            else:
                self._run_one(frame)

    def _run_with(self, frame: Frame) -> None:
        """Runs a call of which something is said."""
        if is_late(frame[4]):
            self._let_go(frame, invoke.cancelled(frame[1]))
        elif is_stream(frame):
            self._pipe.flush()
            self._marker[0] = call = frame[1]
            self._yielding.serve(frame)
            running.set(None)
            self._inbox.cancelled.discard(call)
        else:
            self._run_one(frame)

    def _run_one(self, frame: Frame) -> None:
        _, call, name, loans, *told, payload = frame
        pipe, marker = self._pipe, self._marker
        if pipe.has_gathered and (
            self._gathered >= _TOGETHER or not self._pace.is_quick(name)
        ):
            pipe.flush()
            self._gathered = 0
        started = time.perf_counter()
        running.set((call, name.partition(":")[2], told[0] if told else None))
        value: object = None
        raised: BaseException | None = None
        try:
            try:
                args, kwargs = self._uplink.arguments(loans, payload)
                function = self.functions[name]
                if told:
                    function = within(told[0], function)
                marker[0] = call
                self.current = call
                value = function(*args, **kwargs)
            finally:
                self.current = 0
        except BaseException as error:  # noqa: BLE001  # the user's code
            raised = error
            answer = self.interrupted(call, name, error)
        else:
            answer = invoke.result(self._uplink, call, value, name)
        running.set(None)
        self._inbox.cancelled.discard(call)
        took = time.perf_counter() - started
        news = self._tempo.ran(name, took) if name != LEARN else None
        if news is not None:
            pipe.gather((PACE, name, news))
        # What it gave or raised is still held here: a handle in it is given back after
        # it was sent.
        pipe.gather(answer)
        del raised  # its traceback holds this frame
        self._gathered += 1
        if not self._pace.ran(name, took):
            self._inbox.read_what_is_there(self._uplink.settle)

    def interrupted(self, call: int, name: str, error: BaseException) -> Frame:
        """The answer of a call whose function raised; see Runner."""
        if self._uplink.is_over:
            self._uplink.over(call, error)
        if call in self._inbox.cancelled and not isinstance(error, SystemExit):
            return invoke.cancelled(call)
        return invoke.failure(self._uplink, call, error, self.where(name))

    def where(self, name: str) -> str:
        """Names a function for messages; see Runner."""
        return self._uplink.where(name)

    def function_name(self, label: str) -> str:
        """A function that runs, with its module; see Process."""
        for name, function in self.functions.items():
            if name.partition(":")[2] == label:
                return f"{function.__module__}.{function.__qualname__}"
        return label

    def _learn(self, name: str, function: Callable[..., Any]) -> None:
        self.functions[name] = function

    # What the owner says of calls that are here.

    def is_mine(self) -> bool:
        """Whether this thread runs a function."""
        return bool(self.current) and threading.get_ident() == self._main

    def is_cancelled(self) -> bool:
        """Whether the call that runs was cancelled."""
        return self.current in self._inbox.cancelled

    def stop_if_cancelled(self) -> None:
        """Stops the function that runs on this thread, if its call was cancelled.

        Raises:
            KeyboardInterrupt: It was; once for each call.
        """
        if self.current and self.is_cancelled():
            self.current = 0
            raise KeyboardInterrupt("the call was cancelled")

    def give_back_all(self) -> None:
        """Gives the calls back that have not begun."""
        calls = self._inbox.calls
        kept: list[Frame] = []
        while calls:
            frame = calls.popleft()
            if frame[0] in (CALL, CALL_WITH) and frame[2] != LEARN:
                self._give_back(frame)
            else:
                kept.append(frame)
        calls.extend(kept)
        self._pipe.flush()

    def _give_back(self, frame: Frame) -> None:
        call = frame[1]
        self._inbox.cancelled.discard(call)
        unbegun = (FAILURE, call, UNBEGUN, "", "", "", None, b"")
        self._let_go(frame, unbegun)
        self._pipe.flush()

    def _let_go(self, frame: Frame, answer: Frame) -> None:
        """Answers a call that is not run; what was lent with it goes back."""
        with self._uplink.borrowing(frame[3]):
            self._pipe.gather(answer)
            self._gathered += 1

    def _heed_recall(self) -> None:
        if self._inbox.is_recalled:
            self._inbox.is_recalled = False
            self.give_back_all()

    def _look(self) -> None:
        """Looks at the pipe while a function runs."""
        self._inbox.read_what_is_there(self._uplink.settle)
        self._heed_recall()
        self.stop_if_cancelled()

    def _cancelling(self, call: int) -> None:
        """A thread of the user's may be who reads that."""
        if call == self.current and threading.get_ident() != self._main:
            self._attention.again()
