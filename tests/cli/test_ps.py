"""What ``actorlib ps`` and ``actorlib objects`` show, and write for programs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import actor, device, listing
from rich.console import Console

from actorlib._cli import objects
from actorlib._cli.actor_columns import in_rate, on_device
from actorlib._cli.listing import DOCUMENT, ClientStatus, Listing
from actorlib._cli.pages import id_endings, in_time
from actorlib._cli.ps_page import draw
from actorlib._options.shares import ActorShare
from actorlib._queries.rows import Frame, Objects, Standstill
from actorlib._rows.snapshot import WorkerGroupInfo
from actorlib.types import ObjectInfo, ObjectStoreInfo

if TYPE_CHECKING:
    from helpers.goldens import Golden
    from rich.console import RenderableType

NO_DEVICE: dict[str, Any] = {
    "devices": {},
    "device_nbytes": {},
    "device_memory": {},
    "share": ActorShare(),
}
CLIENT = ClientStatus(pid=9, program="python a.py", attached_at=1000.0, seen_at=1002)
GROUP = WorkerGroupInfo(resources="CPU=1", waiting=2, running=1, blocked=0, pids=(5,))
FRAME = Frame(file="train.py", line=7, function="load", code="x = y()", is_users=True)


def text(page: RenderableType, width: int = 200) -> str:
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(page, crop=False)
    return capture.get()


def stuck(*, is_exact: bool, is_running: bool) -> Listing:
    standstill = Standstill(
        seconds=12.34, is_exact=is_exact, is_running=is_running, frames=(FRAME,)
    )
    return listing(stuck=standstill)


PAGES: dict[str, tuple[Listing, str]] = {
    "busy": (
        listing(
            actor(),
            actor(
                name="m2",
                state="pending",
                pid=0,
                why="Model 'm2' waits for GPU=1: Model 'm1' has 0.5 of GPU 0",
            ),
            actor(name="m3", state="dead", death="it was killed\nlast lines"),
            actor(name="m4", running_calls=None, pending_calls=50_000),
            waiting=("Model 'm2': GPU=1", "group g: 2 bundles"),
            in_line_count=7,
            clients=(CLIENT,),
            worker_groups=(GROUP,),
        ),
        "3 GiB of 12 GiB",
    ),
    "without-devices": (listing(actor(**NO_DEVICE)), "20 MiB"),
    "without-pss": (listing(actor(pss=None)), "rss"),
    "no-actors": (listing(), "No actor lives."),
    "blocked": (stuck(is_exact=True, is_running=True), "has been blocked for 12.3 s"),
    "late": (stuck(is_exact=False, is_running=True), "blocked for at least 12.3 s"),
    "not-running": (stuck(is_exact=False, is_running=False), "is not running"),
    "silent": (
        listing(error="pid 800 is stopped", version="", total={}),
        "pid 800 is stopped",
    ),
}


def test_pages_of_runtimes(golden: Golden) -> None:
    pages: list[str] = []
    for name, (found, meaning) in PAGES.items():
        page = text(draw(found, 200))
        assert meaning in page, name
        pages.append(f"== {name}\n{page}")

    golden.check("ps.txt", "\n".join(pages))


def test_page_when_texts_would_steer_a_terminal_then_it_shows_their_escapes() -> None:
    steering = {
        "repr_name": "M\x1b[31mm1",
        "why": "waits\x1b[2J\nfor x",
        "death": "by\x9bx",
    }
    first = actor(**steering)
    many = [actor(actor_id=f"{n:032x}", repr_name="M\x07") for n in range(101)]

    page = text(draw(listing(first, *many), 200))

    for shown in (r"M\x1b[31mm1", "waits\\x1b[2J\nfor x", r"by\x9bx", r"M\x07"):
        assert shown in page
    assert page.replace("\n", "").isprintable()
    assert first.repr_name == "M\x1b[31mm1"


@pytest.mark.parametrize(
    ("width", "count"),
    [(30, 2), (50, 2), (50, 101), (80, 2), (120, 2), (160, 2), (160, 101)],
)
def test_page_when_the_terminal_is_narrow_then_columns_fold_or_go(
    width: int, count: int
) -> None:
    names = {
        "class_name": "TheModelWithAVeryLongName",
        "name": "and-a-name-of-its-own",
    }
    devices = {"GPU-12345678-abcd": 0.5, "GPU-87654321-abcd": 0.25}
    rows = [actor(**names, devices=devices, pid=4_000_000 + n) for n in range(count)]

    lines = text(draw(listing(*rows), width), width).splitlines()[1:]

    head = next(line for line in lines if " actor " in f" {line} ")
    assert all(len(line.rstrip()) <= width for line in lines)
    assert all(str(4_000_000 + n) in "\n".join(lines) for n in range(count))
    assert ("enforced" in head) == (width >= 160)
    assert "pid" in head


def test_page_when_a_name_has_a_colon_then_its_actor_waits_once() -> None:
    waits = actor(name="a: b", state="pending", pid=0, why="Model 'a: b' waits")

    page = text(draw(listing(waits, waiting=("Model 'a: b': GPU=1",)), 200))

    assert "Waiting:" in page
    assert "In line:" not in page


def test_page_when_there_are_many_actors_then_each_has_one_line() -> None:
    many = [actor(actor_id=f"{n:032x}", pid=n) for n in range(1, 121)]

    lines = text(draw(listing(*many), 40), 40).splitlines()

    rows = [line.split() for line in lines if "m1" in line]
    assert len(rows) == 120
    assert rows[-1] == ["Model", "'m1'", "120", "alive", "12", "2"]


@pytest.mark.parametrize(
    ("granted", "used", "expected"),
    [
        ({"0": 2**30}, {}, "- of 1 GiB"),
        ({"0": None}, {"0": 2**20}, "1 MiB"),
        ({"0": None}, {}, "-"),
        ({"0": 2**30, "1": 2**30}, {"0": 1, "1": 2}, "3 B of 2 GiB"),
    ],
)
def test_memory_of_devices_is_what_is_used_and_granted(
    granted: Any, used: Any, expected: str
) -> None:
    assert on_device(actor(device_nbytes=granted, device_memory=used)) == expected


def test_rate_has_few_digits() -> None:
    rates = [None, 0.0, 0.5, 12.4, 999.4, 999.6, 123_456.0, 4.2e9]

    assert [in_rate(rate) for rate in rates] == (
        ["-", "0", "0.5", "12", "999", "1.0k", "123k", "4200M"]
    )


def test_time_has_its_two_largest_units() -> None:
    times = [None, 0.94, 9.96, 59, 60, 3599, 3600, 90_000]

    assert [in_time(seconds) for seconds in times] == (
        ["-", "0.9s", "9s", "59s", "1m 0s", "59m 59s", "1h 0m", "1d 1h"]
    )


def test_ids_when_they_end_alike_then_longer_endings_tell_them_apart() -> None:
    ids = ["aa0000001", "ab0000001", "aa0000002"]

    assert id_endings(ids) == {each: each[-8:] for each in ids}
    assert id_endings([]) == {}
    assert id_endings(["abc"]) == {"abc": "abc"}


def test_document_of_a_runtime(golden: Golden) -> None:
    found = listing(
        actor(),
        devices=(device(),),
        clients=(CLIENT,),
        worker_groups=(GROUP,),
        waiting=("Model 'm2': GPU=1",),
        in_line_count=1,
        name="train",
    )

    document = DOCUMENT.encode(found)

    (runtime,) = document["runtimes"]
    assert [row["label"] for row in runtime["actors"]] == ["Model 'm1'"]
    golden.check_value("ps-document.txt", document)


# Objects.


def stored(**changed: Any) -> Objects:
    """A runtime with a value and a ref to it."""
    value = ObjectInfo(
        object_id="aa" * 24,
        kind="block",
        state="live",
        nbytes=5 << 20,
        age=75.0,
        maker="the program",
        holders={"Model 'm1' (pid 812)": 2, "the program": 1},
        arguments_of=("Model.predict of 'm1' (pid 812)",),
    )
    ref = replace(
        value, object_id="bb" * 16, kind="ref", nbytes=0, age=None, block="aa" * 24
    )
    warm = replace(value, object_id="", state="warm", holders={}, age=None)
    known: dict[str, Any] = {
        "pid": 811,
        "objects": (value, ref, warm),
        "has_more": True,
        "object_store": ObjectStoreInfo(live=5 << 20, warm=1 << 20, limit=1 << 30),
    }
    return Objects(**{**known, **changed})


def test_page_of_objects(golden: Golden) -> None:
    found = stored()
    nothing = stored(objects=(), object_store=ObjectStoreInfo())

    page = text(objects.draw(found))
    document = objects.DOCUMENT.encode(found)

    assert "Model 'm1' (pid 812) (2 times), the program" in page
    assert (
        "-n says" in page,
        "-n says" in text(objects.draw(stored(has_more=False))),
    ) == (
        True,
        False,
    )
    assert document["objects"][1]["block"] == "aa" * 24
    golden.check("objects.txt", f"{page}\n{text(objects.draw(nothing))}")
    golden.check_value("objects-document.txt", document)
