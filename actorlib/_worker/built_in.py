"""The methods that every actor has, and the one that it may have, known from Ray.

The former are put into the class, in this process alone, so that calling one is like
calling any other and costs nothing where none is called.
"""

from __future__ import annotations

import traceback
from collections.abc import Coroutine
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from actorlib._interface import CALL, READY

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

SHUTDOWN = "__ray_shutdown__"
"""What an actor's class calls the method that cleans up when the actor leaves."""


def install(cls: type) -> None:
    """Gives a class the methods that every actor has."""
    with suppress(TypeError):  # a class written in C cannot have more than it has
        type.__setattr__(cls, READY.name, _ready)
        type.__setattr__(cls, CALL.name, _call)


def _ready(instance: object) -> bool:
    """True: whoever is answered knows that the constructor has finished."""
    del instance
    return True


def _call(
    instance: object, function: Callable[..., object], /, *args: Any, **kwargs: Any
) -> object:
    """Calls a function with the actor's object in front."""
    return function(instance, *args, **kwargs)


@contextmanager
def shutting_down(
    instance: object, loop: asyncio.AbstractEventLoop | None = None
) -> Generator[None]:
    """Around the life of an actor: it cleans up when it leaves, as its class says.

    It leaves when it is stopped behind what it was sent, and by ``exit_actor()`` or
    ``sys.exit()``. What is killed, or fails, or has lost its owner, does not. What the
    method raises is printed, and the actor leaves all the same.

    Args:
        instance: The actor's object.
        loop: The actor's loop, which runs in another thread, if it has one.
    """
    try:
        yield
    except SystemExit:
        _shut_down(instance, loop)
        raise
    _shut_down(instance, loop)


def _shut_down(instance: object, loop: asyncio.AbstractEventLoop | None) -> None:
    clean_up = getattr(type(instance), SHUTDOWN, None)
    if clean_up is None:
        return
    try:
        done = clean_up(instance)
        if isinstance(done, Coroutine):
            _run(cast("Coroutine[Any, Any, object]", done), loop)
    except BaseException:  # noqa: BLE001  # the user's code, in the actor's last frame
        traceback.print_exc()


def _run(
    work: Coroutine[Any, Any, object], loop: asyncio.AbstractEventLoop | None
) -> None:
    import asyncio  # noqa: PLC0415  # actors without a loop never load it

    if loop is None:
        asyncio.run(work)
    else:
        asyncio.run_coroutine_threadsafe(work, loop).result()
