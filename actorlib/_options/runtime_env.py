"""The ``runtime_env`` of a process: its environment variables and working directory."""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, cast

from actorlib._base.public import public
from actorlib._base.validation import closest_names, wrong_type
from actorlib.exceptions import UnsupportedOptionError

_REFERENCE = re.compile(r"\$\{(\w+)\}")


@public("actorlib.types")
class RuntimeEnv(TypedDict, total=False):
    """The keys of ``runtime_env``.

    Attributes:
        env_vars: Values by name; ``${PATH}`` in one stands for its former value.
        working_dir: A directory of this machine.
    """

    env_vars: Mapping[str, str]
    working_dir: str


_KEYS = ("env_vars", "working_dir")


def checked_env(value: object) -> RuntimeEnv | None:
    """Checks and copies a user's ``runtime_env``; returns None if it is empty."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise wrong_type(
            "runtime_env takes a dict, for example {'env_vars': {'A': '1'}}", value
        )
    env: RuntimeEnv = {}
    for key, entry in cast("Mapping[object, object]", value).items():
        if key == "env_vars":
            env["env_vars"] = _variables(entry)
        elif key == "working_dir":
            env["working_dir"] = _directory(entry)
        else:
            close = closest_names(str(key), _KEYS)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"runtime_env has no key {key!r}.{hint} Its keys are "
                f"{', '.join(map(repr, _KEYS))}: it installs no packages, so install "
                "the packages of actors before init()"
            )
    return env or None


S = TypeVar("S")
"""``ActorSpec`` or ``FunctionSpec``."""


class InheritedEnv:
    """Adds the ``runtime_env`` of ``init()`` to those of actors and functions."""

    def __init__(self, env: RuntimeEnv) -> None:
        self._env = env
        self._merged: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def given_to(self, spec: S) -> S:
        """Returns a spec with the environment that it inherits."""
        inheriting: Any = spec
        env = merged_env(self._env, inheriting.options.runtime_env)
        options = inheriting.options.updated({"runtime_env": env})
        return cast("S", replace(inheriting, options=options))

    def of(self, spec: S) -> S:
        """Does the same for a spec that many calls use, and caches the result."""
        merged = self._merged.get(spec)
        if merged is None:
            merged = self._merged[spec] = self.given_to(spec)
        return cast("S", merged)


def refuse_env(env: RuntimeEnv | None) -> None:
    """Refuses an environment on the inline engine, whose actors share one process."""
    for key, value in (env or {}).items():
        if value:
            raise UnsupportedOptionError(
                f"runtime_env={{{key!r}: {value!r}}} needs a separate process for the "
                "actor, and the inline engine runs all actors in this one: use the "
                "local engine, init(engine='local')"
            )


def refuse_ranks() -> None:
    """Refuses ``torch=True`` on the inline engine, whose actors share one process."""
    raise UnsupportedOptionError(
        "torch=True sets variables of a process, one for each rank, and the inline "
        "engine runs all actors in this one: use the local engine, init(engine='local')"
    )


def merged_env(outer: RuntimeEnv | None, own: RuntimeEnv | None) -> RuntimeEnv | None:
    """Merges the environment that an actor inherits with its own, which wins."""
    if not outer or not own:
        return own or outer
    before = outer.get("env_vars", {})
    variables = {
        name: _REFERENCE.sub(lambda match: before.get(match[1], match[0]), value)
        for name, value in own.get("env_vars", {}).items()
    }
    merged: RuntimeEnv = {**outer, **own}
    if before or variables:
        merged["env_vars"] = {**before, **variables}
    return merged


def variables_of(env: RuntimeEnv | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a ``runtime_env`` sets in a process.

    ``${NAME}`` refers to ``environ``; a missing variable is empty.
    """
    return {
        name: _REFERENCE.sub(lambda match: environ.get(match[1], ""), value)
        for name, value in (env or {}).get("env_vars", {}).items()
    }


def _variables(entry: object) -> dict[str, str]:
    if not isinstance(entry, Mapping):
        raise wrong_type(
            "env_vars takes a dict of strings by name, for example {'A': '1'}", entry
        )
    variables: dict[str, str] = {}
    for name, value in cast("Mapping[Any, Any]", entry).items():
        for part in (name, value):
            if not isinstance(part, str):
                raise TypeError(
                    f"env_vars takes strings by name, and {name!r}: {value!r} has "
                    f"{part!r} ({type(part).__name__}) in it: write str(...)"
                )
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(
                f"env_vars has {name!r} with the value {value!r}: a name may not be "
                "empty or contain '=', and no name or value may contain a null "
                "character"
            )
        variables[name] = value
    return variables


def _directory(entry: object) -> str:
    path = entry if isinstance(entry, str) else getattr(entry, "__fspath__", str)()
    if not isinstance(path, str) or not path:
        raise wrong_type("working_dir takes the path of a directory", entry)
    if "://" in path:
        raise ValueError(
            f"working_dir={path!r} is an address, and working_dir takes a directory of "
            "this machine: download it first, and give the path"
        )
    return path


def resolved_env(env: RuntimeEnv | None) -> RuntimeEnv | None:
    """Returns the same with an absolute ``working_dir``, which has to exist."""
    if env is None or "working_dir" not in env:
        return env
    from pathlib import Path  # noqa: PLC0415  # it takes 3 ms, and few set a directory

    path = Path(env["working_dir"]).expanduser().absolute()
    if not path.is_dir():
        raise NotADirectoryError(
            f"working_dir={env['working_dir']!r}: there is no directory {path}. "
            "Create it, or give another path"
        )
    return {**env, "working_dir": str(path)}
