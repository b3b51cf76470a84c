"""What ``actorlib top`` makes of looks and keys, and how it treats a terminal."""

from __future__ import annotations

import io
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import actor, device, info, listing, status
from helpers.nvml import Card, nvidia_host
from hypothesis import given
from hypothesis import strategies as st

from actorlib._cli.device_meters import DeviceMeters
from actorlib._cli.listing import Listing
from actorlib._cli.top_figures import (
    LONGEST,
    History,
    Rates,
    Sample,
    device_lines,
    rates_between,
    sparkline,
)
from actorlib._cli.top_page import Page, page
from actorlib._cli.top_screen import (
    SORT_KEYS,
    Screen,
    keys_in,
    pressed,
    selected,
    settled,
)
from actorlib._queries.rows import Frame, Standstill
from actorlib._rows.tables import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from helpers.goldens import Golden

    from actorlib._queries.rows import Status

LIMIT = 20.0
NONE = Rates({}, {})


def after(*keys: str, screen: Screen | None = None) -> Screen:
    """The screen once these keys were pressed."""
    return reduce(pressed, keys, screen or Screen())


# Keys.


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\x1b[5~", ["up", "down", "page up"]),
        (b"\x1b", ["escape"]),
        (b"/ab\x7f\r", ["/", "a", "b", "backspace", "enter"]),
        ("ä".encode(), ["ä"]),
        (b"\x1b[1;5Cx\x01\xff", ["x"]),
    ],
)
def test_keys_when_typed_then_named_and_unknown_ones_left_out(
    typed: bytes, keys: list[str]
) -> None:
    assert list(keys_in(typed)) == keys


@given(st.binary(max_size=12), st.integers(1, 50))
def test_screen_when_anything_is_typed_then_it_stays_sound(
    typed: bytes, rows: int
) -> None:
    screen = reduce(lambda s, key: pressed(s, key, rows), keys_in(typed), Screen())

    screen = settled(screen, 100, rows)
    assert 0 <= screen.first <= 100 - rows
    assert screen.sort in SORT_KEYS
    assert screen.needle.isprintable()


def test_screen_when_a_key_of_a_column_is_pressed_twice_then_it_is_turned_round() -> (
    None
):
    once, twice, thrice = after("m"), after("m", "m"), after("m", "m", "m")

    assert (once.sort, once.is_reversed) == ("memory", False)
    assert (twice.sort, twice.is_reversed) == ("memory", True)
    assert thrice == once


def test_screen_when_text_is_typed_then_letters_are_no_keys_until_it_is_over() -> None:
    typed = after("/", "q", "m", "x", "backspace")

    assert (typed.needle, typed.is_typing, typed.is_over) == ("qm", True, False)
    assert not after("enter", screen=typed).is_typing
    assert after("enter", "q", screen=typed).is_over
    assert after("enter", "/", "z", "escape", screen=typed).needle == "qm"
    assert after("enter", "escape", screen=typed).needle == ""


def test_screen_when_moved_past_an_end_then_it_stays_at_it() -> None:
    assert after("up").first == 0
    assert settled(after("end"), 30, 10).first == 20
    assert settled(after("page down", "down"), 30, 10).first == 11
    assert settled(after("page down"), 3, 10).first == 0


# Rows.


def sorted_by(sort: str, actors: Sequence[Any], **said: Any) -> list[str]:
    screen = Screen(sort=sort, **said)
    return [row.actor_id for row in selected(screen, actors)]


@pytest.mark.parametrize("sort", list(SORT_KEYS))
def test_actors_when_sorted_then_the_most_first_and_names_from_a_to_z(
    sort: str,
) -> None:
    least = actor(
        actor_id="a",
        repr_name="A",
        cpu=1.0,
        pss=1,
        pending_calls=1,
        started_at=1060.0,
        pid=1,
        rate=1.0,
        device_memory={"0": 1},
    )
    most = actor(
        actor_id="b",
        repr_name="B",
        cpu=2.0,
        pss=2,
        pending_calls=2,
        started_at=1059.0,
        pid=2,
        rate=2.0,
        device_memory={"0": 2},
    )

    expected = ["a", "b"] if sort in ("name", "pid") else ["b", "a"]
    assert sorted_by(sort, [least, most]) == expected
    assert sorted_by(sort, [least, most], is_reversed=True) == expected[::-1]


def test_actors_when_a_text_is_looked_for_then_wherever_it_stands() -> None:
    rows = [
        actor(actor_id="a", name="M1"),
        actor(actor_id="b", repr_name="x", class_name="X", name=None, pid=4711),
    ]

    assert sorted_by("name", rows, needle="m1") == ["a"]
    assert sorted_by("name", rows, needle="471") == ["b"]
    assert sorted_by("name", rows, needle="alive") == ["a", "b"]


# Two looks.


def sent(**made: int) -> Status:
    """A runtime whose actors were sent so many calls."""
    actors = (info(actor_id=actor, made_calls=calls) for actor, calls in made.items())
    return status(*actors, pid=800)


def test_rates_when_looked_twice_then_calls_a_second_by_actor_and_runtime() -> None:
    before, now = sent(a=10, b=5), sent(a=30, b=5, c=4)

    rates = rates_between([before], [now], 2.0)

    assert rates == Rates({"a": 10.0, "b": 0.0, "c": 2.0}, {800: 12.0})


def test_rates_when_a_runtime_did_not_answer_before_then_nothing_is_made_up() -> None:
    now = sent(a=1000)

    assert rates_between([], [now], 1.0) == NONE
    assert rates_between([now], [], 1.0) == NONE
    assert rates_between([now], [now], 0.0) == NONE


def test_history_when_a_runtime_ends_then_it_is_forgotten() -> None:
    history = History()
    for rate in range(LONGEST + 5):
        history.add(Rates({}, {1: float(rate), 2: 0.0}), [1, 2])
    history.add(NONE, [1])

    assert history.copy() == {1: [float(rate) for rate in range(5, LONGEST + 5)]}


def test_sparkline_when_drawn_then_the_latest_is_right_and_little_is_seen() -> None:
    assert sparkline([0.0, 0.1, 50.0, 100.0], 3) == "▂▅█"
    assert sparkline([0.0, 0.0], 5) == "▁▁"
    assert sparkline([], 5) == sparkline([1.0], 0) == ""
    assert sparkline([0.0, 1.0], 5, is_plain=True) == "_#"


# Devices.


def test_meters_when_cards_are_there_then_what_each_can_tell() -> None:
    host = nvidia_host(
        Card(uuid="GPU-a", busy=43),
        Card(uuid="GPU-b", mig=True),
        Card(uuid=None),
        Card(uuid="GPU-c", lost=True),
    )
    meters = DeviceMeters(host)

    first, second, third, lost = meters.look()

    assert (first.busy, first.uuid, first.used) == (43, "GPU-a", 0)
    assert (second.busy, second.total) == (None, 80 * 2**30)
    assert (third.uuid, third.index) == (None, 2)
    assert (lost.uuid, lost.busy) == (None, None)


@pytest.mark.parametrize("broken", ["DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND"])
def test_meters_when_nvml_does_not_start_then_nothing(broken: str) -> None:
    meters = DeviceMeters(nvidia_host(broken=broken))

    assert meters.look() == meters.look() == []


def test_devices_when_two_runtimes_grant_one_then_it_is_there_once() -> None:
    runtimes = [
        listing(devices=(device(), device(device="1", is_logical=True))).runtimes[0],
        listing(
            pid=801, devices=(device(available=0.5), device(device="GPU-b"))
        ).runtimes[0],
    ]
    meters = DeviceMeters(nvidia_host(Card(uuid="GPU-a"), Card(uuid="GPU-bb"))).look()

    lines = device_lines(runtimes, meters)

    assert [(line.device.device, line.granted) for line in lines] == [
        ("0", 1.25),
        ("1", 0.75),
        ("GPU-b", 0.75),
    ]
    assert [line.meter and line.meter.uuid for line in lines] == [
        "GPU-a",
        None,
        "GPU-bb",
    ]


# The page.


def view(found: Any, **said: Any) -> Sample:
    return Sample(found, said.pop("rates", NONE), said.pop("history", {}), [], **said)


def laid_out(
    view: Sample, screen: Screen, width: int = 200, height: int | None = None
) -> tuple[Page, list[str]]:
    """A page, and the lines of text that are drawn of it."""
    out = console(width=width, file=io.StringIO())
    made = page(view, screen, out, height)
    out.print(made.content, crop=False)
    return made, [line.rstrip() for line in out.file.getvalue().splitlines()]


@pytest.mark.parametrize("height", [9, 12, 24])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_page_when_laid_out_then_it_fills_the_terminal_and_no_more(
    width: int, height: int
) -> None:
    many = [actor(actor_id=f"{n:032x}", pid=n) for n in range(100)]

    made, lines = laid_out(
        view(listing(*many, devices=(device(),))), after("end"), width, height
    )

    assert len(lines) == height
    assert made.screen.first == 100 - made.rows
    assert all(len(line) <= width for line in lines)
    assert str(made.screen.first) in lines[-made.rows - 1].split()
    assert "99" in lines[-2].split()
    assert "q quit" in lines[-1] or width == 40


def test_page_when_the_terminal_is_low_then_actors_have_room_all_the_same() -> None:
    rows = [actor(actor_id=f"{n:032x}", why="it waits") for n in range(9)]
    devices = tuple(device(device=str(n)) for n in range(9))

    made, lines = laid_out(view(listing(*rows, devices=devices)), Screen(), 200, 12)

    assert made.rows == 12 - len(["heading", "calls", "GPU 0", "1", "2", "6 more"]) - 5
    assert "and 6 devices more" in lines
    assert "and 7 wait besides" in lines


def test_page_when_printed_once_then_every_actor_and_no_word_of_keys() -> None:
    many = [actor(actor_id=f"{n:032x}", pid=n) for n in range(100)]

    _, lines = laid_out(view(listing(*many)), Screen(), 100_000)

    assert len(lines) == 2 + 1 + 100
    assert not any("quit" in line for line in lines)
    assert all(len(line) < 1000 for line in lines)


def test_screens_of_runtimes(golden: Golden) -> None:
    why = "Model 'm2' waits for GPU=1: Model 'm1' has 0.5 of GPU 0\nand more"
    frames = tuple(
        Frame(file="a.py", line=line, function="f", code="x = y()", is_users=True)
        for line in range(20)
    )
    stuck = Standstill(seconds=5.0, is_exact=True, is_running=True, frames=frames)
    waiting = [actor(actor_id=f"{n:032x}", why=why) for n in range(6)]
    busy = view(
        listing(*waiting, devices=(device(),)),
        rates=Rates({}, {800: 1234.0}),
        history={800: [0.0, 5.0]},
    )
    one, other = listing(actor(actor_id="a")), listing(actor(actor_id="b"), pid=801)
    both = view(
        Listing(runtimes=one.runtimes + other.runtimes), remarks=["pid 7 has ended"]
    )
    pages: dict[str, tuple[Sample, Screen, str]] = {
        "busy": (busy, Screen(), "and 2 wait besides"),
        "blocked": (view(listing(stuck=stuck)), Screen(), "  a.py:19 in f"),
        "two runtimes": (both, Screen(), "pid 7 has ended"),
        "nobody is found": (both, Screen(needle="nobody"), "No actor has that in it."),
    }
    texts: list[str] = []

    for name, (shown, screen, meaning) in pages.items():
        _, lines = laid_out(shown, screen, 120, 24)
        assert meaning in lines, name
        texts += [f"== {name}", *filter(None, lines)]

    golden.check("top.txt", "\n".join([*texts, ""]))
