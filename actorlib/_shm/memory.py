"""Shares large values: copied into shared memory once, and read in place.

The sender of a value copies its buffers into a block of a segment that it owns. The
frame contains the location. Receivers map the segment once, and load values as views of
it. A block is counted like an actor: it is one of the borrowed references of the frame,
and every view keeps it. After the last view is gone, its maker is informed and uses the
block again.

A value without room in shared memory is sent through the pipe, as smaller values are.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from actorlib._shm.layout import BLOCK_ID_STRUCT, PAGE, SEGMENT_NAME_SIZE, buffer_starts
from actorlib._shm.running_calls import CELLS
from actorlib._shm.segments import (
    ForeignSegment,
    MemoryBudget,
    Segment,
    can_seal,
)
from actorlib._shm.store import SegmentStore
from actorlib._shm.views import view_token_class
from actorlib.exceptions import ObjectStoreFullError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from actorlib._shm.layout import Buffer
    from actorlib._shm.views import ViewToken

_log = logging.getLogger("actorlib")


Payload: TypeAlias = "bytes | list[Buffer] | SharedPayload"
"""The payload of a frame: one piece, several pieces, or its location."""


class BlockRefCounter(Protocol):
    """Counts the views of blocks in this process; engines implement it."""

    def retain(self, actor: Any) -> None: ...

    def release(self, actor: Any) -> None:
        """Counts one view less; called from destructors, in any thread."""
        ...


class SharingOptions(NamedTuple):
    """Decides which values are put into shared memory.

    Attributes:
        share_above: The bytes of a payload from which it is shared.
        spills: Whether a value is sent through the pipe if there is no room.
    """

    share_above: int = 0
    spills: bool = True


class SharedPayload:
    """The location of a payload in a block of shared memory.

    Attributes:
        start: The start of the block in its segment.
        sizes: The bytes of its buffers: the pickle, then the buffers outside of it.
        nbytes: The bytes of all of them, including padding.
        is_fresh: Whether the block is not counted yet: if this object is dropped, the
            block is free.
    """

    __slots__ = ("_memory", "_whole", "block", "is_fresh", "nbytes", "sizes", "start")

    def __init__(
        self,
        memory: SharedMemory,
        block: bytes,
        start: int,
        sizes: tuple[int, ...],
        nbytes: int,
        *,
        is_fresh: bool = False,
    ) -> None:
        self._memory = memory
        self.block = block
        self.start = start
        self.sizes = sizes
        self.nbytes = nbytes
        self.is_fresh = is_fresh
        self._whole: memoryview | None = None

    def __del__(self) -> None:
        if self.is_fresh:
            self._memory.drop(self.block)

    def __repr__(self) -> str:
        return f"<SharedPayload {sum(self.sizes)} bytes at {self.start}>"

    @property
    def segment(self) -> bytes:
        return self.block[:SEGMENT_NAME_SIZE]

    @property
    def is_forwardable(self) -> bool:
        """Whether its location can be sent on; else its bytes have to be sent."""
        return self._memory.segment(self.segment).fd >= 0

    def location(self) -> dict[bytes, Any]:
        """Returns its location for a frame: the sizes of its buffers, by its block.

        From here on the receiver holds the block, too.
        """
        self.is_fresh = False
        return {self.block: self.sizes}

    def hold(self) -> None:
        """Keeps its block from being freed for the lifetime of this object."""
        self._whole = self._memory.view(self)

    def buffers(self) -> Sequence[memoryview]:
        """Returns its buffers, read-only; each of them keeps the block."""
        whole = self._whole or self._memory.view(self)
        starts, _ = buffer_starts(self.sizes)
        return [
            whole[start : start + size]
            for start, size in zip(starts, self.sizes, strict=True)
        ]


class FdReserve:
    """Keeps a descriptor in reserve, for a process that may open no more of them.

    It is closed while an operation needs another descriptor.
    """

    _fd = -1

    def reserve(self) -> None:
        if self._fd < 0:
            with contextlib.suppress(OSError):
                self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def freed(self) -> Generator[None]:
        """Makes room for one more descriptor, unless another thread takes it."""
        self.close()
        try:
            yield
        finally:
            self.reserve()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class SharedMemory:
    """The shared memory of one process: its own segments, and those of others.

    A worker receives segments before it has an id, and this object exists before the
    worker is forked, so ``bind_to`` sets the id later.

    Attributes:
        settings: How large values are sent.
        prefix: The prefix of the names of the segments of this process.
        fd_reserve: A descriptor in reserve, for when no more can be opened.
        sizes: The bytes of the blocks that were made or have arrived here, by block,
            for the owner's statistics. None in other processes.
    """

    def __init__(self) -> None:
        self.sizes: dict[bytes, int] | None = None
        self.settings = SharingOptions()
        self.budget: MemoryBudget | None = None
        self.fd_reserve = FdReserve()
        self._local_call_cells: list[int] | None = None
        self.prefix = b""
        self._ref_counter: BlockRefCounter
        self._process = 0
        self._is_counted = False
        self._store: SegmentStore | None = None
        self._foreign: dict[bytes, ForeignSegment] = {}
        self._view_token = view_token_class(self._release_block)
        self._has_warned = False

    def bind_to(
        self,
        prefix: bytes,
        ref_counter: BlockRefCounter,
        reclaim: Callable[[], None] = lambda: None,
        *,
        is_counted: bool = False,
    ) -> None:
        """Binds it to this process, and to the counter of its views.

        ``prefix`` begins the names of its segments. ``reclaim`` is called before more
        memory is touched: it may free blocks. With ``is_counted`` the sharer of a value
        counts its block at once.
        """
        self._process = os.getpid()
        self.prefix = prefix
        self._ref_counter = ref_counter
        self._is_counted = is_counted
        if self.budget is not None:
            self.fd_reserve.reserve()
            # The owner maps no file of a worker that could shrink while it is read.
            self._store = SegmentStore(
                prefix, self.budget, reclaim, only_sealed=not is_counted
            )

    def share(self, payload: Sequence[Buffer]) -> SharedPayload | None:
        """Copies a payload into a block; None if it is small, or without room.

        Raises ObjectStoreFullError if there is no room and ``spills`` is False.
        """
        store = self._store
        if store is None:
            return None
        pieces = [
            buffer if type(buffer) is bytes else memoryview(buffer).cast("B")
            for buffer in payload
        ]
        sizes = tuple(map(len, pieces))
        starts, nbytes = buffer_starts(sizes)
        if nbytes < self.settings.share_above:
            return None
        if os.getpid() != self._process:
            return None  # a fork: blocks that are free here are not free in its parent
        allocation = store.allocate(nbytes)
        if allocation is None:
            self._report_full(nbytes)
            return None
        segment, start = allocation
        block = BLOCK_ID_STRUCT.pack(segment.name, start)
        shared = SharedPayload(self, block, start, sizes, nbytes, is_fresh=True)
        target = segment.writable_part(start, nbytes)
        for offset, piece, size in zip(starts, pieces, sizes, strict=True):
            target[offset : offset + size] = piece
        shared.is_fresh = not self._is_counted
        if self.sizes is not None:
            self.sizes[block] = nbytes
        return shared

    def free(self, block: bytes) -> None:
        """Frees a block of this process that no other process holds.

        Raises ProtocolError if this process has no such block.
        """
        if (
            self._store is None
            or type(block) is not bytes
            or len(block) != BLOCK_ID_STRUCT.size
        ):
            raise ProtocolError(f"block {block!r} was returned, and does not exist")
        self._store.free(block)

    def drop(self, block: bytes) -> None:
        """Frees a block that was never sent; safe in a destructor."""
        if self._store is not None:
            self._store.drop(block)

    def sweep(self) -> None:
        """Returns to the system the memory that was unused since the previous sweep."""
        if self._store is not None:
            self._store.sweep()

    def is_own(self, block: bytes) -> bool:
        return bool(self.prefix) and block.startswith(self.prefix)

    def _report_full(self, nbytes: int) -> None:
        budget = self.budget
        if budget is None:  # the runtime was shut down meanwhile
            return
        reason = (
            f"no room for {nbytes:,} bytes in shared memory: {self._used(budget)} of "
            f"object_store_memory={budget.limit:,} are in use, or the system has none "
            "left"
        )
        if not (self._is_counted or can_seal()):
            reason = (
                f"no shared memory for {nbytes:,} bytes: the system lets workers seal "
                "no files in memory, see 'actorlib doctor'"
            )
        if not self.settings.spills:
            raise ObjectStoreFullError(
                f"{reason}. Drop values that are not needed, or give init() more"
            )
        if not self._has_warned:
            self._has_warned = True
            _log.warning("%s; large values go through pipes meanwhile", reason)

    def _used(self, budget: MemoryBudget) -> str:
        try:
            return f"{budget.used():,}"
        except ProtocolError as error:
            if self._is_counted:
                budget.repair()
            return f"an unknown amount ({error})"

    def make_local_call_cells(self) -> list[int]:
        """Makes cells for the calls of a worker that is a thread of the owner."""
        cells = self._local_call_cells = [0] * CELLS
        return cells

    def call_cells(self) -> memoryview | list[int] | None:
        """Returns the cells for the calls of this process, which outlive it.

        None if other processes could not read them; see ``running_calls``.
        """
        if self.budget is None:
            return self._local_call_cells
        try:
            return self.budget.call_cells()
        except OSError:  # no more addresses
            return None

    def payload_at(self, location: dict[Any, Any]) -> SharedPayload:
        """Returns the payload at a location, or raises ProtocolError."""
        no_item: tuple[Any, Any] = (None, None)
        block, listed = next(iter(location.items()), no_item)
        sizes = cast("tuple[Any, ...]", listed) if type(listed) is tuple else ()
        if (
            not sizes
            or any(type(size) is not int or size < 0 for size in sizes)
            or len(location) != 1
            or type(block) is not bytes
            or len(block) != BLOCK_ID_STRUCT.size
        ):
            raise ProtocolError(f"a malformed location of a payload: {location!r}")
        name, start = BLOCK_ID_STRUCT.unpack(block)
        _, nbytes = buffer_starts(sizes)
        if start % PAGE or start + nbytes > self.segment(name).size:
            raise ProtocolError(
                f"a payload that is not inside its segment: {location!r}"
            )
        if self.sizes is not None:
            self.sizes[block] = nbytes
        return SharedPayload(self, block, start, sizes, nbytes)

    def add_segment(
        self, name: bytes, fd: int, size: int, *, keeps_fd: bool = True
    ) -> None:
        """Adds a segment of another process, and closes its descriptor later.

        Unless ``keeps_fd``, the descriptor cannot stay open: the segment is mapped at
        once, and cannot be shared from here.

        Raises:
            ProtocolError: The segment is invalid or was added before.
        """
        if name in self._foreign or self.is_own(name):
            os.close(fd)
            raise ProtocolError(f"segment {name.hex()} was shared before")
        try:
            segment = ForeignSegment(fd, size, is_sealed=self._is_counted)
            self._foreign[name] = segment
        except (OSError, TypeError, ValueError) as error:
            raise ProtocolError(
                f"a shared descriptor is not a segment: {error}"
            ) from error
        if not keeps_fd and segment.map():
            segment.close()  # it is mapped, so it needs no descriptor

    def add_missing_segment(self, name: bytes, size: int) -> None:
        """Records a segment of another process that could not be opened here.

        Values in it cannot be loaded; the cause is this process, not a peer.
        """
        self._foreign[name] = ForeignSegment(-1, size)

    def forget_segment(self, name: bytes) -> None:
        """Closes a segment of another process that will not be used again."""
        segment = self._foreign.pop(name, None)
        if segment is not None:
            segment.close()

    def segment(self, name: bytes) -> Segment | ForeignSegment:
        own = self._store.segment(name) if self._store is not None else None
        segment = own or self._foreign.get(name)
        if segment is None:
            raise ProtocolError(f"segment {name!r} was never shared")
        return segment

    def view(self, shared: SharedPayload) -> memoryview:
        """Returns the memory of a payload, read-only; the view keeps the block."""
        segment = self.segment(shared.segment)
        segment.map()
        token = self._retain_block(shared.block)
        return segment.view(shared.start, shared.nbytes, token)

    def _retain_block(self, block: bytes) -> ViewToken:
        """Keeps a block for the lifetime of the returned token."""
        self._ref_counter.retain(block)
        if self._store is not None and self.is_own(block):
            self._store.add_view(block)
        return self._view_token(block)

    def _release_block(self, block: bytes) -> None:
        try:
            if os.getpid() != self._process:
                return  # a fork: its parent still has views
            if self._store is not None and self.is_own(block):
                self._store.remove_view(block)
            self._ref_counter.release(block)
        except AttributeError:  # the interpreter shuts down
            pass

    def close(self) -> None:
        """Closes every descriptor; views stay valid."""
        if self._store is not None:
            self._store.close()
        for segment in self._foreign.values():
            segment.close()
        self._foreign.clear()
        self.fd_reserve.close()
        if self.budget is not None:
            self.budget.close()
            self.budget = None


def share_payload(
    memory: SharedMemory, payload: Payload, borrowed: list[Any]
) -> Payload:
    """Puts a payload into shared memory if it is large and there is room.

    The buffers of the payload may be the value's own. The id of its block is appended
    to ``borrowed``.
    """
    if type(payload) is not list:
        return payload
    shared = memory.share(payload)
    if shared is None:
        return payload
    borrowed.append(shared.block)
    return shared
