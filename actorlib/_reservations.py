"""The verbs of placement groups, which every engine fulfils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

    from actorlib._bundles import GroupId, GroupSpec
    from actorlib._ref import ObjectRef
    from actorlib._snapshot import GroupInfo


class Reservations(Protocol):
    """The placement groups of a runtime; none of the verbs waits for a group."""

    def reserve(self, spec: GroupSpec) -> GroupSpec:
        """Starts to reserve a group, or gets it in line.

        Returns:
            What was given, with an id.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        ...

    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        """The value, when all bundles are reserved; else why they never will be.

        Args:
            group: Its id.
            value: What the ref gives, for example the group as the user knows it.
        """
        ...

    def remove(self, group: GroupId) -> asyncio.Future[None]:
        """Removes a group; done when the actors inside and their shares are gone."""
        ...

    def find(self, name: str) -> GroupSpec:
        """The group of a name.

        Raises:
            PlacementGroupNotFoundError: None has it.
        """
        ...

    def infos(self) -> list[GroupInfo]:
        """What is known of each group."""
        ...
