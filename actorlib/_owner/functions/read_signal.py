"""Has a worker read what it was sent, though the user's code runs there."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from actorlib._wire.forkserver_protocol import INTERRUPT_SIGNAL

if TYPE_CHECKING:
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._wire.async_channel import AsyncChannel


UNSENT_DELAY = 0.005
"""Seconds after which a worker is asked again that did not get all of it."""


def ask_to_read(pid: int, channel: AsyncChannel) -> bool:
    """Sends the signal; True if it is to be sent again, behind what has not left.

    Args:
        pid: The worker's process; 0 while there is none. A worker that is a thread of
            this one gets no signal.
        channel: The owner's end of its pipe.
    """
    if not pid or pid == os.getpid():
        return False
    try:
        os.kill(pid, INTERRUPT_SIGNAL)
    except ProcessLookupError:
        return False
    return bool(channel.unsent)


def have_actor_read(supervisor: ActorSupervisor) -> None:
    """Has an actor read what it was sent, behind what this turn of the loop gathers."""
    loop, channel = supervisor.ended.get_loop(), supervisor.route.channel
    if channel is not None:
        loop.call_soon(partial(_ask_again, supervisor, channel))


def _ask_again(supervisor: ActorSupervisor, channel: AsyncChannel) -> None:
    # Not the worker that it has after a restart: this one's calls are over.
    if supervisor.route.channel is channel and ask_to_read(supervisor.pid, channel):
        loop = supervisor.ended.get_loop()
        loop.call_later(UNSENT_DELAY, partial(_ask_again, supervisor, channel))
