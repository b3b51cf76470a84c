"""Shows the calls under way in a runtime: ``actorlib calls``.

``Calls`` is the document that ``actorlib calls --json`` prints: its names are promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from rich.console import Group
from rich.text import Text

from actorlib._cli.choosing import find_actor
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, in_time, printable
from actorlib._core.tables import table
from actorlib._door.client import ask_loop, the_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

_PATIENCE = 5.0


class CallFound(TypedDict):
    """A call without an answer; see ``actorlib.CallInfo``.

    ``id`` is what ``get_task_id()`` says in it, empty until it was sent; ``actor`` is
    the id of the actor, empty for a function; ``age`` and ``left`` are the seconds
    since it was made and until its time is over, null where that is unknown or there is
    no such time. ``caller`` is empty for the program's own code.
    """

    id: str
    name: str
    actor: str
    actor_name: str | None
    state: str
    age: float | None
    left: float | None
    caller: str
    variables: dict[str, Any]


class Calls(TypedDict):
    """The calls of a runtime.

    ``left_out`` is how many more there are; ``silent`` are the actors that did not say
    in time which calls they have made without the program's process.
    """

    pid: int
    calls: list[CallFound]
    left_out: int
    silent: list[str]


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
        rows = ask_loop(address, "status", patience=_PATIENCE, dead=True)["actors"]
        about["actor"] = find_actor(rows, word)["actor_id"]
    found = described(ask_loop(address, "calls", patience=_PATIENCE, **about))
    if as_json:
        write_document(found)
    else:
        console().print(draw(found), crop=False)
    return 0


def described(told: Mapping[str, Any]) -> Calls:
    """Makes the document of what a runtime has told.

    Args:
        told: What it has told.
    """
    return {
        "pid": told["pid"],
        "calls": [
            {
                "id": row["task_id"],
                "name": row["name"],
                "actor": row["actor_id"],
                "actor_name": row["actor_name"],
                "state": row["state"],
                "age": row["age"],
                "left": row["deadline"],
                "caller": row["caller"],
                "variables": row["variables"],
            }
            for row in told["calls"]
        ],
        "left_out": told["left_out"],
        "silent": told["silent"],
    }


def draw(found: Calls) -> RenderableType:
    """Puts the calls on a page for people."""
    found = printable(found)
    notes = [
        Text(
            f"{name} does not say which calls it has made straight to other actors: "
            "it runs a plain method, or is stopped or stuck."
        )
        for name in found["silent"]
    ]
    if not found["calls"]:
        return Group(Text("No call is under way."), *notes)
    if found["left_out"]:
        notes.insert(0, Text(f"{found['left_out']:,} more are not shown."))
    rows = [
        (
            call["id"] or "-",
            call["name"],
            "-" if call["actor_name"] is None else repr(call["actor_name"]),
            call["state"],
            in_time(call["age"]),
            in_time(call["left"]),
            call["caller"] or "the program",
        )
        for call in found["calls"]
    ]
    made = table(
        ["id", "call", "of", "state", "age", "deadline in", "caller"],
        rows,
        right={"age", "deadline in"},
    )
    return Group(made, *notes)
