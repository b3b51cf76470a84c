"""Large values in runtimes of their own: how much memory there is decides."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Echo, Keeper, running
from helpers.memory import descriptors, in_blocks, settled
from helpers.owners import Owner

import actorlib
from actorlib.exceptions import ObjectStoreFullError, TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.process

MIB = 1 << 20
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")


def anonymous() -> int:
    """The memory that is this process's alone."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def extra(function: Any, *args: Any) -> tuple[Any, int]:
    before = anonymous()
    value = function(*args)
    return value, anonymous() - before


def fail_largely() -> None:
    raise ValueError(np.ones(MIB))


@LINUX
async def test_value_when_it_is_read_then_one_copy_whose_memory_is_reused() -> None:
    async with running(object_store_memory=2 << 30) as runtime:
        array = np.ones(4 * MIB)  # 32 MiB
        caller = Caller.remote()
        await caller.run.remote(extra, np.sum, array)
        total, cost = await caller.run.remote(extra, np.sum, array)

        assert total == 4 * MIB
        assert cost < 8 * MIB
        assert 32 * MIB < runtime.snapshot().object_store.used < 72 * MIB
        for _ in range(20):
            await caller.run.remote(np.negative, array)
        store = runtime.snapshot().object_store
        assert store.used < 6 * 32 * MIB
        assert store.used == store.live + store.warm


async def test_what_has_no_room_goes_through_the_pipe_and_each_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(object_store_memory=6 * MIB) as runtime:
        keeper, echo = Keeper.remote(), Echo.remote()
        first = np.ones(MIB // 2)  # 4 MiB
        await keeper.keep.remote(first)
        for _ in range(2):
            back = await echo.echo.remote(first * 2)
            assert back.sum() == MIB
        assert (await keeper.kept.remote()).sum() == MIB // 2
        assert runtime.snapshot().object_store.used <= 6 * MIB
        assert runtime.snapshot().object_store.limit == 6 * MIB
    warned = [
        record.process
        for record in caplog.records
        if "object_store_memory" in record.getMessage()
    ]
    assert len(warned) == len(set(warned))
    assert os.getpid() in warned


async def test_what_has_no_room_fails_when_it_is_to() -> None:
    async with running(object_store_memory=MIB, object_store_full="fail"):
        caller = Caller.remote()
        for _ in range(2):
            with pytest.raises(ObjectStoreFullError, match="object_store_memory"):
                caller.run.remote(len, bytes(2 * MIB))
            with pytest.raises(ObjectStoreFullError, match="object_store_memory"):
                await caller.run.remote(bytes, 2 * MIB)
        with pytest.raises(ObjectStoreFullError) as caught:
            await AsyncCaller.remote().run.remote(bytes, 2 * MIB)
        assert isinstance(caught.value, TaskError)
        with pytest.raises(TaskError, match="ValueError"):  # an error comes as text
            await caller.run.remote(fail_largely)
        assert await caller.run.remote(len, b"x" * 1000) == 1000


class Yielder:
    def plain(self) -> Iterator[Any]:
        yield bytearray(2 * MIB)

    async def beside(self) -> AsyncIterator[Any]:
        yield bytearray(2 * MIB)


async def test_items_that_have_no_room_fail_when_they_are_to() -> None:
    async with running(object_store_memory=MIB, object_store_full="fail"):
        yielder: Any = actorlib.remote(Yielder).remote()
        function: Any = actorlib.remote(Yielder.plain)
        streams = [yielder.plain.remote(), yielder.beside.remote()]
        for stream in [*streams, function.remote(None)]:
            with pytest.raises(ObjectStoreFullError, match="object_store_memory"):
                await (await anext(stream))


async def test_no_shared_memory_when_there_is_to_be_none() -> None:
    async with running(object_store_memory=0) as runtime:
        back = await Echo.remote().echo.remote(np.ones(MIB))
        assert not back.flags.writeable
        assert runtime.snapshot().object_store == actorlib.types.ObjectStoreInfo()
        assert back.sum() == MIB


@pytest.mark.parametrize("start_method", ["template", "spawn"])
@pytest.mark.thorough
async def test_values_in_constructors_and_views_that_outlive_the_runtime(
    start_method: Any,
) -> None:
    async with running(start_method=start_method):
        keeper = Keeper.remote(np.ones(MIB))
        back = await keeper.kept.remote()
        own = await Keeper.remote(back).kept.remote()
    gc.collect()
    assert back.sum() == own.sum() == MIB
    async with running():
        assert (await Echo.remote().echo.remote(back)).sum() == MIB
    del back, own
    gc.collect()


@pytest.mark.slow
@pytest.mark.thorough
@LINUX
async def test_many_actors_exchange_arrays_and_leave_no_descriptor() -> None:
    async with running(object_store_memory=2 << 30):
        array = np.ones(MIB // 8)
        await Echo.remote().echo.remote(array)
        await settled()
        before = descriptors()
        for _ in range(2):
            echos = [Echo.remote() for _ in range(50)]
            backs = await asyncio.gather(*(echo.echo.remote(array) for echo in echos))
            assert {float(back.sum()) for back in backs} == {MIB // 8}
            ends = [actorlib.kill(echo) for echo in echos]
            del backs
            await asyncio.gather(*ends)
        del echos, ends
        await settled()

        assert descriptors() <= before
        assert in_blocks() == 0


# Descriptors.

SCARCE = """
import asyncio, resource, sys
import actorlib
from helpers.owners import tell

class Giver:
    def give(self, nbytes):
        return b"x" * nbytes

    def take(self, value):
        return len(value)

def double(value):
    return value + value

async def main():
    limit, count = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    async with actorlib.init(num_cpus=count):
        givers = [actorlib.remote(Giver).remote() for _ in range(count)]
        refs = [giver.give.remote(1 << 20) for giver in givers]
        found = await asyncio.gather(*refs, return_exceptions=True)
        good = [giver for giver, value in zip(givers, found) if type(value) is bytes]
        told = [str(error) for error in found if type(error) is not bytes]
        tell([len(good), told])
        # Each has shown its memory: what one has made is passed on to the next.
        tell([await after.take.remote(giver.give.remote(1 << 20))
              for giver, after in zip(good, good[1:])])
        try:
            tell(len(await actorlib.remote(double).remote(b"x" * (1 << 20))))
        except actorlib.exceptions.WorkerCrashedError as error:
            tell(str(error))

asyncio.run(main())
"""


def test_owner_when_it_may_open_no_more_files_still_takes_and_passes_on_large_values(
    tmp_path: Path,
) -> None:
    with Owner(SCARCE, "90", "40", folder=tmp_path) as owner:
        good, told = owner.told()
        assert owner.told() == [MIB] * (good - 1)
        told.append(owner.told())
        assert owner.end() == 0, owner.err

    assert good > 4
    assert good + len(told) == 41
    for trouble in told:
        assert "limit of open files is 90" in trouble
        assert "times" not in trouble
