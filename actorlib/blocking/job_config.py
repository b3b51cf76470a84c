"""The names of ``ray.job_config``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["JobConfig"]


class JobConfig:
    """Options of ``init(job_config=...)``: a namespace and a ``runtime_env``.

    Options of ``init`` with the same meaning come first.

    Args:
        jvm_options: Refused: no Java runs here.
        code_search_path: Directories that workers import from. Refused: workers import
            from the directories of this program.
        runtime_env: See ``init``. Default: None.
        metadata: Stays here; nothing reads it. Default: None.
        ray_namespace: The ``namespace`` of ``init``. Default: None.
        default_actor_lifetime: ``"non_detached"``. Detached actors have their own
            option. Default: ``"non_detached"``.

    Raises:
        UnsupportedOptionError: An option is refused.
    """

    def __init__(
        self,
        jvm_options: Sequence[str] | None = None,
        code_search_path: Sequence[str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
    ) -> None:
        if jvm_options:
            raise UnsupportedOptionError(
                f"JobConfig(jvm_options={jvm_options!r}): no Java runs here"
            )
        if code_search_path:
            raise UnsupportedOptionError(
                f"JobConfig(code_search_path={code_search_path!r}): workers import "
                "from the sys.path of this program; extend that before init()"
            )
        if default_actor_lifetime != "non_detached":
            raise UnsupportedOptionError(
                f"JobConfig(default_actor_lifetime={default_actor_lifetime!r}): write "
                "lifetime='detached' in the options of each actor that is to be so"
            )
        self.runtime_env = dict(runtime_env or {})
        self.metadata = dict(metadata or {})
        self.ray_namespace = ray_namespace

    def set_metadata(self, key: str, value: str) -> None:
        """Sets an entry of ``metadata``."""
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: Mapping[str, Any] | None) -> None:
        """Sets the ``runtime_env``."""
        self.runtime_env = dict(runtime_env or {})

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Sets the namespace."""
        self.ray_namespace = ray_namespace
