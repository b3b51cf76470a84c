"""Checks the documents against the code: paths, subpackages, imports, the index."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from helpers.host import RecordedHost

import actorlib
from actorlib._core.engine import find_engine
from actorlib._enforcement.enforcement import Enforcement
from actorlib._enforcement.tiers import Site
from actorlib._options.actor_options import ActorOptions
from actorlib._options.kinds import UNITS
from actorlib._queries.local_client import LocalClient
from actorlib.accelerators import (
    Device,
    Lease,
    Share,
    discover,
    environment,
    inventory,
)

ROOT = Path(__file__).parents[1]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = [ROOT / "ARCHITECTURE.md", *sorted(DECISIONS.glob("*.md"))]
RECORDS = [page for page in PAGES if page.name[0].isdigit()]


def test_pages_when_they_name_paths_and_links_then_those_are_there() -> None:
    absent: list[tuple[str, str]] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        quoted = re.findall(r"`([^`\s]+)`", text)
        paths = [q for q in quoted if q.endswith(".py") or re.fullmatch(r"[\w/]+/", q)]
        places = [(ROOT / p, ROOT / "actorlib" / p) for p in paths]
        places += [(page.parent / p,) for p in re.findall(r"\]\(([^)#:]+)\)", text)]
        absent += [
            (page.name, str(place[0]))
            for place in places
            if not any(path.exists() for path in place)
        ]

    assert absent == []


def test_records_when_listed_then_the_index_has_every_title() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\* \[(\d{4})\]\((.+\.md)\) (.+)$", index, re.MULTILINE)

    assert [(name, f"# {number}. {title}") for number, name, title in listed] == [
        (page.name, page.read_text(encoding="utf-8").partition("\n")[0])
        for page in RECORDS
    ]
    assert [page.name[:4] for page in RECORDS] == [
        f"{number:04}" for number in range(1, len(RECORDS) + 1)
    ]


def test_page_when_it_quotes_a_name_then_the_code_has_it() -> None:
    files = [
        file
        for folder in ("actorlib", "tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        if file != Path(__file__)
    ]
    known = set(re.findall(r"\w+", "\n".join(map(Path.read_text, files))))
    known.add("malloc_trim")  # the C library's

    for page in PAGES:
        quoted = re.findall(r"`([A-Za-z_]\w+)(?:\(.*?\))?`", page.read_text())
        assert {name for name in quoted if "FOO" not in name} <= known, page.name


def example_of(title: str) -> dict[str, Any]:
    """Runs the code of a section of the page; gives its names."""
    _, _, rest = PAGES[0].read_text(encoding="utf-8").partition(title)
    section, _, _ = rest.partition("\n**")
    code = dedent("\n".join(re.findall(r"^(?: {4}.*)?$", section, re.MULTILINE)))
    names: dict[str, Any] = {"__name__": "foo_actorlib"}
    exec(code, names)
    return names


@actorlib.remote
class Pinged:
    def ping(self) -> None: ...


@pytest.mark.memory
async def test_consumer_when_written_as_the_page_says_then_it_is_told_of_calls() -> (
    None
):
    slowest = example_of("**A consumer of call events.**")["Slowest"]()

    async with actorlib.init(engine="inline", middleware=[slowest]):
        await Pinged.remote().ping.remote()

    assert [*slowest.seconds] == ["ping"]
    assert slowest.seconds["ping"] > 0


@pytest.mark.memory
async def test_query_when_written_as_the_page_says_then_it_is_answered() -> None:
    queries = {"classes": example_of("**A query.**")["classes"]}

    async with actorlib.init(engine="inline"):
        engine: Any = find_engine()
        server = LocalClient(engine, queries.get)
        handle = Pinged.remote()
        await handle
        living = await asyncio.to_thread(server.ask, "classes")
        await actorlib.kill(handle)
        ended = await asyncio.to_thread(server.ask, "classes")
        with pytest.raises(ValueError, match="takes no parameter 'color'"):
            await asyncio.to_thread(server.ask, "classes", color=True)

    assert (living.value, ended.value) == (["Pinged"], [])


def test_vendor_when_added_as_the_page_says_then_it_is_found_masked_and_explained() -> (
    None
):
    host = RecordedHost(
        environ={"FOO_VISIBLE_DEVICES": "2,0"},
        devices={"/dev/foo0": True, "/dev/foo1": False, "/dev/foo2": True},
    )

    foo = example_of("**A vendor:")["Foo"]()
    detections = discover(host, [foo])
    found = inventory(detections, {}, [foo])
    first, second = found.devices["FOO"]
    lease = Lease(amounts={"FOO": UNITS}, shares=(Share(second, UNITS),))

    assert [first.id, second.id] == ["2", "0"]
    assert [r.name for r in detections[0].rejected] == ["/dev/foo1"]
    assert environment(lease, found, hide=True, environ={}) == {
        "FOO_VISIBLE_DEVICES": "0"
    }
    switch = {"RAY_EXPERIMENTAL_NOSET_FOO_VISIBLE_DEVICES": "1"}
    assert environment(lease, found, hide=True, environ=switch) == {}


def test_tier_when_added_as_the_page_says_then_it_holds_or_is_refused() -> None:
    limit = example_of("**A tier:")["FooLimit"]
    foo = Device(family="foo", kind="GPU", index=0, id="0", memory=80)
    other = Device(family="bar", kind="GPU", index=1, id="1", memory=80)
    enforcement = Enforcement(
        lambda site: [limit(site)], Site(RecordedHost()), {"GPU": (foo, other)}
    )
    options = ActorOptions(num_gpus=0.5, enforcement="off")
    object.__setattr__(options, "enforcement", "foo")  # no word of ours
    lease = Lease(amounts={"GPU": UNITS // 2}, shares=(Share(foo, UNITS // 2),))

    grant = enforcement.grant(lease, options)
    [tier] = grant.tiers
    assert tier.settings(1, grant, {}, {}).variables == {"FOO_LIMIT": "40"}
    [share] = enforcement.shown(lease, options, {}).devices
    assert share.enforced_by == "foo"
    assert enforcement.unfit(options, options.request) == (
        (other, "1 is not a card of Foo"),
    )
