"""Calls that nobody wants any more, and what they have called."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Cleaner, Echo, Gate, Log, Stop

import actorlib
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import ActorHandle, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("on_both_loops", "same_loop_in_workers", "runtime"),
]


class Busy(Log):
    """Asks others, and then reads nothing."""

    def ask_and_stop(self, gate: ActorHandle[Any], place: Any) -> str:
        """Asks, and is busy with something else."""
        self._ref: Any = gate.wait.remote()
        place.stop_here()
        return "done"

    def ask_and_wait(self, gate: ActorHandle[Any]) -> Any:
        """Asks, waits, and notes what came of it."""
        try:
            return actorlib.get(gate.wait.remote())
        except TaskCancelledError:
            self.note("cancelled")
            raise

    def pass_on(self, other: ActorHandle[Any], gate: ActorHandle[Any]) -> Any:
        """Has another one ask and wait."""
        return actorlib.get(other.ask_and_wait.remote(gate))

    def work(self, place: Any) -> bool:
        """Notes whether it was cancelled before, meanwhile and, of another, after."""
        context = actorlib.get_runtime_context()
        before = context.is_canceled()
        place.stop_here()
        while not context.is_canceled():
            pass
        self.note((before, context.is_canceled()))
        return True

    def is_canceled(self) -> bool:
        """Whether this call is."""
        return actorlib.get_runtime_context().is_canceled()

    def watched(self) -> list[bool]:
        """What a thread without a call is told."""
        told: list[bool] = []
        context = actorlib.get_runtime_context()
        thread = threading.Thread(target=lambda: told.append(context.is_canceled()))
        thread.start()
        thread.join()
        return told


class MixedBusy(Busy):
    """The same, with an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._noted = asyncio.Event()

    async def noted(self) -> list[Any]:
        """What a call wrote down when it was cancelled."""
        await self._noted.wait()
        return self._seen

    async def ask_and_wait_here(self, gate: ActorHandle[Any]) -> Any:
        """Asks, waits, and notes whether it was cancelled."""
        context = actorlib.get_runtime_context()
        try:
            return await gate.wait.remote()
        except asyncio.CancelledError:
            inside = await asyncio.create_task(_asked(context))
            self.note((context.is_canceled(), inside))
            self._noted.set()
            raise

    async def give_up_one(self, gate: ActorHandle[Any]) -> bool:
        """Cancels what it asked, and is not cancelled itself."""
        ref = gate.wait.remote()
        await gate.reached.remote()
        ref.cancel()
        return actorlib.get_runtime_context().is_canceled()


async def _asked(context: actorlib.RuntimeContext) -> bool:
    return context.is_canceled()


KINDS = {
    "serial": actorlib.remote(Busy),
    "threaded": actorlib.remote(max_concurrency=2)(Busy),
    "looped": actorlib.remote(MixedBusy),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


async def cancelled(ref: Any) -> None:
    with pytest.raises(TaskCancelledError):
        await ref


@each_kind
async def test_one_that_waits_never_runs(kind: Any, stop: Stop) -> None:
    busy = kind.remote()
    running = [busy.stop.remote(stop.place) for _ in range(2)]
    await stop.reached()
    waiting = [busy.note.remote("never") for _ in range(3)]

    for ref in waiting[::-1]:
        actorlib.cancel(ref)
    for ref in waiting:
        await cancelled(ref)
    await Echo.remote().echo.remote(1)  # by then it has left
    stop.release()
    await stop.reached()
    stop.release()
    await asyncio.gather(*running)

    if kind is not KINDS["threaded"]:  # two run at once there
        assert await busy.seen.remote() == [None, None]


async def test_finally_blocks_of_an_async_method_run() -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("here")
    await gate.reached.remote("here")

    actorlib.cancel(ref)

    await cancelled(ref)
    assert await gate.left.remote() == ["here"]


# Cleaning up; what holds on every engine is in the contract of engines.


async def test_nobody_s_ref_keeps_the_actor_until_it_has_cleaned_up(
    runtime: Runtime,
) -> None:
    cleaner = Cleaner.remote()
    ref = cleaner.work.remote("it")
    await cleaner.began.remote()
    ref.cancel()
    await cleaner.cleans.remote()
    del ref

    assert [call.method for call in runtime.calls()] == ["work"]
    await cleaner.end.remote()
    assert await cleaner.ended.remote() == ["it"]
    assert runtime.calls() == []


def cancel_and_wait(cleaner: Any, before: int) -> list[Any]:
    """The same in a plain method; says whether the ref was done too early."""
    for _ in range(before):
        actorlib.get(cleaner.ended.remote())
    ref = cleaner.work.remote("it")
    actorlib.get(cleaner.began.remote())
    ref.cancel()
    actorlib.get(cleaner.cleans.remote())
    was_done = ref.done()
    cleaner.end.remote()
    try:
        actorlib.get(ref)
    except TaskCancelledError:
        return [was_done, actorlib.get(cleaner.ended.remote())]
    return ["not cancelled"]


async def cancel_and_wait_later(cleaner: Any, before: int) -> list[Any]:
    """The same in an ``async def``."""
    for _ in range(before):
        await cleaner.ended.remote()
    ref = cleaner.work.remote("it")
    await cleaner.began.remote()
    ref.cancel()
    await cleaner.cleans.remote()
    was_done = ref.done()
    cleaner.end.remote()
    try:
        await ref
    except TaskCancelledError:
        return [was_done, await cleaner.ended.remote()]
    return ["not cancelled"]


@pytest.mark.parametrize("before", [0, 20], ids=["by_the_owner", "over_a_link"])
async def test_a_worker_s_ref_is_cancelled_when_it_has_cleaned_up(
    before: int,
) -> None:
    plain, later = Caller.remote(), AsyncCaller.remote()

    told = [
        await plain.run.remote(cancel_and_wait, Cleaner.remote(), before),
        await later.run.remote(cancel_and_wait_later, Cleaner.remote(), before),
    ]

    assert told == [[False, ["it"]]] * 2


def cancel_held(cleaner: Any, held: Any) -> str:
    """Cancels a call whose argument is not there."""
    argument = held.work.remote()
    ref = cleaner.work.remote(argument)
    ref.cancel()
    try:
        actorlib.get(ref, timeout=20)
    except TaskCancelledError:
        argument.cancel()
        return "cancelled"
    return "not cancelled"


async def test_a_worker_s_call_that_is_held_is_cancelled_at_once() -> None:
    cleaner, held = Cleaner.remote(), Cleaner.remote()

    assert await Caller.remote().run.remote(cancel_held, cleaner, held) == "cancelled"

    assert await cleaner.ended.remote() == []


async def test_one_that_is_done_keeps_its_value() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote(1)
    await ref

    actorlib.cancel(ref)

    assert ref.cancel() is False
    assert await ref == 1


async def test_force_is_refused_and_points_to_kill() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote(1)

    with pytest.raises(ValueError, match=r"kill\(handle\)"):
        actorlib.cancel(ref, force=True)
    with pytest.raises(ValueError, match=r"kill\(handle\)"):
        ref.cancel(force=True)

    assert await ref == 1


@pytest.mark.parametrize("name", ["force", "recursive"])
async def test_a_wrong_type_is_refused(name: str) -> None:
    ref = Echo.remote().echo.remote(1)
    options: Any = {name: "yes"}

    with pytest.raises(TypeError, match=f"{name} takes True or False"):
        actorlib.cancel(ref, **options)

    assert await ref == 1


async def test_what_is_no_ref_is_refused_and_points_to_kill() -> None:
    echo = Echo.remote()

    for wrong in (echo, echo.echo, None, 1, [echo.echo.remote(1)]):
        with pytest.raises(TypeError, match=r"kill\(\) ends an actor"):
            actorlib.cancel(wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the point


async def test_whoever_holds_the_ref_in_its_process_may_cancel() -> None:
    caller, gate = AsyncCaller.remote(), Gate.remote()

    await caller.run.remote(_keep_ref, gate)
    await gate.reached.remote()
    await caller.run.remote(_cancel_kept)

    await gate.open.remote()
    assert await gate.left.remote() == [""]


_kept: list[Any] = []


def _keep_ref(gate: ActorHandle[Any]) -> None:
    _kept.append(gate.wait.remote())


def _cancel_kept() -> None:
    actorlib.cancel(_kept.pop())


@pytest.mark.parametrize("kind", [Echo, Gate], ids=["serial", "looped"])
async def test_cancel_of_2500_at_once_leaves_every_ref_cancelled_and_the_actor_well(
    kind: Any,
) -> None:
    actor = kind.remote()
    method = actor.echo if kind is Echo else actor.wait
    refs = [method.remote("x") for _ in range(2500)]

    for ref in refs:
        actorlib.cancel(ref)

    assert all(ref.cancelled() for ref in refs)
    assert await actor.__ray_ready__.remote()


async def test_cancel_of_2500_that_have_asked_leaves_what_they_asked_cancelled() -> (
    None
):
    front, gate = actorlib.remote(MixedBusy).remote(), Gate.remote()
    refs = [front.ask_and_wait_here.remote(gate) for _ in range(2500)]
    await gate.reached.remote()

    for ref in refs:
        actorlib.cancel(ref)

    for ref in refs:
        await cancelled(ref)
    await gate.open.remote()
    assert await gate.wait.remote() == ""


async def test_dependents_fail_too() -> None:
    gate, echo = Gate.remote(), Echo.remote()
    ref = gate.wait.remote()
    dependent = echo.echo.remote(ref)

    actorlib.cancel(ref)

    await cancelled(dependent)
    assert await echo.echo.remote(1) == 1


async def test_dependents_in_a_worker_fail_too() -> None:
    caller, gate, echo = AsyncCaller.remote(), Gate.remote(), Echo.remote()

    assert await caller.run.remote(_dependent, gate, echo) == "TaskCancelledError"


async def _dependent(gate: ActorHandle[Any], echo: ActorHandle[Any]) -> str:
    ref = gate.wait.remote()
    dependent = echo.echo.remote(ref)
    ref.cancel()
    try:
        await dependent
    except TaskCancelledError as error:
        return type(error).__name__
    return "nothing"


# What a call has called.


@each_kind
async def test_recursive_when_its_method_is_busy_then_what_it_asked_is_cancelled(
    kind: Any, stop: Stop
) -> None:
    busy, gate = kind.remote(), Gate.remote()
    ref = busy.ask_and_stop.remote(gate, stop.place)
    await stop.reached()
    await gate.reached.remote()

    actorlib.cancel(ref)

    assert await gate.left.remote() == [""]
    stop.release()
    assert await busy.note.remote(1) == 1


@each_kind
async def test_recursive_when_it_waits_for_what_it_asked_then_it_goes_on_with_the_error(
    kind: Any,
) -> None:
    busy, gate = kind.remote(), Gate.remote()
    ref = busy.ask_and_wait.remote(gate)
    await gate.reached.remote()

    actorlib.cancel(ref)

    assert await gate.left.remote() == [""]
    assert await busy.note.remote(1) == 1
    if kind is not KINDS["threaded"]:  # another thread may be quicker
        assert await busy.seen.remote() == ["cancelled", 1]


async def test_recursive_when_there_are_three_in_a_row_then_the_last_is_cancelled() -> (
    None
):
    kind = KINDS["serial"]
    first, second, gate = kind.remote(), kind.remote(), Gate.remote()
    ref = first.pass_on.remote(second, gate)
    await gate.reached.remote()

    actorlib.cancel(ref)

    assert await gate.left.remote() == [""]
    assert await second.seen.remote() == ["cancelled"]


async def test_recursive_when_a_worker_cancels_then_likewise() -> None:
    caller, front, gate = (
        AsyncCaller.remote(),
        KINDS["serial"].remote(),
        Gate.remote(),
    )

    await caller.run.remote(_ask_and_cancel, front, gate)

    assert await gate.left.remote() == [""]


async def _ask_and_cancel(
    front: ActorHandle[Any], gate: ActorHandle[Any], *, recursive: bool = True
) -> None:
    ref = front.ask_and_wait.remote(gate)
    await gate.reached.remote()
    actorlib.cancel(ref, recursive=recursive)


@each_kind
async def test_recursive_when_false_then_what_it_asked_goes_on(
    kind: Any, stop: Stop
) -> None:
    busy, gate = kind.remote(), Gate.remote()
    ref = busy.ask_and_stop.remote(gate, stop.place)
    await stop.reached()
    await gate.reached.remote()

    actorlib.cancel(ref, recursive=False)

    await cancelled(ref)
    assert await gate.left.remote() == []
    stop.release()
    await gate.open.remote()
    assert await busy.note.remote(1) == 1


async def test_recursive_when_what_it_asked_waits_for_its_arguments_then_it_fails() -> (
    None
):
    busy, gate, echo = AsyncCaller.remote(), Gate.remote(), Echo.remote()
    await busy.run.remote(_keep_ref, gate)
    ref = busy.run.remote(_hold_back, echo)
    await gate.reached.remote()

    await busy.run.remote(_reached_hold)
    actorlib.cancel(ref)

    assert await busy.run.remote(_what_became) == "TaskCancelledError"
    await gate.open.remote()


_dependents: list[Any] = []
_held: list[asyncio.Event] = []


async def _hold_back(echo: ActorHandle[Any]) -> None:
    _dependents.append(echo.echo.remote(_kept[-1]))
    _event().set()
    await asyncio.Event().wait()


def _event() -> asyncio.Event:
    if not _held:
        _held.append(asyncio.Event())
    return _held[0]


async def _reached_hold() -> None:
    await _event().wait()


async def _what_became() -> str:
    try:
        await _dependents[0]
    except TaskCancelledError as error:
        return type(error).__name__
    return "nothing"


# What a call may ask.


@each_kind
async def test_is_canceled_when_a_plain_method_was_then_it_sees_it(
    kind: Any, stop: Stop
) -> None:
    busy = kind.remote()
    ref = busy.work.remote(stop.place)
    await stop.reached()

    actorlib.cancel(ref)
    stop.release()

    await cancelled(ref)
    assert await busy.is_canceled.remote() is False
    if kind is not KINDS["threaded"]:
        assert await busy.seen.remote() == [(False, True)]


async def test_is_canceled_when_another_call_was_then_it_is_not(stop: Stop) -> None:
    busy = KINDS["serial"].remote()
    first = busy.stop.remote(stop.place)
    await stop.reached()
    queued = [busy.is_canceled.remote() for _ in range(3)]

    actorlib.cancel(queued[1])
    stop.release()
    await first

    assert [await queued[0], await queued[2]] == [False, False]


async def test_is_canceled_when_an_async_method_was_then_it_and_its_tasks_see_it() -> (
    None
):
    busy, gate = KINDS["looped"].remote(), Gate.remote()
    ref = busy.ask_and_wait_here.remote(gate)
    await gate.reached.remote()

    actorlib.cancel(ref)

    await cancelled(ref)
    assert await busy.noted.remote() == [(True, True)]


async def test_is_canceled_when_it_cancels_what_it_asked_then_it_is_not() -> None:
    busy, gate = KINDS["looped"].remote(), Gate.remote()

    assert await busy.give_up_one.remote(gate) is False


@each_kind
async def test_is_canceled_when_no_call_asks_then_false(kind: Any) -> None:
    assert actorlib.get_runtime_context().is_canceled() is False
    assert await kind.remote().watched.remote() == [False]
