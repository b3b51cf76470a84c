"""A worker joins its cgroup, or says why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actorlib._features.cgroup.files import remove_beside, remove_leftovers
from actorlib._features.cgroup.worker import prepare
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from pathlib import Path


def test_join_when_the_files_are_there_then_they_are_written(tmp_path: Path) -> None:
    names = ("memory.max", "cgroup.procs")
    for name in names:  # the kernel makes them with the folder
        (tmp_path / name).touch()
    prepare({f"{tmp_path}/{name}": name for name in names})
    assert [(tmp_path / name).read_text() for name in names] == list(names)


def test_join_when_a_file_is_missing_then_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnforcementRefused, match=r"leaf/cpu\.max cannot be written"):
        prepare({f"{tmp_path}/leaf/cpu.max": "1000 100000"})
    assert (tmp_path / "leaf").is_dir()


def test_join_when_the_folder_cannot_be_made_then_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnforcementRefused, match="file/leaf cannot be written"):
        prepare({f"{tmp_path}/file/leaf/cpu.max": "1000 100000"})


@pytest.mark.parametrize("own", ["actorlib-7-50-owner", ""])
def test_leftovers_when_an_owner_was_killed_then_those_of_workers_are_removed(
    tmp_path: Path, own: str
) -> None:
    gone = ["actorlib-7-50-abc-1", "actorlib-7-50-abc-2/below"]
    there = {
        "actorlib-7-50-abc-3-devices",  # NVML has to be told
        "actorlib-7-50-owner",  # the template is in it
        "actorlib-8-50-abc-1",
        "other",
    }
    for name in (*gone, *there):
        (tmp_path / name).mkdir(parents=True)

    remove_beside(f"{tmp_path}/{own}".rstrip("/"), 7)

    assert {path.name for path in tmp_path.iterdir()} == there


def test_leftovers_when_nothing_can_be_read_then_nothing_is_raised() -> None:
    remove_leftovers(1 << 22)  # nobody has that number
