"""``cancel(ref, interrupt=True)``: KeyboardInterrupt in the plain method that runs."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from helpers.long_actors import Bell, Mixed, Plain, long
from helpers.marks import USES_RUNTIME, in_processes

import actorlib
from actorlib._worker.executors.interrupt_signal import is_below, is_below_method
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib import ActorHandle

pytestmark = [*in_processes(num_cpus=4), USES_RUNTIME]


async def _interrupt(ref: Any, bell: ActorHandle[Any]) -> None:
    await bell.rung.remote()
    actorlib.cancel(ref, interrupt=True)
    with pytest.raises(TaskCancelledError):
        await ref


@pytest.mark.parametrize("kind", [Plain, Mixed])
async def test_interrupt_when_a_method_runs_then_it_is_raised_there_and_the_actor_lives(
    kind: type[Plain],
) -> None:
    bell = actorlib.remote(Bell).remote()
    actor: Any = actorlib.remote(kind).remote(bell)

    await _interrupt(actor.sleep.remote(), bell)
    assert await actor.seen.remote() == ["asleep"]

    await _interrupt(actor.ask.remote(), bell)
    assert await actor.seen.remote() == ["KeyboardInterrupt"]

    running, waiting = actor.sleep.remote(), actor.add.remote("never")
    await bell.rung.remote()
    actorlib.cancel(waiting, interrupt=True)
    actorlib.cancel(running, interrupt=True)
    assert await actor.seen.remote() == ["asleep"]

    stream = actor.items.remote()
    assert await (await anext(stream)) == 1
    stream.cancel(interrupt=True)
    assert await actor.seen.remote() == ["closed"]

    # Most are over, or have not begun, when the signal comes.
    others = []
    for number in range(100):
        actor.add.remote("").cancel(interrupt=True)
        others.append(actor.add.remote(f"{number}"))
    given = await asyncio.gather(*others)
    assert given == [f"{number}" for number in range(100)]
    assert [said for said in await actor.seen.remote() if said] == given

    if kind is Mixed:
        await _interrupt(actor.nap.remote(), bell)
        assert await actor.seen.remote() == ["napped"]
    await _interrupt(long.remote(bell), bell)


async def test_interrupt_when_it_cannot_be_then_the_call_says_so() -> None:
    bell = actorlib.remote(Bell).remote()
    ref = bell.rung.remote()
    with pytest.raises(ValueError, match="exclude each other"):
        actorlib.cancel(ref, interrupt=True, force=True)
    options: Any = {"interrupt": 1}
    with pytest.raises(TypeError, match="interrupt takes True or False"):
        actorlib.cancel(ref, **options)
    assert not ref.done()


# Where the signal finds the main thread, from frames alone.


def _frame_in(*names: str) -> FrameType:
    """The innermost frame of functions that call one another, in these modules."""
    call: Callable[[], FrameType] = sys._getframe
    for name in reversed(names):
        call = FunctionType(_code, {"__name__": name, "call": call})
    return call()


def _call() -> Any:
    return call()  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # in the globals that it is given


_code = _call.__code__
METHOD = (
    "actorlib._worker.executors.serial_executor",
    "actorlib._worker.executors.invoke",
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((*METHOD, "model"), False),
        ((*METHOD, "model", "torch"), False),
        (("model",), False),
        (METHOD, True),
        ((*METHOD, "model", "actorlib._futures.object_ref"), True),
        ((*METHOD, "actorlib._wire.serialization", "model"), True),
        ((*METHOD, "model", "actorlib._wire.serialization", "model"), True),
    ],
)
async def test_is_below_method_when_a_signal_comes_then_by_the_code_that_runs(
    names: tuple[str, ...], *, expected: bool
) -> None:
    assert is_below_method(_frame_in(*names)) is expected


async def test_is_below_when_a_signal_comes_then_down_to_the_outermost_code() -> None:
    frame = _frame_in("actorlib._worker.executors.task_executor", "model")
    assert is_below((), frame) is True
    assert is_below((_code,), frame) is False
