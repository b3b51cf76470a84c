"""What the caller said of a call, where the call runs."""

from __future__ import annotations

from contextvars import Context, copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._chunks import await_each, call_each
from actorlib._telling import enter_variables
from actorlib._wire.payload import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

_dumped = lru_cache(maxsize=64)(dump)


def call_with(
    told: Mapping[str, Any],
    method: Callable[..., object],
    args: list[Any] | tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> object:
    """Calls a plain method, or each of a batch, in the context variables of the caller.

    The thread has its own context back afterwards.

    Args:
        told: What the caller said of the call.
        method: The method.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Raises:
        SerializationError: A context variable's value cannot be loaded here.
        BaseException: What the method raised.
    """
    if "batch" in told:
        method = partial(call_each, method, told["batch"])
        args = (args,)
    if "variables" not in told:
        return method(*args, **kwargs)
    return _context(told).run(method, *args, **kwargs)


def within(
    told: Mapping[str, Any], function: Callable[..., object]
) -> Callable[..., object]:
    """A function as it is called in such a context; see call_with.

    No code of ours stands between its caller and it: see Attention.
    """
    if "variables" not in told:
        return function
    return partial(_context(told).run, function)


def begun_with(
    told: Mapping[str, Any],
    method: Callable[..., Any],
    given: tuple[Sequence[Any], Mapping[str, Any]],
    places: tuple[Callable[[], bool], Callable[[], None]],
    stream: Callable[[Any], Coroutine[Any, Any, object]],
) -> Coroutine[Any, Any, object]:
    """A call of an ``async def``, or each of a batch, or a stream, to be awaited.

    Args:
        told: What the caller said of the call.
        method: The method.
        given: Its positional and its keyword arguments.
        places: For the calls of a batch; see await_each.
        stream: Sends the items of a generator.
    """
    if "batch" in told:
        return await_each(method, told["batch"], given[0], places)
    begun: Coroutine[Any, Any, object] = method(*given[0], **given[1])
    return stream(begun) if "stream" in told else begun


def stepper(told: Mapping[str, Any], source: Iterator[Any]) -> Callable[[], Any]:
    """Takes the next item of a generator, each in the same context; see call_with."""
    if "variables" not in told:
        return source.__next__
    return partial(_context(told).run, source.__next__)


def _context(told: Mapping[str, Any]) -> Context:
    context = copy_context()
    context.run(enter_variables, told)
    return context


def packed(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is said of a call, as frames carry it: the owner may lack the classes."""
    if told is None or "retries" not in told:
        return told
    times, listed = told["retries"]
    if isinstance(listed, tuple):
        listed = _dumped(cast("tuple[type, ...]", listed))
    return {**told, "retries": (times, listed)}
