"""Names of actors: one actor for each name of a namespace, as long as it answers.

A name keeps nobody alive. ``NameTable`` knows whose each is, ``ActorNames`` also
whether its actor still answers to it: actors do that nobody has ended yet.

A name is its actor's from ``.remote()`` on. One that is killed, or that leaves, has
lost it at once, before its process is gone; one that merely lost its last handle and
still works can be found, and then goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.validation import closest_names
from actorlib.exceptions import ActorAlreadyExistsError, ActorNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._base.ids import ActorId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor


UNHELD = "nobody held a handle of it any more"
"""Why an actor ends whose last handle was dropped."""
_ENDS = 1000
"""How many ended actors' reasons are kept for messages."""


class NameTable:
    """Maps a namespace and a name to an actor, and back."""

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
        """Finds the actor that has a name; None if nobody has."""
        return self._actors.get((namespace, name))

    def free(self, actor: ActorId) -> None:
        """Takes an actor's name from it, if it has one."""
        name = self._names.pop(actor, None)
        if name is not None:
            del self._actors[name]

    def name_of(self, actor: ActorId) -> tuple[str, str] | None:
        """Gives the namespace and the name of an actor, or None."""
        return self._names.get(actor)

    def __iter__(self) -> Iterator[tuple[str, str, ActorId]]:
        """Walks over namespace, name and actor, in the order of the claims."""
        return iter([(*name, actor) for name, actor in self._actors.items()])


def advice(name: str, namespace: str, answering: list[tuple[str, str]]) -> str:
    """Says what to try instead of a name that nobody has.

    Args:
        name: The name.
        namespace: Where it was looked for.
        answering: The namespace and the name of everybody who could have been meant.
    """
    elsewhere = [other for other, same in answering if same == name]
    if elsewhere:
        return f"one of that name is in namespace {elsewhere[0]!r}"
    here = [other for space, other in answering if space == namespace]
    close = closest_names(name, here, 3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if here:
        listed = ", ".join(map(repr, sorted(here)[:5]))
        return f"there {'is' if len(here) == 1 else 'are'} {listed}" + (
            f" and {len(here) - 5} more" if len(here) > 5 else ""
        )
    return "nobody has a name there"


class ActorNames:
    """Finds the actors of one runtime by their names.

    Args:
        namespace: Where to look if nothing else is said.
        supervisor_of: Finds the supervisor of an actor; None if it is forgotten.
    """

    def __init__(
        self, namespace: str, supervisor_of: Callable[[ActorId], ActorSupervisor | None]
    ) -> None:
        self.namespace = namespace
        self.entries = NameTable()
        self._ends: dict[tuple[str, str], str] = {}
        self._supervisor_of = supervisor_of

    def enter(self, actor: ActorId, name: str, options: ActorOptions) -> None:
        """Gives an actor the name in its options; see ``vacant``."""
        namespace = self.namespace_of(options)
        before = self.entries.find(namespace, name)
        if before is not None:
            self.entries.free(before)
        self.entries.claim(namespace, name, actor)

    def leave(self, record: ActorRecord) -> None:
        """Frees the name of a dead actor, if it still has one, and keeps its end."""
        name = self.entries.name_of(record.id)
        if name is None:
            return
        self.entries.free(record.id)
        reason = "it is gone" if record.exit is None else record.exit.reason
        self._ends[name] = reason
        if len(self._ends) > _ENDS:
            del self._ends[next(iter(self._ends))]

    def holder(self, options: ActorOptions) -> ActorSupervisor | None:
        """Finds who answers to the name in some options; None if nobody does."""
        if options.name is None:
            return None
        return self._answering(self.namespace_of(options), options.name)

    def vacant(self, options: ActorOptions) -> None:
        """Checks that the name in some options may be given.

        Raises:
            ActorAlreadyExistsError: Somebody answers to it.
        """
        supervisor = self.holder(options)
        if supervisor is None:
            return
        raise ActorAlreadyExistsError(
            f"the name {options.name!r} is taken in namespace "
            f"{self.namespace_of(options)!r}, by {supervisor.record.title}: "
            f"get_actor({options.name!r}) gives its handle, "
            "get_if_exists=True takes it or makes one, and kill() frees the name"
        )

    def find(self, name: str, namespace: str | None) -> ActorSupervisor:
        """Finds who answers to a name.

        Raises:
            ActorNotFoundError: Nobody does.
        """
        where = namespace or self.namespace
        supervisor = self._answering(where, name)
        if supervisor is None:
            raise ActorNotFoundError(
                f"no living actor is called {name!r} in namespace {where!r}: "
                f"{self._end_of(where, name) or advice(name, where, self.names())}"
            )
        return supervisor

    def names(self) -> list[tuple[str, str]]:
        """Lists the namespace and the name of everybody who answers to one."""
        return [
            (namespace, name)
            for namespace, name, actor in self.entries
            if (supervisor := self._supervisor_of(actor)) is not None
            and supervisor.answers
        ]

    def namespace_of(self, options: ActorOptions) -> str:
        """Says where an actor with these options is looked for."""
        return options.namespace or self.namespace

    def _end_of(self, namespace: str, name: str) -> str:
        """Describes the end of the last actor of a name; empty if there was none."""
        reason = self._ends.get((namespace, name), "")
        actor = self.entries.find(namespace, name)
        ending = None if actor is None else self._supervisor_of(actor)
        if ending is not None:
            reason = ending.end_reason or "it is ending"
        if not reason:
            return ""
        advice = ""
        if reason == UNHELD:
            advice = ". An actor with lifetime='detached' goes on without a handle"
        return f"the last one has ended: {reason}{advice}"

    def _answering(self, namespace: str, name: str) -> ActorSupervisor | None:
        actor = self.entries.find(namespace, name)
        supervisor = None if actor is None else self._supervisor_of(actor)
        return supervisor if supervisor is not None and supervisor.answers else None
