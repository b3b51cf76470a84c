"""What the kernel says of a process is read, or is nonsense."""

from __future__ import annotations

import os
import sys

import pytest

from actorlib._base.process_stat import parse_stat, read_stat

STAT = "812 (py (th) on) S 7 812 811 0 -1 4194304 9 0 0 0 1 2 3 4 20 0 1 0 99887 1 2"


def test_stat_when_the_name_has_brackets_then_all_is_read() -> None:
    found = parse_stat(STAT)

    assert found is not None
    assert found[:6] == (812, "py (th) on", "S", 7, 812, 811)
    assert (found.flags, found.ticks, found.began, found.pages) == (
        4194304,
        3,
        99887,
        2,
    )
    assert not found.has_ended
    assert not found.is_ending


def test_stat_when_the_process_ends_then_it_is_known() -> None:
    zombie = parse_stat(STAT.replace(" S ", " Z "))
    exiting = parse_stat(STAT.replace("4194304", "4194308"))

    assert zombie is not None
    assert (zombie.has_ended, zombie.is_ending) == (True, True)
    assert exiting is not None
    assert (exiting.has_ended, exiting.is_ending) == (False, True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_stat_when_of_this_process_then_as_the_system_says() -> None:
    found = read_stat("self")

    assert found is not None
    assert (found.pid, found.parent) == (os.getpid(), os.getppid())
    assert found.session == os.getsid(0)
    assert found.words[1] > found.words[0] > 0
    assert read_stat(1 << 30) is None


@pytest.mark.parametrize("stat", ["", "812", "812 (python) S", STAT.replace("7", "x")])
def test_stat_when_it_makes_no_sense_then_none(stat: str) -> None:
    assert parse_stat(stat) is None
