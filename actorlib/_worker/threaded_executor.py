"""Several calls at once, on threads that are made when they are needed.

The main thread ran the constructor; from then on it reads the socket and gives each
call to a thread of its group, in the order in which they came. There are never more
threads of a group than calls of it that may run at once. A thread that waits for
another actor has the main one read for it, and reads itself while that one waits for
the last calls.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from actorlib._core.current_call import is_late
from actorlib._wire.messages import CALL, CALL_WITH, LINKED, STOP, STREAM_ACK, Frame
from actorlib._worker import invoke
from actorlib._worker.concurrency_groups import Gate, Gates
from actorlib._worker.generator_runner import GeneratorRunner
from actorlib._worker.generators import is_stream
from actorlib._worker.serial_executor import begin
from actorlib._worker.startup import GroupThreads, shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.inbox import Inbox
    from actorlib._worker.serial_executor import SerialOwnerClient
    from actorlib._worker.startup import Start


def serve(start: Start, pipe: BlockingChannel) -> None:
    """Lives the life of a threaded actor: born, called, stopped.

    Raises:
        BaseException: What ends the process, as for a serial actor.
        EOFError: The owner is gone.
    """
    instance, inbox, uplink = begin(start, pipe)
    with shutting_down(instance):
        _Threaded(start, instance, pipe, inbox, uplink).run()


class _Threaded:
    def __init__(
        self,
        start: Start,
        instance: object,
        pipe: BlockingChannel,
        inbox: Inbox,
        uplink: SerialOwnerClient,
    ) -> None:
        self._instance = instance
        self._pipe = pipe
        self._inbox = inbox
        self._uplink = uplink
        self._gates = Gates(start.config.limits, start.config.groups)
        self._threads = {
            gate: GroupThreads(
                start.crew,
                _named(start.config.class_name, group),
                partial(self._serve, gate),
            )
            for group, gate in self._gates.by_group().items()
        }
        # One lock for the gates, the threads and the counts.
        self._changed = threading.Condition()
        self._running = 0
        self._begun: set[int] = set()
        self._is_stopping = False
        self._fatal: BaseException | None = None
        self._producer = GeneratorRunner(
            partial(getattr, instance),
            self._where,
            uplink,
            inbox.streams,
            pipe.send,
            pipe.send,
            lambda: not self._gates.are_empty,
            inbox.cancelled,
        )

    # On the main thread.

    def run(self) -> None:
        inbox, calls = self._inbox, self._inbox.calls
        has_calls = cast("Callable[[], bool]", calls.__len__)
        try:
            while True:
                if not calls:
                    self._forget_cancelled()
                    inbox.read(has_calls, self._uplink.settle)
                frame = calls.popleft()
                if frame[0] in (CALL, CALL_WITH, STREAM_ACK):
                    self._accept(frame)
                elif frame[0] == STOP:
                    if self._uplink.part():
                        calls.append(frame)
                        continue
                    self._finish()
                    return
        except (EOFError, OSError):
            # Where the process lives on, a stream that nobody reads would too.
            inbox.streams.end_all()
            if self._fatal is not None:  # a thread has closed the pipe to say so
                raise self._fatal from None
            raise
        finally:
            with self._changed:
                for threads in self._threads.values():
                    threads.end()

    def _accept(self, frame: Frame) -> None:
        group = frame[4].get("group") if frame[0] != CALL else None
        gate = self._gates.of(frame[2], group)
        with self._changed:
            if not gate.enter(frame):
                return
            self._begun.add(frame[1])
            self._running += 1
            self._threads[gate].give(frame)

    def _forget_cancelled(self) -> None:
        """Drops cancellations of calls that are over: none waits any more."""
        if not self._inbox.cancelled:
            return
        # Looked at in this order: one that comes meanwhile is of a call that is there.
        known = list(self._inbox.cancelled)
        with self._changed:
            if not self._inbox.calls and self._gates.are_empty:
                self._inbox.cancelled.difference_update({*known} - self._begun)

    def _finish(self) -> None:
        """Lets everything that came before end; threads that wait read for it."""
        with self._changed:
            self._is_stopping = True
            while self._running and self._fatal is None:
                self._changed.wait()
        if self._fatal is not None:
            raise self._fatal
        self._producer.close()
        self._uplink.finish()

    # On any other.

    def _serve(self, gate: Gate, frame: Frame) -> Frame | None:
        """Runs a call; gives the one that waited for its place, if one did."""
        if self._is_stopping:
            self._inbox.read_what_is_there(self._uplink.settle)
        try:
            if frame[0] != CALL and is_stream(frame):
                self._serve_stream(frame)
            else:
                self._serve_call(frame)
            self._tidy()
        except BaseException as error:  # noqa: BLE001  # it ends the actor, from the main thread
            self._break(error)
            return None
        with self._changed:
            self._begun.discard(frame[1])
            following = gate.leave()
            if following is not None:
                self._begun.add(following[1])
            else:
                self._running -= 1
                self._threads[gate].rested()
                self._changed.notify_all()
        return following

    def _serve_call(self, frame: Frame) -> None:
        _, call, name, loans, *told, _ = frame
        if call in self._inbox.cancelled or (told and is_late(told[0])):
            self._inbox.cancelled.discard(call)
            self._uplink.guests.over(call)
            with self._uplink.borrowing(loans):
                return
        if call >= LINKED:
            self._uplink.guests.began(call, name)
        answer, held = invoke.invoke(self._uplink, self._instance, frame)
        # What it gave or raised is still held here: a handle in it is given back after
        # it was sent.
        if call < LINKED:
            self._pipe.send(answer)
        else:
            self._uplink.guests.answer(answer)
        del held

    def _serve_stream(self, frame: Frame) -> None:
        streams = self._inbox.streams
        if not self._producer.serve(frame):
            streams.set_aside(streams.of(frame[1]))

    def _tidy(self) -> None:
        """Does what was put off while this thread was busy."""
        for returned in self._uplink.returns():
            self._pipe.send(returned)
        self._inbox.call_back()

    def _break(self, error: BaseException) -> None:
        """Closes the pipe: the owner sees its end now, and so does the main thread."""
        with self._changed:
            if self._fatal is None and not isinstance(error, (EOFError, OSError)):
                self._fatal = error
            self._changed.notify_all()
        with suppress(OSError):
            self._pipe.sock.shutdown(socket.SHUT_RDWR)

    def _where(self, method: str) -> str:
        return self._uplink.where(method)


def _named(name: str, group: str) -> str:
    """What the threads of a group are called."""
    return f"{name}-{group}" if group else name
