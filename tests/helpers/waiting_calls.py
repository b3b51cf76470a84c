"""Calls that wait: in line, for another call, or where the test stops them.

Workers import this module, so it imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import actorlib
from actorlib.exceptions import ActorlibError
from helpers.actors import Echo

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.actors import Place, Stop
    from helpers.callees import Callee
    from helpers.callers import Api

CPUS = 4
"""Those of a runtime of the contract."""

# What callees run.


def wait_at(gate: Any, name: str) -> Generator[Any, Any, Any]:
    """Waits at a place of a gate."""
    return (yield gate.wait.remote(name))


def stop_at(place: Place) -> None:
    """Stops there."""
    place.stop_here()


def until_canceled() -> str:
    """What a plain method does that looks whether anybody still waits."""
    context = actorlib.get_runtime_context()
    while not context.is_canceled():
        pass
    return "stopped by itself"


def tell(words: Place, word: str, *_: Any) -> str:
    """Tells the test a word, whatever else it is given."""
    words.tell(word)
    return word


def ask(gate: Any, words: Place) -> Generator[Any, Any, Any]:
    """Waits for a call of a gate, and tells how that wait was left."""
    try:
        return (yield gate.wait.remote("asked"))
    except BaseException as error:
        try:
            words.tell(type(error).__name__)
        except KeyboardInterrupt:  # it comes late, if an error has come before it
            words.tell("KeyboardInterrupt")
        raise


def ask_here(gate: Any, words: Place) -> None:
    """The same, in a plain method of whatever actor."""
    try:
        actorlib.get(gate.wait.remote("asked"))
    except ActorlibError as error:
        words.tell(type(error).__name__)
        raise


def pass_on(second: Callee, gate: Any, words: Place) -> Generator[Any, Any, Any]:
    """Has another callee ask."""
    return (yield second.run(ask, gate, words))


# What tests do.


def limited(callee: Callee, *, is_on_ray: bool) -> Callee:
    """The callee, with a limit for the calls that run at once.

    Actors have one. Of functions, one call takes everything.
    """
    if callee.is_actor:
        return callee
    return callee.new(
        **({"resources": {"far": 4}} if is_on_ray else {"num_cpus": CPUS})
    )


async def occupy(callee: Callee, stop: Stop) -> list[Any]:
    """Makes calls that stop, so that the next one waits.

    Args:
        callee: It has a limit.
        stop: Where they stop.

    Returns:
        The refs of the calls, which have stopped.
    """
    count = 2 if callee.kind == "threaded" else 1
    refs = [callee.run(stop_at, stop.place) for _ in range(count)]
    for _ in refs:
        await stop.reached()
    return refs


async def sent(api: Api) -> None:
    """Waits until what was sent or cancelled before has left for the workers."""
    await api.get(Echo.remote().echo.remote(None))


async def was_left(api: Api, gate: Any) -> bool:
    """Waits until the call of ``ask`` was cancelled, which opens the gate."""
    await api.get(gate.wait.remote("asked"))
    return await api.get(gate.left.remote()) == ["asked"]


async def works(api: Api, callee: Callee, *, is_on_ray: bool = False) -> bool:
    """Whether a callee answers, and the CPUs of functions are free again."""
    if not callee.is_actor and not is_on_ray:
        callee = callee.new(num_cpus=CPUS)
    return await api.get(callee.run(len, "ab")) == 2
