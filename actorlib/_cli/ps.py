"""Shows the runtimes of this user and their actors: ``actorlib ps``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from actorlib._cli.listing import DOCUMENT, query_listing
from actorlib._cli.pages import console, write_document
from actorlib._queries.client import find_runtimes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from actorlib._cli.listing import Listing
    from actorlib._queries.addresses import Address


def show(*, as_json: bool, pid: int | None, has_dead: bool) -> int:
    """Prints the runtimes of this user, and their actors.

    Returns:
        The exit code: 0, or 4 if one of them does not answer.
    """
    addresses = find_runtimes(pid)
    # Thousands of rows are made, and none is garbage. The collector would take 8 of the
    # 150 ms of CPU time of 1,000 actors in JSON, and 40 of 810 ms in tables.
    gc.disable()
    try:
        listing = _print(addresses, as_json=as_json, has_dead=has_dead)
    finally:
        gc.enable()
    return listing.exit_code


def _print(addresses: Sequence[Address], *, as_json: bool, has_dead: bool) -> Listing:
    if as_json:
        listing = query_listing(addresses, has_dead=has_dead)
        write_document(DOCUMENT.encode(listing))
    else:
        listing = query_listing(addresses, has_dead=has_dead, meanwhile=_page)
        out = console()
        out.print(_page().draw(listing, out.width), crop=False)
    return listing


def _page() -> ModuleType:
    """Imports the page, in half of the interval that has to pass anyway."""
    from actorlib._cli import ps_page  # noqa: PLC0415  # it loads rich

    return ps_page
