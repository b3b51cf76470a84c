"""One call at a time on the main thread, without an event loop.

The thread that runs the user's code also reads the socket: while a method runs nobody
reads, and nobody must. A nested call reads until its own answer comes and keeps the
rest in order. The worker wakes once per burst: it runs what arrived and answers in one
write, but an answer that is ready does not wait behind a method that may be slow.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.current_call import is_late
from actorlib._core.engine import ActorExit, set_engine
from actorlib._core.object_ref import unlooped
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    LINKED,
    STOP,
    STREAM_ACK,
    Frame,
)
from actorlib._worker import invoke
from actorlib._worker.client import MOMENT, OwnerClient
from actorlib._worker.generator_runner import GeneratorRunner
from actorlib._worker.generators import is_stream
from actorlib._worker.inbox import Inbox
from actorlib._worker.method_timing import MethodTiming
from actorlib._worker.startup import shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.object_ref import ObjectRef
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.startup import Start


class SerialOwnerClient(OwnerClient):
    """The engine of a worker without an event loop."""

    def __init__(self, start: Start, pipe: BlockingChannel, inbox: Inbox) -> None:
        super().__init__(start, unlooped(_report), pipe, inbox)
        self._pipe = pipe
        self._inbox = inbox
        # The one thread that runs methods, if there is one.
        self._single = None if start.config.limits else threading.get_ident()
        inbox.item = self.item
        inbox.heed = self.heed

    def post(self, frame: Frame) -> None:
        """Sends a frame now: the method that posts it may go on for long."""
        self._pipe.send(frame)

    def return_loans_soon(self) -> None:
        """Gives loans back now, or when the pipe is free again; see OwnerClient."""
        self._pipe.try_send(partial(self.returns, wait=False))

    def tidy(self) -> None:
        """Reads what has come; see OwnerClient."""
        self._inbox.read_what_is_there(self.settle)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once, from whichever thread reads the answer; see Replier."""
        ref.add_done_callback(lambda _: then())

    def later(self, callback: Callable[[], object]) -> None:
        """Calls back when the worker reads next; see OwnerClient."""
        self._inbox.callbacks.append(callback)

    def over(self, call: int, error: BaseException | None = None) -> None:
        """Ends what must not be answered; see Answering.

        Whoever calls ``exit_actor()`` here ends all of it.
        """
        super().over(call, error)
        raise ActorExit

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Reads until the ref is done; see Replier."""
        if self.is_over:
            self.check_parent()
        read = self._inbox.read
        if timeout is not None or threading.get_ident() != self._single:
            read(ref.done, self.settle, timeout)
            return
        if not self._inbox.wait(ref.done, self.settle, MOMENT):
            with self.reporting_wait(ref):
                read(ref.done, self.settle)

    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs was cancelled; reads what has come; see Process."""
        if call not in self._inbox.cancelled:
            self._inbox.read_what_is_there(self.settle)
        return call in self._inbox.cancelled

    def part(self) -> bool:
        """Receives what is left of links before the end; whether that was anything."""
        left = self.guests.close_links()
        self._inbox.take(left, self.settle)
        return bool(left)

    def finish(self) -> None:
        """Sends what was answered, and what was asked and waits for its arguments."""
        went: list[bool] = []
        self.outbox.all_went(lambda: went.append(True))
        self.guests.flush()
        self._pipe.flush()
        self._inbox.read(lambda: bool(went), self.settle)


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Lives the life of a serial actor: born, called, stopped.

    Raises:
        SystemExit: The constructor raised, and the owner was told what.
        BaseException: A method raised what is no ``Exception``.
        EOFError: The owner is gone.
    """
    instance, inbox, uplink = begin(start, pipe)
    serial = _Serial(instance, pipe, inbox, uplink)
    with shutting_down(instance):
        try:
            serial.run()
        except SystemExit:  # it ends the actor, behind what was answered before
            serial.flush()
            raise


def begin(
    start: Start, pipe: BlockingChannel
) -> tuple[object, Inbox, SerialOwnerClient]:
    """Makes the object on this thread, and what the process speaks through.

    Raises:
        SystemExit: The constructor raised, and the owner was told what.
    """
    inbox = Inbox(pipe, start.config.max_unread)
    uplink = SerialOwnerClient(start, pipe, inbox)
    set_engine(uplink)
    instance = uplink.construct(start)
    uplink.report_ready(instance)
    return instance, inbox, uplink


class _Serial:
    def __init__(
        self,
        instance: object,
        pipe: BlockingChannel,
        inbox: Inbox,
        uplink: SerialOwnerClient,
    ) -> None:
        self._instance = instance
        self._pipe = pipe
        self._inbox = inbox
        self._uplink = uplink
        self._guests = uplink.guests
        self._guests.runs_one = True
        self._pace = MethodTiming()
        self._producer = GeneratorRunner(
            partial(getattr, instance),
            self._where,
            uplink,
            inbox.streams,
            pipe.send,
            pipe.send,
            cast("Callable[[], bool]", inbox.calls.__len__),
            inbox.cancelled,
            lambda: inbox.read_what_is_there(uplink.settle),
        )

    def run(self) -> None:
        inbox, calls = self._inbox, self._inbox.calls
        has_calls = cast("Callable[[], bool]", calls.__len__)
        while True:
            if not calls:
                for returned in self._uplink.returns():
                    self._pipe.gather(returned)
                self.flush()
                inbox.read(has_calls, self._uplink.settle)
            frame = calls.popleft()
            if frame[0] in (CALL, CALL_WITH):
                is_timed = frame[0] == CALL_WITH
                if (inbox.cancelled and self._was_cancelled(frame[1])) or (
                    is_timed and is_late(frame[4])
                ):
                    self._guests.over(frame[1])
                    with self._uplink.borrowing(frame[3]):
                        continue
                if frame[0] == CALL_WITH and is_stream(frame):
                    self._serve_stream(frame)
                else:
                    self._serve_call(frame)
            elif frame[0] == STREAM_ACK:
                self._serve_stream(frame)
            elif frame[0] == STOP:
                if self._uplink.part():
                    calls.append(frame)
                    continue
                self._producer.close()
                self._uplink.finish()
                return

    def _was_cancelled(self, call: int) -> bool:
        # Calls come in order, so a smaller number belongs to one that was answered
        # before its cancellation came.
        asked = self._inbox.cancelled
        if call < LINKED:  # others are kept no longer than their calls
            asked.difference_update([number for number in asked if number < call])
        if call not in asked:
            return False
        asked.discard(call)
        return True

    def _serve_call(self, frame: Frame) -> None:
        call, name, guests = frame[1], frame[2], self._guests
        if (self._pipe.has_gathered or guests.gathered) and not self._pace.is_quick(
            name
        ):
            self.flush()
        if call >= LINKED:
            guests.began(call, name)
        started = time.perf_counter()
        answer, held = invoke.invoke(self._uplink, self._instance, frame)
        # What it gave or raised is still held here: a handle in it is given back after
        # it was sent.
        if call < LINKED:
            self._pipe.gather(answer)
        else:
            guests.gather(answer)
            self._inbox.cancelled.discard(call)
        del held
        if not self._pace.ran(name, time.perf_counter() - started):
            # Calls that wait may have been cancelled meanwhile.
            self._inbox.read_what_is_there(self._uplink.settle)

    def flush(self) -> None:
        """Sends what was answered."""
        if self._guests.gathered:
            self._guests.flush()
        self._pipe.flush()

    def _serve_stream(self, frame: Frame) -> None:
        self.flush()
        if not self._producer.serve(frame):
            self._inbox.streams.set_aside(self._inbox.streams.of(frame[1]))

    def _where(self, method: str) -> str:
        return self._uplink.where(method)


def _report(context: dict[str, Any]) -> None:
    """A failed call whose ref was dropped unseen is told on standard error."""
    import logging  # noqa: PLC0415  # only this rare report needs it

    logging.getLogger("actorlib").error(
        context.get("message", ""), exc_info=context.get("exception")
    )
