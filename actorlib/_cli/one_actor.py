"""Explains and ends one actor of a runtime: ``actorlib explain``, ``actorlib kill``."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING

from actorlib._cli.choosing import find_actor, title_of
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, printable
from actorlib._queries.client import ask_loop, the_runtime
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._queries.addresses import Address
    from actorlib._queries.rows import Status
    from actorlib._rows.snapshot import ActorInfo

_PATIENCE = 10.0
"""Seconds in which a killed process has to end."""


def explain(word: str, *, as_json: bool, pid: int | None = None) -> int:
    """Prints why an actor waits, or its placement.

    Args:
        word: Which actor: see ``find_actor``.
        as_json: Whether to print one JSON document instead of text.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime, or no such actor.
        RuntimeUnreachableError: It does not answer.
    """
    address, row = _find(word, pid)
    explanation = ask_loop(address, "explain", actor=row.actor_id)
    if as_json:
        write_document({"id": row.actor_id, "explanation": explanation})
    else:
        console().print(printable(explanation))
    return 0


def kill(
    word: str, *, as_json: bool, is_restarted: bool = False, pid: int | None = None
) -> int:
    """Ends an actor at once, and waits until its process is gone.

    Args:
        word: Which actor: see ``find_actor``.
        as_json: Whether to print one JSON document instead of text.
        is_restarted: Whether it is restarted if its options allow that.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime, or no such actor that lives.
        RuntimeUnreachableError: It does not answer, or its process does not end.
    """
    address, row = _find(word, pid)
    title = title_of(row)
    if row.state == "dead":
        raise RuntimeNotFoundError(f"{title} is dead: {row.death}")
    # Opened before it is killed: later its number may be that of another process.
    process = _open_process(row.pid)
    try:
        ask_loop(address, "kill", actor=row.actor_id, restart=is_restarted)
        if process is not None and not _has_ended(process):
            raise RuntimeUnreachableError(
                f"{title} was killed, and its process is there {_PATIENCE:g} s later: "
                "it may wait for a device in the kernel"
            )
    finally:
        if process is not None:
            os.close(process)
    if as_json:
        write_document({"id": row.actor_id, "pid": row.pid})
    else:
        console().print(printable(f"{title} was killed."))
    return 0


def _find(word: str, pid: int | None) -> tuple[Address, ActorInfo]:
    address = the_runtime(pid)
    status: Status = ask_loop(address, "status", dead=True)
    return address, find_actor(status.snapshot.actors, word)


def _open_process(pid: int) -> int | None:
    if pid and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_ended(process: int) -> bool:
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(_PATIENCE * 1000))
