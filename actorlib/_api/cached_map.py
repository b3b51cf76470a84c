"""The cache of a map: loads the results of earlier runs, and keeps new ones.

It is between a map and the function that makes its calls, and makes only the calls of
items without an entry. A result is written before the map returns it, and as soon as
its call is done: by a callback of its ref, on the thread that fills it. So the loop
waits for the file; a small result takes 0.1 to 1 ms.
"""

from __future__ import annotations

import logging
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from actorlib._api.cache_folder import MISSING, open_cache, read_entry, write_entry
from actorlib._api.cache_key import KINDS, NoKeyError, code_version, entry_key
from actorlib._api.results import Raised
from actorlib._base.validation import wrong_type
from actorlib._loops.loop_thread import add_done_callback
from actorlib._options.interface import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

    from actorlib._api.map_calls import MapCall
    from actorlib._api.progress import Progress
    from actorlib._futures.object_ref import ObjectRef

_log = logging.getLogger("actorlib")
_LONGEST_VERSION = 100


class _Entry:
    """The file for the result of an item whose call was made."""

    __slots__ = ("is_settled", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_settled = False


class _Loaded:
    """A result of an earlier run."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class MapCache:
    """The cached results of one map of a function.

    Args:
        function: The function, as a plain one.
        folder: The value of ``cache=``.
        version: The value of ``version=``.

    Attributes:
        progress: Shows how many results were loaded, or None.

    Raises:
        TypeError: The function cannot be identified, or an option has a wrong type.
        ValueError: An option is empty or too long.
        OSError: The folder cannot be created, or is not writable.
    """

    def __init__(self, function: FunctionType, folder: object, version: object) -> None:
        self.progress: Progress | None = None
        self._name = _qualified_name(function)
        self._version = _version_of(function, self._name, version)
        self._signature = signature_of(function)
        self._folder = open_cache(folder, self._name, self._version)
        self._loaded = self._called = 0
        # Reentrant: pickling a result may run the user's code.
        self._lock = threading.RLock()
        self._has_warned = self._has_reported = False

    def only_missing(
        self, make: Callable[[MapCall, tuple[object, ...]], None], width: int
    ) -> Callable[[MapCall, tuple[object, ...]], None]:
        """Returns a function that loads the results of items, or makes their calls.

        Args:
            make: Makes the calls of items that have no entry.
            width: The number of arguments of each item.
        """

        def make_missing(call: MapCall, args: tuple[object, ...]) -> None:
            entries: list[_Entry | None] = []
            begin = 0
            for start in range(0, len(args), width):
                item = self._find(args[start : start + width], call.first or 0, entries)
                if isinstance(item, _Entry):
                    continue
                if begin < start:
                    make(call, args[begin:start])
                begin = start + width
                if isinstance(item, _Loaded):
                    call.add_value(item.value)
                else:
                    call.add_error(item)
            if begin < len(args):
                make(call, args[begin:])
            self._follow(call, entries)

        return make_missing

    def report(self) -> None:
        """Logs how many results were loaded, once."""
        if self._has_reported or not (self._loaded or self._called):
            return
        self._has_reported = True
        _log.info(
            "%s: results loaded from %s: %d; calls made: %d",
            self._name,
            self._folder.parent.parent,
            self._loaded,
            self._called,
        )

    def _find(
        self, args: tuple[object, ...], first: int, entries: list[_Entry | None]
    ) -> _Entry | _Loaded | Exception:
        """Reads the result of the next item, and adds its entry to ``entries``."""
        number = first + len(entries)
        entries.append(None)
        try:
            path = self._folder / f"{self._key_of(args, number)}.pickle"
            value = read_entry(path)
        except Exception as error:  # noqa: BLE001  # of the user's values
            return error
        if value is MISSING:
            self._called += 1
            entry = entries[-1] = _Entry(path)
            return entry
        self._loaded += 1
        if self.progress is not None:
            self.progress.loaded = self._loaded
        return _Loaded(value)

    def _key_of(self, args: tuple[object, ...], number: int) -> str:
        bound = self._signature.bind(*args)
        bound.apply_defaults()
        try:
            return entry_key(self._name, self._version, bound.arguments)
        except NoKeyError as error:
            raise TypeError(
                f"cache= cannot identify item {number} of the map: "
                f"{error.place} {_why(error)}. An item may consist of {KINDS}"
            ) from None

    def _follow(self, call: MapCall, entries: Sequence[_Entry | None]) -> None:
        """Keeps the results of a call when it is done.

        The callbacks do not refer to refs, so that a dropped one is cancelled.
        """
        call.keep = partial(self._keep_all, entries)
        for ref, place, size in call.spans():
            own = entries[place : place + (size or 1)]
            add_done_callback(ref, partial(self._ref_done, own, bool(size)))

    def _ref_done(
        self,
        entries: Sequence[_Entry | None],
        is_chunk: bool,  # noqa: FBT001  # called through partial()
        ref: ObjectRef[Any],
    ) -> None:
        if ref.cancelled():
            return
        # Not by exception(), which would mark the error as received.
        error = cast("BaseException | None", cast("Any", ref)._exception)  # noqa: SLF001  # of asyncio
        if error is None:
            value = ref.result()
            self._keep_all(entries, value[1] if is_chunk else [value])
        elif is_chunk:
            from actorlib._wire.errors import chunk_of  # noqa: PLC0415  # few fail

            chunk = chunk_of(error)
            if chunk is not None:
                failed = {place for place, _ in chunk.failures}
                some = [None if i in failed else e for i, e in enumerate(entries)]
                self._keep_all(some, chunk.values)

    def _keep_all(
        self, entries: Sequence[_Entry | None], outcomes: Sequence[Any]
    ) -> None:
        for entry, outcome in zip(entries, outcomes, strict=False):
            if entry is not None and type(outcome) is not Raised:
                self._keep(entry, outcome)

    def _keep(self, entry: _Entry, value: object) -> None:
        with self._lock:
            if entry.is_settled:
                return
            try:
                write_entry(entry.path, value)
            except Exception as error:  # noqa: BLE001  # of the user's classes, or of the disk
                self._warn(error)
            entry.is_settled = True

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            from actorlib._wire.serialization import one_line  # noqa: PLC0415  # few fail

            self._has_warned = True
            _log.warning(
                "a result of %s cannot be kept in %s (%s); further ones of this map "
                "are not reported",
                self._name,
                self._folder,
                one_line(error),
            )


def _qualified_name(function: FunctionType) -> str:
    """Returns the name by which a function is known in the next run, too.

    The module of a script is the name of its file.
    """
    name = function.__qualname__
    if name.endswith("<lambda>"):
        raise TypeError(
            f"cache= identifies a function by its name, and {function!r} has none: "
            "write it with def"
        )
    module = function.__module__
    if module == "__main__":
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else Path(file).stem if file else module
    return f"{module}.{name}"


def _version_of(function: FunctionType, name: str, version: object) -> str:
    if version is not None:
        if isinstance(version, bool) or not isinstance(version, str | int):
            raise wrong_type("version takes a text or a whole number", version)
        text = str(version)
        if not text or len(text) > _LONGEST_VERSION:
            raise ValueError(
                f"version takes 1 to {_LONGEST_VERSION} characters, not {version!r}"
            )
        return text
    try:
        return code_version(function)
    except NoKeyError as error:
        raise TypeError(
            f"cache= cannot identify {name}: it uses {error.place} of the function "
            f"around it, which {_why(error)}. Make it an argument, or set version="
        ) from None


def _why(error: NoKeyError) -> str:
    kind = type(error.value)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return error.reason or f"is of the type {name}"
