"""Every placement group of a runtime, and which lease is of which."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._ids import ActorId, maker_of
from actorlib._local.group import Group
from actorlib._local.line import Priority
from actorlib.exceptions import (
    PlacementGroupAlreadyExistsError,
    PlacementGroupNotFoundError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._bundles import GroupId, GroupSpec
    from actorlib._local.long_waits import LongWaits
    from actorlib._local.scheduler import Scheduler
    from actorlib._options import ActorOptions
    from actorlib.accelerators.base import Lease


@final
class Groups:
    """Every placement group of one runtime, and which lease is of which.

    Args:
        scheduler: Grants what they reserve.
        loop: The owner's loop.
        may_wait: Whether what can never be reserved waits for ever.
        long_waits: Says who waits for long.

    Attributes:
        when_joined: Called when somebody has to wait for a place in one.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        loop: asyncio.AbstractEventLoop,
        long_waits: LongWaits,
        *,
        may_wait: bool,
    ) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._long_waits = long_waits
        self._may_wait = may_wait
        self.when_joined: Callable[[], None] | None = None
        self._by_id: dict[GroupId, Group] = {}
        self._names: dict[str, Group] = {}
        self._made_by: dict[int, set[GroupId]] = {}
        self._inside: dict[int, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._by_id.values()))

    def find(self, group: GroupId) -> Group | None:
        """A group by its id; None if it was removed and forgotten."""
        return self._by_id.get(group)

    def named(self, name: str) -> Group:
        """A group by its name.

        Raises:
            PlacementGroupNotFoundError: None has it.
        """
        group = self._names.get(name)
        if group is None:
            advice = f"there is {', '.join(sorted(self._names)[:5])}"
            raise PlacementGroupNotFoundError(
                f"no placement group is called {name!r}: "
                f"{advice if self._names else 'none has a name'}"
            )
        return group

    def reserve(self, spec: GroupSpec, maker: int) -> Group:
        """Starts to reserve a group.

        Args:
            spec: What it is.
            maker: 0 for the owner, else the number of the worker's session.

        Raises:
            PlacementGroupAlreadyExistsError: Another group has its name.
        """
        if spec.name in self._names:
            raise PlacementGroupAlreadyExistsError(
                f"the name {spec.name!r} is taken by a placement group: "
                f"get_placement_group({spec.name!r}) gives it, "
                "remove_placement_group() frees the name"
            )
        group = Group(spec, self._scheduler, self._loop, self, may_wait=self._may_wait)
        self._by_id[spec.id] = group
        if spec.name:
            self._names[spec.name] = group
        if maker and not spec.is_detached:
            self._made_by.setdefault(maker, set()).add(spec.id)
        group.begin(Priority.NESTED if maker else Priority.USUAL)
        return group

    def remove(self, group: Group, reason: str) -> asyncio.Future[None]:
        """Removes a group; its name is free at once."""
        if self._names.get(group.spec.name) is group:
            del self._names[group.spec.name]
        return group.remove(reason)

    def orphan(self, maker: int) -> None:
        """A worker is gone: the groups that it made go with it."""
        for number in self._made_by.pop(maker, ()):
            group = self._by_id.get(number)
            if group is not None:
                self.remove(group, "the actor that made it ended")

    def close(self) -> None:
        """The runtime ends: who waits for a group is told."""
        for group in self:
            group.give_up("the runtime was shut down")

    def forget(self, group: Group) -> None:
        """A group is removed, and everything it had is back."""
        number = group.spec.id
        self._by_id.pop(number, None)
        maker = maker_of(ActorId(number))
        self._made_by.get(maker, set()).discard(number)

    def joined(self) -> None:
        """Somebody waits for a place in a group."""
        if self.when_joined is not None:
            self.when_joined()

    def waits(self, promise: asyncio.Future[Lease], group: Group) -> None:
        """A group stands in line."""
        self._long_waits.add(promise, group.spec.id, group.explain)

    def lent(self, lease: Lease, group: Group) -> None:
        """A group has let somebody in."""
        self._inside[id(lease)] = group

    # The actors inside.

    def of(self, options: ActorOptions) -> Group | None:
        """The group that an actor is in; None for none, or if it was removed."""
        return None if options.group is None else self.alive(options.group)

    def alive(self, spec: GroupSpec) -> Group | None:
        """A group; None if it was removed."""
        group = self._by_id.get(spec.id)
        return None if group is None or group.removed else group

    def join(
        self, options: ActorOptions, actor: ActorId, evict: Callable[[str], None]
    ) -> str:
        """An actor is to be inside, if its options say so.

        Args:
            options: They.
            actor: Its id.
            evict: Ends it, if the group is removed.

        Returns:
            Why it cannot be: its group was removed. Else the empty string.
        """
        spec = options.group
        if spec is None:
            return ""
        group = self.of(options)
        if group is None:
            return f"its placement group was removed before ({spec.label})"
        group.members[actor] = evict
        return ""

    def part(self, options: ActorOptions, actor: ActorId) -> None:
        """An actor is dead, and has given everything back."""
        spec = options.group
        group = None if spec is None else self._by_id.get(spec.id)
        if group is not None:
            group.part(actor)

    def leave(self, promise: asyncio.Future[Lease]) -> bool:
        """Gives up a place among those who seek one, or a part that was not taken.

        Returns:
            Whether it was one of a group.
        """
        if promise.done() and not promise.cancelled():
            return self.release(promise.result())
        return any(group.leave(promise) for group in self)

    def release(self, lease: Lease) -> bool:
        """Takes back what a member had.

        Returns:
            Whether it was one of a group.
        """
        group = self._inside.pop(id(lease), None)
        if group is not None:
            group.release(lease)
        return group is not None

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Makes two leases of a member's: what it has of a resource, and the rest.

        Raises:
            LookupError: It is none of a member.
        """
        group = self._inside.pop(id(lease))
        parts = group.split(lease, name)
        self._inside.update((id(part), group) for part in parts)
        return parts

    def index_of(self, lease: Lease) -> int:
        """In which bundle of its group a member is."""
        return self._inside[id(lease)].index_of(lease)

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Makes one lease of two of a member's.

        Raises:
            LookupError: One is none of a member.
        """
        group = self._inside.pop(id(lease))
        del self._inside[id(other)]
        joined = group.merge(lease, other)
        self._inside[id(joined)] = group
        return joined
