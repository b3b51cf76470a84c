"""Which name is whose: one actor for each name of a namespace.

A name keeps nobody alive. Whether its actor still answers to it is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._spelling import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._ids import ActorId


class Names:
    """Actors by namespace and name."""

    def __init__(self) -> None:
        self._actors: dict[tuple[str, str], ActorId] = {}
        self._names: dict[ActorId, tuple[str, str]] = {}

    def __repr__(self) -> str:
        return f"<Names of {len(self._names)} actors>"

    def claim(self, namespace: str, name: str, actor: ActorId) -> None:
        """Gives a name to an actor that has none.

        Raises:
            LookupError: The name is another's, or the actor has one: a bug.
        """
        taken = self._actors.get((namespace, name))
        if taken is not None or actor in self._names:
            raise LookupError(f"{namespace}/{name} cannot be {actor.hex()}'s")
        self._actors[namespace, name] = actor
        self._names[actor] = (namespace, name)

    def find(self, namespace: str, name: str) -> ActorId | None:
        """The actor that has a name, or None."""
        return self._actors.get((namespace, name))

    def free(self, actor: ActorId) -> None:
        """Takes an actor's name from it, if it has one."""
        name = self._names.pop(actor, None)
        if name is not None:
            del self._actors[name]

    def name_of(self, actor: ActorId) -> tuple[str, str] | None:
        """The namespace and the name of an actor, or None."""
        return self._names.get(actor)

    def __iter__(self) -> Iterator[tuple[str, str, ActorId]]:
        """Every namespace, name and actor, in the order in which they were claimed."""
        return iter([(*name, actor) for name, actor in self._actors.items()])

    def check(self) -> None:
        """Raises if a name and its actor do not know each other.

        Raises:
            AssertionError: An invariant is broken.
        """
        turned = {actor: name for name, actor in self._actors.items()}
        if turned != self._names:
            raise AssertionError(f"{self!r}: {turned} is not {self._names}")


def advice(name: str, namespace: str, answering: list[tuple[str, str]]) -> str:
    """What to try instead of a name that nobody has.

    Args:
        name: The name.
        namespace: Where it was looked for.
        answering: The namespace and the name of everybody who could have been meant.
    """
    elsewhere = [other for other, same in answering if same == name]
    if elsewhere:
        return f"one of that name is in namespace {elsewhere[0]!r}"
    here = [other for space, other in answering if space == namespace]
    close = closest(name, here, 3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if here:
        listed = ", ".join(map(repr, sorted(here)[:5]))
        return f"there {'is' if len(here) == 1 else 'are'} {listed}" + (
            f" and {len(here) - 5} more" if len(here) > 5 else ""
        )
    return "nobody has a name there"
