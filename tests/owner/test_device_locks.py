"""Exclusive use of devices by sockets; the programs are in this process."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

import pytest
from helpers.host import RecordedHost

from actorlib._owner.device_use import ExclusiveUse
from actorlib.accelerators import Device
from actorlib.accelerators.device_users import DeviceUsers, lock_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from pathlib import Path

pytestmark = pytest.mark.process


def gpu(index: int, **known: Any) -> Device:
    return Device(family="nvidia", kind="GPU", index=index, id=str(index), **known)


class Program:
    """The use of one program, and the devices that may be free."""

    def __init__(self, users: DeviceUsers) -> None:
        assert users.sockets is not None
        self.kept: Sequence[int] = ()
        self.free: asyncio.Queue[set[Device]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self.use = ExclusiveUse(users, users.sockets, loop, self._keep)
        self.use.on_free = self._note

    def _keep(self, descriptors: Sequence[int]) -> None:
        self.kept = descriptors

    def _note(self, devices: Collection[Device]) -> None:
        self.free.put_nowait({*devices})


@pytest.fixture
def users(tmp_path: Path) -> DeviceUsers:
    host = RecordedHost()
    host.shared = tmp_path
    return DeviceUsers(host)


@pytest.fixture
async def program(users: DeviceUsers) -> AsyncIterator[Callable[[], Program]]:
    programs: list[Program] = []

    def begin() -> Program:
        programs.append(Program(users))
        return programs[-1]

    yield begin
    for each in programs:
        each.use.close()


async def test_parts_when_of_one_card_then_it_is_released_with_the_last(
    program: Callable[[], Program],
) -> None:
    ours, theirs = program(), program()
    parts = [gpu(i, uuid=f"MIG-{i}", parent="GPU-0") for i in range(3)]
    other = gpu(3, uuid="GPU-1")
    assert not ours.use.begin(parts[:2])
    assert not ours.use.begin([parts[2]])
    assert len(ours.kept) == 2  # the lock and the announcement of the card

    assert theirs.use.begin([other, parts[0]]).keys() == {parts[0]}
    assert not theirs.kept
    assert not ours.use.begin([other])  # it was not locked while the part is waited for
    assert theirs.use.begin(parts[1:]).keys() == {*parts[1:]}

    ours.use.end([parts[0], parts[2]])
    ours.use.end([parts[1]])
    assert not ours.use.begin([parts[1]])  # before the next turn: it was never released
    ours.use.end([parts[1]])
    assert await theirs.free.get() == {*parts}
    assert not theirs.use.begin(parts)
    assert len(ours.kept) == len(theirs.kept) == 2


async def test_lock_when_its_holder_does_not_listen_then_tried_again_after_a_moment(
    users: DeviceUsers, program: Callable[[], Program]
) -> None:
    ours, device = program(), gpu(0, uuid="GPU-0")
    assert users.sockets is not None
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(users.sockets.place(lock_of(users.card(device))))
        (reason,) = ours.use.begin([device]).values()
        assert "not known" in reason
        assert await ours.free.get() == {device}
        assert ours.use.begin([device])
    assert await ours.free.get() == {device}
    assert not ours.use.begin([device])


async def test_waits_when_the_program_ends_then_its_connections_are_closed(
    program: Callable[[], Program],
) -> None:
    ours, theirs, device = program(), program(), gpu(0, uuid="GPU-0")
    assert not ours.use.begin([device])
    assert theirs.use.begin([device])
    theirs.use.close()
    ours.use.close()
    assert theirs.free.empty()
    third = program()
    assert not third.use.begin([device])


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ValueError(record.getMessage())


async def test_begin_when_the_log_raises_then_the_device_is_used_all_the_same(
    program: Callable[[], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("they cannot be kept")

    monkeypatch.setattr(Program, "_keep", refuse)
    ours, theirs, device = program(), program(), gpu(0, uuid="GPU-0")
    log, handler = logging.getLogger("actorlib"), BrokenHandler()
    log.addHandler(handler)
    try:
        assert not ours.use.begin([device])
        assert theirs.use.begin([device])
        ours.use.end([device])
        assert await theirs.free.get() == {device}
    finally:
        log.removeHandler(handler)
