"""What a test of the contract calls: a function, or a method of an actor of each kind.

A test hands a function of its own to ``Callee.run``, which runs it where the cell says.
One that has to wait for refs there is a generator that yields them, and gets their
values: it is written once for plain methods, which block, and for coroutines, which
await::

    def sum_of(echo: Any) -> Any:
        first = yield echo.echo.remote(1)
        return first + 1

What it yields may also be an iterator, such as a stream: then it gets the next item, or
None at the end. A result of ``actorlib.wait`` works, too.

Workers import this module, so it imports little.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, cast, final

import actorlib
import actorlib.blocking
from helpers.reused import REUSED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    Steps = Generator[Any, Any, Any]
    """What a function that waits for refs is: it yields them, and gets their values."""

LIMIT = 20.0
"""Seconds after which a wait inside of a callee is taken to hang."""

GROUP = "own"
"""The concurrency group of the callees of the kind ``group``."""


class Runner:
    """Runs functions in plain methods.

    Args:
        is_blocking: Whether it waits by ``actorlib.blocking``.
    """

    def __init__(self, *, is_blocking: bool = False) -> None:
        self._is_blocking = is_blocking

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function returns here."""
        return _run(function, args, kwargs, is_blocking=self._is_blocking)

    def items(
        self, function: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        """What a function yields here."""
        yield from function(*args, **kwargs)

    def first(self, *values: Any) -> Any:
        """The first of its arguments, which need no function among them; or None."""
        return first(*values)

    def all(self, *values: Any, **named: Any) -> Any:
        """All of its arguments."""
        return all_of(*values, **named)


class AsyncRunner:
    """Runs functions in coroutines.

    Args:
        is_blocking: Taken for the sake of ``Runner``; coroutines always await.
    """

    def __init__(self, *, is_blocking: bool = False) -> None:
        del is_blocking

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function returns here, or the coroutine that it returns."""
        result = function(*args, **kwargs)
        if inspect.isgenerator(result):
            return await _run_steps_on_loop(result)
        return await result if inspect.iscoroutine(result) else result

    async def items(
        self, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """What a function yields here, whether it is async or not."""
        iterator = function(*args, **kwargs)
        if hasattr(iterator, "__aiter__"):
            async for item in iterator:
                yield item
        else:
            for item in iterator:
                yield item

    async def first(self, *values: Any) -> Any:
        """See Runner."""
        return first(*values)

    async def all(self, *values: Any, **named: Any) -> Any:
        """See Runner."""
        return all_of(*values, **named)


class MixedRunner(Runner):
    """Runs functions in plain methods of an actor that has an event loop, too."""

    async def idle(self) -> None:
        """Makes it have one."""


class LoopedRunner(AsyncRunner):
    """Runs functions in coroutines, and plain generators on the loop."""

    def items(  # pyright: ignore[reportIncompatibleMethodOverride]  # plain instead
        self, function: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any
    ) -> Iterator[Any]:
        """What a function yields here."""
        yield from function(*args, **kwargs)


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns in a worker of functions."""
    return _run(function, args, kwargs, is_blocking=False)


def run_blocking(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The same; it waits by ``actorlib.blocking``."""
    return _run(function, args, kwargs, is_blocking=True)


def items(
    function: Callable[..., Iterator[Any]], *args: Any, **kwargs: Any
) -> Iterator[Any]:
    """What a function yields in a worker of functions."""
    yield from function(*args, **kwargs)


def first(*values: Any) -> Any:
    """The first of its arguments, or None."""
    return values[0] if values else None


def all_of(*values: Any, **named: Any) -> Any:
    """All of its arguments, in a tuple; with those by name in a second one."""
    return (values, named) if named else values


def numbers(count: int) -> Iterator[int]:
    """Yields numbers, each by itself: on Ray, "yield from" differs in functions."""
    for number in range(count):  # noqa: UP028  # see above
        yield number


KINDS = ("function", "plain", "threaded", "async", "group")
"""Every kind of callee; all but the first are methods of actors.

Two more are for tests that name them, and are tested wherever ``async`` is: ``mixed``,
a plain method of an actor with a loop, and ``looped``, a plain generator on a loop.
"""

STREAMING_KINDS = (*KINDS, "looped")
"""The kinds of callees that differ in how they yield."""

MIXED = "mixed"
"""The kind of plain methods on an event loop, for tests that ask for it by name."""

_ACTORS: dict[str, tuple[type, dict[str, Any]]] = {
    "plain": (Runner, {}),
    "threaded": (Runner, {"max_concurrency": 2}),
    "async": (AsyncRunner, {}),
    "group": (Runner, {"concurrency_groups": {GROUP: 1}}),
    MIXED: (MixedRunner, {}),
    "looped": (LoopedRunner, {}),
}


@final
class Callee:
    """A function, or a method of one actor that is made when it is called first.

    Args:
        kind: One of ``KINDS``, ``mixed`` or ``looped``.
        is_blocking: Whether its code waits by ``actorlib.blocking``.
        is_reused: Whether another test may have used its actor before; see
            ``helpers.reused``.
        **options: For the actor, or for each call of the function.

    Attributes:
        kind: As it was given.
    """

    def __init__(
        self, kind: str, *, is_blocking: bool, is_reused: bool = False, **options: Any
    ) -> None:
        self.kind = kind
        self._is_blocking = is_blocking
        self._is_reused = is_reused
        self._options = options
        self._actor: Any = None

    @property
    def is_actor(self) -> bool:
        """Whether it is a method of an actor."""
        return self.kind != "function"

    @property
    def is_async(self) -> bool:
        """Whether its code runs on an event loop."""
        return self.kind == "async"

    @property
    def actor(self) -> Any:
        """The handle of its actor, which is made now if it was not made before."""
        if self._actor is None:
            reused = REUSED if self._is_reused else ()
            self._actor = (
                reused[-1].take(self.kind, self._new_actor)
                if reused
                else self._new_actor()
            )
        return self._actor

    def _new_actor(self) -> Any:
        cls, options = _ACTORS[self.kind]
        made = actorlib.remote(cls).options(**{**options, **self._options})
        return made.remote(is_blocking=self._is_blocking)

    def new(self, **options: Any) -> Callee:
        """Another callee of the same kind.

        Args:
            **options: For its actor, or for each call of the function.
        """
        return Callee(
            self.kind, is_blocking=self._is_blocking, **{**self._options, **options}
        )

    def method(self, name: str, /, **options: Any) -> Any:
        """What has ``.remote()``: a function, or a method of the actor.

        Args:
            name: Which: ``run``, ``items``, ``first`` or ``all``, as ``Runner`` has
                them.
            **options: For the call.
        """
        if not self.is_actor:
            plain: dict[str, Callable[..., Any]] = {
                "run": run_blocking if self._is_blocking else run,
                "items": items,
                "first": first,
                "all": all_of,
            }
            function = cast("Any", actorlib.remote(plain[name]))
            return function.options(**{**self._options, **options})
        if self.kind == "group":
            options = {"concurrency_group": GROUP, **options}
        method = getattr(self.actor, name)
        return method.options(**options) if options else method

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The ref of a call that runs a function there.

        Args:
            function: A plain function, or a generator function that yields the refs
                that it waits for.
            *args: For it.
            **kwargs: For it.
        """
        return self.method("run").remote(function, *args, **kwargs)

    def items(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The stream of what a generator function yields there."""
        return self.method("items").remote(function, *args, **kwargs)

    def first(self, *values: Any) -> Any:
        """The ref of a call that returns its first argument."""
        return self.method("first").remote(*values)

    def all(self, *values: Any, **named: Any) -> Any:
        """The ref of a call that returns its arguments; see ``all_of``."""
        return self.method("all").remote(*values, **named)

    def new_actor(self, cls: type, *args: Any, **kwargs: Any) -> Any:
        """The handle of an actor of another class, with the options of this kind.

        Args:
            cls: Its class. One of the kind ``async`` or ``mixed`` needs coroutines.
            *args: For its constructor.
            **kwargs: For its constructor.
        """
        options = {**_ACTORS[self.kind][1], **self._options}
        return actorlib.remote(cls).options(**options).remote(*args, **kwargs)

    def method_of(self, actor: Any, name: str, **options: Any) -> Any:
        """A method of such an actor, which runs as this kind of callee does.

        Args:
            actor: From ``new_actor``.
            name: Which method.
            **options: For the call.
        """
        if self.kind == "group":
            options = {"concurrency_group": GROUP, **options}
        method = getattr(actor, name)
        return method.options(**options) if options else method


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_blocking: bool,
) -> Any:
    result = function(*args, **kwargs)
    if not inspect.isgenerator(result):
        return result
    get: Callable[..., Any] = actorlib.blocking.get if is_blocking else actorlib.get
    return _run_steps(result, lambda refs: _get(get, refs))


def _run_steps(steps: Generator[Any, Any, Any], get: Callable[[Any], Any]) -> Any:
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            refs = resume(value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = steps.send, get(refs)
        except BaseException as error:  # noqa: BLE001  # it is the steps' to handle
            resume, value = steps.throw, error


async def _run_steps_on_loop(steps: Generator[Any, Any, Any]) -> Any:
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        try:
            refs = resume(value)
        except StopIteration as end:
            return end.value
        try:
            resume, value = steps.send, await _together(refs)
        except BaseException as error:  # noqa: BLE001  # likewise
            resume, value = steps.throw, error


def _together(refs: Any) -> Any:
    if hasattr(refs, "__anext__"):
        return anext(refs, None)
    return asyncio.gather(*cast("list[Any]", refs)) if isinstance(refs, list) else refs


def _get(get: Callable[..., Any], refs: Any) -> Any:
    if hasattr(refs, "__next__"):
        return next(refs, None)
    is_wait = isinstance(refs, actorlib.types.Waiting)
    return cast("Any", refs).get() if is_wait else get(refs, timeout=LIMIT)
