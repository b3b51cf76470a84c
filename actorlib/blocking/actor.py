"""The names of ``ray.actor``."""

from actorlib import ActorClass, ActorHandle, ActorMethod, exit_actor

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]
