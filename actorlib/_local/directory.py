"""Who answers to which name: actors that nobody has ended yet.

A name is its actor's from ``.remote()`` on. One that is killed, or that leaves, has
lost it at once, before its process is gone; one that merely lost its last handle and
still works can be found, and then goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._local.names import Names, advice
from actorlib.exceptions import ActorAlreadyExistsError, ActorNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._ids import ActorId
    from actorlib._local.supervisor import Life
    from actorlib._options import ActorOptions


class Directory:
    """The names of one runtime's actors.

    Args:
        namespace: Where to look if nothing else is said.
        life_of: Gives the life of an actor, or None if it is over.
    """

    def __init__(
        self, namespace: str, life_of: Callable[[ActorId], Life | None]
    ) -> None:
        self.namespace = namespace
        self.entries = Names()
        self._life_of = life_of

    def enter(self, actor: ActorId, options: ActorOptions) -> None:
        """Gives an actor the name in its options, if there is one; see ``vacant``."""
        if options.name is None:
            return
        namespace = self.namespace_of(options)
        before = self.entries.find(namespace, options.name)
        if before is not None:
            self.entries.free(before)
        self.entries.claim(namespace, options.name, actor)

    def leave(self, actor: ActorId) -> None:
        """An actor is dead: its name, if it still has one, is free."""
        self.entries.free(actor)

    def holder(self, options: ActorOptions) -> Life | None:
        """Who answers to the name in some options, or None."""
        if options.name is None:
            return None
        return self._answering(self.namespace_of(options), options.name)

    def vacant(self, options: ActorOptions) -> None:
        """Checks that the name in some options may be given.

        Raises:
            ActorAlreadyExistsError: Somebody answers to it.
        """
        life = self.holder(options)
        if life is None:
            return
        raise ActorAlreadyExistsError(
            f"the name {options.name!r} is taken in namespace "
            f"{self.namespace_of(options)!r}, by {life.record.title}: "
            f"get_actor({options.name!r}) gives its handle, "
            "get_if_exists=True takes it or makes one, and kill() frees the name"
        )

    def find(self, name: str, namespace: str | None) -> Life:
        """Who answers to a name.

        Raises:
            ActorNotFoundError: Nobody does.
        """
        where = namespace or self.namespace
        life = self._answering(where, name)
        if life is None:
            raise ActorNotFoundError(
                f"no living actor is called {name!r} in namespace {where!r}: "
                f"{advice(name, where, self.names())}"
            )
        return life

    def names(self) -> list[tuple[str, str]]:
        """The namespace and the name of everybody who answers to one."""
        return [
            (namespace, name)
            for namespace, name, actor in self.entries
            if (life := self._life_of(actor)) is not None and life.answers
        ]

    def namespace_of(self, options: ActorOptions) -> str:
        """Where an actor with these options is looked for."""
        return options.namespace or self.namespace

    def _answering(self, namespace: str, name: str) -> Life | None:
        actor = self.entries.find(namespace, name)
        life = None if actor is None else self._life_of(actor)
        return life if life is not None and life.answers else None
