"""The files of cached results: whole or missing, private, listed and removed."""

from __future__ import annotations

import logging
import os
import pickle
import stat
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._api.cache_folder import (
    MISSING,
    _digest_of,
    _entries_in,
    _versions_of,
    list_entries,
    open_cache,
    read_entry,
    remove_entries,
    write_entry,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0123456789" * 4


def entry_in(folder: Path, number: int = 0) -> Path:
    return folder / f"{number}{KEY[1:]}.pickle"


def write_times(folder: Path, *times: float) -> None:
    """Writes an entry for each time of writing."""
    for number, seconds in enumerate(times):
        path = entry_in(folder, number)
        write_entry(path, number)
        os.utime(path, (seconds, seconds))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Local:
    """Is pickled by reference, or by value if it was made in a function."""

    def __init__(self, value: Any) -> None:
        self.value = value


def test_entry_when_written_then_the_same_value_is_read_and_others_may_load_it(
    tmp_path: Path,
) -> None:
    folder = open_cache(tmp_path / "a" / "runs", "m.f", "1")
    path = entry_in(folder)
    assert read_entry(path) is MISSING

    for value in (None, [1, (2, "é")], Local(3), lambda x: x + 1, b"x" * 100_000):
        write_entry(path, value)
        got = read_entry(path)
        if isinstance(value, Local):
            assert type(got) is Local
            assert got.value == 3
        elif callable(value):
            assert got(1) == 2
        else:
            assert got == value
            with path.open("rb") as file:
                assert pickle.load(file) == value
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert {
        mode_of(each) for each in (folder, folder.parent, tmp_path / "a" / "runs")
    } == {0o700}
    assert mode_of(path) == 0o600


def test_entry_when_it_cannot_be_written_then_the_one_before_remains(
    tmp_path: Path,
) -> None:
    class Broken:
        def __reduce__(self) -> Any:
            raise ArithmeticError

    class Interrupting:
        def __reduce__(self) -> Any:
            raise KeyboardInterrupt

    path = entry_in(open_cache(tmp_path, "f", "1"))
    write_entry(path, 1)

    for value, error in (
        (Broken(), ArithmeticError),
        (Interrupting(), KeyboardInterrupt),
    ):
        with pytest.raises(error):
            write_entry(path, value)
    path.parent.joinpath("other").mkdir()
    with pytest.raises(IsADirectoryError):
        write_entry(path.parent / "other", 1)

    assert read_entry(path) == 1
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, "other"]


def test_entry_when_its_file_is_damaged_then_it_is_missing_and_a_warning_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = entry_in(open_cache(tmp_path, "f", "1"))
    write_entry(path, [*range(1000)])
    whole = path.read_bytes()
    missing = b"cnosuchmodule\nname\n."
    write_entry(path, None)
    empty = path.read_bytes()
    contents = [whole[:length] for length in range(0, len(whole), 101)]
    contents += [whole[:-1], whole + b"\0", bytes(len(whole))]
    contents += [whole[:place] + b"\xff" + whole[place + 1 :] for place in (0, 900)]
    contents += [empty[:1], missing + _digest_of(missing)]
    for content in contents:
        path.write_bytes(content)
        caplog.clear()

        assert read_entry(path) is MISSING
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert str(path) in record.message
        assert "computed again" in record.message
    path.unlink()
    path.mkdir()
    assert read_entry(path) is MISSING


@pytest.mark.parametrize(
    ("function", "version"),
    [
        ("m.f", "1"),
        ("m.C.outer.<locals>.f", "2026/01 new"),
        ("..", ".."),
        (".", ".hidden"),
        ("é" * 100, "ü" * 100),
        ("m.f", "%2E"),
    ],
)
def test_folder_when_names_are_strange_then_entries_are_inside_of_it(
    function: str, version: str, tmp_path: Path
) -> None:
    folder = open_cache(tmp_path / "runs", function, version)
    write_entry(entry_in(folder), 1)

    assert folder.parent.parent == tmp_path / "runs"
    (row,) = list_entries(tmp_path / "runs")
    if len(function) < 50:
        assert (row.function, row.version) == (function, version)


@pytest.mark.parametrize(
    ("folder", "error", "why"),
    [
        (3, TypeError, "cache takes the path of a folder"),
        (True, TypeError, "cache takes the path of a folder"),
        ("", ValueError, "not ''"),
        ("file", NotADirectoryError, "file is not a folder"),
        ("file/runs", NotADirectoryError, "file"),
    ],
)
def test_folder_when_it_cannot_be_used_then_that_is_said_at_once(
    folder: Any,
    error: type[Exception],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    with pytest.raises(error, match=why):
        open_cache(folder, "f", "1")


def test_folder_when_it_begins_with_a_tilde_then_it_is_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_cache("~/runs", "f", "1") == tmp_path / "runs" / "f" / "1"


class MuteError(Exception):
    def __str__(self) -> str:
        raise ArithmeticError


def refuse() -> None:
    raise MuteError


class Refusing:
    def __reduce__(self) -> Any:
        return refuse, ()


def test_entry_when_loading_it_raises_an_error_without_text_then_it_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = entry_in(open_cache(tmp_path, "f", "1"))
    write_entry(path, Refusing())

    assert read_entry(path) is MISSING
    (record,) = caplog.records
    assert "cannot be loaded" in record.getMessage()
    assert "MuteError" in record.getMessage()


def test_folder_when_removed_meanwhile_then_it_is_created_again(tmp_path: Path) -> None:
    path = entry_in(open_cache(tmp_path / "runs", "f", "1"))
    path.parent.rmdir()
    path.parent.parent.rmdir()

    write_entry(path, 1)

    assert read_entry(path) == 1


def test_entries_when_another_program_removes_them_meanwhile_then_they_are_left_out(
    tmp_path: Path,
) -> None:
    first, second, third = (
        open_cache(tmp_path, name, version)
        for name, version in (("f", "1"), ("f", "2"), ("g", "1"))
    )
    for folder in (first, second, third):
        write_times(folder, 100)
    versions = _versions_of(tmp_path, None)
    assert next(versions) == first
    remove_entries(tmp_path)
    assert list(versions) == [second]
    assert not third.exists()

    assert _entries_in(second, None) == {}


def test_entries_when_listed_and_removed_then_by_function_and_time(
    tmp_path: Path,
) -> None:
    first = open_cache(tmp_path, "m.train", "1")
    second = open_cache(tmp_path, "m.train", "2")
    other = open_cache(tmp_path, "m.pretrain", "1")
    for folder, times in ((first, (100, 300, 200)), (second, (400,)), (other, (500,))):
        write_times(folder, *times)
    foreign = [tmp_path / "notes.txt", first / "notes.txt", first / f"{KEY}.pkl"]
    young, old = (first / f".{KEY}.pickle.{end}.tmp" for end in ("0" * 8, "1" * 8))
    for path in (*foreign, young, old):
        path.touch()
    empty = tmp_path / "src" / "empty"
    empty.mkdir(parents=True)
    os.utime(old, (100, 100))
    (tmp_path / "link").symlink_to(first.parent)

    def listed(**options: Any) -> list[tuple[Any, ...]]:
        return [
            (row.function, row.version, row.count, row.first, row.last)
            for row in list_entries(tmp_path, **options)
        ]

    assert listed() == [
        ("m.pretrain", "1", 1, 500, 500),
        ("m.train", "1", 3, 100, 300),
        ("m.train", "2", 1, 400, 400),
    ]
    assert listed(function="train") == listed(function="m.train") == listed()[1:]
    assert listed(function="rain") == listed(before=100) == []
    assert listed(before=300) == [("m.train", "1", 2, 100, 200)]
    assert sum(row.nbytes for row in list_entries(tmp_path)) == sum(
        path.stat().st_size for path in tmp_path.glob("m*/*/*.pickle")
    )

    removed = remove_entries(tmp_path, function="train", before=400)

    assert [(row.version, row.count) for row in removed] == [("1", 3)]
    assert [row[:2] for row in listed()] == [("m.pretrain", "1"), ("m.train", "2")]
    assert not old.exists()
    assert all(path.exists() for path in (*foreign, young))
    remove_entries(tmp_path)
    assert listed() == []
    assert [path.name for path in tmp_path.glob("m.*")] == ["m.train"]
    assert empty.exists()
    with pytest.raises(NotADirectoryError, match="missing is not a folder"):
        list_entries(tmp_path / "missing")
