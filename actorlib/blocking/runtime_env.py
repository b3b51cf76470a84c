"""The names of ``ray.runtime_env``."""

from __future__ import annotations

from typing import Any

from actorlib._options.runtime_env import checked_env

__all__ = ["RuntimeEnv"]


class RuntimeEnv(dict[str, Any]):
    """The environment of a process: ``runtime_env=RuntimeEnv(env_vars={...})``.

    It is the dict for ``runtime_env``, checked when it is made.

    Args:
        **options: ``env_vars``, values by name, and ``working_dir``, a directory of
            this machine. None leaves an option out.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key is unknown (packages have to be installed before), or a
            variable cannot have that name or value.
    """

    def __init__(self, **options: Any) -> None:
        values = {name: value for name, value in options.items() if value is not None}
        super().__init__(checked_env(values) or {})

    def to_dict(self) -> dict[str, Any]:
        """Returns it as a plain dict."""
        return dict(self)
