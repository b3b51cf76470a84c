"""Large values between real processes: equal, in place, and nothing left of them."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import hashlib
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Echo, Gate, Keeper, end_of
from helpers.marks import USES_RUNTIME, in_processes
from helpers.memory import (
    descriptors,
    end_of_sweep,
    in_blocks,
    in_own_blocks,
    numbers,
    settled,
    stores,
    sweep,
)
from helpers.rare_cases import rarely

import actorlib
from actorlib._queries.client import ask_loop, find_runtimes
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from actorlib import Runtime

pytestmark = [*in_processes(object_store_memory=2 << 30), USES_RUNTIME]

MIB = 1 << 20
ABOVE = 256 * 1024
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")


def looks(array: np.ndarray[Any, Any]) -> tuple[str, bool, int]:
    """What an array is where it arrived: its digest, writeability and alignment."""
    digest = hashlib.sha1(array.tobytes(), usedforsecurity=False).hexdigest()
    return digest, array.flags.writeable, array.ctypes.data % 64


def squared(nbytes: int) -> np.ndarray[Any, Any]:
    return numbers(nbytes) ** 2


# Equal after the trip.


async def test_torch_tensors_are_equal_after_the_trip() -> None:
    torch = pytest.importorskip("torch")
    echo = Echo.remote()
    base = torch.arange(1_000_000).reshape(1000, 1000)
    for tensor in (
        *(base.t(), base[::3, 5:], torch.arange(10), torch.empty(0), torch.tensor(7)),
        torch.ones(400_000, dtype=torch.bfloat16),
        torch.nn.Parameter(torch.ones(300_000)),
    ):
        back = await echo.echo.remote(tensor)
        assert type(back) is type(tensor)
        assert (back.dtype, back.stride()) == (tensor.dtype, tensor.stride())
        assert back.requires_grad == tensor.requires_grad
        assert torch.equal(back, tensor)
    tied = await echo.echo.remote({"whole": base, "piece": base[1]})
    tied["piece"][0] = -1
    assert int(tied["whole"][1, 0]) == -1


async def test_torch_tensors_are_not_copied_and_what_is_written_stays_here() -> None:
    torch = pytest.importorskip("torch")
    keeper, echo = Keeper.remote(), Echo.remote()
    await settled(keeper, echo)
    before = in_blocks()
    given = actorlib.put(torch.ones(MIB))
    await keeper.keep.remote(given)
    back = await echo.echo.remote(given)
    back += 1
    piece = back[5:6]
    del back
    await settled(keeper, echo)
    held = in_blocks() - before
    theirs = await keeper.kept.remote()

    assert float(piece[0]) == 2
    assert float(theirs.sum()) == MIB
    assert 4 * MIB <= held < 5 * MIB
    del given, theirs, piece
    await keeper.keep.remote(None)
    await settled(keeper, echo)
    assert in_blocks() == before


async def test_arrow_tables_are_equal_after_the_trip() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": np.arange(1_000_000), "b": np.ones(1_000_000)})

    assert (await Echo.remote().echo.remote(table)).equals(table)


async def test_arrays_are_views_that_are_aligned_and_cannot_be_written_to() -> None:
    array = numbers(3 * MIB)
    for caller in (Caller.remote(), AsyncCaller.remote()):
        digest, is_writeable, odd = await caller.run.remote(looks, array)
        assert (digest, is_writeable, odd) == (looks(array)[0], False, 0)
    back = await Caller.remote().run.remote(squared, MIB)
    assert looks(back)[1:] == (False, 0)
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


@pytest.mark.thorough
async def test_errors_with_large_arrays_arrive() -> None:
    echo = Echo.remote()
    with pytest.raises(ValueError, match=r"array") as caught:
        await echo.fail.remote(ValueError("array", np.ones(MIB)))
    assert caught.value.args[1].sum() == MIB
    del caught
    retried = Echo.options(max_task_retries=3, retry_exceptions=True).remote()
    with pytest.raises(ValueError, match="again"):
        await retried.fail.remote(ValueError("again", np.ones(MIB)))
    picky = Echo.options(max_task_retries=2, retry_exceptions=[KeyError]).remote()
    for error in (KeyError("again", np.ones(MIB)), ValueError("once", np.ones(MIB))):
        with pytest.raises(type(error)) as caught:
            await picky.fail.remote(error)
        assert caught.value.args[1].sum() == MIB
        del caught, error
    await settled(echo, retried, picky)
    for actor in (echo, retried, picky):
        blocks = await Caller.remote().call.remote(actor, "__ray_call__", in_own_blocks)
        assert blocks == 0


# One copy in, none out.


@actorlib.remote
class Taker:
    """Takes something, and waits at gates then."""

    def take(self, data: bytes, *gates: Any) -> int:
        for gate in gates:
            actorlib.get(gate.wait.remote())
        return len(data)


async def test_long_bytes_when_they_are_copied_then_their_block_is_free_again() -> None:
    opened, closed, taker = Gate.remote(), Gate.remote(), Taker.remote()
    await opened.open.remote()
    await settled(opened, closed, taker)
    before = in_blocks()
    data = bytes(2 * ABOVE)
    sizes = {await taker.take.remote(data) for _ in range(100)}  # known to be quick
    after_calls = in_blocks()
    waits = taker.take.remote(data, opened, closed)
    await closed.reached.remote()
    while_it_waits = in_blocks()
    await closed.open.remote()

    assert sizes | {await waits} == {2 * ABOVE}
    assert after_calls == while_it_waits == before


class Pair:
    """Is made of two things."""

    def __init__(self, *_: object) -> None:
        pass


@pytest.mark.thorough
async def test_blocks_of_calls_that_never_ran_are_free() -> None:
    array = np.ones(MIB)
    before = in_blocks()
    born = [Keeper.remote(array) for _ in range(3)]
    await asyncio.gather(*map(actorlib.kill, born))  # before its task has begun
    late = Keeper.remote(array)
    await asyncio.sleep(0)
    await actorlib.kill(late)
    asleep = AsyncCaller.remote()
    busy = asleep.run.remote(asyncio.sleep, 1000)
    ref = Keeper.remote().keep.remote(array)
    ref.cancel()
    held_back = Echo.remote().both.remote(busy, array)
    held_back.cancel()
    by_ref = actorlib.remote(Pair).remote(busy, array)
    await actorlib.kill(by_ref)
    given = Echo.remote().echo.remote(1)
    just_given = actorlib.remote(Pair).remote(given, array)
    await given
    await actorlib.kill(just_given)
    dead = Keeper.remote()
    await actorlib.kill(dead)
    with pytest.raises(ActorDiedError):
        await dead.keep.remote(array)
    busy.cancel()
    await actorlib.kill(asleep)
    del ref, held_back, by_ref, given, just_given, dead, late, born
    await settled()
    await settled(Echo.remote())

    assert in_blocks() == before


async def test_what_a_restarted_actor_is_made_of_is_kept_for_it() -> None:
    before = in_blocks()
    keeper = Keeper.options(max_restarts=2, max_task_retries=2).remote(np.ones(MIB))
    for _ in range(2):
        assert (await keeper.kept.remote()).sum() == MIB
        os.kill(await keeper.pid.remote(), signal.SIGKILL)
    assert (await keeper.kept.remote()).sum() == MIB
    end = end_of(keeper)
    del keeper
    await end
    await settled()

    assert in_blocks() == before


# Deaths.


async def test_a_result_outlives_its_actor() -> None:
    echo = Echo.remote()
    refs = [echo.echo.remote(np.full(MIB, n)) for n in range(3)]
    pid = await echo.pid.remote()
    os.kill(pid, signal.SIGKILL)
    values = await asyncio.gather(*refs)
    keeper = Keeper.remote(values[1])
    del echo
    await settled(keeper)

    assert [int(value[-1]) for value in values] == [0, 1, 2]
    assert (await keeper.kept.remote())[7] == 1


class Dying:
    """Dies when it has made something."""

    def make(self, number: int) -> np.ndarray[Any, Any]:
        """An array of a number."""
        return np.full(MIB // 8, number)

    def pass_on(self, keeper: Any, number: int) -> None:
        """Has another actor keep one."""
        actorlib.get(keeper.keep.remote(np.full(MIB // 8, number)))

    def die(self) -> None:
        """Is killed."""
        os.kill(os.getpid(), signal.SIGKILL)


@LINUX
@pytest.mark.thorough
async def test_readers_and_makers_that_are_killed_leave_nothing(
    runtime: Runtime,
) -> None:
    remote = actorlib.remote(Dying)
    keeper = Keeper.remote()

    async def round_of(number: int) -> None:
        maker, reader = remote.remote(), Keeper.remote()
        array = await maker.make.remote(number)
        await maker.pass_on.remote(keeper, number)
        await reader.keep.remote(array)
        with pytest.raises(ActorDiedError):
            await maker.die.remote()
        os.kill(await reader.pid.remote(), signal.SIGKILL)
        ends = end_of(reader)
        assert (array == number).all()
        assert (await keeper.kept.remote() == number).all()
        await keeper.keep.remote(None)
        await ends

    async def state() -> tuple[int, int, int, int]:
        await settled(keeper)
        used = runtime.snapshot().object_store.used
        theirs = await keeper.__ray_call__.remote(lambda _: descriptors())
        return used, in_blocks(), descriptors(), theirs

    await round_of(0)
    before = await state()
    for number in range(1, 5):
        await round_of(number)

    assert await state() == before


# Too much.


@LINUX
async def test_large_values_when_addresses_are_scarce_then_they_arrive() -> None:
    caller, echo = Caller.remote(), Echo.remote()
    before = resource.getrlimit(resource.RLIMIT_AS)
    expected = looks(await actorlib.put(numbers(MIB)))
    limit_addresses()
    try:
        back = await caller.run.remote(squared, MIB)
        passed_on = await echo.echo.remote(caller.run.remote(squared, MIB))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    for array in (back, passed_on):
        assert np.array_equal(array, squared(MIB))
        assert not array.flags.writeable

    await caller.run.remote(limit_addresses)
    assert await caller.run.remote(looks, numbers(MIB)) == expected
    assert (
        len(await caller.run.remote(bytes, MIB)) == MIB
    )  # by the pipe, with a warning
    assert await caller.run.remote(abs, -1) == 1


def limit_addresses() -> None:
    sizes = Path("/proc/self/statm").read_text().split()
    room = int(sizes[0]) * 4096 + 256 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))


# What is not used goes back to the system.


@LINUX
@pytest.mark.parametrize("kind", [Caller, *rarely(AsyncCaller)])
async def test_memory_of_a_result_when_it_is_not_used_then_its_worker_gives_it_back(
    kind: Any,
) -> None:
    before = stores().touched().keys()
    caller = kind.remote()
    back = await caller.run.remote(squared, 4 * MIB)
    piece = await caller.run.remote(squared, MIB // 2)
    [worker] = stores().touched().keys() - before
    del back
    await settled(caller)
    for _ in range(2):
        sweep()
        await caller.run.remote(end_of_sweep)

    cost = cost_of_segments_of_workers()
    assert MIB // 2 <= stores().touched()[worker] == cost < MIB
    assert np.array_equal(piece, squared(MIB // 2))
    again = await caller.run.remote(squared, 4 * MIB)
    assert np.array_equal(again, squared(4 * MIB))
    assert stores().touched()[worker] > 4 * MIB


def cost_of_segments_of_workers() -> int:
    """The memory that the system has given to the segments that are shown here."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    numbers = [int(each.name) for each in links if "memfd:" in str(each.readlink())]
    # Those of others can only be read.
    shown = [fd for fd in numbers if not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_RDWR]
    return sum(os.fstat(fd).st_blocks * 512 for fd in shown)


# Ends, forks and launchers.


async def test_a_fork_of_a_worker_neither_writes_nor_frees_what_is_shared() -> None:
    caller, echo = Caller.remote(), Echo.remote()
    array = np.ones(MIB)
    code, total = await caller.run.remote(fork_with, array, echo)

    assert (code, total) == (0, MIB)
    assert (await echo.echo.remote(array)).sum() == MIB


def fork_with(array: np.ndarray[Any, Any], echo: Any) -> tuple[int, float]:
    child = os.fork()
    if not child:
        code = 1
        try:
            echo.echo.remote(np.zeros(MIB))
        except RuntimeError:
            code = 0
        del array
        gc.collect()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), array.sum()


# What is told of them.


async def test_objects_when_asked_then_who_made_and_who_holds_each(
    runtime: Runtime,
) -> None:
    keeper, maker = (
        Keeper.options(name="k", num_cpus=1).remote(),
        Echo.options(name="m").remote(),
    )
    keeper_is = f"Keeper 'k' (pid {await keeper.pid.remote()})"
    maker_is = f"Echo 'm' (pid {await maker.pid.remote()})"
    mine = actorlib.put(numbers(5 * MIB))
    await keeper.keep.remote(mine)
    theirs = await maker.echo.remote(numbers(3 * MIB))
    # This one never comes to be, as the keeper has a CPU.
    cpus = runtime.cluster_resources()["CPU"]
    late = Keeper.options(name="late", num_cpus=int(cpus)).remote([mine])
    call = late.keep.remote(mine)
    await settled(keeper, maker)

    rows, used = runtime.objects(), runtime.snapshot().object_store.used
    first, second = [row for row in rows if row.state == "live"][:2]
    (kept,) = [row for row in rows if row.kind == "ref"]
    (server,) = find_runtimes(os.getpid())
    told = await asyncio.to_thread(ask_loop, server, "objects", sort="age", limit=1)

    assert (first.nbytes or 0) >= 5 * MIB > (second.nbytes or 0) >= 3 * MIB
    assert (first.maker, second.maker) == ("the program", maker_is)
    assert first.holders.keys() == {"the program", keeper_is}
    assert second.holders.keys() == {"the program"}
    assert (first.arguments_of, second.arguments_of) == (("Keeper.keep of 'late'",), ())
    assert (kept.state, kept.block) == ("live", first.object_id)
    assert kept.arguments_of == ("Keeper 'late', as it is made",)
    assert (first.age or 0) >= (second.age or 0) > 0
    assert {row.maker for row in rows} <= {"the program", maker_is, keeper_is}
    # Blocks begin at pages, which nobody counts as theirs.
    assert used - 2 * 4096 <= sum(row.nbytes or 0 for row in rows) <= used
    (oldest,) = runtime.objects(sort="age", limit=1)
    assert oldest.object_id == first.object_id
    assert [row.object_id for row in told.objects] == [first.object_id]
    assert (told.has_more, told.pid) == (True, os.getpid())
    assert told.object_store.live >= 8 * MIB
    actorlib.kill(late)
    with pytest.raises(ActorDiedError):
        await call
    del theirs
