"""Workers without processes: what each of them sends is said by the test.

They live on the owner's loop and speak over real socket pairs, so a runtime of theirs
does everything that one of processes does, thousands of times a minute.
"""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, final

import pytest

import actorlib
from actorlib._inline import launcher as inline
from actorlib._processes.launcher import Launcher, ProcessExit, WorkerProcess
from actorlib._shm.memory import SharedMemory
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    FAILURE,
    ITEM,
    READY,
    RELEASE_REFS,
    RESULT,
    START,
    STOP,
    Frame,
)
from actorlib._wire.serialization import encode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Sequence

    from actorlib._options.runtime_options import RuntimeOptions

    Behaviour = Callable[["ScriptedWorker", Frame], None]

KILLED = 9
_LOANS_AT = {CALL: 3, CALL_WITH: 3, RESULT: 2, FAILURE: 6, ITEM: 3}


@final
class ScriptedWorker(WorkerProcess):
    """A worker that does what it is told.

    Args:
        loop: The owner's loop.
        name: The name of its actor's class.
        behave: What it does with each frame that comes.

    Attributes:
        name: The same.
        frames: What has come, in order.
        config: What START has told it; there from then on.
        sharing: Shared memory as the owner has told it of.
        shown: What was shown as its output.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, behave: Behaviour
    ) -> None:
        self.name = name
        self._pid = os.getpid()
        self._exited: asyncio.Future[ProcessExit] = loop.create_future()
        self._near, self._theirs = socket.socketpair()
        self.frames: list[Frame] = []
        self.shown: list[str] = []
        self.config: ActorConfig
        self.sharing = SegmentSharing(SharedMemory())
        self.error: Exception | None = None
        self._behave = behave
        self._loop = loop
        self._channel: AsyncChannel | None = None
        self._theirs.setblocking(False)  # noqa: FBT003  # the socket API
        loop.add_reader(self._theirs.fileno(), self._first)

    @property
    def prefix(self) -> bytes:
        """How the ids of what it makes begin."""
        return self.config.prefix

    @property
    def session(self) -> int:
        """The number of its session."""
        return int.from_bytes(self.prefix[4:])

    def send(self, *frames: Frame) -> None:
        """Sends frames, if it is there still."""
        for frame in frames:
            if self._channel is not None and self._channel.is_open:
                self._channel.send(frame)

    def put(self, data: bytes) -> None:
        """Sends bytes, whatever they are."""
        if self._channel is not None and self._channel.is_open:
            self._channel.write(data)

    def hang_up(self) -> None:
        """Closes its pipe, and does not end."""
        if self._channel is not None:
            self._channel.close()

    def leave(self, how: ProcessExit) -> None:
        """Ends, as a process does."""
        if self._channel is not None:
            self._channel.close()
        elif not self.exited.done():
            self._loop.remove_reader(self._theirs.fileno())
            self._theirs.close()
        if not self.exited.done():
            self.exited.set_result(how)

    # WorkerProcess.

    @property
    def sock(self) -> socket.socket:
        """See WorkerProcess."""
        return self._near

    @property
    def pid(self) -> int:
        """See WorkerProcess."""
        return self._pid

    @property
    def delay(self) -> str:
        """See WorkerProcess."""
        return ""

    @property
    def exited(self) -> asyncio.Future[ProcessExit]:
        """See WorkerProcess."""
        return self._exited

    def rename(self, name: str | Callable[[], str]) -> None:
        """Nothing: it has no output of its own."""

    def kill(self) -> None:
        """Ends it at once."""
        self._loop.call_soon(self.leave, ProcessExit(signal=KILLED))

    def identify(self, pid: int) -> None:
        """Nothing: it is known from the start."""

    def keep_output(self, keep: Callable[[str, str, int, list[bytes]], None]) -> None:
        """Nothing: it has no output of its own."""

    def show(self, text: str) -> None:
        """Keeps what is shown of it."""
        self.shown.append(text)

    def _first(self) -> None:
        try:
            data = self.sharing.read_first(self._theirs, 64 * 1024)
        except OSError:
            data = b""
        self._loop.remove_reader(self._theirs.fileno())
        decoder = FrameDecoder(self.sharing)
        self._channel = AsyncChannel(
            self._loop,
            self._theirs,
            self._receive,
            self._lost,
            sharing=self.sharing,
            decoder=decoder,
        )
        if data:
            self._receive(decoder.feed(data))
        else:
            self._lost(None)

    def _receive(self, frames: list[Frame]) -> None:
        for frame in frames:
            self.frames.append(frame)
            if frame[0] == START:
                self.config = ActorConfig(**frame[1])
            self._behave(self, frame)

    def _lost(self, error: Exception | None) -> None:
        self.error = error
        self.leave(ProcessExit(code=0))


@final
class ScriptedLauncher(Launcher):
    """Starts such workers.

    Args:
        loop: The owner's loop.
        behaviours: What the workers of an actor do, by the name of its class; all
            others are polite.

    Attributes:
        behaviours: The same.
        workers: Those that were started, in order.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, behaviours: dict[str, Behaviour]
    ) -> None:
        self._environment: dict[str, str | None] = {}
        self.workers: list[ScriptedWorker] = []
        self._loop = loop
        self.behaviours = behaviours

    @property
    def environment(self) -> dict[str, str | None]:
        """See Launcher."""
        return self._environment

    async def start(self) -> None:
        """Nothing has to be made ready; see Launcher."""

    def launch(self, name: str, *, has_devices: bool) -> ScriptedWorker:
        """Starts a worker; see Launcher."""
        del has_devices
        behave = self.behaviours.get(name, be_polite)
        worker = ScriptedWorker(self._loop, name, behave)
        self.workers.append(worker)
        return worker

    def keep_open(self, descriptors: Sequence[int]) -> None:
        """Nothing: the workers end with this process; see Launcher."""

    def show_output(self) -> None:
        """Nothing: they have no output; see Launcher."""

    def abandon(self) -> Callable[[], None]:
        """Ends them all; see Launcher."""
        for worker in self.workers:
            worker.leave(ProcessExit(signal=KILLED))
        return lambda: None

    async def aclose(self) -> None:
        """Ends them all; see Launcher."""
        self.abandon()
        for worker in self.workers:
            if worker.sharing.memory.budget is not None:
                worker.sharing.memory.close()


def be_polite(worker: ScriptedWorker, frame: Frame) -> None:
    """Answers every call with None, gives back what it is lent, leaves when told to."""
    kind = frame[0]
    if kind == START:
        worker.send((READY, "", worker.pid))
    elif kind in (CALL, CALL_SCALARS, CALL_WITH):
        worker.send((RESULT, frame[1], None, encode(None)))
    elif kind == STOP:
        worker.leave(ProcessExit(code=0))
    if kind in _LOANS_AT:
        loans = frame[_LOANS_AT[kind]] or ()
        worker.send(*((RELEASE_REFS, loan, 1) for loan in loans))


def be_silent(worker: ScriptedWorker, frame: Frame) -> None:
    """Is ready, and says nothing more but what the test has it say."""
    if frame[0] == START:
        worker.send((READY, "", worker.pid))


def be_busy(called: asyncio.Event) -> Behaviour:
    """Makes one that is silent, and sets an event when it is called."""

    def behave(worker: ScriptedWorker, frame: Frame) -> None:
        be_silent(worker, frame)
        if frame[0] in (CALL, CALL_SCALARS, CALL_WITH):
            called.set()

    return behave


@asynccontextmanager
async def scripted(
    behaviours: dict[str, Behaviour], **options: Any
) -> AsyncGenerator[ScriptedLauncher]:
    """A runtime of such workers around a test.

    Args:
        behaviours: See ScriptedLauncher.
        **options: As for ``init()``.
    """
    made: list[ScriptedLauncher] = []

    def launch(
        loop: asyncio.AbstractEventLoop, given: RuntimeOptions
    ) -> ScriptedLauncher:
        del given
        made.append(ScriptedLauncher(loop, behaviours))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline, "InlineLauncher", launch)
        async with actorlib.init(engine="inline", grace=0.05, **options):
            yield made[0]
