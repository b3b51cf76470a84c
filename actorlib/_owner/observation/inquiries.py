"""Asks workers a question, and waits a limited time for busy ones.

A worker answers when it reads its pipe. A worker that runs a long plain method, is
stopped or hangs does not answer in time: it is listed as silent. It is not asked again
before it has answered, so its unread frames do not accumulate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from actorlib._owner.actors.worker_session import Phase

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._wire.messages import Frame


class Answers(NamedTuple):
    """The answers of workers.

    Attributes:
        answers: The answers, each with the session of the worker.
        silent: The sessions of the workers that did not answer in time.
    """

    answers: list[tuple[WorkerSession, Any]]
    silent: list[WorkerSession]


class _Inquiry:
    def __init__(
        self, sessions: Collection[WorkerSession], future: asyncio.Future[Answers]
    ) -> None:
        self.waiting = {session.number: session for session in sessions}
        self.answers: list[tuple[WorkerSession, Any]] = []
        self.future = future

    def take(self, session: WorkerSession, *answer: object) -> None:
        if self.waiting.pop(session.number, None) is not None:
            self.answers += [(session, value) for value in answer]
        if not self.waiting:
            self.end()

    def end(self) -> None:
        if not self.future.done():
            self.future.set_result(Answers(self.answers, [*self.waiting.values()]))


@final
class Inquiries:
    """Asks the workers of one runtime."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: dict[tuple[int, int, int], list[_Inquiry]] = {}

    def ask(
        self,
        sessions: Collection[WorkerSession],
        frame: Frame,
        patience: float,
        number: int = 0,
    ) -> asyncio.Future[Answers]:
        """Asks workers; done when all have answered or ended, or the time is over.

        Args:
            sessions: The workers.
            frame: The question; each answers by one frame of the same kind.
            patience: The maximum time, in seconds.
            number: The number of the question, if there are several of its kind.
        """
        future: asyncio.Future[Answers] = self._loop.create_future()
        inquiry = _Inquiry(sessions, future)
        kind = frame[0]
        for session in sessions:
            key = session.number, kind, number
            others = self._pending.get(key)
            if others is None:
                session.cleanup.add(Phase.ROUTES, self.on_worker_gone)
                session.channel.send(frame)
            waiting = [other for other in others or () if not other.future.done()]
            self._pending[key] = [*waiting, inquiry]
        if not sessions:
            inquiry.end()
            return future
        timer = self._loop.call_later(patience, inquiry.end)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def answered(
        self, session: WorkerSession, kind: int, answer: object, number: int = 0
    ) -> None:
        """Handles the answer of a worker; ignored if there was no question."""
        for inquiry in self._pending.pop((session.number, kind, number), ()):
            inquiry.take(session, answer)

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Completes the questions to a worker that has ended."""
        for key in [key for key in self._pending if key[0] == session.number]:
            for inquiry in self._pending.pop(key):
                inquiry.take(session)
