"""Asks workers something, and waits no longer than is said for those that are busy.

A worker answers when it reads its pipe. One that runs a long plain method, is stopped
or stuck does not: it is named instead, and nobody waits for it beyond the limit. It is
not asked again before it has answered, so what it has to read does not grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from actorlib._owner.teardown import Phase

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._wire.messages import Frame


class Told(NamedTuple):
    """What workers have answered.

    Attributes:
        answers: Each with the session of the worker.
        silent: The sessions of those that did not answer in time.
    """

    answers: list[tuple[WorkerSession, Any]]
    silent: list[WorkerSession]


class _Inquiry:
    def __init__(
        self, asked: Collection[WorkerSession], future: asyncio.Future[Told]
    ) -> None:
        self.waiting = {session.number: session for session in asked}
        self.answers: list[tuple[WorkerSession, Any]] = []
        self.future = future

    def take(self, session: WorkerSession, *answer: object) -> None:
        if self.waiting.pop(session.number, None) is not None:
            self.answers += [(session, value) for value in answer]
        if not self.waiting:
            self.end()

    def end(self) -> None:
        if not self.future.done():
            self.future.set_result(Told(self.answers, [*self.waiting.values()]))


@final
class Inquiries:
    """Asks the workers of one runtime.

    Args:
        loop: The owner's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: dict[tuple[int, int, int], list[_Inquiry]] = {}

    def ask(
        self,
        sessions: Collection[WorkerSession],
        frame: Frame,
        patience: float,
        number: int = 0,
    ) -> asyncio.Future[Told]:
        """Asks workers; done when all have answered, or are gone, or time is over.

        Args:
            sessions: The workers.
            frame: The question; each answers by one frame of the same kind.
            patience: Seconds.
            number: That of the question, if the answer is to no other of its kind.
        """
        future: asyncio.Future[Told] = self._loop.create_future()
        inquiry = _Inquiry(sessions, future)
        kind = frame[0]
        for session in sessions:
            key = session.number, kind, number
            others = self._asked.get(key)
            if others is None:
                session.cleanup.add(Phase.ROUTES, self.on_worker_gone)
                session.channel.send(frame)
            waiting = [other for other in others or () if not other.future.done()]
            self._asked[key] = [*waiting, inquiry]
        if not sessions:
            inquiry.end()
            return future
        timer = self._loop.call_later(patience, inquiry.end)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def answered(
        self, session: WorkerSession, kind: int, answer: object, number: int = 0
    ) -> None:
        """A worker has answered; nothing happens if nobody has asked it."""
        for inquiry in self._asked.pop((session.number, kind, number), ()):
            inquiry.take(session, answer)

    def on_worker_gone(self, session: WorkerSession) -> None:
        """A worker is gone, and answers nothing."""
        for key in [key for key in self._asked if key[0] == session.number]:
            for inquiry in self._asked.pop(key):
                inquiry.take(session)
