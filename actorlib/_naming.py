"""What a name stands for here: of a module's classes and functions, of a directory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actorlib._runtime_env import RuntimeEnv


def found_by_name(module: str, qualname: str) -> object:
    """What a worker would find under that name, or None if it could not look there."""
    if module == "__main__" or "<locals>" in qualname:
        return None
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def settled_env(env: RuntimeEnv | None) -> RuntimeEnv | None:
    """The same with an absolute ``working_dir``.

    Raises:
        NotADirectoryError: It is not there.
    """
    if env is None or "working_dir" not in env:
        return env
    from pathlib import Path  # noqa: PLC0415  # 3 ms, and few ask for a directory

    path = Path(env["working_dir"]).expanduser().absolute()
    if not path.is_dir():
        raise NotADirectoryError(
            f"working_dir={env['working_dir']!r} is no directory here ({path})"
        )
    return {**env, "working_dir": str(path)}
