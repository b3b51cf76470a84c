"""The arguments of one call, as they were when it was made.

A ref given by itself arrives as its value, so a call that has one waits for it. The
other arguments are pickled at once all the same: what the caller changes meanwhile is
not seen, and what cannot be sent is refused in the line that tried to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from actorlib._engine import ActorId, Engine, collecting
from actorlib._ref import ObjectRef
from actorlib._wire.blame import encode_arguments
from actorlib._wire.payload import decode_call
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actorlib._wire.frames import Payload
    from actorlib._wire.memory import Memory


class Sharing(Engine, Protocol):
    """An engine that sends values to other processes."""

    memory: Memory


class Arguments:
    """Arguments on their way to a payload.

    Args:
        engine: Whose handles may be among them.
        where: What is called, for messages.
        args: The positional arguments.
        kwargs: The keyword arguments.

    Attributes:
        refs: The refs given by themselves.
        loans: The actors whose handles are among the arguments, each as often as they
            are.

    Raises:
        SerializationError: One cannot be sent; the message says which.
    """

    def __init__(
        self,
        engine: Sharing,
        where: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        self.loans: list[ActorId] = []
        self.refs: list[ObjectRef[Any]] = []
        self._engine = engine
        self._where = where
        self._places: list[int | str] = []
        if ObjectRef in map(type, args) or ObjectRef in map(type, kwargs.values()):
            args = tuple(
                self._without(place, value) for place, value in enumerate(args)
            )
            kwargs = {name: self._without(name, kwargs[name]) for name in kwargs}
        with collecting(engine) as self.loans:
            self._payload = encode_arguments(
                where, args, kwargs, engine.memory, self.loans
            )

    @property
    def are_ready(self) -> bool:
        """Whether every ref among them has its value or its error."""
        return all(ref.done() for ref in self.refs)

    def payload(self) -> tuple[Payload, list[ActorId] | None]:
        """The payload with the values of all refs, and the handles in it.

        Raises:
            SerializationError: A value cannot be sent on.
            Exception: What the first failed ref raised.
        """
        if not self.refs:
            return self._payload, self.loans or None
        values = [_value(ref) for ref in self.refs]
        given, named = decode_call(self._payload)
        args: list[object] = list(given)
        for place, value in zip(self._places, values, strict=True):
            if isinstance(place, int):
                args[place] = value
            else:
                named[place] = value
        with collecting(self._engine) as loans:
            memory = self._engine.memory
            payload = encode_arguments(self._where, tuple(args), named, memory, loans)
        return payload, loans or None

    def _without(self, place: int | str, value: object) -> object:
        """Leaves a hole where a ref is."""
        if type(value) is not ObjectRef:
            return value
        self.refs.append(cast("ObjectRef[Any]", value))
        self._places.append(place)
        return None


def when_done(refs: Iterable[ObjectRef[Any]], then: Callable[[], None]) -> None:
    """Calls once when all refs are done, at once if they are."""
    pending = [ref for ref in refs if not ref.done()]
    left = len(pending)

    def one_done(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for ref in pending:
        ref.add_done_callback(one_done)
    if not pending:
        then()


def _value(ref: ObjectRef[Any]) -> object:
    if ref.cancelled():
        raise TaskCancelledError("a ref given as an argument was cancelled")
    return ref.result()
