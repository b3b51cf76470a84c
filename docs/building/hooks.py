"""The functions that MkDocs calls while it builds the site, named after its events."""

from __future__ import annotations

import logging
import re
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
# MkDocs loads this file alone. Its imports, and actorlib itself, are this checkout's.
sys.path.insert(0, str(ROOT))

from docs.building import devices, sequence, states  # noqa: E402  # needs the path
from docs.building.navigation import listing, navigation  # noqa: E402  # needs the path
from docs.building.pages import Page  # noqa: E402  # needs the path
from docs.building.reference import (  # noqa: E402  # needs the path
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
_EXAMPLE = re.compile(r"<!-- example: ([\w/.]+) -->")
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)\)")


_PICTURES = {"devices": devices, "sequence": sequence, "states": states}
"""The module that draws the blocks of each of these languages."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draws blocks of some languages, and reads the address of the repository."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        urls: dict[str, str] = tomllib.load(file)["project"].get("urls", {})
    # Not as repo_url: the theme would ask GitHub about it whenever a page is read.
    config.extra["repository"] = urls.get("Repository") or urls.get("Source") or ""
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [
            {"name": name, "class": "picture", "format": _draw} for name in _PICTURES
        ]
    }
    return config


def _draw(source: str, language: str, *_: object, **__: object) -> str:
    return _PICTURES[language].draw(source)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts every page into the navigation, and adds the page of other names."""
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
    """Replaces comments by what they ask for, and links that lead out of docs/."""
    path = page.file.src_uri
    markdown = _MADE.sub(lambda comment: made_for(comment[1]), markdown)
    markdown = _EXAMPLE.sub(lambda comment: _example(comment[1]), markdown)
    if "<!-- pages -->" in markdown:
        folder = str(PurePosixPath(path).parent)
        markdown = markdown.replace("<!-- pages -->", listing(folder, _pages(files)))
    shown = Page(markdown).shown
    return _OUTSIDE.sub(lambda link: _published(link, path, config), shown)


def _example(name: str) -> str:
    code = (ROOT / "examples" / name).read_text(encoding="utf-8")
    return f"```python\n{code}```"


def on_post_build(config: MkDocsConfig) -> None:
    """Warns about pages that fetch from other sites: a strict build refuses them."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        for tag in _FETCHED.finditer(page.read_text(encoding="utf-8")):
            _log.warning(
                "%s fetches from another site: %s", page.relative_to(site), tag[0]
            )


def _pages(files: Files) -> dict[str, Page]:
    return {
        file.src_uri: Page(file.content_string)
        for file in files.documentation_pages()
        if not file.inclusion.is_excluded()
    }


def _published(link: re.Match[str], path: str, config: MkDocsConfig) -> str:
    """Makes a link that leads out of docs/ one to the repository, or plain text."""
    docs = ROOT / "docs"
    target = (docs / path).parent.joinpath(link[2]).resolve()
    if target.is_relative_to(docs) or not target.exists():
        return link[0]
    repository = str(config.extra["repository"]).rstrip("/")
    if not repository:  # no address to link to
        return link[1]
    kind = "tree" if target.is_dir() else "blob"
    where = target.relative_to(ROOT).as_posix()
    return f"[{link[1]}]({repository}/{kind}/main/{where})"
