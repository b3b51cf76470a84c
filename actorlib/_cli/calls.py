"""Shows the unanswered calls of a runtime: ``actorlib calls``.

``Calls`` is the document that ``actorlib calls --json`` prints, with the columns of
``DOCUMENT``: their names are promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from actorlib._cli.choosing import ask_actor
from actorlib._cli.pages import console, in_time, printable, write_document
from actorlib._queries.client import ask_loop, the_runtime
from actorlib._rows.rows import RowEncoder
from actorlib._rows.snapshot import CallInfo
from actorlib._rows.tables import Column, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from actorlib._queries.rows import Calls


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


def show(*, as_json: bool, word: str | None, pid: int | None) -> None:
    """Prints the calls that have no answer, of one actor or of all."""
    address = the_runtime(pid)
    about: dict[str, Any] = {}
    if word is not None:
        about["actor"] = ask_actor(address, word)[1].actor_id
    answer: Calls = ask_loop(address, "calls", **about)
    if as_json:
        write_document(DOCUMENT.encode(answer))
    else:
        console().print(draw(answer), crop=False)


def draw(answer: Calls) -> RenderableType:
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
