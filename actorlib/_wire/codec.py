"""Encodes frames to bytes and decodes them, without a socket.

Small frames are plain msgpack values one after another, so a decoder decodes any number
of them from one read in C. A frame with a large payload ends in the sizes of its
buffers, which follow it raw, so that msgpack neither copies nor limits them. A frame
whose payload lies in shared memory ends in a table with its location. A table alone is
not a frame but information about that memory, and is not passed to the receiver.

A decoder trusts the sizes in a frame only as far as bytes have come: a few bytes must
not make the receiver allocate gigabytes. So buffers grow as they fill. msgpack
allocates a tuple as soon as it has read its length, so no tuple may be long: many
borrowed references of a frame, or many sizes of buffers, are sent in parts
(``MAX_ITEMS``).
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._shm.memory import SharedPayload
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._shm.layout import Buffer
    from actorlib._wire.messages import Frame


class TableReader(Protocol):
    """Reads the tables at the end of frames about shared memory."""

    def payload_at(self, location: dict[Any, Any]) -> SharedPayload: ...

    def take_table(self, table: dict[str, Any]) -> None:
        """Processes a table about the memory itself."""
        ...


# One packer for the process: it keeps its buffer. It calls no Python code while it
# packs, so the interpreter lock makes each call atomic. Callers use it directly for
# frames that certainly have a small payload: ``encode`` does the same.
_msgpack: Any = msgpack
pack: Callable[[object], bytes] = _msgpack.Packer(
    use_bin_type=True, autoreset=True
).pack

_pack_with_escapes: Callable[[object], bytes] = _msgpack.Packer(
    use_bin_type=True, autoreset=True, unicode_errors="backslashreplace"
).pack

_LARGEST_FRAME = 0xFFFF_FFFF
MAX_ITEMS = 4096
"""The maximum number of items of a tuple in a frame. msgpack allows a thousand nested
tuples, so a sender can make the receiver allocate at most 32 MiB."""
_SEQUENCES = frozenset({list, tuple})
_unpack_one: Any = partial(
    _msgpack.unpackb, use_list=False, strict_map_key=False, max_array_len=MAX_ITEMS
)
_READ_SIZE = 64 * 1024
_LARGE_READ_SIZE = 256 * 1024
"""As much as a socket holds. The bytes of a large payload are copied again, from warm
memory, which costs no more than clearing a whole buffer before it is written."""
# The size of its buffer; its default is a megabyte for each of our pipes.
_CHUNK = 64 * 1024


_NUMBERS = frozenset({type(None), bool, int, float})
SCALARS = _NUMBERS | {str}
"""The types of scalars: exact, as a subclass would arrive as its base."""
_LEAST, _GREATEST = -(1 << 63), (1 << 64) - 1
_LONGEST_TEXT = 256
_MOST_SCALARS = 16


def are_scalars(values: tuple[Any, ...]) -> bool:
    """Whether values may be in a frame as they are, instead of in its payload.

    They are few, and msgpack certainly supports them: integers are within its bounds,
    and texts are short and ASCII, which a str object records.
    """
    if len(values) > _MOST_SCALARS:
        return False
    for value in values:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # of the user
        if kind is int:
            if not _LEAST <= value <= _GREATEST:
                return False
        elif kind not in _NUMBERS and (
            kind is not str or len(value) > _LONGEST_TEXT or not value.isascii()
        ):
            return False
    return True


def encode(frame: Frame) -> bytes | list[Buffer]:
    """Encodes a frame: one piece, or several if its payload is large.

    Texts of the user (names, messages, tracebacks) may contain lone surrogates, which
    UTF-8 cannot represent: these arrive as escapes.
    """
    payload = frame[-1]
    try:
        if type(payload) is not list:
            if type(payload) is SharedPayload:
                location = payload.location()
                if len(payload.sizes) > MAX_ITEMS:
                    location[payload.block] = _split(payload.sizes)
                return pack((*frame[:-1], location))
            return pack(frame)
        buffers = [memoryview(b).cast("B") for b in cast("list[Buffer]", payload)]
        sizes = [buffer.nbytes for buffer in buffers]
        return [pack((*frame[:-1], _split(sizes))), *buffers]
    except UnicodeEncodeError:
        return encode(tuple(map(_with_escapes, frame)))


def borrowed_of(frame: Frame) -> Any:
    """Returns the borrowed references of a frame, which precede its headers, or None.

    Only a frame with borrowed references may have some in shared memory.
    """
    if len(frame) <= 3:
        return None
    borrowed = frame[-2]
    return frame[-3] if type(borrowed) is dict else borrowed


def _with_escapes(field: Any) -> Any:
    is_payload = type(field) in (list, SharedPayload)
    return field if is_payload else _unpack_one(_pack_with_escapes(field))


def encode_with_borrowed(frame: Frame) -> bytes | list[Buffer]:
    """Encodes a frame that may have more borrowed references than a tuple can hold."""
    long = [
        n
        for n, field in enumerate(frame[:-1])
        if type(field) in _SEQUENCES and len(field) > MAX_ITEMS
    ]
    if not long:
        return encode(frame)
    (at,) = long
    data = encode((*frame[:at], None, *frame[at + 1 :]))
    borrowed = pack(({"borrowed": _split(frame[at]), "at": at},))
    return borrowed + data if isinstance(data, bytes) else [borrowed, *data]


def _split(items: Sequence[Any]) -> Sequence[Any]:
    if len(items) <= MAX_ITEMS:
        return items
    return [
        items[start : start + MAX_ITEMS] for start in range(0, len(items), MAX_ITEMS)
    ]


def _joined(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    if parts and type(parts[0]) is tuple:
        return tuple(itertools.chain.from_iterable(parts))
    return parts


def decode_message(data: bytes) -> list[Frame]:
    """Decodes a message of one or more whole and small frames."""
    try:
        frame = _unpack_one(data)
    except _msgpack.ExtraData:
        return FrameDecoder().feed(data)
    except (LookupError, TypeError, ValueError) as error:
        raise _decode_error(error) from error
    if type(frame) is not tuple or not frame:
        raise _decode_error(ValueError(f"a message of {len(data)} bytes"))
    return [frame]


def _new_unpacker() -> Any:
    return _msgpack.Unpacker(
        use_list=False,
        strict_map_key=False,
        read_size=_CHUNK,
        max_buffer_size=_LARGEST_FRAME,
        max_str_len=_LARGEST_FRAME,
        max_bin_len=_LARGEST_FRAME,
        max_array_len=MAX_ITEMS,
    )


def _not_a_frame(value: object) -> ValueError:
    return ValueError(f"a {type(value).__name__} is not a frame")


def _decode_error(error: Exception) -> ProtocolError:
    return ProtocolError(
        f"the other side of the pipe sent something else than a frame: {error!r}"
    )


class FrameDecoder:
    """Decodes bytes as they come, and returns frames when they are whole.

    Attributes:
        memory: Reads tables about shared memory; None if there are none.
        read_size: The size of the next read.
    """

    def __init__(self, memory: TableReader | None = None) -> None:
        self.memory = memory
        # Most pipes carry one whole frame at a time, and never need it: it has 45 KB,
        # which are cleared at its creation.
        self._unpacker: Any = None
        self._incomplete: Frame | None = None
        self.read_size = _READ_SIZE
        self._sizes: list[int] = []
        self._buffers: list[bytearray] = []
        self._long_borrowed: dict[str, Any] | None = None

    def feed(self, data: Buffer) -> list[Frame]:
        """Decodes the next bytes; returns the frames that they complete, in order.

        Raises ProtocolError if the bytes are not frames.
        """
        try:
            if self._incomplete is not None:
                return self._feed_raw(memoryview(data))
            return self._unpack(data)
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
        ) as error:
            raise _decode_error(error) from error

    def _feed_raw(self, data: memoryview) -> list[Frame]:
        """Decodes bytes that begin with a part of a large payload."""
        frames: list[Frame] = []
        while self._incomplete is not None and data:
            buffer = self._buffers[-1]
            room = self._sizes[-1] - len(buffer)
            buffer += data[:room]
            data = data[room:]
            self._advance(frames)
        if data:
            frames += self._unpack(data)
        return frames

    def _unpack(self, data: Buffer) -> list[Frame]:
        """Decodes bytes that begin with a frame, or with the rest of one."""
        if self._unpacker is None:
            try:
                only: Frame = _unpack_one(data)
            except ValueError:  # a part of a frame, several frames, or none
                self._unpacker = _new_unpacker()
            else:
                return self._take_only(only)
        frames: list[Frame] = []
        self._unpacker.feed(data)
        self._drain(frames)
        return frames

    def _take_only(self, frame: Frame) -> list[Frame]:
        """Returns a frame that came alone and whole."""
        if type(frame) is not tuple:
            raise _not_a_frame(frame)
        if self._long_borrowed is not None:
            frame = self._with_long_borrowed(frame)
        last: object = frame[-1]
        if type(last) is not tuple and type(last) is not dict:
            return [frame]
        frames: list[Frame] = []
        self._take(frame, frames)
        if self._incomplete is not None:
            self._advance(frames)
        return frames

    def _drain(self, frames: list[Frame]) -> None:
        while True:
            if self._incomplete is not None and not self._take_raw(frames):
                return
            if self._long_borrowed is not None:
                following = next(self._unpacker, None)
                if following is None:
                    return
                self._take(self._with_long_borrowed(following), frames)
                continue
            frame: Frame
            for frame in self._unpacker:
                if type(frame) is not tuple:
                    raise _not_a_frame(frame)
                last: object = frame[-1]
                if type(last) is tuple or type(last) is dict:
                    self._take(frame, frames)
                    break
                frames.append(frame)
            else:
                return

    def _take(self, frame: Frame, frames: list[Frame]) -> None:
        """Processes a frame whose payload is elsewhere, or a table about payloads."""
        last: object = frame[-1]
        if type(last) is tuple:
            self._begin_payload(frame)
        elif type(last) is dict:
            self._take_table(frame, frames)
        else:
            frames.append(frame)

    def _with_long_borrowed(self, frame: Frame) -> Frame:
        """Puts the borrowed references that came before a frame into it."""
        table, self._long_borrowed = cast("dict[str, Any]", self._long_borrowed), None
        place = table["at"]
        is_there = type(frame) is tuple and type(place) is int
        if not (is_there and 0 < place < len(frame) - 1):
            raise ValueError("borrowed references without their frame")
        return (*frame[:place], _joined(table["borrowed"]), *frame[place + 1 :])

    def _take_table(self, frame: Frame, frames: list[Frame]) -> None:
        table: dict[Any, Any] = frame[-1]
        if len(frame) == 1 and "borrowed" in table:
            self._long_borrowed = table
            return
        if self.memory is None:
            raise ValueError("no memory is shared here")
        if len(frame) == 1:
            self.memory.take_table(table)
            return
        location = {block: _joined(sizes) for block, sizes in table.items()}
        payload = self.memory.payload_at(location)
        # The receiver counts it as a borrowed reference, at any position in the frame.
        for field in frame:
            if type(field) is tuple and payload.block in field:
                break
        else:
            raise ValueError("a block of a payload is not a borrowed reference")
        frames.append((*frame[:-1], payload))

    def _begin_payload(self, frame: Frame) -> None:
        sizes = _joined(frame[-1])
        if not sizes or {*map(type, sizes)} != {int} or min(sizes) < 0:
            raise ValueError(f"a payload of {sizes[:9]!r} bytes")
        self._incomplete = frame
        self._sizes = [*reversed(sizes)]
        self._buffers = [bytearray()]
        self.read_size = _LARGE_READ_SIZE

    def _take_raw(self, frames: list[Frame]) -> bool:
        """Reads the unpacker's rest of a large payload; False if more must come."""
        self._advance(frames)
        while self._incomplete is not None:
            buffer = self._buffers[-1]
            piece = cast(
                "bytes", self._unpacker.read_bytes(self._sizes[-1] - len(buffer))
            )
            if not piece:
                return False
            buffer += piece
            self._advance(frames)
        return True

    def _advance(self, frames: list[Frame]) -> None:
        """Skips full buffers; the frame is whole when the last one is full."""
        while len(self._buffers[-1]) == self._sizes[-1]:
            self._sizes.pop()
            if not self._sizes:
                frames.append((*cast("Frame", self._incomplete)[:-1], self._buffers))
                self._incomplete, self._buffers = None, []
                self.read_size = _READ_SIZE
                return
            self._buffers.append(bytearray())
