"""Puts the pages into an order: folders are sections, so no page is listed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docs.building.pages import Page

SECTIONS = {
    ".": "Home",
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "explanation": "Explanation",
    "reference": "Reference",
    "decisions": "Decisions",
}
"""The folders in the order in which the site shows them."""

GROUPS = ("", "Start", "Call", "Share", "Serve", "Many calls", "Operate", "Integrate")
"""The groups that a page may name, in the order in which the site shows them."""

_INDEXES = ("index.md", "README.md")


def in_order(folder: str, pages: Mapping[str, Page]) -> list[str]:
    """Lists the pages of a folder in the order in which readers should read them.

    Args:
        folder: Its path below docs/.
        pages: Every page by its path below docs/.

    Returns:
        Their paths, sorted by group, order and title. Records of decisions are sorted
        by their numbers.

    Raises:
        ValueError: A page names a group that does not exist.
    """

    def place(path: str) -> tuple[bool, int, int, str]:
        page, name = pages[path], PurePosixPath(path).name
        if page.group not in GROUPS:
            raise ValueError(
                f"docs/{path} names the group {page.group!r}, which is not in GROUPS "
                "in docs/building/navigation.py"
            )
        last = name if name[0].isdigit() else page.title.lower()
        return name not in _INDEXES, GROUPS.index(page.group), page.order, last

    inside = (path for path in pages if str(PurePosixPath(path).parent) == folder)
    return sorted(inside, key=place)


def in_groups(folder: str, pages: Mapping[str, Page]) -> dict[str, list[str]]:
    """Lists the pages of a folder by their groups, in order."""
    groups: dict[str, list[str]] = {}
    for path in in_order(folder, pages):
        groups.setdefault(pages[path].group, []).append(path)
    return groups


def navigation(pages: Mapping[str, Page]) -> list[dict[str, list[Any]]]:
    """Makes the value of ``nav`` in mkdocs.yml.

    Args:
        pages: Every page by its path below docs/.

    Raises:
        ValueError: A page is in a folder that is not a section.
    """
    for path in pages:
        if str(PurePosixPath(path).parent) not in SECTIONS:
            raise ValueError(
                f"docs/{path} is not in a section: {', '.join(SECTIONS)}. Move it, or "
                "add its folder to SECTIONS in docs/building/navigation.py"
            )
    sections: list[dict[str, list[Any]]] = []
    for folder, title in SECTIONS.items():
        groups = in_groups(folder, pages)
        named = [{group: paths} for group, paths in groups.items() if group]
        if groups:
            sections.append({title: [*groups.get("", []), *named]})
    return sections


def listing(folder: str, pages: Mapping[str, Page]) -> str:
    """Lists the pages of a folder as links with their first sentences."""
    parts: list[str] = []
    for group, paths in in_groups(folder, pages).items():
        rows = [_row(path, pages[path]) for path in paths if not _is_index(path)]
        if rows:
            heading = [f"## {group}", ""] if group else []
            parts.append("\n".join([*heading, *rows]))
    return "\n\n".join(parts)


def _is_index(path: str) -> bool:
    return PurePosixPath(path).name in _INDEXES


def _row(path: str, page: Page) -> str:
    link = f"* [{page.title}]({PurePosixPath(path).name})"
    return f"{link}  \n  {page.summary}" if page.summary else link
