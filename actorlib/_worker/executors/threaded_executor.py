"""Runs several calls of an actor at once, on threads that are created on demand.

The main thread has run the constructor. It reads the socket and gives each call to a
thread of its group, in order. A group never has more threads than calls that may run at
once. While a thread waits for another actor, the main thread reads for it. While the
main thread waits for the last calls, waiting threads read themselves.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from actorlib._base.ids import LINKED
from actorlib._wire.messages import CALL, CALL_WITH, STOP, STREAM_ACK, Frame
from actorlib._worker.executors.concurrency_groups import Gate, Gates
from actorlib._worker.executors.group_threads import GroupThreads
from actorlib._worker.executors.invoke import CallExecutor
from actorlib._worker.executors.serial_executor import make_actor
from actorlib._worker.executors.termination import end_after_calls, end_now
from actorlib._worker.startup import shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.executors.serial_executor import SerialOwnerClient
    from actorlib._worker.startup import Start


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Serves a threaded actor: creates it, runs its calls, ends it."""
    client, instance = make_actor(start, pipe)
    executor = ThreadedExecutor(client, instance, start)
    if not start.config.is_inline:
        end_after_calls(executor.terminate)
    with shutting_down(instance):
        executor.run()


class ThreadedExecutor(CallExecutor["SerialOwnerClient"]):
    """Runs the methods of an actor on threads, while the main thread reads its pipe."""

    def __init__(
        self, client: SerialOwnerClient, instance: object, start: Start
    ) -> None:
        super().__init__(client, client.inbox.streams, client.inbox.cancelled)
        self._instance = instance
        self._find = partial(getattr, instance)
        self._pipe = client.pipe
        self._inbox = client.inbox
        self._gates = Gates(start.config.limits, start.config.groups)
        self._threads = {
            gate: GroupThreads(
                start.threads,
                "-".join(filter(None, (start.config.class_name, group))),
                partial(self._serve, gate),
            )
            for group, gate in self._gates.by_group.items()
        }
        # One lock for the gates, the threads and the counters.
        self._changed = threading.Condition()
        self._running = 0
        self._running_calls: set[int] = set()
        self._is_stopping = False
        self._is_terminating = False
        self._start_thread = start.threads.start
        self._fatal: BaseException | None = None

    # On the main thread.

    def run(self) -> None:
        """Passes calls to threads until the owner stops the actor."""
        inbox, calls = self._inbox, self._inbox.calls
        has_calls = cast("Callable[[], bool]", calls.__len__)
        try:
            while True:
                if not calls:
                    self._forget_cancelled()
                    inbox.read(has_calls)
                frame = calls.popleft()
                if frame[0] in (CALL, CALL_WITH, STREAM_ACK):
                    self._accept(frame)
                elif frame[0] == STOP:
                    if self._client.drain_links():
                        calls.append(frame)
                        continue
                    self._finish()
                    return
        except (EOFError, OSError):
            # If the process stays alive, a stream without a reader would, too.
            inbox.streams.end_all()
            if self._fatal is not None:  # a thread has closed the pipe as a signal
                raise self._fatal from None
            raise
        finally:
            with self._changed:
                for threads in self._threads.values():
                    threads.stop()

    def _accept(self, frame: Frame) -> None:
        group = frame[4].get("group") if frame[0] != CALL else None
        gate = self._gates.of(frame[2], group)
        with self._changed:
            if self._is_terminating or not gate.enter(frame):
                return
            self._running_calls.add(frame[1])
            self._running += 1
            self._threads[gate].submit(frame)

    def terminate(self) -> None:
        """Ends the process by SIGTERM when no call runs; no further call begins."""
        with self._changed:
            self._is_terminating = True
            self._gates.clear()
        self._start_thread("actorlib-end", self._end_when_idle)

    def _end_when_idle(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        end_now()

    def _forget_cancelled(self) -> None:
        """Drops cancellations of calls that are over: no call waits."""
        if not self._inbox.cancelled:
            return
        # Copied first: a cancellation that arrives meanwhile is of a call that is
        # present.
        cancelled = list(self._inbox.cancelled)
        with self._changed:
            if not self._inbox.calls and self._gates.are_empty:
                over = {*cancelled} - self._running_calls
                self._inbox.cancelled.difference_update(over)

    def _finish(self) -> None:
        """Waits until all earlier calls have ended; threads that wait read for it."""
        with self._changed:
            self._is_stopping = True
            while self._running and self._fatal is None:
                self._changed.wait()
        if self._fatal is not None:
            raise self._fatal
        self.close_streams()
        self._client.finish()

    # On the other threads.

    def _serve(self, gate: Gate, frame: Frame) -> Frame | None:
        """Runs a call; returns the call that waited for its place, if any."""
        if self._is_stopping:
            self._inbox.read_available()
        try:
            self.execute(frame)
            self._run_deferred()
        except BaseException as error:  # noqa: BLE001  # it ends the actor
            self._break(error)
            return None
        with self._changed:
            self._running_calls.discard(frame[1])
            following = gate.leave()
            if following is not None:
                self._running_calls.add(following[1])
            else:
                self._running -= 1
                self._threads[gate].became_idle()
                self._changed.notify_all()
        return following

    def _answer(self, answer: Frame) -> None:
        if answer[1] < LINKED:
            self._pipe.send(answer)
        else:
            self._client.incoming_links.answer(answer)

    def _others_wait(self) -> bool:
        return not self._gates.are_empty

    def _run_deferred(self) -> None:
        """Does the work that was deferred while this thread was busy."""
        if self._client.refcount.released:  # rare, so it is checked first
            for returned in self._client.release_frames():
                self._pipe.send(returned)
        self._inbox.run_deferred()

    def _break(self, error: BaseException) -> None:
        """Closes the pipe, so that the owner and the main thread notice its end."""
        with self._changed:
            if self._fatal is None and not isinstance(error, (EOFError, OSError)):
                self._fatal = error
            self._changed.notify_all()
        with suppress(OSError):
            self._pipe.sock.shutdown(socket.SHUT_RDWR)
