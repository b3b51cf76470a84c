"""The files of cached results: ``DIR/<function>/<version>/<key>.pickle``.

A file is the pickle of a result, followed by a digest of it; ``pickle.load`` ignores
what follows a pickle. The digest takes the place of ``fsync``: a file that a power
failure has left incomplete is recognized, and its result is computed again.

A file is written under another name and renamed, so that it is either whole or missing
under its own. Programs that write the same entry replace each other's file.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import secrets
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, unquote

from actorlib._base.validation import wrong_type
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MISSING: Final[Any] = object()
"""What is read if there is no entry."""

_log = logging.getLogger("actorlib")
_DIGEST_SIZE = 16
_PROTOCOL = 5
_PRIVATE = 0o700
_LONGEST = 200
"""Characters of a folder's name, of the 255 bytes that file systems allow."""
_ENTRY = re.compile(r"[0-9a-f]{40}\.pickle")
_TEMPORARY = re.compile(r"\.[0-9a-f]{40}\.pickle\.[0-9a-f]{8}\.tmp")
_TEMPORARY_SECONDS = 3600.0
"""The age from which a temporary file belongs to a program that was killed."""


def open_cache(folder: object, function: str, version: str) -> Path:
    """Returns the folder of the entries of a function; creates it if it is missing.

    Raises:
        TypeError: ``folder`` is not a path.
        ValueError: It is empty.
        OSError: It cannot be created, or is not a writable folder.
    """
    if not isinstance(folder, str | os.PathLike):
        raise wrong_type(
            "cache takes the path of a folder, for example 'runs/'", folder
        )
    if not os.fspath(folder):
        raise ValueError(
            "cache takes the path of a folder, for example 'runs/', not ''"
        )
    place = Path(cast("str", folder)).expanduser().absolute()
    entries = place / _folder_name(function) / _folder_name(version)
    try:
        _make_folders(entries)
    except FileExistsError:
        raise NotADirectoryError(f"cache={folder!r}: {place} is not a folder") from None
    if not os.access(entries, os.W_OK | os.X_OK):
        raise PermissionError(f"cache={folder!r}: {entries} is not writable")
    return entries


def _folder_name(name: str) -> str:
    quoted = quote(name, safe="<>,+= ")[:_LONGEST]
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _make_folders(entries: Path) -> None:
    """Creates the folder of entries, and those above it, only for this user."""
    cache = entries.parent.parent
    cache.parent.mkdir(parents=True, exist_ok=True)
    for folder in (cache, entries.parent, entries):
        folder.mkdir(mode=_PRIVATE, exist_ok=True)


def read_entry(path: Path) -> Any:
    """Returns the result in a file, or MISSING; warns of a file that is damaged."""
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return _unreadable(path, f"cannot be read ({error})")
    pickled, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    if _digest_of(pickled) != bytes(digest):
        return _unreadable(path, "is damaged or incomplete")
    try:
        return pickle.loads(pickled)
    except Exception as error:  # noqa: BLE001  # of the user's classes
        from actorlib._wire.serialization import one_line  # noqa: PLC0415  # few fail

        return _unreadable(path, f"cannot be loaded ({one_line(error)})")


def _unreadable(path: Path, what: str) -> Any:
    _log.warning("the cached result %s %s: it is computed again", path, what)
    return MISSING


def _digest_of(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def write_entry(path: Path, value: object) -> None:
    """Writes a result; the file appears when it is whole.

    Raises:
        OSError: It cannot be written.
        Exception: The result cannot be pickled.
    """
    content = _pickled(value)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        try:
            descriptor = os.open(temporary, flags, 0o600)
        except FileNotFoundError:  # the folder was removed
            _make_folders(path.parent)
            descriptor = os.open(temporary, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.write(_digest_of(content))
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _pickled(value: object) -> bytes:
    try:
        # By reference, so that a class of __main__ is the same one in the next run.
        return pickle.dumps(value, _PROTOCOL)
    except Exception:  # noqa: BLE001  # of the user's classes
        from actorlib._wire.serialization import dump  # noqa: PLC0415  # seldom needed

        return dump(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedVersion:
    """The cached results of one version of a function.

    Attributes:
        function: The qualified name of the function.
        version: Its version.
        count: The number of results.
        nbytes: The size of their files.
        first: When the first of them was written, in seconds since 1970.
        last: When the last of them was written, in seconds since 1970.
    """

    function: str
    version: str
    count: int
    nbytes: int
    first: float
    last: float


def list_entries(
    folder: Path, function: str | None = None, before: float | None = None
) -> list[CachedVersion]:
    """Lists the cached results in a folder.

    Args:
        folder: The folder.
        function: Only those of this function: its qualified name, or the end of it.
        before: Only those that were written before this time.

    Raises:
        OSError: The folder cannot be read.
    """
    return [
        _row_of(version, files)
        for version in _versions_of(folder, function)
        if (files := _entries_in(version, before))
    ]


def remove_entries(
    folder: Path, function: str | None = None, before: float | None = None
) -> list[CachedVersion]:
    """Removes cached results; returns what was removed. See ``list_entries``.

    Other files and folders remain, except for temporary files of programs that were
    killed.
    """
    removed: list[CachedVersion] = []
    for version in _versions_of(folder, function):
        files = _entries_in(version, before)
        unwanted = (*files, *_abandoned_files_in(version))
        for path in unwanted:
            with suppress(FileNotFoundError):
                path.unlink()
        if files:
            removed.append(_row_of(version, files))
        for each in (version, version.parent) if unwanted else ():
            with suppress(OSError):  # it is not empty
                each.rmdir()
    return removed


def _versions_of(folder: Path, function: str | None) -> Iterator[Path]:
    """Yields the folder of each version of a function, or of all functions."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")
    for of_function in _folders_in(folder):
        name = unquote(of_function.name)
        if function is None or f".{name}".endswith(f".{function}"):
            yield from _folders_in(of_function)


def _folders_in(folder: Path) -> list[Path]:
    return sorted(
        Path(entry.path)
        for entry in _scanned(folder)
        if entry.is_dir(follow_symlinks=False)
    )


def _scanned(folder: Path) -> list[os.DirEntry[str]]:
    """Lists a folder; it is empty if another program has removed it meanwhile."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _entries_in(version: Path, before: float | None) -> dict[Path, os.stat_result]:
    files = _files_in(version, _ENTRY)
    return {
        path: stat
        for path, stat in files.items()
        if before is None or stat.st_mtime < before
    }


def _abandoned_files_in(version: Path) -> list[Path]:
    """Returns the temporary files of programs that were killed."""
    newest = time.time() - _TEMPORARY_SECONDS
    files = _files_in(version, _TEMPORARY)
    return [path for path, stat in files.items() if stat.st_mtime < newest]


def _files_in(folder: Path, name: re.Pattern[str]) -> dict[Path, os.stat_result]:
    files: dict[Path, os.stat_result] = {}
    for entry in _scanned(folder):
        if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):  # another program has removed it
                files[Path(entry.path)] = entry.stat(follow_symlinks=False)
    return files


def _row_of(version: Path, files: Mapping[Path, os.stat_result]) -> CachedVersion:
    times = [stat.st_mtime for stat in files.values()]
    return CachedVersion(
        function=unquote(version.parent.name),
        version=unquote(version.name),
        count=len(files),
        nbytes=sum(stat.st_size for stat in files.values()),
        first=min(times),
        last=max(times),
    )
