"""Gangs: the actors of a placement group that are ranks, which start and end together.

A restarted rank cannot join ranks that began without it: they hold connections to the
old process and wait in a collective, some of them for ever. So the unrequested end of
one rank ends all, and all are restarted if each of them may be restarted. ``torchrun``
does the same. Each time they meet at another port: a rank that still ends listens on
the old one and would be reached there.

Ranks need no agreement about their meeting: a *round* has each rank once. A request for
a rank that the round already has begins the next round.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias, final

from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._base.ids import ActorId
    from actorlib._options.group_spec import GroupId, GroupSpec
    from actorlib._owner.actors.actor_record import ActorRecord

GangKey: TypeAlias = "tuple[GroupId, bool | str]"
"""One gang: a group, and the value of ``torch=`` of its ranks."""

ADDRESS = "127.0.0.1"
"""The address where ranks meet: all of them are on this machine."""


class Member(Protocol):
    """A rank as its gang uses it; ActorSupervisor implements it."""

    @property
    def answers(self) -> bool:
        """Whether no caller has ended it."""
        ...

    def may_restart(self) -> bool:
        """Whether it would be restarted if its process ended now."""
        ...

    def kill(self, reason: str) -> None:
        """Ends it for good."""
        ...

    def interrupt(self, reason: str) -> object:
        """Ends its process; a restart follows."""
        ...


def rank_variables(rank: int, size: int, port: int) -> dict[str, str]:
    """Returns the environment variables of a rank that ``torch.distributed`` reads.

    All ranks are on one machine, so each number is also that within the machine.
    Source: the module docs of ``torch.distributed`` (environment variable
    initialization) and of ``torch.distributed.run``.
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
class ReservedPort:
    """Reserves a free TCP port for a gang until its last rank has ended.

    If the owner asked the kernel for a free port and closed that socket, another
    program could take the port before rank 0 listens, and two gangs could get the same
    one. So the owner keeps the port bound without listening. With ``SO_REUSEADDR`` on
    both sides, Linux lets rank 0 bind and listen beside it, as no socket of that port
    listens yet (socket(7)), and gives the port to no program that asks for any port. A
    connection that comes earlier is refused and tried again, as ``torch`` does. Its own
    end cannot get that port, which would connect it to itself.

    A program that asks for this very port with ``SO_REUSEADDR`` gets it, as it would
    without the reservation before rank 0 listens.

    Rejected: rank 0 finds a port and sends it to the others. Their environment is set
    before any of them runs, and an early rank would wait for one that may never come.

    Attributes:
        number: The port.

    Raises:
        OSError: There is no free port, or this process is out of descriptors.
    """

    def __init__(self) -> None:
        self._socket = _bind_free_port()
        self.number: int = self._socket.getsockname()[1]

    def __repr__(self) -> str:
        return f"<ReservedPort {self.number}>"

    def close(self) -> None:
        """Frees the port. A second call does nothing."""
        self._socket.close()


def _bind_free_port() -> socket.socket:
    """Binds a free port on all addresses, as rank 0 will listen on all."""
    if sys.platform != "linux":
        # BSD lets no other socket bind the same address, but another address. So the
        # port is reserved only on this address, and for programs that ask for any port.
        return _bind(socket.AF_INET, ADDRESS)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):  # IPv6 exists and is switched off
            return _bind(socket.AF_INET6, "::")
    return _bind(socket.AF_INET, "")


def _bind(family: socket.AddressFamily, address: str) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((address, 0))
    except BaseException:
        bound.close()
        raise
    return bound


@final
class Round:
    """The ranks of a gang that meet one another.

    Attributes:
        port: The port where they meet.
        ranks: The ranks that have joined.
        living: The actors whose process takes part and has not ended.
        is_over: Whether one of them has ended, so that all are ended.
    """

    def __init__(self) -> None:
        self.port = ReservedPort()
        self.ranks: set[int] = set()
        self.living: set[ActorId] = set()
        self.is_over = False


@final
class Gangs:
    """Assigns actors to the ranks of a runtime's gangs, and ends a gang as one."""

    def __init__(self, find: Callable[[ActorId], Member | None]) -> None:
        self._find = find
        self._holders: dict[GangKey, dict[int, ActorRecord]] = {}
        self._rounds: dict[GangKey, Round] = {}
        self._round_of: dict[ActorId, Round] = {}

    def enter(self, record: ActorRecord) -> str:
        """Adds a new actor; returns why it cannot be a rank, or an empty string."""
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
        key, _, rank = _place_of(record)
        holders = self._holders.get(key, {})
        if holders.get(rank) is record:
            del holders[rank]
        if not holders:
            self._holders.pop(key, None)

    def join(self, record: ActorRecord) -> None:
        """Adds an actor whose process is about to start to a round.

        Raises:
            OSError: There is no port where the ranks could meet.
        """
        key, _, rank = _place_of(record)
        current = self._rounds.get(key)
        if current is None or rank in current.ranks:
            current = self._rounds[key] = Round()
        current.ranks.add(rank)
        current.living.add(record.id)
        self._round_of[record.id] = current

    def variables(self, record: ActorRecord) -> dict[str, str]:
        """Returns the environment variables of an actor that has joined a round."""
        _, spec, rank = _place_of(record)
        port = self._round_of[record.id].port
        return rank_variables(rank, len(spec.amounts), port.number)

    def ended(self, record: ActorRecord) -> None:
        """Removes an actor whose process has ended from its round.

        All other ranks are ended, unless a caller has ended this actor.
        """
        key, _, rank = _place_of(record)
        current, member = self._round_of.pop(record.id, None), self._find(record.id)
        if current is None:
            return
        current.living.discard(record.id)
        if member is not None and member.answers and not current.is_over:
            current.is_over = True
            reason = f"rank {rank} of its gang ended ({record.title})"
            self._end_all(key, rank, current, reason)
        is_last = current.is_over or not current.living
        if is_last and self._rounds.get(key) is current:
            del self._rounds[key]  # a rank that starts now begins another round
        if not current.living:
            current.port.close()

    def _end_all(self, key: GangKey, ended: int, current: Round, reason: str) -> None:
        """Ends a gang of which one rank has ended; it is restarted if all may be."""
        # Ranks without a process, too, but none that a caller has ended.
        gang = {
            rank: (record.id, member)
            for rank, record in sorted(self._holders.get(key, {}).items())
            if (member := self._find(record.id)) is not None and member.answers
        }
        final = [rank for rank, (_, one) in gang.items() if not one.may_restart()]
        others = [rank for rank in final if rank != ended]
        if others and ended not in final:
            its = "rank" if len(others) == 1 else "ranks"
            reason += f", and {its} {', '.join(map(str, others))} may not be restarted"
        for rank, (actor, member) in gang.items():
            if final and (rank != ended or ended not in final):
                member.kill(reason)
            elif rank != ended and actor in current.living:
                member.interrupt(reason)


def _place_of(record: ActorRecord) -> tuple[GangKey, GroupSpec, int]:
    """Returns the gang of an actor with ``torch=True``, its group, and its rank.

    Raises:
        ProtocolError: It has no bundle, which the worker that creates it has to refuse.
    """
    spec, rank = record.options.group, record.options.placement_group_bundle_index
    if spec is None or not 0 <= rank < len(spec.amounts):
        raise ProtocolError(f"{record.label} is to be a rank, and is in no bundle")
    return (spec.id, record.options.torch), spec, rank
