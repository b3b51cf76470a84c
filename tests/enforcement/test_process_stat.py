"""What the kernel says of a process is read, or is nonsense."""

from __future__ import annotations

import pytest

from actorlib._enforcement.process_stat import read_stat

STAT = "812 (py (th) on) S 7 812 811 0 -1 4194304 9 0 0 0 1 2 3 4 20 0 1 0 99887 1 2"


def test_stat_when_the_name_has_brackets_then_all_is_read() -> None:
    found = read_stat(STAT)

    assert found is not None
    assert found == (812, "py (th) on", 7, 812, 811, 99887, 2)


@pytest.mark.parametrize("stat", ["", "812", "812 (python) S", STAT.replace("7", "x")])
def test_stat_when_it_makes_no_sense_then_none(stat: str) -> None:
    assert read_stat(stat) is None
