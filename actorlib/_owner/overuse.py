"""Acts on actors that have more of a device's memory than they were granted.

What is done is said by ``device_memory_overuse=``, of the actor or else of ``init``:
the log tells of it in any case, and then it is left alone, ended, or the program is
called back.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from actorlib._core.log import warn
from actorlib._owner.exit_reason import exceeded

if TYPE_CHECKING:
    from actorlib._core.shares import OveruseAction
    from actorlib._enforcement.watchdog import Overuse
    from actorlib._owner.supervisor import ActorSupervisor

_log = logging.getLogger("actorlib")


def respond(
    action: OveruseAction, supervisor: ActorSupervisor, overuse: Overuse
) -> None:
    """Does what was asked for an actor that has too much.

    Args:
        action: What was asked.
        supervisor: The actor's.
        overuse: How much it has.
    """
    record = supervisor.record
    with suppress(Exception):  # a handler of the user's may raise
        warn(
            "%s takes more device memory than it was granted: %s", record.title, overuse
        )
    if action == "kill":
        supervisor.exceed(overuse)
    elif callable(action):
        try:
            action(exceeded(record, overuse))
        except Exception:  # noqa: BLE001  # around the user's code
            _log.exception("the function of device_memory_overuse= has failed")
