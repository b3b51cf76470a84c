"""The parts of a result, each a ref of its own: ``options(num_returns=2)``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._ref import ObjectRef, replier_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._ref import Replier


def parted(ref: ObjectRef[Any], count: int, where: str) -> list[ObjectRef[Any]]:
    """Refs of the parts of a result, which has to be a tuple or a list of so many.

    If the call fails so does each of them; cancelling one cancels the call.

    Args:
        ref: The whole.
        count: How many parts it has.
        where: What was called, for messages.
    """
    parts: list[ObjectRef[Any]] = [ObjectRef(loop=ref.get_loop()) for _ in range(count)]
    replier = _Parts(replier_of(ref), ref)
    for part in parts:
        part.bind(replier, 0)
    ref.add_done_callback(partial(_part, parts, where))
    return parts


class _Parts:
    """The replier of the parts of one result; see Replier."""

    def __init__(self, engine: Replier, whole: ObjectRef[Any]) -> None:
        self._engine = engine
        self._whole = whole
        if getattr(engine, "force", None) is not None:
            self.force = self._force

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Stops the call that all parts are of."""
        del call
        self._whole.cancel(recursive=recursive)
        return not self._whole.done()

    def _force(self, call: int, *, recursive: bool) -> None:
        """Stops it, and ends the process that it runs in."""
        del call
        self._whole.cancel(force=True, recursive=recursive)

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """Nothing: others may hold the other parts."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a part is done."""
        self._engine.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until a part is done."""
        self._engine.wait(ref, timeout)

    def name(self) -> bytes:
        """An id for what a part stands for."""
        return self._engine.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """How a part is pickled into a value that is being sent."""
        return self._engine.travel(ref)


def _part(parts: Sequence[ObjectRef[Any]], where: str, ref: ObjectRef[Any]) -> None:
    if ref.cancelled():
        for part in parts:
            if not part.done():
                part.give_up()
        return
    error = ref.exception() or _fault(ref.result(), len(parts), where)
    for place, part in enumerate(parts):
        if part.done():
            continue
        if error is not None:
            part.set_exception(error)
        else:
            part.set_result(ref.result()[place])


def _fault(value: object, count: int, where: str) -> ValueError | None:
    if isinstance(value, tuple | list):
        held = len(cast("Sequence[object]", value))
        if held == count:
            return None
        has = f"{held} values"
    else:
        has = f"a {type(value).__qualname__}"
    return ValueError(
        f"{where} returned {has}, and was called with num_returns={count}: it has to "
        f"return a tuple of {count}"
    )
