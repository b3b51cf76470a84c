"""What an actor's process is like: its variables and its working directory.

What a name stands for here: of a module's classes and functions, of a directory.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypedDict, TypeVar, cast

from actorlib._core.public import public
from actorlib._core.validation import closest
from actorlib.exceptions import UnsupportedOptionError

_REFERENCE = re.compile(r"\$\{(\w+)\}")


@public("actorlib")
class RuntimeEnv(TypedDict, total=False):
    """The keys of ``runtime_env``.

    Attributes:
        env_vars: Values by name; ``${PATH}`` in one stands for what it was before.
        working_dir: A directory of this machine.
    """

    env_vars: Mapping[str, str]
    working_dir: str


_KEYS = ("env_vars", "working_dir")


def checked_env(given: object) -> RuntimeEnv | None:
    """A copy of what a user wrote; None if it says nothing.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key is unknown, or a variable cannot have that name or value.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TypeError(
            "runtime_env takes a dict, for example {'env_vars': {'A': '1'}}, not "
            f"{given!r} ({type(given).__name__})"
        )
    env: RuntimeEnv = {}
    for key, value in cast("Mapping[object, object]", given).items():
        if key == "env_vars":
            env["env_vars"] = _variables(value)
        elif key == "working_dir":
            env["working_dir"] = _directory(value)
        else:
            close = closest(str(key), _KEYS)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"runtime_env knows no {key!r}.{hint} Its keys are "
                f"{', '.join(map(repr, _KEYS))}: what is to be installed has to be "
                "there before"
            )
    return env or None


class Spec(Protocol):
    """An actor, or a function, to be; see ActorSpec and FunctionSpec."""

    @property
    def options(self) -> Any:
        """What it asks for; ``updated`` gives the same with some of it replaced."""
        ...


S = TypeVar("S", bound=Spec)


class Heritage:
    """What every actor and every function of a runtime inherits.

    Args:
        env: What was said of the runtime.
    """

    def __init__(self, env: RuntimeEnv) -> None:
        self._env = env
        self._heirs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def given_to(self, spec: S) -> S:
        """What is to be made, with what it inherits."""
        env = inherited(self._env, spec.options.runtime_env)
        options = spec.options.updated({"runtime_env": env})
        return cast("S", replace(cast("Any", spec), options=options))

    def of(self, spec: S) -> S:
        """The same for what is called often: its heir is made once."""
        heir = self._heirs.get(spec)
        if heir is None:
            heir = self._heirs[spec] = self.given_to(spec)
        return cast("S", heir)


def refuse_own(env: RuntimeEnv | None) -> None:
    """Refuses what an actor without a process of its own cannot have.

    Raises:
        UnsupportedOptionError: It asks for variables or a directory.
    """
    for key, value in (env or {}).items():
        if value:
            raise UnsupportedOptionError(
                f"runtime_env={{{key!r}: {value!r}}} is for an actor with a process of "
                "its own, and the inline engine runs all actors in this one: use the "
                "local engine, init(engine='local')"
            )


def inherited(outer: RuntimeEnv | None, own: RuntimeEnv | None) -> RuntimeEnv | None:
    """What an actor gets that another one made.

    Args:
        outer: What the actor that makes it has.
        own: What was said of the new one, which wins.
    """
    if not outer or not own:
        return own or outer
    before = outer.get("env_vars", {})
    variables = {
        name: _REFERENCE.sub(lambda found: before.get(found[1], found[0]), value)
        for name, value in own.get("env_vars", {}).items()
    }
    merged: RuntimeEnv = {**outer, **own}
    if before or variables:
        merged["env_vars"] = {**before, **variables}
    return merged


def variables_of(env: RuntimeEnv | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process gets.

    Args:
        env: What was said of it.
        environ: What it would have otherwise. A variable that is not there is empty.
    """
    return {
        name: _REFERENCE.sub(lambda found: environ.get(found[1], ""), value)
        for name, value in (env or {}).get("env_vars", {}).items()
    }


def _variables(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(
            "env_vars takes a dict of texts by name, for example {'A': '1'}, not "
            f"{given!r} ({type(given).__name__})"
        )
    variables: dict[str, str] = {}
    for name, value in cast("Mapping[Any, Any]", given).items():
        for part in (name, value):
            if not isinstance(part, str):
                raise TypeError(
                    f"env_vars takes texts, as variables are nothing else: {name!r} is "
                    f"{value!r}, where {part!r} is {type(part).__name__}"
                )
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"no variable can be {name!r} with the value {value!r}")
        variables[name] = value
    return variables


def _directory(given: object) -> str:
    path = given if isinstance(given, str) else getattr(given, "__fspath__", str)()
    if not isinstance(path, str) or not path:
        raise TypeError(
            f"working_dir takes the path of a directory, not {given!r} "
            f"({type(given).__name__})"
        )
    if "://" in path:
        raise ValueError(
            f"working_dir={path!r} is no directory of this machine: fetch it first"
        )
    return path


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
