"""Calls functions after the import of modules, wherever they are imported.

A finder stands first in ``sys.meta_path`` until all its modules are imported. It finds
a module with the other finders, and wraps the loader. If an import fails it waits for
the next one. A finder that is inserted before it later, and that finds a module without
calling the others, bypasses it.
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

    Callback = Callable[[ModuleType], None]


def when_imported(callbacks: Mapping[str, Callback]) -> None:
    """Calls a function with each module: now if it is imported, or after its import."""
    waiting: dict[str, Callback] = {}
    for name, callback in callbacks.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = callback
        else:
            callback(module)
    if waiting:
        sys.meta_path.insert(0, cast("Any", _WatchingFinder(waiting)))


class _WatchingFinder:
    """Wraps the loaders of modules that the other finders find; see importlib."""

    def __init__(self, callbacks: dict[str, Callback]) -> None:
        self._callbacks = callbacks

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if name not in self._callbacks:
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
                spec.loader = cast("Any", _WatchingLoader(spec.loader, done))
            return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        callback = self._callbacks.pop(name, None)
        if not self._callbacks:
            with suppress(ValueError):  # other code has removed it
                sys.meta_path.remove(cast("Any", self))
        if callback is not None:
            callback(module)


class _WatchingLoader:
    """Loads a module by its own loader, which it restores before the code runs."""

    def __init__(self, loader: Any, done: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)
