"""Where the buffers of a payload lie in their block."""

from __future__ import annotations

import pytest

from actorlib._shm.layout import ALIGNMENT, PAGE, buffer_starts

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "starts", "nbytes"),
    [
        ((1,), [0], ALIGNMENT),
        ((0, 1), [0, 0], ALIGNMENT),
        ((65, 64, 3), [0, 128, 192], 256),
        ((100, MIB - 1), [0, 128], 128 + MIB),
        ((100, MIB), [0, PAGE], PAGE + MIB),
        ((MIB, 100, MIB), [0, MIB, MIB + PAGE], 2 * MIB + PAGE),
    ],
)
def test_buffers_when_large_then_they_begin_at_pages(
    sizes: tuple[int, ...], starts: list[int], nbytes: int
) -> None:
    assert buffer_starts(sizes) == (starts, nbytes)
