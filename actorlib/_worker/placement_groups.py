"""Placement groups, as an actor's code speaks of them: questions to the owner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, final

from actorlib._core.group_spec import GroupId, GroupSpec
from actorlib._core.ids import GROUP_KIND
from actorlib._wire.messages import GROUP
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._core.object_ref import ObjectRef
    from actorlib._core.snapshot import GroupInfo


class Pipe(Protocol):
    """What it needs of the engine of its worker."""

    def ask(self, kind: int, *fields: object) -> ObjectRef[Any]:
        """Sends a frame that the owner answers."""
        ...

    def new_id(self, kind: int) -> bytes:
        """An id for something of a kind that is made here."""
        ...

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks any thread until the owner has answered; for short questions."""
        ...


@final
class GroupQuestions:
    """The placement groups of the runtime that a worker is of; see Reservations.

    Args:
        pipe: The engine of the worker.
    """

    __slots__ = ("_pipe",)

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Starts to reserve a group; see Reservations."""
        spec = replace(spec, id=GroupId(self._pipe.new_id(GROUP_KIND)))
        ref = self._pipe.ask(GROUP, "reserve", dump(spec))
        if spec.name:  # it may be taken
            self._pipe.wait_here(ref)
            ref.result()
        return spec

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """The value, when all bundles are reserved; see Reservations."""
        return self._pipe.ask(GROUP, "ready", dump((group, dump(value))))

    def remove(self, group: GroupId) -> ObjectRef[None]:
        """Removes a group; see Reservations."""
        return self._pipe.ask(GROUP, "remove", dump(group))

    def find(self, name: str) -> GroupSpec:
        """The group of a name; see Reservations."""
        spec: GroupSpec = self._answer("find", name)
        return spec

    def infos(self) -> list[GroupInfo]:
        """What is known of each group; see Reservations."""
        infos: list[GroupInfo] = self._answer("infos", None)
        return infos

    def _answer(self, verb: str, about: object) -> Any:
        ref = self._pipe.ask(GROUP, verb, dump(about))
        self._pipe.wait_here(ref)
        return ref.result()
