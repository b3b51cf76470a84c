"""Answers that wait for what becomes of an actor: that it is ready, or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._wire.frames import AT_ONCE, BEHIND_CALLS, RESULT, TO_RESTART
from actorlib._wire.payload import encode

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.reply import Asker
    from actorlib._local.supervisor import Life


def answer_when(asker: Asker, life: Life, manner: int | None = None) -> None:
    """Answers a worker when an actor is ready, or was ended.

    Args:
        asker: The worker.
        life: The actor.
        manner: How it is ended; None if it is not.
    """
    moment = life.ready() if manner is None else _ENDINGS[manner](life)

    def answer(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            asker.fail(error)
        else:
            asker.answer((RESULT, 0, None, encode(None)))

    moment.add_done_callback(answer)


def _end(life: Life) -> asyncio.Future[None]:
    life.end("it was ended by another actor")
    return life.ended


def _kill(life: Life) -> asyncio.Future[None]:
    life.kill("it was killed by another actor")
    return life.ended


def _restart(life: Life) -> asyncio.Future[None]:
    return life.interrupt("it was killed by another actor, to be restarted")


_ENDINGS = {BEHIND_CALLS: _end, AT_ONCE: _kill, TO_RESTART: _restart}
