"""The names of ``ray.runtime_context``."""

from actorlib._core.runtime_context import RuntimeContext
from actorlib.blocking._verbs import get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
