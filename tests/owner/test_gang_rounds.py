from __future__ import annotations

import errno
import itertools
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from actorlib._base.ids import ActorId
from actorlib._options.actor_options import ActorOptions
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.interface import Interface, method_of
from actorlib._owner.actors.actor_record import ActorRecord
from actorlib._owner.actors.gangs import Gangs, Member, ReservedPort, rank_variables
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = GroupSpec(bundles=({"CPU": 1},) * 3, name="g", id=GroupId(b"g" * 16))
_numbers = itertools.count()


def nothing() -> None:
    pass


class Rank(Member):
    """An actor with ``torch=True``, as its gang sees it."""

    answers = True

    def __init__(self, rank: int, *, gang: bool | str = True, **said: Any) -> None:
        options = {"placement_group": SPEC, "placement_group_bundle_index": rank}
        self.record = ActorRecord(
            id=ActorId(b"actor %10d" % next(_numbers)),
            interface=Interface("Trainer", method_of(nothing), {}),
            options=ActorOptions(**cast("Any", {"torch": gang, **options, **said})),
        )
        self.told: list[str] = []
        self.may = False

    def may_restart(self) -> bool:
        return self.may

    def kill(self, reason: str) -> None:
        self.answers = False
        self.told.append(f"killed: {reason}")

    def interrupt(self, reason: str) -> None:
        self.told.append(f"interrupted: {reason}")


class Table(Gangs):
    """Gangs whose actors are fakes."""

    def __init__(self) -> None:
        self.ranks: dict[ActorId, Rank] = {}
        super().__init__(self.ranks.get)

    def made(self, rank: int, **said: Any) -> Rank:
        made = Rank(rank, **said)
        self.ranks[made.record.id] = made
        assert self.enter(made.record) == ""
        return made

    def port(self, rank: Rank) -> str:
        return self.variables(rank.record)["MASTER_PORT"]

    def end_all(self) -> None:
        for rank in self.ranks.values():
            rank.answers = False
            self.ended(rank.record)
            self.leave(rank.record)

    def begin(self, *ranks: Rank) -> list[str]:
        for rank in ranks:
            self.join(rank.record)
        return [self.port(rank) for rank in ranks]


@pytest.fixture
def gangs() -> Iterator[Table]:
    table = Table()
    yield table
    table.end_all()
    for number in range(3):  # nothing is left of those before
        table.begin(table.made(number))
    table.end_all()


def test_variables_when_of_a_rank_then_they_are_torchs() -> None:
    assert rank_variables(1, 3, 2345) == {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "2345",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
    }


def test_ranks_when_they_begin_then_they_meet_at_a_port_of_their_own(
    gangs: Table,
) -> None:
    ours = gangs.begin(*(gangs.made(rank) for rank in (2, 0, 1)))
    theirs = gangs.begin(*(gangs.made(rank, gang="theirs") for rank in range(3)))

    assert len(set(ours)) == len(set(theirs)) == 1
    assert ours != theirs


def test_rank_when_somebody_alive_has_it_then_it_is_refused(gangs: Table) -> None:
    gangs.made(0)
    again = Rank(0)

    assert gangs.enter(again.record) == (
        "Trainer asks for rank 0 of group 'g', which Trainer has: kill that one first, "
        "take another bundle, or give this gang a name of its own by torch='name'"
    )


def test_rank_when_it_ended_by_itself_then_all_others_end_for_good(
    gangs: Table,
) -> None:
    first, second, waiting = (gangs.made(rank) for rank in range(3))
    gangs.begin(first, second)

    gangs.ended(second.record)

    reason = "killed: rank 1 of its gang ended (Trainer)"
    assert first.told == waiting.told == [reason]
    assert second.told == []


def test_rank_when_all_may_be_restarted_then_they_meet_at_another_port(
    gangs: Table,
) -> None:
    ranks = [gangs.made(rank) for rank in range(3)]
    for rank in ranks:
        rank.may = True
    first, second, third = ranks
    before = gangs.begin(first, second)

    gangs.ended(second.record)
    again = gangs.begin(second)
    gangs.ended(first.record)
    again += gangs.begin(third, first)

    assert first.told == ["interrupted: rank 1 of its gang ended (Trainer)"]
    assert second.told == third.told == []  # it had no process
    assert len(set(again)) == 1
    assert again[0] not in before


def test_rank_when_another_may_not_be_restarted_then_it_is_not_either(
    gangs: Table,
) -> None:
    first, second = gangs.made(0), gangs.made(1)
    second.may = True
    gangs.begin(first, second)

    gangs.ended(second.record)

    reason = "rank 1 of its gang ended (Trainer), and rank 0 may not be restarted"
    assert first.told == second.told == [f"killed: {reason}"]


def test_rank_when_somebody_ended_it_then_the_others_go_on(gangs: Table) -> None:
    first, second = gangs.made(0), gangs.made(1)
    gangs.begin(first, second)

    second.kill("asked")
    gangs.ended(second.record)
    gangs.leave(second.record)
    replaced = gangs.made(1)

    assert first.told == []
    assert gangs.begin(replaced) != [gangs.port(first)]  # that one meets nobody there


def test_rank_when_several_end_at_once_then_each_is_told_once(gangs: Table) -> None:
    first, second = gangs.made(0), gangs.made(1)
    first.may = second.may = True
    gangs.begin(first, second)

    gangs.ended(first.record)
    gangs.ended(second.record)
    gangs.ended(second.record)

    assert (len(first.told), len(second.told)) == (0, 1)


@pytest.mark.parametrize(
    "said",
    [
        {"placement_group": None, "placement_group_bundle_index": -1},
        {"placement_group_bundle_index": 3},
        {"placement_group_bundle_index": -1},
    ],
)
def test_rank_when_a_worker_names_no_bundle_then_the_rules_are_broken(
    said: dict[str, Any],
) -> None:
    with pytest.raises(ProtocolError, match="in no bundle"):
        Table().enter(Rank(0, **said).record)


def test_port_when_reserved_then_who_shares_it_may_listen_and_nobody_else() -> None:
    first, second = ReservedPort(), ReservedPort()
    try:
        assert first.number != second.number
        with socket.socket() as other:
            with pytest.raises(OSError, match="in use") as caught:
                other.bind(("", first.number))
            assert caught.value.errno == errno.EADDRINUSE
        with socket.socket() as nobody, pytest.raises(ConnectionRefusedError):
            nobody.connect(("127.0.0.1", first.number))

        with socket.create_server(("", first.number)):  # it sets SO_REUSEADDR
            socket.create_connection(("127.0.0.1", first.number)).close()
        with socket.create_server(("", first.number)):  # and a second time
            socket.create_connection(("127.0.0.1", first.number)).close()
    finally:
        first.close()
        second.close()
        second.close()
