"""Shows the runtimes of this user and what goes on in them: ``actorlib ps``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._cli.documents import write_document
from actorlib._cli.listing import listed
from actorlib._cli.pages import console
from actorlib._door.client import find_runtimes

if TYPE_CHECKING:
    from types import ModuleType


def show(*, as_json: bool, pid: int | None = None, has_dead: bool = False) -> int:
    """Prints the runtimes of this user, and their actors.

    Args:
        as_json: Whether to print one JSON document instead of tables.
        pid: The process of the one that is meant; None for all.
        has_dead: Whether actors are listed that are dead.

    Returns:
        The exit code: 0, or 4 if one of them does not answer at all.

    Raises:
        RuntimeNotFoundError: There is none.
        RuntimeUnreachableError: It is another user's.
    """
    addresses = find_runtimes(pid)
    if as_json:
        listing = listed(addresses, has_dead=has_dead)
        write_document(listing)
    else:
        listing = listed(addresses, has_dead=has_dead, meanwhile=_page)
        out = console()
        out.print(_page().draw(listing, out.width), crop=False)
    return 4 if any(found["error"] for found in listing["runtimes"]) else 0


def _page() -> ModuleType:
    """Loads what makes the page: that takes half of the time that is waited anyway."""
    from actorlib._cli import ps_page  # noqa: PLC0415  # it loads rich

    return ps_page
