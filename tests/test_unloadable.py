"""What arrives and cannot be loaded: its call is told, and nobody else notices."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import pytest
from helpers.actors import Keeper
from helpers.callees import AsyncRunner, Callee
from helpers.marks import USES_RUNTIME, in_memory
from helpers.unloadable import EXPECTED, REASONS, Unloadable, kind_of, outcome

import actorlib
from actorlib.exceptions import ActorDiedError, SerializationError, TaskError

pytestmark = [*in_memory(preload=["helpers.unloadable"]), USES_RUNTIME]

OWNER = "the owner"
CALLEES = ("plain", "threaded", "mixed", "async", "function")
WAYS = [
    *itertools.product((OWNER, "plain", "async", "function"), CALLEES),
    *itertools.product(("threaded", "mixed"), ("plain", "function")),
    *itertools.product(("plain, linked", "async, linked"), ("plain", "async")),
]
ENOUGH = 12
"""Calls after which two actors have a link, and use it."""


def new(kind: str) -> Callee:
    return Callee(kind, is_blocking=False)


@pytest.mark.parametrize(("carrier", "kind"), WAYS)
async def test_call_when_something_of_it_cannot_be_loaded_then_it_fails_alone(
    carrier: str, kind: str
) -> None:
    callee = new(kind)
    methods = callee.method("run"), callee.method("items")
    by, _, is_linked = carrier.partition(", ")
    run: Any = AsyncRunner().run if by == OWNER else new(by).run
    for _ in range(ENOUGH if is_linked else 0):
        await run(outcome, *methods, "result", "ValueError")
    cases = list(itertools.product(EXPECTED, REASONS))
    outcomes = {case: await run(outcome, *methods, *case) for case in cases}

    assert outcomes == {case: EXPECTED[case[0]] for case in cases}
    assert await callee.run(kind_of, 1) == "int"


async def test_ref_in_a_value_when_it_cannot_be_loaded_then_whoever_asks_is_told() -> (
    None
):
    plain, keeper = new("plain"), Keeper.remote()
    for reason in REASONS:
        await keeper.keep.remote([plain.run(Unloadable, reason)])
        with pytest.raises(SerializationError, match=reason):
            await (await kept_ref(keeper))


class Taking:
    """Takes an argument when it is made."""

    def __init__(self, value: object) -> None:
        self.value = value


async def test_argument_when_it_cannot_be_loaded_then_its_call_is_named() -> None:
    callees = [new("plain"), new("async")]
    for reason in REASONS:
        for callee in callees:
            with pytest.raises((SerializationError, ValueError)) as caught:
                await callee.run(kind_of, Unloadable(reason))
            note = "while the arguments of run were loaded"
            assert caught.value.__notes__ == [note]
        made: Any = actorlib.remote(Taking).remote(Unloadable(reason))
        with pytest.raises(ActorDiedError, match=reason):
            await made


class Once:
    """What can be pickled only where it was made."""

    def __init__(self) -> None:
        self.made_in = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.made_in != os.getpid():
            raise ValueError("it has travelled before")
        return _once, (self.made_in,)


def _once(made_in: int) -> Once:
    once = Once()
    once.made_in = made_in
    return once


class LockedError(Exception):
    """An error that cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Odd:
    """Gives and raises what cannot travel on."""

    def pid(self) -> int:
        """The process it is in."""
        return os.getpid()

    def once(self) -> Once:
        """What travels once."""
        return Once()

    def pair(self) -> tuple[Once, int]:
        """The same as a part of a result."""
        return Once(), 1

    def hand_on(self, keeper: Any, maker: Any) -> Any:
        """Gives another actor the ref of a call of a third."""
        return actorlib.get(keeper.keep.remote([maker.once.remote()]))

    def hand_part_on(self, keeper: Any, maker: Any) -> Any:
        """Gives another actor a part of the result of a third."""
        part, _ = maker.pair.options(num_returns=2).remote()
        return actorlib.get(keeper.keep.remote([part]))


class Asking:
    """Waits for refs that come inside of values."""

    def wait_for(self, refs: list[Any]) -> None:
        """Waits for the first."""
        actorlib.get(refs[0])


class HeldError(Exception):
    """An error with a handle."""


class Handing:
    """Raises handles, and hands on refs that stand for that."""

    def fail(self, handle: Any) -> None:
        """Raises an error with a handle."""
        raise HeldError(handle)

    def hand_on(self, keeper: Any, failing: Any, handle: Any) -> None:
        """Gives another actor the ref of a call of a third."""
        actorlib.get(keeper.keep.remote([failing.fail.remote(handle)]))

    def asked(self, refs: list[Any]) -> int:
        """Asks the actor whose handle is in the error."""
        try:
            actorlib.get(refs[0])
        except HeldError as error:
            return int(actorlib.get(error.args[0].pid.remote()))
        return 0


async def test_ref_in_a_value_when_its_error_has_a_handle_then_that_can_be_used() -> (
    None
):
    one, other = (actorlib.remote(Handing).remote() for _ in range(2))
    held, keeper = Keeper.remote(), Keeper.remote()
    pid = await held.pid.remote()

    assert await other.asked.remote([one.fail.remote(held)]) == pid
    await one.hand_on.remote(keeper, other, held)
    with pytest.raises(HeldError) as caught:
        await (await kept_ref(keeper))
    assert await caught.value.args[0].pid.remote() == pid


async def kept_ref(keeper: Any) -> Any:
    (ref,) = await keeper.kept.remote()
    return ref


async def test_ref_in_a_value_when_that_can_be_pickled_once_then_it_travels_on() -> (
    None
):
    maker, keeper = actorlib.remote(Odd).remote(), Keeper.remote()
    made_in = await maker.pid.remote()
    ref = maker.once.remote()
    await ref
    asking = actorlib.remote(Asking).remote()

    await asking.wait_for.remote([ref])
    await actorlib.remote(Odd).remote().hand_on.remote(keeper, maker)
    assert (await (await kept_ref(keeper))).made_in == made_in


async def test_part_in_a_value_when_it_cannot_travel_on_then_said() -> None:
    maker, keeper = actorlib.remote(Odd).remote(), Keeper.remote()
    part, _ = maker.pair.options(num_returns=2).remote()
    await part
    asking = actorlib.remote(Asking).remote()

    with pytest.raises(SerializationError, match="travelled before"):
        await asking.wait_for.remote([part])

    await actorlib.remote(Odd).remote().hand_part_on.remote(keeper, maker)
    with pytest.raises(SerializationError, match="travelled before"):
        await (await kept_ref(keeper))


async def test_ref_in_a_value_when_its_error_cannot_be_pickled_then_said() -> None:
    def fail() -> None:
        raise LockedError("no way out")

    asking = actorlib.remote(Asking).remote()
    ref = actorlib.remote(fail).remote()

    with pytest.raises(TaskError, match="LockedError: no way out"):
        await asking.wait_for.remote([ref])
