"""Names of actors, each unique in its namespace while its actor answers.

A name does not keep an actor alive. It belongs to the actor from ``.remote()`` on. An
actor that is killed, or that ends, loses it at once, before its process is gone. An
actor that only lost its last handle and still works can be found, and then goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.validation import closest_names
from actorlib.exceptions import ActorAlreadyExistsError, ActorNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._base.ids import ActorId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor


UNHELD = "no process held a handle of it"
"""The reason of an end after the last handle was dropped."""
_ENDS = 1000
"""The number of ended actors whose reasons are kept for messages."""


class ActorNames:
    """The names of the actors of one runtime.

    Attributes:
        namespace: The default namespace.
    """

    def __init__(
        self, namespace: str, supervisor_of: Callable[[ActorId], ActorSupervisor | None]
    ) -> None:
        self.namespace = namespace
        self._supervisor_of = supervisor_of
        self._actors: dict[tuple[str, str], ActorId] = {}
        self._names: dict[ActorId, tuple[str, str]] = {}
        self._ends: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        return f"<Names of {len(self._names)} actors>"

    def enter(self, actor: ActorId, name: str, options: ActorOptions) -> None:
        """Assigns a name to an actor; see ``vacant``."""
        key = self.namespace_of(options), name
        previous = self._actors.get(key)
        if previous is not None:
            self._free(previous)
        self._actors[key] = actor
        self._names[actor] = key

    def leave(self, record: ActorRecord) -> None:
        """Frees the name of a dead actor, if it still has one, and keeps its end."""
        key = self._free(record.id)
        if key is None:
            return
        self._ends[key] = "it is gone" if record.exit is None else record.exit.reason
        if len(self._ends) > _ENDS:
            del self._ends[next(iter(self._ends))]

    def _free(self, actor: ActorId) -> tuple[str, str] | None:
        key = self._names.pop(actor, None)
        if key is not None:
            del self._actors[key]
        return key

    def holder(self, options: ActorOptions) -> ActorSupervisor | None:
        """Returns the actor that has the name in some options, or None."""
        if options.name is None:
            return None
        return self._answering(self.namespace_of(options), options.name)

    def vacant(self, options: ActorOptions) -> None:
        """Checks that the name in some options is free.

        Raises:
            ActorAlreadyExistsError: An actor has it.
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
        """Returns the actor that has a name.

        Raises:
            ActorNotFoundError: No actor has it.
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
        """Lists the namespace and the name of every actor that has one."""
        return [key for key in self._actors if self._answering(*key) is not None]

    def namespace_of(self, options: ActorOptions) -> str:
        return options.namespace or self.namespace

    def _end_of(self, namespace: str, name: str) -> str:
        """Describes the end of the last actor of a name; empty if there was none."""
        reason = self._ends.get((namespace, name), "")
        actor = self._actors.get((namespace, name))
        ending = None if actor is None else self._supervisor_of(actor)
        if ending is not None:
            reason = ending.end_reason or "it is ending"
        if not reason:
            return ""
        hint = ""
        if reason == UNHELD:
            hint = ". An actor with lifetime='detached' goes on without a handle"
        return f"the last one has ended: {reason}{hint}"

    def _answering(self, namespace: str, name: str) -> ActorSupervisor | None:
        actor = self._actors.get((namespace, name))
        supervisor = None if actor is None else self._supervisor_of(actor)
        return supervisor if supervisor is not None and supervisor.answers else None


def advice(name: str, namespace: str, answering: list[tuple[str, str]]) -> str:
    """Returns what to try instead of an unknown name."""
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
    return "no actor has a name there"
