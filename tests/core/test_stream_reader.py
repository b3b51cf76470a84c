"""A stream as it is read: what has come is whole, or its reader is told."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from helpers.engine import FakeEngine

from actorlib._futures.flow_control import bounds_of
from actorlib._futures.stream_reader import StreamReader
from actorlib._wire.errors import load_result
from actorlib._wire.serialization import encode
from actorlib.exceptions import ProtocolError

put_in = partial(load_result, borrowed=None)


@pytest.fixture
async def reading() -> StreamReader:
    made = StreamReader(asyncio.get_running_loop(), FakeEngine(), bounds_of(0))
    made.call = 1
    return made


async def taken(reading: StreamReader) -> list[Any]:
    """What can be taken now: values, and the names of errors."""
    found: list[Any] = []
    while (ref := reading.take()) is not None:
        error = ref.exception()
        found.append(ref.result() if error is None else type(error))
    return found


async def test_end_when_fewer_items_have_come_then_the_reader_is_told(
    reading: StreamReader,
) -> None:
    reading.put(1, 0, encode("first"), put_in)
    reading.set_result(2)

    assert await taken(reading) == ["first", ProtocolError]
    with pytest.raises(ProtocolError, match="2 were sent, and 1 have come"):
        await reading.completed


async def test_item_when_one_before_it_is_missing_then_the_reader_is_told(
    reading: StreamReader,
) -> None:
    reading.put(1, 0, encode("first"), put_in)
    reading.put(1, 2, encode("third"), put_in)
    reading.put(1, 3, encode("fourth"), put_in)

    assert await taken(reading) == ["first", ProtocolError]
    assert reading.is_exhausted


async def test_end_when_a_second_run_made_fewer_items_then_nothing_is_missing(
    reading: StreamReader,
) -> None:
    for index in (0, 1, 0):
        reading.put(1, index, encode(index), put_in)
    reading.set_result(1)

    assert await taken(reading) == [0, 1]
    assert await reading.completed == 1


async def test_end_when_nobody_reads_then_nothing_is_missing(
    reading: StreamReader,
) -> None:
    reading.is_detached = True
    reading.drop()
    reading.put(1, 0, encode("first"), put_in)
    reading.set_result(1)

    assert await reading.completed == 1


async def test_item_when_loading_it_is_interrupted_then_it_is_there_all_the_same(
    reading: StreamReader,
) -> None:
    def interrupted(ref: Any, _: Any) -> None:
        ref.set_exception(ValueError("interrupted"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reading.put(1, 0, encode("first"), interrupted)
    reading.put(1, 1, encode("second"), put_in)
    reading.set_result(2)

    assert await taken(reading) == [ValueError, "second"]
