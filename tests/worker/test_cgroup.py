"""A worker joins its cgroup, or says why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actorlib._worker.cgroup import join_cgroup
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from pathlib import Path


def test_join_when_the_files_are_there_then_they_are_written(tmp_path: Path) -> None:
    names = ("memory.max", "cgroup.procs")
    for name in names:  # the kernel makes them with the folder
        (tmp_path / name).touch()
    join_cgroup({f"{tmp_path}/{name}": name for name in names})
    assert [(tmp_path / name).read_text() for name in names] == list(names)


def test_join_when_a_file_is_missing_then_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnforcementRefused, match=r"leaf/cpu\.max cannot be written"):
        join_cgroup({f"{tmp_path}/leaf/cpu.max": "1000 100000"})
    assert (tmp_path / "leaf").is_dir()


def test_join_when_the_folder_cannot_be_made_then_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnforcementRefused, match="file/leaf cannot be written"):
        join_cgroup({f"{tmp_path}/file/leaf/cpu.max": "1000 100000"})
