"""Large values in shared memory: copied in once, and read where they lie.

Whoever sends a value copies its buffers into a block of a segment of its own; the frame
says where. Receivers map the segment once, and what they load are views of it. A block
is held like an actor: it is among the loans of the frame, every view is a hold, and
when nobody has any it is told to whoever made it, and used again.

What has no room goes through the pipe, as smaller values do.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actorlib._shm.allocator import PAGE
from actorlib._shm.fd_reserve import FdReserve
from actorlib._shm.payload import Shared, aligned, block_id
from actorlib._shm.segments import Budget, Segment, Shown
from actorlib._shm.store import SegmentStore
from actorlib._shm.views import telling
from actorlib.exceptions import ObjectStoreFullError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._shm.payload import Buffer, Payload
    from actorlib._shm.views import Last

_log = logging.getLogger("actorlib")


class Holder(Protocol):
    """What counts who holds a block; see Engine."""

    def retain(self, actor: Any) -> None:
        """Counts one more view in this process."""
        ...

    def release(self, actor: Any) -> None:
        """Counts a view less; called from destructors, anywhere."""
        ...


class Settings(NamedTuple):
    """How large values travel.

    Attributes:
        share_above: The bytes of a payload from which it goes into shared memory.
        spills: Whether what has no room there goes through the pipe.
    """

    share_above: int = 0
    spills: bool = True


class Memory:
    """The shared memory of one process: what it has made, and what it was shown.

    A worker is shown memory before it knows who it is, and has one before it is forked,
    so whose it is comes with ``belong``.

    Attributes:
        settings: How large values travel.
        budget: What it may touch; without one it shares nothing.
        spare: A descriptor in reserve.
        sizes: The bytes of blocks that were made or have arrived here, by block; None
            where nobody asks. Whoever does takes them out.
    """

    def __init__(self) -> None:
        self.sizes: dict[bytes, int] | None = None
        self.settings = Settings()
        self.budget: Budget | None = None
        self.spare = FdReserve()
        self._prefix = b""
        self._holder: Holder
        self._process = 0
        self._is_counted = False
        self._store: SegmentStore | None = None
        self._shown: dict[bytes, Shown] = {}
        self._last = telling(self._unhold)
        self._has_warned = False

    def belong(
        self,
        prefix: bytes,
        holder: Holder,
        tidy: Callable[[], None] = lambda: None,
        *,
        is_counted: bool = False,
    ) -> None:
        """Says whose it is.

        Args:
            prefix: How the names of its segments begin, and those of no other.
            holder: Counts who holds a block.
            tidy: Called before more memory is taken: it may find blocks to be free.
            is_counted: Whether whoever shares a value counts its block at once.
        """
        self._process = os.getpid()
        self._prefix = prefix
        self._holder = holder
        self._is_counted = is_counted
        if self.budget is not None:
            self.spare.reserve()
            # The owner takes nothing from others that could be cut while it is read.
            self._store = SegmentStore(
                prefix, self.budget, tidy, only_sealed=not is_counted
            )

    # What this process sends.

    def share(self, payload: Sequence[Buffer]) -> Shared | None:
        """Copies a payload into a block.

        Returns:
            Where it is; None if it is small, or there is no room.

        Raises:
            ObjectStoreFullError: There is no room, and nothing else is allowed.
        """
        pieces = [memoryview(buffer).cast("B") for buffer in payload]
        nbytes = sum(map(aligned, map(len, pieces)))
        store = self._store
        if store is None or nbytes < self.settings.share_above:
            return None
        if os.getpid() != self._process:
            return None  # a fork: what is free here is not free in its parent
        found = store.take(nbytes)
        if found is None:
            self._be_full(nbytes)
            return None
        segment, start = found
        sizes = tuple(map(len, pieces))
        shared = Shared(self, segment.name, start, sizes, is_fresh=True)
        target, offset = segment.at(start, nbytes), 0
        for piece in pieces:
            target[offset : offset + len(piece)] = piece
            offset += aligned(len(piece))
        shared.is_fresh = not self._is_counted
        if self.sizes is not None:
            self.sizes[shared.block] = nbytes
        return shared

    def free(self, block: bytes) -> None:
        """Nobody else holds a block of this process any more.

        Raises:
            ProtocolError: It has no such block.
        """
        if (
            self._store is None
            or type(block) is not bytes
            or len(block) != block_id.size
        ):
            raise ProtocolError(f"block {block!r} is given back, and is not there")
        self._store.free(block)

    def dropped(self, block: bytes) -> None:
        """Nobody was ever told of a block; see Shared."""
        if self._store is not None:
            self._store.dropped(block)

    def is_own(self, block: bytes) -> bool:
        """Whether a block is one of this process's."""
        return bool(self._prefix) and block.startswith(self._prefix)

    def _be_full(self, nbytes: int) -> None:
        budget = self.budget
        if budget is None:  # the runtime was shut down meanwhile
            return
        told = (
            f"no room for {nbytes:,} bytes in shared memory: {self._used(budget)} of "
            f"object_store_memory={budget.limit:,} are in use, or the system has none "
            "left"
        )
        if not self.settings.spills:
            raise ObjectStoreFullError(
                f"{told}. Drop values that are not needed, or give init() more"
            )
        if not self._has_warned:
            self._has_warned = True
            _log.warning("%s; large values go through pipes meanwhile", told)

    def _used(self, budget: Budget) -> str:
        try:
            return f"{budget.used():,}"
        except ProtocolError as error:
            if self._is_counted:
                budget.repair()
            return f"nobody knows how much ({error})"

    def marker(self) -> memoryview | list[int]:
        """Where this process notes what runs, for whoever asks when it is gone."""
        try:
            return [0] if self.budget is None else self.budget.marker()
        except OSError:  # no more files, or addresses: nobody will know
            return [0]

    # What others send.

    def arrived(self, table: dict[str, Any]) -> Shared:
        """The payload that a table tells of.

        Raises:
            ProtocolError: It is nowhere.
        """
        name, start, sizes = table["segment"], table["start"], table["sizes"]
        kinds: set[type] = {type(start), *map(type, sizes)}
        if kinds != {int} or not sizes or start < 0 or start % PAGE or min(sizes) < 0:
            raise ProtocolError(f"a payload that cannot be: {table!r}")
        nbytes = sum(map(aligned, sizes))
        if start + nbytes > self.segment(name).size:
            raise ProtocolError(f"a payload beyond the end of its segment: {table!r}")
        shared = Shared(self, name, start, sizes)
        if self.sizes is not None:
            self.sizes[shared.block] = nbytes
        return shared

    def shown(self, name: bytes, fd: int, size: int, *, is_kept: bool = True) -> None:
        """Another process's segment is here.

        Args:
            name: What it is called.
            fd: Its descriptor, to be closed here.
            size: Its bytes.
            is_kept: Whether the descriptor may stay open. Where it may not, the segment
                is mapped at once, and cannot be shown to others from here.

        Raises:
            ProtocolError: It makes no sense.
        """
        if name in self._shown or self.is_own(name):
            os.close(fd)
            raise ProtocolError(f"segment {name.hex()} was shown before")
        try:
            segment = Shown(fd, size, is_sealed=self._is_counted)
            self._shown[name] = segment
        except (OSError, TypeError, ValueError) as error:
            raise ProtocolError(f"what was shown is no segment: {error}") from error
        if not is_kept and segment.prepare():
            segment.close()  # mapped as it is, it needs none

    def missed(self, name: bytes, size: int) -> None:
        """Another process's segment was here, and there was no way to take it.

        What lies in it cannot be loaded; nobody else is to blame for that.
        """
        self._shown[name] = Shown(-1, size)

    def forget(self, name: bytes) -> None:
        """Another process's segment will not be spoken of any more."""
        shown = self._shown.pop(name, None)
        if shown is not None:
            shown.close()

    def segment(self, name: bytes) -> Segment | Shown:
        """A segment, this process's own or one that it was shown.

        Raises:
            ProtocolError: It is neither.
        """
        own = self._store.segment(name) if self._store is not None else None
        segment = own or self._shown.get(name)
        if segment is None:
            raise ProtocolError(f"segment {name!r} was never shown")
        return segment

    def may_show(self, name: bytes) -> bool:
        """Whether a segment can be shown to other processes from here; see Shared."""
        return self.segment(name).fd >= 0

    def view(self, shared: Shared) -> memoryview:
        """The memory that a payload lies in, which holds its block; see Shared."""
        segment = self.segment(shared.segment)
        segment.prepare()
        nbytes = sum(map(aligned, shared.sizes))
        return segment.view(shared.start, nbytes, self._held(shared.block))

    def _held(self, block: bytes) -> Last:
        """Holds a block until what this gives is gone."""
        self._holder.retain(block)
        if self._store is not None and self.is_own(block):
            self._store.viewed(block)
        return self._last(block)

    def _unhold(self, block: bytes) -> None:
        with suppress(AttributeError):  # an interpreter that is going down
            if os.getpid() != self._process:
                return  # a fork: its parent looks at it still
            if self._store is not None and self.is_own(block):
                self._store.unviewed(block)
            self._holder.release(block)

    def close(self) -> None:
        """Closes every descriptor; views go on showing what they show."""
        if self._store is not None:
            self._store.close()
        for shown in self._shown.values():
            shown.close()
        self._shown.clear()
        self.spare.close()
        if self.budget is not None:
            self.budget.close()
            self.budget = None


def shared(memory: Memory, payload: Payload, loans: list[Any]) -> Payload:
    """A payload in shared memory if it is large and there is room, else as it is.

    Args:
        memory: That of this process.
        payload: The payload; its buffers may be the value's own.
        loans: Gets the id of its block.

    Raises:
        ObjectStoreFullError: There is no room, and nothing else is allowed.
    """
    if type(payload) is not list:
        return payload
    found = memory.share(payload)
    if found is None:
        return payload
    loans.append(found.block)
    return found
