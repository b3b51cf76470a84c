"""``ray.util.joblib``: joblib's ``n_jobs`` on this runtime, by Ray's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib.joblib import Backend, register_backend

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register_ray"]


def register_ray() -> None:
    """Registers the backend ``"ray"`` with joblib; see ``actorlib.joblib.register``.

    ``parallel_backend("ray", ray_remote_args={"num_cpus": 2})`` passes options.

    Example:
        >>> import joblib
        >>> from actorlib.blocking.util.joblib import register_ray
        >>> register_ray()
        >>> with joblib.parallel_backend("ray"):
        ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in [-1, 2])
        [1, 2]
    """
    register_backend("ray", _make_backend)


def _make_backend(
    ray_remote_args: Mapping[str, Any] | None = None, **options: Any
) -> Backend:
    arguments: dict[str, Any] = {**options, **(ray_remote_args or {})}
    return Backend(**arguments)
