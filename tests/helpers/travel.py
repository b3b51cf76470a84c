"""Every way that a value can travel, as data; workers import this module.

A *carrier* makes calls, a *target* is called: each is the owner, a plain or an async
actor, or a function. What one call carries is a role, a shape and a size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

SHARED = 256 * 1024
"""The bytes from which a value lies in shared memory, by default."""
SIZES = (1_000, SHARED - 4_096, SHARED + 50_000)
ALONE, LISTED, REF, REF_LISTED = "alone", "in a list", "as a ref", "as a ref in a list"
SHAPES = (ALONE, LISTED, REF, REF_LISTED)
ROLES = ("argument", "result", "item", "error")
WARM = 12
"""Calls after which two actors have a link, and use it."""


class CarriedError(Exception):
    """An error that carries a value."""


def made(shape: str, nbytes: int) -> Any:
    """A value to be sent; its bytes say where they are wrong."""
    value: Any = bytes(range(256)) * (nbytes // 256) + bytes(range(nbytes % 256))
    if shape in (REF, REF_LISTED):
        value = actorlib.put(value)
    return [value] if shape in (LISTED, REF_LISTED) else value


def unwrapped(value: Any) -> Any:
    """What is in a list of one, or what is no list."""
    return cast("Any", value[0]) if isinstance(value, list) else value


def told(value: bytes) -> tuple[int, bool]:
    """The size of a value, and whether it is as it was made."""
    return len(value), value == made(ALONE, len(value))


def got(value: Any) -> tuple[int, bool]:
    """The same of a value as it came, where code may block."""
    found: Any = unwrapped(value)
    is_ref = isinstance(found, actorlib.ObjectRef)
    return told(cast("Any", found).get() if is_ref else found)


async def awaited(value: Any) -> tuple[int, bool]:
    """The same where it may not."""
    found: Any = unwrapped(value)
    is_ref = isinstance(found, actorlib.ObjectRef)
    return told(await cast("Any", found) if is_ref else found)


def exchange(target: Any, role: str, shape: str, nbytes: int) -> tuple[int, bool]:
    """One call of a target, where code may block."""
    if role == "argument":
        found: tuple[int, bool] = target.argument.remote(made(shape, nbytes)).get()
        return found
    if role == "item":
        (item,) = [ref.get() for ref in target.item.remote(shape, nbytes)]
        return got(item)
    if role == "result":
        return got(target.result.remote(shape, nbytes).get())
    try:
        target.error.remote(shape, nbytes).get()
    except CarriedError as error:
        return got(error.args[0])
    raise AssertionError("it raised nothing")


async def exchanged(
    target: Any, role: str, shape: str, nbytes: int
) -> tuple[int, bool]:
    """One call of a target, where code may await."""
    if role == "argument":
        found: tuple[int, bool] = await target.argument.remote(made(shape, nbytes))
        return found
    if role == "item":
        (item,) = [await ref async for ref in target.item.remote(shape, nbytes)]
        return await awaited(item)
    if role == "result":
        return await awaited(await target.result.remote(shape, nbytes))
    try:
        await target.error.remote(shape, nbytes)
    except CarriedError as error:
        return await awaited(error.args[0])
    raise AssertionError("it raised nothing")


class Blocking:
    """Calls and is called in plain methods."""

    def argument(self, value: Any) -> tuple[int, bool]:
        """What came of an argument."""
        return got(value)

    def result(self, shape: str, nbytes: int) -> Any:
        """A value."""
        return made(shape, nbytes)

    def item(self, shape: str, nbytes: int) -> Generator[Any]:
        """A value as an item."""
        yield made(shape, nbytes)

    def error(self, shape: str, nbytes: int) -> None:
        """A value in an error."""
        raise CarriedError(made(shape, nbytes))

    def warm(self, target: Any) -> None:
        """Calls an actor until there is a link to it."""
        for _ in range(WARM):
            target.argument.remote(b"").get()

    def exchange(
        self, target: Any, role: str, shape: str, nbytes: int
    ) -> tuple[int, bool]:
        """Calls a target."""
        return exchange(target, role, shape, nbytes)


Plain = actorlib.remote(Blocking)


@actorlib.remote
class Async:
    """Calls and is called in async methods."""

    async def argument(self, value: Any) -> tuple[int, bool]:
        """What came of an argument."""
        return await awaited(value)

    async def result(self, shape: str, nbytes: int) -> Any:
        """A value."""
        return made(shape, nbytes)

    async def item(self, shape: str, nbytes: int) -> AsyncGenerator[Any]:
        """A value as an item."""
        yield made(shape, nbytes)

    async def error(self, shape: str, nbytes: int) -> None:
        """A value in an error."""
        raise CarriedError(made(shape, nbytes))

    async def warm(self, target: Any) -> None:
        """Calls an actor until there is a link to it."""
        for _ in range(WARM):
            await target.argument.remote(b"")

    async def exchange(
        self, target: Any, role: str, shape: str, nbytes: int
    ) -> tuple[int, bool]:
        """Calls a target."""
        return await exchanged(target, role, shape, nbytes)


@actorlib.remote
def argument(value: Any) -> tuple[int, bool]:
    """What came of an argument."""
    return got(value)


@actorlib.remote
def result(shape: str, nbytes: int) -> Any:
    """A value."""
    return made(shape, nbytes)


@actorlib.remote
def item(shape: str, nbytes: int) -> Generator[Any]:
    """A value as an item."""
    yield made(shape, nbytes)


@actorlib.remote
def error(shape: str, nbytes: int) -> None:
    """A value in an error."""
    raise CarriedError(made(shape, nbytes))


@actorlib.remote
class Mixed(Blocking):
    """Calls and is called in plain methods on an event loop."""

    async def idle(self) -> None:
        """Has it have a loop."""


ACTORS: dict[str, Callable[[], Any]] = {
    "plain": Plain.remote,
    "threaded": Plain.options(max_concurrency=2).remote,
    "mixed": Mixed.remote,
    "async": Async.remote,
}
"""Makes an actor, by its kind."""


class Functions:
    """A target whose calls are calls of functions."""

    argument, result, item, error = argument, result, item, error


@actorlib.remote
def exchange_in_function(
    target: Any, role: str, shape: str, nbytes: int
) -> tuple[int, bool]:
    """Calls a target from a function."""
    return exchange(target, role, shape, nbytes)
