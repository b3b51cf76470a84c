"""What ``actorlib ps`` puts on the screen, writes for machines, and ends with."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import BUSY, actor, actorlib, device, listing
from helpers.owners import Owner
from rich.console import Console

from actorlib._cli.actor_columns import in_rate, on_device
from actorlib._cli.listing import DOCUMENT, ClientStatus
from actorlib._cli.pages import id_endings, in_time
from actorlib._cli.ps_page import draw
from actorlib._options.shares import ActorShare
from actorlib._queries.rows import Frame, Standstill
from actorlib._rows.snapshot import WorkerGroupInfo

if TYPE_CHECKING:
    from pathlib import Path

    from actorlib._cli.listing import Listing

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def text(found: Listing, width: int = 200) -> str:
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(draw(found, width), crop=False)
    return capture.get()


def lines_with(page: str, word: str) -> list[str]:
    return [" ".join(line.split()) for line in page.splitlines() if word in line]


# Values.


def test_page_when_an_actor_lives_then_a_row_tells_of_it() -> None:
    page = text(listing(actor()))

    assert lines_with(page, "m1") == [
        "ababab Model 'm1' 812 alive 0 (0.5) 3 GiB of 12 GiB watchdog 12 20 MiB 1 2 "
        "0 1m 1s"
    ]
    assert lines_with(page, "pid 800") == [
        "pid 800, 'python train.py', actorlib 0.1.0, 3 % CPU, 1 GiB, 3 of 4 CPU "
        "free, 0.5 of 1 GPU free, 16 GiB of 16 GiB memory free"
    ]


def test_page_when_texts_would_steer_a_terminal_then_it_shows_their_escapes() -> None:
    seen = actor(repr_name="M\x1b[31mm1", why="waits\x1b[2J\nfor x", death="by\x9bx")
    many = [
        actor(actor_id=f"{number:032x}", repr_name="M\x07") for number in range(200)
    ]
    page = text(listing(seen, *many))

    for shown in (r"M\x1b[31mm1", "waits\\x1b[2J\nfor x", r"by\x9bx", r"M\x07"):
        assert shown in page
    assert page.replace("\n", "").isprintable()
    assert seen.repr_name == "M\x1b[31mm1"


def test_page_when_there_are_many_actors_then_each_has_one_line_at_any_width() -> None:
    many = [actor(actor_id=f"{number:032x}", pid=number) for number in range(1, 301)]

    narrow = lines_with(text(listing(*many), width=40), "m1")
    wide = lines_with(text(listing(*many), width=160), "m1")

    assert len(narrow) == len(wide) == 300
    assert narrow[-1] == "Model 'm1' 300 alive 12 2"
    assert wide[-1].startswith("00012c Model 'm1' 300 alive 0 (0.5) 3 GiB of 12 GiB")


@pytest.mark.parametrize("count", [2, 101])
@pytest.mark.parametrize("width", [30, 50, 80, 120, 160])
def test_page_when_the_terminal_is_narrow_then_columns_fold_or_go(
    width: int, count: int
) -> None:
    names = {
        "class_name": "TheModelWithAVeryLongName",
        "name": "and-a-name-of-its-own",
    }
    devices = {"GPU-12345678-abcd": 0.5, "GPU-87654321-abcd": 0.25}
    rows = [actor(**names, devices=devices, pid=4_000_000 + n) for n in range(count)]

    lines = text(listing(*rows), width).splitlines()[1:]

    head = next(line for line in lines if " actor " in f" {line} ")
    assert all(len(line.rstrip()) <= width for line in lines)
    assert all(str(4_000_000 + n) in "\n".join(lines) for n in range(count))
    assert ("enforced" in head) == (width >= 160)
    assert "pid" in head


def test_page_when_nobody_holds_a_device_then_no_column_is_of_devices_memory() -> None:
    none = {"devices": {}, "device_nbytes": {}, "device_memory": {}}

    page = text(listing(actor(**none, share=ActorShare())))

    assert "on device" not in page
    assert "enforced" not in page


@pytest.mark.parametrize(
    ("granted", "used", "said"),
    [
        ({"0": 2**30}, {}, "- of 1 GiB"),
        ({"0": None}, {"0": 2**20}, "1 MiB"),
        ({"0": None}, {}, "-"),
        ({"0": 2**30, "1": 2**30}, {"0": 1, "1": 2}, "3 B of 2 GiB"),
    ],
)
def test_memory_of_devices_when_told_then_in_use_and_granted(
    granted: Any, used: Any, said: str
) -> None:
    assert on_device(actor(device_nbytes=granted, device_memory=used)) == said


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.5, "0.5"),
        (12.4, "12"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (123_456.0, "123k"),
        (4.2e9, "4200M"),
    ],
)
def test_rate_when_said_then_in_few_digits(rate: float | None, said: str) -> None:
    assert in_rate(rate) == said


def test_page_when_memory_is_not_divided_then_its_column_says_so() -> None:
    page = text(listing(actor(pss=None)))

    assert "rss" in page
    assert "pss" not in page
    assert "60 MiB" in page


def test_page_when_there_are_too_many_calls_then_all_are_counted_as_waiting() -> None:
    page = text(listing(actor(running_calls=None, pending_calls=50_000)))

    assert lines_with(page, "m1")[0].split()[-5:-2] == ["-", "50000", "0"]


def test_page_when_somebody_waits_then_why_and_who_else_is_in_line() -> None:
    why = "Model 'm2' waits for GPU=1: Model 'm1' has 0.5 of GPU 0"
    page = text(
        listing(
            actor(name="m2", state="pending", pid=0, why=why),
            waiting=("Model 'm2': GPU=1", "group g: 2 bundles"),
            in_line_count=7,
        )
    )

    assert why in page
    assert page.count("Model 'm2': GPU=1") == 0
    assert "group g: 2 bundles" in page
    assert "and 5 more" in page


def test_page_when_somebody_is_dead_then_how_it_ended() -> None:
    page = text(listing(actor(state="dead", death="it was killed\nlast lines")))

    assert lines_with(page, "it was killed") == ["Model 'm1': it was killed"]


@pytest.mark.parametrize(
    ("stuck", "said"),
    [
        ({"is_exact": True, "is_running": True}, "has been blocked for 12.3 s"),
        ({"is_exact": False, "is_running": True}, "blocked for at least 12.3 s"),
        ({"is_exact": False, "is_running": False}, "is not running"),
    ],
)
def test_page_when_the_loop_is_stuck_then_since_when_and_where(
    stuck: Any, said: str
) -> None:
    frame = Frame(
        file="train.py", line=7, function="load", code="x = y()", is_users=True
    )

    standstill = Standstill(seconds=12.34, frames=(frame,), **stuck)
    page = text(listing(stuck=standstill))

    assert said in page
    assert lines_with(page, "train.py:7") == ["train.py:7 in load"]
    assert lines_with(page, "x = y()") == ["x = y()"]


def test_page_when_a_runtime_does_not_answer_then_why() -> None:
    page = text(listing(error="pid 800 is stopped", version="", total={}))

    assert "pid 800 is stopped" in page
    assert "No actor" not in page


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-"),
        (0.94, "0.9s"),
        (9.96, "9s"),
        (59, "59s"),
        (60, "1m 0s"),
        (3599, "59m 59s"),
        (3600, "1h 0m"),
        (90_000, "1d 1h"),
    ],
)
def test_time_when_said_then_in_its_largest_units(
    seconds: float | None, said: str
) -> None:
    assert in_time(seconds) == said


def test_ids_when_they_end_alike_then_longer_endings_tell_them_apart() -> None:
    ids = ["aa0000001", "ab0000001", "aa0000002"]

    assert id_endings(ids) == {each: each[-8:] for each in ids}
    assert id_endings([]) == {}
    assert id_endings(["abc"]) == {"abc": "abc"}


# The document.


def test_document_when_written_then_its_columns_have_their_names() -> None:
    client = ClientStatus(
        pid=9, program="python a.py", attached_at=1000.0, seen_at=1002
    )
    group = WorkerGroupInfo(
        resources="CPU=1", waiting=2, running=1, blocked=0, pids=(5,)
    )
    found = listing(
        actor(),
        devices=(device(),),
        clients=(client,),
        worker_groups=(group,),
        waiting=("Model 'm2': GPU=1",),
        in_line_count=1,
        name="train",
    )

    (runtime,) = json.loads(json.dumps(DOCUMENT.encode(found)))["runtimes"]

    assert runtime == {
        "pid": 800,
        "user": "alice",
        "program": "python train.py",
        "name": "train",
        "version": "0.1.0",
        "error": "",
        "stuck": None,
        "cpu": 3.0,
        "pss": 2**30,
        "rss": 2**31,
        "total": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**34},
        "available": {"CPU": 3.0, "GPU": 0.5, "memory": 2.0**34},
        "object_store": {"live": 0, "warm": 0, "limit": 0},
        "in_line": ["Model 'm2': GPU=1"],
        "in_line_count": 1,
        "devices": [
            {
                "id": "0",
                "kind": "GPU",
                "model": "NVIDIA H100 80GB HBM3",
                "nbytes": 80 * 2**30,
                "available": 0.25,
                "is_logical": False,
            }
        ],
        "actors": [
            {
                "id": "ab" * 16,
                "class_name": "Model",
                "name": "m1",
                "label": "Model 'm1'",
                "pid": 812,
                "state": "alive",
                "resources": {"GPU": 0.5},
                "devices": {"0": 0.5},
                "device_nbytes": {"0": 12 * 2**30},
                "device_memory": {"0": 3 * 2**30},
                "enforced_by": "watchdog",
                "cpu": 12.3,
                "pss": 20 * 2**20,
                "rss": 60 * 2**20,
                "pending": 3,
                "running": 1,
                "waiting": 2,
                "made": 40,
                "restarts": 0,
                "age": 61.0,
                "death": "",
                "why": "",
            }
        ],
        "functions": [{"resources": "CPU=1", "running": 1, "waiting": 2, "pids": [5]}],
        "clients": [{"pid": 9, "program": "python a.py", "age": 2.0}],
    }


# The command.


@on_linux
@pytest.mark.process
@pytest.mark.slow
def test_command_when_a_program_is_busy_then_all_of_it_is_told(tmp_path: Path) -> None:
    with Owner(BUSY, folder=tmp_path) as owner:
        assert owner.told() == "ready"

        told = actorlib("ps", "--pid", str(owner.pid), "--json")
        page = actorlib("ps", "--pid", str(owner.pid))
        owner.go_on()
        owner.end()

    assert (told.returncode, told.stderr) == (0, "")
    (found,) = json.loads(told.stdout)["runtimes"]
    m1, m2 = found["actors"]
    assert found["pid"] == owner.pid
    assert (m1["label"], m1["state"], m1["running"], m1["waiting"]) == (
        "Model 'm1'",
        "alive",
        1,
        2,
    )
    assert m1["devices"] == {"0": 1.0}
    assert (m1["device_nbytes"], m1["device_memory"]) == ({"0": None}, {})
    assert m1["enforced_by"] == "off"
    assert m1["made"] == 3
    assert 0 < m1["pss"] < m1["rss"]
    assert (m2["label"], m2["state"], m2["pid"]) == ("Model 'm2'", "pending", 0)
    assert "Model 'm1'" in m2["why"]
    assert (page.returncode, page.stderr) == (0, "")
    (row,) = lines_with(page.stdout, " alive ")
    assert f"Model 'm1' {m1['pid']} alive 0 (1)" in row


@on_linux
@pytest.mark.process
@pytest.mark.slow
def test_command_when_there_is_no_such_runtime_then_a_sentence_and_a_code() -> None:
    told = actorlib("ps", "--pid", str(os.getpid()))

    assert (told.returncode, told.stdout) == (3, "")
    assert told.stderr.startswith(
        f"actorlib: error: process {os.getpid()} has no runtime that answers"
    )


@on_linux
@pytest.mark.process
@pytest.mark.slow
def test_actor_when_asked_about_then_explained_listed_and_killed(
    tmp_path: Path,
) -> None:
    with Owner(BUSY, folder=tmp_path) as owner:
        owner.told()
        of = ("--pid", str(owner.pid))

        explained = actorlib("explain", "m2", *of)
        calls = json.loads(actorlib("calls", "m1", "--json", *of).stdout)["calls"]
        unknown = actorlib("kill", "m3", *of)
        killed = actorlib("kill", "m1", *of)
        then = json.loads(actorlib("ps", "--all", "--json", *of).stdout)
        again = actorlib("kill", "m1", *of)
        owner.go_on()
        owner.end()

    assert "Model 'm1'" in explained.stdout
    assert [(call["name"], call["state"]) for call in calls] == [
        ("Model.predict", "running"),
        ("Model.predict", "queued"),
        ("Model.predict", "queued"),
    ]
    assert calls[0]["age"] >= 0
    assert calls[0]["left"] is None
    assert 0 < calls[1]["left"] <= 60
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "there is no actor 'm3'" in unknown.stderr
    assert (killed.returncode, killed.stderr) == (0, "")
    assert killed.stdout.startswith("Model 'm1' (pid ")
    states = {row["name"]: row["state"] for row in then["runtimes"][0]["actors"]}
    assert states["m1"] == "dead"
    assert states["m2"] in ("starting", "alive")
    assert again.returncode == 3
    assert "is dead" in again.stderr
