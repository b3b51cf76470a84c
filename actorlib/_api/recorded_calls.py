"""Gathers what a pool's function calls for each value of a chunk into few calls.

The function is called with a stand-in for the actor, whose methods record their call
instead of making it. Neighbouring calls of one method become one call.
"""

from __future__ import annotations

from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._api.actor_handle import ActorHandle, gives_one_result
from actorlib._api.results import Raised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.map_calls import MapCall
    from actorlib._core.engine import HandlePin
    from actorlib._core.object_ref import ObjectRef

    Record: TypeAlias = tuple["RecordedMethod", tuple[object, ...]]

_RULE = (
    "with chunksize above 1 the function of a pool has to return the call of one "
    "method, as in 'lambda actor, value: actor.method.remote(value)'"
)


class RecordedCall:
    """What a recorded call gives; it is no ref, and nothing for another call."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{_RULE}, and cannot give that to another call")

    def __await__(self) -> NoReturn:
        raise TypeError(f"{_RULE}, and cannot wait for it")


_RECORDED = RecordedCall()


class RecordedMethod:
    """A method of a stand-in: ``remote`` records a call.

    Args:
        method: The method.
        label: Its name, with the options that it is called with.
        record: Where calls are added.

    Attributes:
        label: See above.
    """

    def __init__(
        self, method: ActorMethod[..., Any], label: str, record: list[Record]
    ) -> None:
        self.label = label
        self._method = method
        self._record = record
        self._is_chunkable = gives_one_result(method)
        self._callers: dict[int, Callable[[tuple[object, ...]], ObjectRef[Any]]] = {}

    def remote(self, /, *args: object, **kwargs: object) -> Any:
        """Records a call, or makes one that cannot be part of a chunk."""
        if kwargs or not args or not self._is_chunkable:
            return self._method.remote(*args, **kwargs)
        self._record.append((self, args))
        return _RECORDED

    def options(self, /, **options: Any) -> RecordedMethod:
        """The same method with some options replaced."""
        label = f"{self.label} {sorted(options.items())!r}"
        return RecordedMethod(self._method.options(**options), label, self._record)

    def caller(self, width: int) -> Callable[[tuple[object, ...]], ObjectRef[Any]]:
        """Returns what makes one call of many items of so many arguments."""
        if width not in self._callers:
            self._callers[width] = self._method._chunk_caller(width, stops=False)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # users shall not see it
        return self._callers[width]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)


class StandIn(ActorHandle[Any]):
    """A handle whose methods record their calls."""

    __slots__ = ("_record",)

    _record: list[Record]

    def __init__(self, pin: HandlePin) -> None:
        super().__init__(pin)
        object.__setattr__(self, "_record", [])

    def __getattr__(self, name: str) -> Any:
        made = RecordedMethod(super().__getattr__(name), name, self._record)
        self.__dict__[name] = made
        return made

    def make_chunk(
        self,
        function: Callable[[Any, Any], object],
        call: MapCall,
        values: Sequence[object],
    ) -> None:
        """Makes what a function calls for values, in as few calls as can be.

        Args:
            function: Called with this and each value.
            call: Where the calls are added.
            values: The values.
        """
        record = self._record
        record.clear()
        made = self._call_each(function, values)
        if made.count(_RECORDED) != len(record):
            for _ in values:
                call.add_error(TypeError(_RULE))
            return
        if len(record) == len(values):  # nearly always
            _send(call, record)
            return
        place = 0
        for is_recorded, group in groupby(made, _is_recorded):
            several = list(group)
            if is_recorded:
                _send(call, record[place : place + len(several)])
                place += len(several)
            else:
                for each in several:
                    _add(call, each)

    def _call_each(
        self, function: Callable[[Any, Any], object], values: Sequence[object]
    ) -> list[object]:
        """Returns what a function gave for each value, or its error."""
        made: list[object] = []
        left = iter(values)
        while len(made) < len(values):
            try:
                made.extend(map(function, repeat(self), left))
                if len(made) < len(values):
                    made.append(
                        Raised(RuntimeError("the function raised StopIteration"))
                    )
            except Exception as raised:  # noqa: BLE001  # the user's function
                del self._record[made.count(_RECORDED) :]
                made.append(Raised(raised))
        return made


def _is_recorded(made: object) -> bool:
    return made is _RECORDED


def _send(call: MapCall, record: list[Record]) -> None:
    """Makes the calls that were recorded."""
    for method, rows in _runs_of(record):
        width = len(rows[0])
        try:
            caller = method.caller(width)
        except TypeError as error:  # the method does not take so many arguments
            for _ in rows:
                call.add_error(error)
        else:
            call.add_items(caller, tuple(chain.from_iterable(rows)), width)


def _runs_of(
    record: list[Record],
) -> Iterator[tuple[RecordedMethod, Sequence[tuple[object, ...]]]]:
    """Yields neighbouring calls that can be one call."""
    methods, rows = zip(*record, strict=True)
    # Nearly always; it takes a third of the time.
    if len(set(methods)) == len(set(map(len, rows))) == 1:
        yield methods[0], rows
        return
    for _, group in groupby(record, _key_of):
        calls = list(group)
        yield calls[0][0], [args for _, args in calls]


def _key_of(record: Record) -> tuple[str, int]:
    """Returns what is equal for calls that can be one call."""
    method, args = record
    return method.label, len(args)


def _add(call: MapCall, made: object) -> None:
    if isinstance(made, Raised):
        call.add_error(made.error)
        return
    try:
        call.add(made)
    except TypeError as error:  # it is no ref
        call.add_error(error)
