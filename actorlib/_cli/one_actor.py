"""Explains and ends one actor of a runtime: ``actorlib explain``, ``actorlib kill``."""

from __future__ import annotations

import os
import select
from contextlib import suppress

from actorlib._cli.choosing import ask_actor, title_of
from actorlib._cli.pages import console, printable, write_document
from actorlib._queries.client import ask_loop, the_runtime
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

_PATIENCE = 10.0
"""Seconds in which a killed process has to end."""


def explain(word: str, *, as_json: bool, pid: int | None) -> None:
    """Prints why an actor waits, or its placement."""
    address = the_runtime(pid)
    _, row = ask_actor(address, word)
    explanation = ask_loop(address, "explain", actor=row.actor_id)
    if as_json:
        write_document({"id": row.actor_id, "explanation": explanation})
    else:
        console().print(printable(explanation))


def kill(word: str, *, as_json: bool, is_restarted: bool, pid: int | None) -> None:
    """Ends an actor at once, and waits until its process is gone."""
    address = the_runtime(pid)
    _, row = ask_actor(address, word)
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


def _open_process(pid: int) -> int | None:
    if pid and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _has_ended(process: int) -> bool:
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(_PATIENCE * 1000))
