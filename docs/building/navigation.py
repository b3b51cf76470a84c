"""Finds out which page stands where: folders are sections, so no page is listed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docs.building.pages import Page

SECTIONS = {
    ".": "Start",
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "explanation": "Explanation",
    "reference": "Reference",
    "decisions": "Decisions",
}
"""The folders in the order in which the site shows them."""

_INDEXES = ("index.md", "README.md")


def in_order(folder: str, pages: Mapping[str, Page]) -> list[str]:
    """Lists the pages of a folder as they are to be read.

    Args:
        folder: Its path below docs/.
        pages: Every page by its path below docs/.

    Returns:
        Their paths: what a page says of its order first, then titles; records of
        decisions by their numbers.
    """

    def place(path: str) -> tuple[bool, int, str]:
        page, name = pages[path], PurePosixPath(path).name
        told = name if name[0].isdigit() else page.title.lower()
        return name not in _INDEXES, page.order, told

    inside = (path for path in pages if str(PurePosixPath(path).parent) == folder)
    return sorted(inside, key=place)


def navigation(pages: Mapping[str, Page]) -> list[dict[str, list[str]]]:
    """Makes what ``nav`` in mkdocs.yml would say.

    Args:
        pages: Every page by its path below docs/.

    Raises:
        ValueError: A page lies in a folder that is no section.
    """
    for path in pages:
        if str(PurePosixPath(path).parent) not in SECTIONS:
            raise ValueError(
                f"docs/{path} is in no section: {', '.join(SECTIONS)}. Move it, or add "
                "its folder to SECTIONS in docs/building/navigation.py"
            )
    sections = ({title: in_order(name, pages)} for name, title in SECTIONS.items())
    return [section for section in sections if all(section.values())]


def list_sections(pages: Mapping[str, Page]) -> str:
    """Lists the sections as links with the first sentences of their own pages."""
    own = {
        title: f"{folder}/{name}"
        for folder, title in SECTIONS.items()
        for name in _INDEXES
        if folder != "." and f"{folder}/{name}" in pages
    }
    return "\n".join(
        f"* [{title}]({path})  \n  {pages[path].summary}" for title, path in own.items()
    )


def listing(folder: str, pages: Mapping[str, Page]) -> str:
    """Lists the pages of a folder as links with their first sentences."""
    rows = [path for path in in_order(folder, pages) if not path.endswith(_INDEXES)]
    return "\n".join(
        f"* [{pages[path].title}]({PurePosixPath(path).name})"
        + (f"  \n  {pages[path].summary}" if pages[path].summary else "")
        for path in rows
    )
