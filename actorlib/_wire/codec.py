"""Frames to bytes and back, without touching a socket.

Small frames are plain msgpack values one after another, so a decoder takes any number
of them out of one read in C. A frame with a large payload ends in the sizes of its
buffers, which follow it raw: msgpack neither copies nor limits them, and the reader can
let the kernel write them in place (``FrameDecoder.target``). One whose payload lies in
shared memory ends in a table that says where; such a table alone is not a frame but
about that memory, and its receiver is not told of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._wire.shared import Shared
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.frames import Buffer, Frame


class Tables(Protocol):
    """What reads the tables in which frames about shared memory end."""

    def arrived(self, table: dict[str, Any]) -> Shared:
        """The payload that a table tells of."""
        ...

    def told(self, table: dict[str, Any]) -> None:
        """Takes what a table tells of the memory itself."""
        ...


# One packer for the process: it keeps its buffer, and as it calls no Python code while
# it packs, the interpreter lock makes each call whole. At hand where there is a frame
# with a small payload for certain: ``encode`` does the same.
_msgpack: Any = msgpack
pack: Callable[[object], bytes] = _msgpack.Packer(
    use_bin_type=True, autoreset=True
).pack

_LARGEST_FRAME = 0xFFFF_FFFF
# What it allocates at once; its own choice is a megabyte for each of our pipes.
_CHUNK = 64 * 1024


def encode(frame: Frame) -> bytes | list[Buffer]:
    """The bytes of one frame: one piece, or several if its payload is large."""
    payload = frame[-1]
    if type(payload) is not list:
        if type(payload) is Shared:
            return pack((*frame[:-1], payload.told()))
        return pack(frame)
    buffers = [memoryview(buffer).cast("B") for buffer in cast("list[Buffer]", payload)]
    sizes = [buffer.nbytes for buffer in buffers]
    return [pack((*frame[:-1], sizes)), *buffers]


def decode_whole(data: bytes) -> list[Frame]:
    """The frames of a message that has one or more of them, all whole and small.

    Raises:
        ProtocolError: They are no frames.
    """
    try:
        return [_msgpack.unpackb(data, use_list=False, strict_map_key=False)]
    except _msgpack.ExtraData:
        decoder = FrameDecoder()
        frames = decoder.feed(data)
    except (LookupError, TypeError, ValueError) as error:
        raise _no_frame(error) from error
    return frames


def _no_frame(error: Exception) -> ProtocolError:
    return ProtocolError(f"the other side of the pipe sent what is no frame: {error!r}")


class FrameDecoder:
    """Takes bytes as they come and gives frames when they are whole.

    Bytes arrive either through ``feed``, or, while ``target()`` offers a buffer, by
    writing into that and telling ``filled`` how much it was.

    Args:
        memory: What payloads in shared memory are found by, or None if there are none.
    """

    def __init__(self, memory: Tables | None = None) -> None:
        self.memory = memory
        self._unpacker: Any = _msgpack.Unpacker(
            use_list=False,
            strict_map_key=False,
            read_size=_CHUNK,
            max_buffer_size=_LARGEST_FRAME,
            max_str_len=_LARGEST_FRAME,
            max_bin_len=_LARGEST_FRAME,
        )
        self._awaited: Frame | None = None
        self._buffers: list[bytearray] = []
        self._current = 0
        self._offset = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether no large payload is half there."""
        return self._awaited is None

    def feed(self, data: Buffer) -> list[Frame]:
        """Takes the next bytes; gives the frames they complete, in order.

        Raises:
            ProtocolError: They are no frames.
        """
        self._unpacker.feed(data)
        try:
            frames = self._drain()
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
        ) as error:
            raise _no_frame(error) from error
        return frames

    def target(self) -> memoryview | None:
        """Where the next bytes belong, if they are part of a large payload."""
        if self._awaited is None:
            return None
        return memoryview(self._buffers[self._current])[self._offset :]

    def filled(self, nbytes: int) -> list[Frame]:
        """Says how many bytes were written into ``target()``; gives what is whole."""
        self._offset += nbytes
        frame = self._advance()
        return [] if frame is None else [frame]

    def _drain(self) -> list[Frame]:
        frames: list[Frame] = []
        while True:
            if self._awaited is not None:
                whole = self._take_raw()
                if whole is None:
                    return frames
                frames.append(whole)
            frame: Frame
            for frame in self._unpacker:
                if type(frame) is not tuple:
                    raise ValueError(f"a {type(frame).__name__} is no frame")
                last: object = frame[-1]
                if type(last) is tuple:
                    self._begin(frame)
                    break
                if type(last) is dict:
                    self._look_up(frame, frames)
                    continue
                frames.append(frame)
            else:
                return frames

    def _look_up(self, frame: Frame, frames: list[Frame]) -> None:
        if self.memory is None:
            raise ValueError("shared memory was never spoken of")
        if len(frame) == 1:
            self.memory.told(frame[0])
            return
        payload = self.memory.arrived(frame[-1])
        # Its receiver counts it among the loans, wherever frames of its kind have them.
        if not any(type(loans) is tuple and payload.block in loans for loans in frame):
            raise ValueError("a payload in shared memory is not among its loans")
        frames.append((*frame[:-1], payload))

    def _begin(self, frame: Frame) -> None:
        self._awaited = frame
        self._buffers = [bytearray(size) for size in frame[-1]]
        self._current = self._offset = 0

    def _take_raw(self) -> Frame | None:
        """Moves what the unpacker has of the large payload to where it belongs."""
        while (frame := self._advance()) is None:
            room = len(self._buffers[self._current]) - self._offset
            piece = cast("bytes", self._unpacker.read_bytes(room))
            if not piece:
                return None
            end = self._offset + len(piece)
            self._buffers[self._current][self._offset : end] = piece
            self._offset = end
        return frame

    def _advance(self) -> Frame | None:
        """Steps over full buffers; gives the frame when the last one is full."""
        while self._offset == len(self._buffers[self._current]):
            self._current += 1
            self._offset = 0
            if self._current == len(self._buffers):
                frame = (*cast("Frame", self._awaited)[:-1], self._buffers)
                self._awaited, self._buffers = None, []
                return frame
        return None
