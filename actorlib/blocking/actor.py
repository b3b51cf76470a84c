"""The names of ``ray.actor``."""

from actorlib import ActorHandle, exit_actor
from actorlib.types import ActorClass, ActorMethod

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]
