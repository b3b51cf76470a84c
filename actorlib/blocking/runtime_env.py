"""Names that scripts look for in ``ray.runtime_env``."""

from __future__ import annotations

from typing import Any

from actorlib._options.runtime_env import checked_env

__all__ = ["RuntimeEnv"]


class RuntimeEnv(dict[str, Any]):
    """What an actor's process is like: ``runtime_env=RuntimeEnv(env_vars={...})``.

    It is the dict that ``runtime_env`` takes, looked at where it is made.

    Args:
        **options: ``env_vars``, values by name, and ``working_dir``, a directory of
            this machine. None is what is not said.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A key is unknown (what is to be installed has to be there before),
            or a variable cannot have that name or value.
    """

    def __init__(self, **options: Any) -> None:
        said = {name: value for name, value in options.items() if value is not None}
        super().__init__(checked_env(said) or {})

    def to_dict(self) -> dict[str, Any]:
        """The same as a plain dict."""
        return dict(self)
