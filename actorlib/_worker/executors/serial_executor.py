"""Runs the calls of an actor one at a time on the main thread, without an event loop.

The thread that runs the user's code also reads the socket. No thread reads while a
method runs, and none has to. A nested call reads until its own answer arrives, and
keeps the other frames in order. The worker wakes once per burst: it runs all calls that
have arrived and sends the answers in one write. But an answer that is ready does not
wait behind a method that may be slow.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import LINKED
from actorlib._core.current_call import running
from actorlib._core.engine import ActorExit, set_engine
from actorlib._shm.running_calls import ALONE, HIGHEST
from actorlib._wire.messages import CALL, CALL_WITH, STOP, STREAM_ACK, Frame
from actorlib._worker.executors.generators import is_stream
from actorlib._worker.executors.invoke import CallExecutor, MethodTiming
from actorlib._worker.requests.client import OwnerClient
from actorlib._worker.requests.inbox import PipeInbox
from actorlib._worker.startup import construct, shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._shm.running_calls import RunningCalls
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.links.incoming_links import IncomingLinks
    from actorlib._worker.startup import Start


class SerialOwnerClient(OwnerClient):
    """The client of a worker without an event loop."""

    inbox: PipeInbox

    def __init__(self, start: Start, pipe: BlockingChannel) -> None:
        inbox = self._new_inbox(start, pipe)
        super().__init__(start, None, pipe, inbox)
        if start.config.limits:
            self._method_thread = None
        self.is_call_cancelled = inbox.cancelled.__contains__

    def _new_inbox(self, start: Start, pipe: BlockingChannel) -> PipeInbox:
        return PipeInbox(self, pipe, start.config.max_unread)

    def post(self, frame: Frame) -> None:
        """Sends a frame now: the method that posts it may run for long."""
        self.pipe.send(frame)

    def gather(self, frame: Frame) -> None:
        if threading.get_ident() == self._method_thread:
            self.pipe.gather(frame)
        else:
            self.post(frame)

    def offer(self, frame: Frame) -> bool:
        if self._is_in_fork:
            raise EOFError("the pipe is that of the parent of this process")
        return self.pipe.offer(frame)

    def return_borrowed_soon(self) -> None:
        """Returns references now, or when the pipe is free; see OwnerClient.

        Between two calls they leave with the next answer: arguments are released after
        their call, and the owner is not woken twice. Long bytes are released as soon as
        they are copied, before the call. If the call is known to be quick, they leave
        with its answer, too.
        """
        if threading.get_ident() == self._method_thread and (
            self.returns_late or running.get() is None
        ):
            return
        self._return_borrowed_now()

    def _return_borrowed_now(self) -> None:
        self.pipe.try_send(partial(self.release_frames, wait=False))

    def receive_pending(self) -> None:
        self.inbox.read_available()

    def check_over(self, call: int, error: BaseException | None = None) -> None:
        """Ends the actor, whichever call has called ``exit_actor()``."""
        super().check_over(call, error)
        raise ActorExit

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        if self.refcount.released:  # the call may not be quick this time
            self._return_borrowed_now()
        super().wait(ref, timeout)

    def drain_links(self) -> bool:
        """Closes the links to this actor; True if calls were left on them."""
        if "incoming_links" not in vars(self):
            return False
        frames = self.incoming_links.close_links()
        self.inbox.take(frames)
        return bool(frames)

    def finish(self) -> None:
        """Sends the remaining answers, and requests that wait for their arguments."""
        if "incoming_links" in vars(self):
            self.incoming_links.flush()
        if self.events is not None:
            self.events.close()
        self.pipe.flush()
        if "sender" in vars(self):
            all_sent = threading.Event()
            self.sender.when_all_sent(all_sent.set)
            self.inbox.read(all_sent.is_set)


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Serves a serial actor: creates it, runs its calls, ends it."""
    client, instance = make_actor(start, pipe)
    executor = SerialExecutor(client, instance)
    if not start.config.is_inline:
        client.inbox.take_interrupts()
    with shutting_down(instance):
        try:
            executor.run()
        except SystemExit:  # it ends the actor, behind earlier answers
            executor.flush()
            raise


def make_actor(start: Start, pipe: BlockingChannel) -> tuple[SerialOwnerClient, object]:
    """Creates the client of the worker, and the actor's object on this thread."""
    client = SerialOwnerClient(start, pipe)
    set_engine(client)
    instance = construct(start, client)
    client.report_ready(instance)
    return client, instance


class SerialExecutor(CallExecutor[SerialOwnerClient]):
    """Runs the methods of a serial actor, on the thread that reads its pipe."""

    def __init__(self, client: SerialOwnerClient, instance: object) -> None:
        super().__init__(client, client.inbox.streams, client.inbox.cancelled)
        self._instance = instance
        self._find = partial(getattr, instance)
        self._pipe = client.pipe
        self._inbox = client.inbox
        # Set after the first call over a link; most actors have none.
        self._links: IncomingLinks | None = None
        self._timing = MethodTiming()

    def run(self) -> None:
        """Runs the calls until the owner stops the actor."""
        inbox, calls = self._inbox, self._inbox.calls
        has_calls = cast("Callable[[], bool]", calls.__len__)
        while True:
            if not calls:
                self.flush()
                inbox.read(has_calls)
            frame = calls.popleft()
            kind = frame[0]
            if kind in (CALL, CALL_WITH, STREAM_ACK):
                if inbox.cancelled:
                    self._forget_ended(frame[1])
                if kind != CALL and is_stream(frame):
                    self._serve_stream(frame)
                else:
                    self._serve_call(frame)
            elif kind == STOP:
                if self._client.drain_links():
                    calls.append(frame)
                    continue
                self.close_streams()
                self._client.finish()
                return

    def _forget_ended(self, call: int) -> None:
        """Drops cancellations of calls that are over, as another call begins.

        Calls arrive in order, so a smaller number belongs to a call that was answered
        before its cancellation arrived. Cancellations of calls over links are dropped
        with their calls.
        """
        self._inbox.interrupted.clear()
        if call < LINKED:
            cancelled = self._inbox.cancelled
            cancelled.difference_update(
                [number for number in cancelled if number < call]
            )

    def _serve_call(self, frame: Frame) -> None:
        call, name, links = frame[1], frame[2], self._links
        if (
            self._pipe.has_gathered or (links is not None and links.gathered)
        ) and not self._timing.is_quick(name):
            self.flush()
        if frame[3] is not None:
            self._client.is_call_quick = self._timing.is_quick(name)
        if links is None and call >= LINKED:
            links = self._links = self._client.incoming_links
            links.runs_one = True
        started = time.perf_counter()
        if self.execute(frame) and not self._timing.record(
            name, time.perf_counter() - started
        ):
            # Waiting calls may have been cancelled.
            self._inbox.read_available()

    def _serve_stream(self, frame: Frame) -> None:
        self.flush()
        self._client.is_call_quick = False
        self._inbox.interrupted.discard(frame[1])  # a stream is closed instead
        self.execute(frame)

    def flush(self) -> None:
        if self._client.refcount.released:  # rare, so it is checked first
            for returned in self._client.release_frames():
                self._pipe.gather(returned)
        if self._links is not None and self._links.gathered:
            self._links.flush()
        self._pipe.flush()

    def _note_begun(self, noted: RunningCalls, call: int) -> None:
        if call < LINKED:
            noted.cells[HIGHEST] = noted.cells[ALONE] = call

    def _note_over(self, noted: RunningCalls, call: int) -> None:
        if call < LINKED:
            noted.cells[ALONE] = 0

    def _answer(self, answer: Frame) -> None:
        if answer[1] < LINKED:
            self._pipe.gather(answer)
        else:
            self._client.incoming_links.gather(answer)

    def _others_wait(self) -> bool:
        return bool(self._inbox.calls)

    def _read_now(self) -> None:
        self._inbox.read_available()
