"""What one end of a pipe shows of shared memory, and what it is shown.

A descriptor travels beside the bytes of the table that tells of it, before the first
frame that needs it. Tables are read in order, and so are descriptors.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Self, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._wire.memory import BLOCK_ID, Settings
from actorlib._wire.segments import Budget
from actorlib._wire.shared import NAME
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.frames import Buffer, Frame
    from actorlib._wire.memory import Memory
    from actorlib._wire.shared import Shared

_msgpack: Any = msgpack
pack: Callable[[object], bytes] = _msgpack.Packer(use_bin_type=True).pack
_int = array.array("i").itemsize
ROOM = socket.CMSG_SPACE(16 * _int)
"""The bytes of ancillary data that one read takes."""
CLOSED_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
"""Has the kernel keep what comes from programs that are started here."""


class Passed(bytes):
    """The bytes of a table that a descriptor goes beside.

    Attributes:
        fd: The descriptor; it stays open until the bytes have gone.
    """

    fd: int

    def __new__(cls, table: dict[str, object], fd: int) -> Self:
        """Encodes a table."""
        passed = super().__new__(cls, pack((table,)))
        passed.fd = fd
        return passed


def put(sock: socket.socket, data: Buffer | Passed) -> int:
    """Sends what the kernel takes, a descriptor with the first byte; says how much.

    Raises:
        OSError: As ``socket.send`` does.
    """
    if type(data) is not Passed:
        return sock.send(data)
    rights = array.array("i", [data.fd])
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


class Showing:
    """Shared memory as it is spoken of on one pipe.

    Args:
        memory: That of this process.
        maker: How the names of the other side's segments begin, if it is a worker:
            that is all it may show. Without, it is the owner, who may tell everything.

    Attributes:
        known: The segments of others, or of this process, that the other side has.
    """

    def __init__(self, memory: Memory, maker: bytes | None = None) -> None:
        self.memory = memory
        self.known: set[bytes] = set()
        self._maker = maker
        self._descriptors: deque[int] = deque()

    def introduced(self, frame: Frame) -> list[tuple[dict[str, Any], int]]:
        """What the other side has to be told before a frame.

        Returns:
            Tables, each with the descriptor that goes with it.
        """
        told: list[tuple[dict[str, Any], int]] = []
        for name in _segments_of(frame):
            if name not in self.known:
                segment = self.memory.segment(name)
                self.known.add(name)
                told.append(({"show": name, "size": segment.size}, segment.fd))
        return told

    def allowance(self, slot: int) -> tuple[dict[str, Any], int] | None:
        """What tells a worker how much it may touch; None if it may not."""
        budget, settings = self.memory.budget, self.memory.settings
        if budget is None:
            return None
        table = {"slot": slot, "limit": budget.limit, "settings": tuple(settings)}
        return table, budget.fd

    def received(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        """Takes the descriptors that came beside some bytes."""
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(data) - len(data) % _int
                numbers = array.array("i", data[:whole])
                self._descriptors.extend(numbers)
                if not CLOSED_ON_EXEC:
                    for number in numbers:
                        os.set_inheritable(number, False)  # noqa: FBT003  # the os API

    def arrived(self, table: dict[str, Any]) -> Shared:
        """The payload that a table tells of.

        Raises:
            ProtocolError: It is nowhere.
        """
        if table["segment"] not in self.known:
            raise ProtocolError(f"a payload in a segment that was not shown: {table!r}")
        return self.memory.arrived(table)

    def told(self, table: dict[str, Any]) -> None:
        """Takes what a table tells of the memory itself.

        Raises:
            ProtocolError: It makes no sense.
        """
        match table:
            case {"show": bytes(name), "size": int(size)} if self._may_show(name):
                self.memory.shown(name, self._descriptor(), size)
                self.known.add(name)
            case {"free": bytes(block)} if self._maker is None:
                self.memory.free(block)
            case {"gone": bytes(name)} if self._maker is None:
                self.known.discard(name)
                self.memory.forget(name)
            case {"slot": slot, "limit": limit, "settings": settings} if (
                self._maker is None
            ):
                self.memory.settings = Settings(*settings)
                self.memory.budget = Budget(limit, slot, self._descriptor())
            case _:
                raise ProtocolError(f"a table that makes no sense: {table!r}")

    def _may_show(self, name: bytes) -> bool:
        return len(name) == NAME and name.startswith(self._maker or b"")

    def close(self) -> None:
        """Closes the descriptors that came and that no table told of."""
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def _descriptor(self) -> int:
        if not self._descriptors:
            raise ProtocolError(
                "a segment was told of, and its descriptor did not come: perhaps this "
                "process may not open any more files (ulimit -n)"
            )
        return self._descriptors.popleft()


def _segments_of(frame: Frame) -> list[bytes]:
    """The segments of the blocks among the loans of a frame, wherever those are."""
    return [
        loan[:NAME]
        for field in frame[1:-1]
        if isinstance(field, list | tuple)
        for loan in cast("list[object]", field)
        if isinstance(loan, bytes) and len(loan) == BLOCK_ID
    ]
