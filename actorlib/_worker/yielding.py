"""Functions that yield: each runs until its reader is behind, and then waits for it.

An actor sets such a stream aside and serves other calls. A worker of functions has one
call at a time, so it waits; but as one that waits for a result it gives its CPU back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actorlib._calling import running
from actorlib._worker.producer import Producer
from actorlib._worker.uplink import MOMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from actorlib._wire.frames import Frame
    from actorlib._wire.pipe import Pipe
    from actorlib._worker.inbox import Inbox
    from actorlib._worker.uplink import Uplink


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


class Yielding:
    """Serves calls of functions that yield.

    Args:
        runner: Who runs functions here.
        uplink: The engine.
        pipe: Where the items go.
        inbox: What came.
    """

    def __init__(
        self, runner: Runner, uplink: Uplink, pipe: Pipe, inbox: Inbox
    ) -> None:
        self._runner = runner
        self._inbox = inbox
        self._settle = uplink.settle
        self._send = pipe.send
        self._producer = Producer(
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
