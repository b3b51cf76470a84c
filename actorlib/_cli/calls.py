"""Shows the unanswered calls of a runtime: ``actorlib calls``.

``Calls`` is the document that ``actorlib calls --json`` prints, with the columns of
``DOCUMENT``: their names are promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from actorlib._cli.choosing import find_actor
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, in_time, printable
from actorlib._queries.client import ask_loop, the_runtime
from actorlib._rows.rows import RowEncoder
from actorlib._rows.snapshot import CallInfo
from actorlib._rows.tables import Column, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from actorlib._queries.rows import Calls, Status

_PATIENCE = 5.0


DOCUMENT: Final = RowEncoder(
    {
        CallInfo: (
            "id=task_id name actor=actor_id actor_name state age left=deadline "
            "caller variables"
        )
    }
)
"""The columns of the document."""
_COLUMNS: list[Column[CallInfo]] = [
    Column("id", lambda call: call.task_id or "-"),
    Column("call", lambda call: call.name),
    Column(
        "of", lambda call: "-" if call.actor_name is None else repr(call.actor_name)
    ),
    Column("state", lambda call: call.state),
    Column("age", lambda call: in_time(call.age), is_number=True),
    Column("deadline in", lambda call: in_time(call.deadline), is_number=True),
    Column("caller", lambda call: call.caller or "the program"),
]


def show(*, as_json: bool, word: str | None = None, pid: int | None = None) -> int:
    """Prints the calls that have no answer.

    Args:
        as_json: Whether to print one JSON document instead of a table.
        word: Those of one actor alone: see ``find_actor``; None for all.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime, or no such actor.
        RuntimeUnreachableError: It does not answer.
    """
    address = the_runtime(pid)
    about: dict[str, Any] = {}
    if word is not None:
        status: Status = ask_loop(address, "status", patience=_PATIENCE, dead=True)
        about["actor"] = find_actor(status.snapshot.actors, word).actor_id
    answer: Calls = ask_loop(address, "calls", patience=_PATIENCE, **about)
    if as_json:
        write_document(DOCUMENT.encode(answer))
    else:
        console().print(draw(answer), crop=False)
    return 0


def draw(answer: Calls) -> RenderableType:
    """Lays out the calls as a table."""
    answer = printable(answer)
    notes = [
        Text(
            f"{name} does not report which calls it has made over links: "
            "it runs a plain method, or is stopped or stuck."
        )
        for name in answer.silent
    ]
    if not answer.calls:
        return Group(Text("No call is under way."), *notes)
    if answer.left_out:
        notes.insert(0, Text(f"{answer.left_out:,} more are not shown."))
    return Group(table(_COLUMNS, answer.calls), *notes)
