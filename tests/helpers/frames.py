"""Frames as tests write and compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actorlib._wire.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._wire.messages import Frame


def written(*frames: Frame) -> bytes:
    """Returns what is on the wire when these frames were sent."""
    pieces: list[bytes] = []
    for frame in frames:
        data = encode(frame)
        pieces += [data] if isinstance(data, bytes) else map(bytes, data)
    return b"".join(pieces)


def comparable(frames: Iterable[Frame]) -> list[Frame]:
    """Returns frames whose large payloads are lists of bytes."""
    return [
        (*frame[:-1], [bytes(buffer) for buffer in cast("list[bytes]", frame[-1])])
        if isinstance(frame[-1], list)
        else frame
        for frame in frames
    ]
