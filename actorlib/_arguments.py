"""The arguments of one call, as they were when it was made.

A ref given by itself arrives as its value, so a call that has one waits for it. The
other arguments are pickled at once all the same: what the caller changes meanwhile is
not seen, and what cannot be sent is refused in the line that tried to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._engine import collecting
from actorlib._ref import REFS, ObjectRef
from actorlib._values import Filled, Sharing, Stored, stored
from actorlib._wire.answers import noted
from actorlib._wire.blame import argument, blame, encode_arguments
from actorlib._wire.memory import shared
from actorlib._wire.payload import encode, kept
from actorlib.exceptions import SerializationError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actorlib._ids import LoanId
    from actorlib._wire.shared import Payload


class Arguments:
    """Arguments on their way to a payload.

    Args:
        engine: What sends them.
        where: What is called, for messages.
        args: The positional arguments.
        kwargs: The keyword arguments.

    Attributes:
        refs: The refs given by themselves.
        loans: What is among the arguments and counted (handles, refs inside of values,
            blocks of shared memory), each as often as it is.

    Raises:
        SerializationError: One cannot be sent; the message says which.
        ObjectStoreFullError: They have no room, and may not go another way.
    """

    def __init__(
        self,
        engine: Sharing,
        where: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        self.loans: list[LoanId] = []
        self.refs: list[ObjectRef[Any]] = []
        self._engine = engine
        self._where = where
        self._places: list[int | str] = []
        if not (
            REFS.isdisjoint(map(type, args))
            and REFS.isdisjoint(map(type, kwargs.values()))
        ):
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

    def payload(self) -> tuple[Payload, list[LoanId] | None]:
        """The payload with the values of all refs, and what is in it.

        Raises:
            SerializationError: A value cannot be sent on.
            Exception: What the first failed ref raised.
        """
        if not self.refs:
            return self._payload, self.loans or None
        engine = self._engine
        values = [
            self._value(place, ref)
            for place, ref in zip(self._places, self.refs, strict=True)
        ]
        with collecting(engine) as loans:
            # What is in the others is counted once more, and then no more by itself.
            given = Stored(engine, self._payload, self.loans)
            try:
                payload = encode(Filled(given, self._places, values))
            except Exception as error:
                named = zip(self._places, values, strict=True)
                raise SerializationError(blame(self._where, named, error)) from error
            return kept(shared(engine.memory, payload, loans)), loans or None

    def _value(self, place: int | str, ref: ObjectRef[Any]) -> object:
        """What stands for the value of a ref.

        Raises:
            Exception: What the ref raises, with a note of which argument it was.
        """
        if ref.cancelled():
            told = f"a ref given as {argument(place, self._where)} was cancelled"
            raise TaskCancelledError(told)
        error = ref.exception()
        if error is not None:
            raise noted(error, f"its ref was {argument(place, self._where)}")
        return stored(self._engine, ref)

    def _without(self, place: int | str, value: object) -> object:
        """Leaves a hole where a ref is."""
        if type(value) not in REFS:
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
