"""Tells of modules when they have been imported, whoever imports them.

A finder stands first in ``sys.meta_path`` until all that it is asked for are there. It
looks for a module as everybody does, and lends it a loader that goes on with ours. If
an import fails it is there for the next one; a finder that somebody puts in front of
it, and that finds a module without asking those behind, goes past it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Tell = Callable[[ModuleType], None]


def when_imported(telling: Mapping[str, Tell]) -> None:
    """Tells of each of some modules: now if it is imported already, or when it was.

    Args:
        telling: Who is told of it, by the name of the module.
    """
    waiting: dict[str, Tell] = {}
    for name, tell in telling.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = tell
        else:
            tell(module)
    if waiting:
        sys.meta_path.insert(0, cast("Any", _TellingFinder(waiting)))


class _TellingFinder:
    """Finds modules as others do, and tells of each once it is imported.

    Args:
        telling: Who is told, by the name of the module; taken out when it is done.
    """

    def __init__(self, telling: dict[str, Tell]) -> None:
        self._telling = telling

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Finds a module that nobody was told of; see importlib."""
        if name not in self._telling:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is None:
                continue
            if hasattr(spec.loader, "exec_module"):
                done = partial(self._imported, name)
                spec.loader = cast("Any", _TellingLoader(spec.loader, done))
            return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        tell = self._telling.pop(name, None)
        if not self._telling:
            with suppress(ValueError):  # somebody has taken it out
                sys.meta_path.remove(cast("Any", self))
        if tell is not None:
            tell(module)


class _TellingLoader:
    """Loads a module by its own loader, and tells when it is loaded.

    Args:
        loader: Its own loader, which is there again before its code runs.
        done: Told of the module.
    """

    def __init__(self, loader: Any, done: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Makes the module; see importlib."""
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's code; see importlib."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)
