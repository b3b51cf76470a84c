"""Gangs: the actors of a placement group that are ranks, who start and end together.

A rank that is made anew cannot join others that began without it: they hold connections
to the one that is gone, and wait in a collective, some of them for ever. So the end of
one that nobody asked for ends all, and they are restarted if each of them may be, as
``torchrun`` does it. Each time they meet at another port: one that is still ending
listens on the old one, and would be found there.

Who meets whom needs no agreement: a *round* gives each rank once. Who asks for a rank
that the round has given begins the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from actorlib._owner.actors.reserved_port import ReservedPort
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._base.ids import ActorId
    from actorlib._options.group_spec import GroupId, GroupSpec
    from actorlib._owner.actors.actor_record import ActorRecord

GangKey: TypeAlias = "tuple[GroupId, bool | str]"
"""One gang: a group, and what its ranks say in ``torch=``."""

ADDRESS = "127.0.0.1"
"""Where ranks meet: all of them are on this machine."""


class Member(Protocol):
    """An actor as its gang sees it; ActorSupervisor is one."""

    @property
    def answers(self) -> bool:
        """Whether nobody has ended it."""
        ...

    def may_restart(self) -> bool:
        """Whether it would be restarted, had its process ended now."""
        ...

    def kill(self, reason: str) -> None:
        """Ends it for good."""
        ...

    def interrupt(self, reason: str) -> object:
        """Ends its process, to be restarted."""
        ...


def rank_variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What ``torch.distributed`` reads in the environment of a rank.

    All ranks are on one machine, so each number is also that within the machine.
    Source: the module docs of ``torch.distributed`` (environment variable
    initialization) and of ``torch.distributed.run``.

    Args:
        rank: Its number, from 0.
        size: How many there are.
        port: Where rank 0 listens.
    """
    return {
        "MASTER_ADDR": ADDRESS,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
    }


@final
class Round:
    """Those ranks of a gang that meet one another.

    Args:
        port: Where they meet.

    Attributes:
        port: As given.
        given: The ranks that were given.
        living: The actors whose process takes part and has not ended.
        is_over: Whether one of them has ended, so that all are ended.
    """

    def __init__(self, port: ReservedPort) -> None:
        self.port = port
        self.given: set[int] = set()
        self.living: set[ActorId] = set()
        self.is_over = False


@final
class Gangs:
    """Gives the ranks of a runtime's gangs their place, and ends a gang as one.

    Args:
        find: Gives an actor by its id, or None.
    """

    def __init__(self, find: Callable[[ActorId], Member | None]) -> None:
        self._find = find
        self._holders: dict[GangKey, dict[int, ActorRecord]] = {}
        self._rounds: dict[GangKey, Round] = {}
        self._round_of: dict[ActorId, Round] = {}

    def enter(self, record: ActorRecord) -> str:
        """Takes a new actor in; says why it cannot be a rank, or is empty."""
        key, spec, rank = _place_of(record)
        holders = self._holders.setdefault(key, {})
        holder = holders.get(rank)
        member = None if holder is None else self._find(holder.id)
        if holder is not None and member is not None and member.answers:
            return (
                f"{record.label} asks for rank {rank} of {spec.label}, which "
                f"{holder.title} has: kill that one first, take another bundle, or "
                "give this gang a name of its own by torch='name'"
            )
        holders[rank] = record
        return ""

    def leave(self, record: ActorRecord) -> None:
        """Forgets an actor that is dead for good."""
        key, _, rank = _place_of(record)
        holders = self._holders.get(key, {})
        if holders.get(rank) is record:
            del holders[rank]
        if not holders:
            self._holders.pop(key, None)

    def join(self, record: ActorRecord) -> None:
        """Gives an actor whose process is about to start its place in a round.

        Raises:
            OSError: There is no port where they could meet.
        """
        key, _, rank = _place_of(record)
        here = self._rounds.get(key)
        if here is None or rank in here.given:
            here = self._rounds[key] = Round(ReservedPort())
        here.given.add(rank)
        here.living.add(record.id)
        self._round_of[record.id] = here

    def variables(self, record: ActorRecord) -> dict[str, str]:
        """What an actor that has its place finds in its environment."""
        _, spec, rank = _place_of(record)
        here = self._round_of[record.id]
        return rank_variables(rank, len(spec.amounts), here.port.number)

    def ended(self, record: ActorRecord) -> None:
        """Takes an actor whose process has ended out of its round.

        All others are ended unless somebody has asked for the end of this one.
        """
        key, _, rank = _place_of(record)
        here, member = self._round_of.pop(record.id, None), self._find(record.id)
        if here is None:
            return
        here.living.discard(record.id)
        if member is not None and member.answers and not here.is_over:
            here.is_over = True
            reason = f"rank {rank} of its gang ended ({record.title})"
            self._end_all(self._living(key), rank, here, reason)
        is_last = here.is_over or not here.living
        if is_last and self._rounds.get(key) is here:
            del self._rounds[key]  # whoever comes now begins another round
        if not here.living:
            here.port.close()

    def _living(self, gang: GangKey) -> dict[int, tuple[ActorId, Member]]:
        """The ranks of a gang that nobody has ended, also those without a process."""
        found = {
            rank: (record.id, self._find(record.id))
            for rank, record in self._holders.get(gang, {}).items()
        }
        return {
            rank: (actor, member)
            for rank, (actor, member) in sorted(found.items())
            if member is not None and member.answers
        }

    def _end_all(
        self,
        gang: dict[int, tuple[ActorId, Member]],
        ended: int,
        here: Round,
        reason: str,
    ) -> None:
        """Ends a gang of which one rank has ended; it is restarted if all may be."""
        final = [rank for rank, (_, one) in gang.items() if not one.may_restart()]
        others = [rank for rank in final if rank != ended]
        if others and ended not in final:
            its = "rank" if len(others) == 1 else "ranks"
            reason += f", and {its} {', '.join(map(str, others))} may not be restarted"
        for rank, (actor, member) in gang.items():
            if final and (rank != ended or ended not in final):
                member.kill(reason)
            elif rank != ended and actor in here.living:
                member.interrupt(reason)


def _place_of(record: ActorRecord) -> tuple[GangKey, GroupSpec, int]:
    """The gang of an actor with ``torch=True``, its group, and its rank there.

    Raises:
        ProtocolError: It is in none, which the worker that makes it has to refuse.
    """
    spec, rank = record.options.group, record.options.placement_group_bundle_index
    if spec is None or not 0 <= rank < len(spec.amounts):
        raise ProtocolError(f"{record.label} is to be a rank, and is in no bundle")
    return (spec.id, record.options.torch), spec, rank
