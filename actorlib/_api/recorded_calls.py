"""Combines the calls of a pool's function for the values of a chunk into few calls.

The function is called with a stand-in for the actor, whose methods record their calls
instead of making them. Neighbouring calls of one method become one call.
"""

from __future__ import annotations

from itertools import groupby, repeat
from operator import is_
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._api.actor_handle import ActorHandle, ActorMethod, gives_one_result
from actorlib._api.results import Raised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from actorlib._api.map_calls import MapCall
    from actorlib._core.engine import HandlePin
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.callee import BoundMethod

    Record: TypeAlias = dict[tuple[str, int], "RecordedCalls"]

_RULE = (
    "with chunksize above 1 the function of a pool has to return the call of one "
    "method, as in 'lambda actor, value: actor.method.remote(value)'"
)
_NOTHING: Any = object()
_MOST_KEPT = 64
"""The limit of cached methods with options, which may differ for each item."""


class RecordedCalls:
    """The calls of one method with a number of arguments, for the items of a chunk.

    All recorded calls return this object: a separate one for each would double the time
    of a recorded call. It is neither a ref nor an argument for another call.

    Attributes:
        width: The number of arguments of a call.
        args: The arguments of all calls, one after the other.
        taken: How many arguments belong to calls that were made.
    """

    __slots__ = ("_make", "_method", "args", "taken", "width")

    def __init__(self, method: ActorMethod[..., Any], width: int) -> None:
        self.width = width
        self.args: list[object] = []
        self.taken = 0
        self._method = method
        self._make: Callable[[tuple[object, ...]], ObjectRef[Any]] | None = None

    @property
    def count(self) -> int:
        return len(self.args) // self.width

    def clear(self) -> None:
        self.args.clear()
        self.taken = 0

    def make(self, call: MapCall, count: int) -> None:
        """Makes the next ``count`` calls as one call, and adds it to ``call``."""
        args = tuple(self.args[self.taken : self.taken + count * self.width])
        self.taken += len(args)
        if self._make is None:
            try:
                self._make = self._method._chunk_caller(self.width, stops=False)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # not for users
            except TypeError as error:  # the method does not take so many arguments
                for _ in range(count):
                    call.add_error(error)
                return
        call.add_items(self._make, args, self.width)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{_RULE}, and cannot pass it to another call")

    def __await__(self) -> NoReturn:
        raise TypeError(f"{_RULE}, and cannot wait for it")


class RecordedMethod(ActorMethod[..., Any]):
    """A method of a stand-in: ``remote`` records a call.

    ``label`` is its name with the options of its calls.
    """

    __slots__ = ("_append", "_calls", "_label", "_method", "_record")

    def __init__(
        self, method: ActorMethod[..., Any], label: str, record: Record
    ) -> None:
        super().__init__(method._pin, method._callee, method._changes)  # noqa: SLF001  # of the same class
        self._method = method
        self._label = label
        self._record = record
        self._calls = self._calls_of(1)
        self._append = self._calls.args.append

    def _calls_of(self, width: int) -> RecordedCalls:
        key = self._label, width
        if key not in self._record:
            self._record[key] = RecordedCalls(self._method, width)
        return self._record[key]

    def remote(
        self, first: object = _NOTHING, /, *others: object, **kwargs: object
    ) -> Any:
        """Records a call, or makes one that cannot be part of a chunk."""
        if others or kwargs or first is _NOTHING:
            return self._call(first, others, kwargs)
        self._append(first)
        return self._calls

    def _call(
        self, first: object, others: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        args = () if first is _NOTHING else (first, *others)
        if kwargs or not args:
            return self._method.remote(*args, **kwargs)
        calls = self._calls_of(len(args))
        calls.args += args
        return calls

    def _call_chunk(
        self, callee: BoundMethod, args: tuple[object, ...]
    ) -> ObjectRef[Any]:
        return self._method._call_chunk(callee, args)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of the same class

    def options(self, /, **options: Any) -> Any:
        label = f"{self._label} {sorted(options.items())!r}"
        return _recorded(self._method.options(**options), label, self._record)


def _recorded(method: ActorMethod[..., Any], label: str, record: Record) -> Any:
    """Returns a method that records its calls, if they can be part of a chunk."""
    return RecordedMethod(method, label, record) if gives_one_result(method) else method


class StandIn(ActorHandle[Any]):
    """A handle whose methods record their calls."""

    __slots__ = ("_record",)

    _record: Record

    def __init__(self, pin: HandlePin) -> None:
        super().__init__(pin)
        object.__setattr__(self, "_record", {})

    def __getattr__(self, name: str) -> Any:
        method = _recorded(super().__getattr__(name), name, self._record)
        self.__dict__[name] = method
        return method

    def make_chunk(
        self,
        function: Callable[[Any, Any], object],
        call: MapCall,
        values: Sequence[object],
    ) -> None:
        """Makes the calls of a function for values, as few as possible.

        The function is called with this stand-in and each value.
        """
        if len(self._record) > _MOST_KEPT:
            for key in [key for key in self._record if key[0] not in self.__dict__]:
                del self._record[key]
        for calls in self._record.values():
            calls.clear()
        returned = self._call_each(function, values)
        for several in self._runs_of(returned):
            first = several[0]
            if isinstance(first, RecordedCalls):
                first.make(call, len(several))
            else:
                for each in several:
                    _add(call, each)

    def _call_each(
        self, function: Callable[[Any, Any], object], values: Sequence[object]
    ) -> list[object]:
        """Returns the result of a function for each value, or its error."""
        returned: list[object] = []
        remaining = iter(values)
        while len(returned) < len(values):
            try:
                returned.extend(map(function, repeat(self), remaining))
                if len(returned) < len(values):
                    returned.append(
                        Raised(RuntimeError("the function raised StopIteration"))
                    )
            except Exception as raised:  # noqa: BLE001  # the user's function
                for calls in self._record.values():
                    count = sum(each is calls for each in returned)
                    del calls.args[count * calls.width :]
                returned.append(Raised(raised))
        return returned

    def _runs_of(self, returned: list[object]) -> list[list[object]]:
        """Returns neighbours that can be one call; all are errors if one was lost."""
        if all(map(is_, returned, repeat(returned[0]))):  # the usual case, and faster
            runs = [returned]
        else:
            runs = [list(run) for _, run in groupby(returned, id)]
        recorded = {calls: calls.count for calls in self._record.values() if calls.args}
        counted: dict[object, int] = {}
        for run in runs:
            if isinstance(run[0], RecordedCalls):
                counted[run[0]] = counted.get(run[0], 0) + len(run)
        if recorded != counted:
            return [[Raised(TypeError(_RULE))] for _ in returned]
        return runs


def _add(call: MapCall, returned: object) -> None:
    if isinstance(returned, Raised):
        call.add_error(returned.error)
        return
    try:
        call.add(returned)
    except TypeError as error:  # it is not a ref
        call.add_error(error)
