"""Who is in the cluster: by name, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._ray.infos import infos_of
from actorlib._ray.library import class_of, ray
from actorlib.exceptions import ActorNotFoundError

if TYPE_CHECKING:
    from actorlib._interface import Interface
    from actorlib._ray.actors import Traits
    from actorlib._ray.client import Asking
    from actorlib._snapshot import ActorInfo


class Found(NamedTuple):
    """An actor that was found by its name.

    Attributes:
        handle: Ray's.
        face: Its methods.
        traits: What callers have to know of its options.
    """

    handle: Any
    face: Interface
    traits: Traits


class Directory:
    """What one process learns of the actors of the cluster.

    Args:
        asking: How it asks what Ray knows.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def find(self, name: str, namespace: str) -> Found:
        """The actor of a name.

        Raises:
            ActorNotFoundError: None has that name, or one that actorlib has not made.
        """
        # Ray's own verb would have a client server hold it until this program ends.
        handle, face, traits = self._asking(_found, name, namespace)
        if handle is None:
            raise ActorNotFoundError(
                f"no living actor is called {name!r} in the namespace {namespace!r}; "
                f"there are {self._others(namespace)}"
            )
        if face is None:
            raise ActorNotFoundError(
                f"the actor {name!r} in the namespace {namespace!r} is one of Ray's "
                "own, not made by actorlib: call it by ray.get_actor()"
            )
        return Found(handle, face, traits)

    def names(self) -> list[tuple[str, str]]:
        """Who answers to a name: namespaces and names."""
        rows = ray.util.list_named_actors(all_namespaces=True)
        return [(row["namespace"], row["name"]) for row in rows]

    def infos(self, job: str, held: set[str]) -> list[ActorInfo]:
        """What is known of each actor of a job; see ``infos_of``."""
        return self._asking(infos_of, job, held)

    def _others(self, namespace: str) -> str:
        there = [repr(name) for where, name in self.names() if where == namespace]
        return ", ".join(sorted(there)) or "none"


def _found(name: str, namespace: str) -> tuple[Any, Any, Any]:
    try:
        handle = ray.get_actor(name, namespace)
    except ValueError:
        return None, None, None
    made = class_of(handle)
    return handle, getattr(made, "face", None), getattr(made, "traits", None)
