"""What people see of the state of a runtime: lines of text, and tables of notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from helpers import listings

from actorlib._rows.tables import clipped, some_of
from actorlib.types import (
    ActorInfo,
    DeviceInfo,
    GroupInfo,
    ObjectStoreInfo,
    Snapshot,
    WorkerGroupInfo,
)

HOSTILE = "<img src=x onerror='alert(1)'>&amp;"


def info(number: int, **changed: Any) -> ActorInfo:
    known: dict[str, Any] = {
        "actor_id": f"{number:032x}",
        "pid": 800 + number,
        "name": f"m{number}",
        "pending_calls": 2,
    }
    return listings.info(**{**known, **changed})


def snapshot(**changed: Any) -> Snapshot:
    known: dict[str, Any] = {
        "total": {"CPU": 4.0, "GPU": 2.0, "memory": 2.0**34},
        "available": {"CPU": 4.0, "GPU": 1.5, "memory": 2.0**33},
        "actors": (info(1),),
    }
    return listings.snapshot(**{**known, **changed})


def device(number: int) -> DeviceInfo:
    return listings.device(device=str(number), available=0.5)


LARGE = snapshot(
    actors=tuple(
        info(n, state="dead" if n % 9 == 0 else "alive", death="it ended. " * 90)
        for n in range(1000)
    ),
    waiting=tuple(f"Model 'w{n}': GPU={n}" + " and more" * 90 for n in range(70)),
    object_store=ObjectStoreInfo(live=5, warm=6, limit=7),
    devices=tuple(map(device, range(500))),
    groups=tuple(
        GroupInfo(group_id="", name="", strategy="PACK", state=state, bundles=())
        for state in ("PENDING", "CREATED", "CREATED")
    ),
    worker_groups=tuple(
        WorkerGroupInfo(resources="CPU=1", waiting=3, running=2, blocked=0, pids=())
        for _ in range(40)
    ),
    draining=("0.5 of GPU 0",) * 30,
)


class Seen(HTMLParser):
    """The elements of a page that are not closed, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# Text.


def test_snapshot_when_there_is_little_then_its_lines_say_all() -> None:
    shown = repr(snapshot(devices=(device(0),), waiting=("Model 'w': GPU=2",)))

    assert shown.splitlines() == [
        "<Snapshot of 1 actor (1 alive)",
        "  free: CPU 4 of 4, GPU 1.5 of 2, memory 8 GiB of 16 GiB",
        "  free of devices: 0: 0.5",
        "  Model 'm1' (pid 801): alive on 0.5 of 0, 2 calls",
        "  1 waiting:",
        "    Model 'w': GPU=2>",
    ]


def test_snapshot_when_there_is_much_then_it_fits_a_screen_and_counts_the_rest() -> (
    None
):
    shown = repr(LARGE)

    lines = shown.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 101  # and what closes it
    assert lines[0] == "<Snapshot of 1,000 actors (888 alive, 112 dead)"
    for rest in ("and 992 more", "and 66 more", "and 28 more", "and 495 more"):
        assert rest in shown
    assert "functions: 80 calls running, 120 waiting" in shown
    assert "placement groups: 2 CREATED, 1 PENDING" in shown


def test_snapshot_when_shown_then_no_name_breaks_its_lines() -> None:
    assert len(repr(snapshot(actors=(info(1, repr_name="a\nb\nc"),))).splitlines()) == 3


@pytest.mark.parametrize(("count", "said"), [(3, None), (4, "and 1 more")])
def test_some_when_there_are_more_then_they_are_counted(
    count: int, said: str | None
) -> None:
    assert some_of(["x"] * count, 3) == ["x"] * 3 + ([said] if said else [])


def test_clipped_when_too_long_then_it_ends_in_an_ellipsis() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("abcd", 4) == "abcd"


# Notebooks.


@pytest.mark.parametrize("state", [snapshot(), LARGE, snapshot(actors=(), total={})])
def test_snapshot_when_shown_by_a_notebook_then_its_markup_is_whole(
    state: Snapshot,
) -> None:
    page = state._repr_html_()

    assert Seen(page).open == []
    assert len(page) < 80_000


def test_snapshot_when_large_then_a_notebook_is_told_what_was_left_out() -> None:
    text = Seen(LARGE._repr_html_()).text

    assert "1,000 actors (888 alive, 112 dead)" in text
    assert re.findall(r"and [\d,]+ more", text) == [
        "and 450 more",
        "and 950 more",
        "and 20 more",
    ]


def test_text_when_it_is_markup_then_a_notebook_shows_it_as_it_is() -> None:
    hostile = info(1, name=None, repr_name=HOSTILE, death=HOSTILE, state="dead")
    state = snapshot(actors=(hostile,), waiting=(HOSTILE,), devices=(device(0),))

    for page in (state._repr_html_(), hostile._repr_html_()):
        seen = Seen(page)
        assert "img" not in seen.names
        assert HOSTILE in seen.text
