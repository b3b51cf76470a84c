"""What MkDocs calls while it builds the site: functions with the names of events."""

from __future__ import annotations

import logging
import re
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
# MkDocs loads this file alone. What it needs, and actorlib itself, are this checkout's.
sys.path.insert(0, str(ROOT))

from docs.building import devices, sequence, states  # noqa: E402  # see above
from docs.building.navigation import (  # noqa: E402  # likewise
    list_sections,
    listing,
    navigation,
)
from docs.building.pages import Page  # noqa: E402  # likewise
from docs.building.reference import (  # noqa: E402  # likewise
    made_for,
    other_names,
    page_of_others,
)

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page as BuiltPage

_log = logging.getLogger("mkdocs.docs.building")
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc(?:set)?=\"?https?:[^>]*>"
    r"|<link\b(?=[^>]*rel=\"?(?:stylesheet|preconnect|preload))[^>]*href=\"?https?:[^>]*>"
)
_MADE = re.compile(r"<!-- (options: \w+|commands|metrics|exceptions) -->")
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)\)")


_PICTURES = {"devices": devices, "sequence": sequence, "states": states}
"""Who draws a block of each of these languages."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Has blocks of some languages drawn, and finds out where the repository is."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        urls: dict[str, str] = tomllib.load(file)["project"].get("urls", {})
    # Not as repo_url: the theme would ask GitHub about it whenever a page is read.
    config.extra["repository"] = urls.get("Repository") or urls.get("Source") or ""
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [
            {"name": name, "class": "picture", "format": _drawn} for name in _PICTURES
        ]
    }
    return config


def _drawn(source: str, language: str, *_: object, **__: object) -> str:
    return _PICTURES[language].draw(source)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts every page that there is into the navigation, and one of other names."""
    others = other_names(page.text for page in _pages(files).values())
    if others:
        files.append(
            File.generated(config, "reference/other.md", content=page_of_others(others))
        )
    config["nav"] = navigation(_pages(files))
    return files


def on_page_markdown(
    markdown: str, page: BuiltPage, config: MkDocsConfig, files: Files
) -> str:
    """Puts in what comments ask for, and points links out of docs/ to their files."""
    path = page.file.src_uri
    markdown = _MADE.sub(lambda asked: made_for(asked[1]), markdown)
    if "<!-- pages -->" in markdown:
        folder = str(PurePosixPath(path).parent)
        markdown = markdown.replace("<!-- pages -->", listing(folder, _pages(files)))
    if "<!-- sections -->" in markdown:
        markdown = markdown.replace("<!-- sections -->", list_sections(_pages(files)))
    shown = Page(markdown).shown
    return _OUTSIDE.sub(lambda link: _published(link, path, config), shown)


def on_post_build(config: MkDocsConfig) -> None:
    """Warns of pages that fetch from elsewhere when read: strict refuses them."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        for found in _FETCHED.finditer(page.read_text(encoding="utf-8")):
            where = page.relative_to(site)
            _log.warning("%s fetches from elsewhere: %s", where, found[0])


def _pages(files: Files) -> dict[str, Page]:
    return {
        file.src_uri: Page(file.content_string)
        for file in files.documentation_pages()
        if not file.inclusion.is_excluded()
    }


def _published(link: re.Match[str], path: str, config: MkDocsConfig) -> str:
    """A link of a page: to the repository if it leads out of docs/, or none."""
    docs = ROOT / "docs"
    target = (docs / path).parent.joinpath(link[2]).resolve()
    if target.is_relative_to(docs) or not target.exists():
        return link[0]
    repository = str(config.extra["repository"]).rstrip("/")
    if not repository:  # it is nowhere to be read
        return link[1]
    kind = "tree" if target.is_dir() else "blob"
    where = target.relative_to(ROOT).as_posix()
    return f"[{link[1]}]({repository}/{kind}/main/{where})"
