"""The parts of a result, each with its own ref: ``options(num_returns=2)``."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._futures.object_ref import IMMUTABLE, KeptValue, ObjectRef, ResultOwner
from actorlib.exceptions import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._futures.stream_reader import StreamReader

_log = logging.getLogger("actorlib")


def split_result(ref: ObjectRef[Any], count: int, where: str) -> list[ObjectRef[Any]]:
    """Makes refs of the parts of a result, which has to be a tuple or a list.

    If the call fails, each of them fails. Cancelling one cancels the call.
    """
    parts: list[ObjectRef[Any]] = [ObjectRef(loop=ref.get_loop()) for _ in range(count)]
    owner = PartsOwner(lambda: ref.result_owner, ref)
    owner.split = ResultSplit(count, where)
    for place, part in enumerate(parts):
        part.bind(owner, place)
    ref.add_done_callback(partial(_fill_parts, parts, where))
    ref.call_when_filled(partial(_fill_parts, parts, where, ref))
    return parts


def collect_items(
    items: StreamReader, count: int, where: str
) -> list[ObjectRef[Any]] | ObjectRef[Any] | None:
    """Makes refs of the values that a generator yields.

    Each is done as soon as its value arrives. If the generator fails or ends early, the
    others fail. If it yields more, it is closed. With ``count`` 0 it runs to its end.

    Returns:
        A list of refs, the ref itself if it is one, or None for none.
    """
    whole = items.completed
    parts: list[ObjectRef[Any]] = [
        ObjectRef(loop=whole.get_loop()) for _ in range(count)
    ]
    owner = PartsOwner(lambda: items, whole)
    for place, part in enumerate(parts):
        part.bind(owner, place)
    _Collector(items, parts, where).look()
    return parts if count > 1 else next(iter(parts), None)


class _Collector:
    """Fills the parts with the items of a generator, until that ends."""

    def __init__(
        self, items: StreamReader, parts: Sequence[ObjectRef[Any]], where: str
    ) -> None:
        self._items = items
        self._parts = parts
        self._where = where
        self._count = 0

    def look(self) -> None:
        """Reads the available items, and is called again for the rest."""
        items, parts = self._items, self._parts
        while (ref := items.take()) is not None:
            error = ref.exception()
            if error is not None:
                self._fail(error)
                return
            if self._count < len(parts):
                part = parts[self._count]
                self._count += 1
                if not part.done():
                    ref.give_value(part)
            elif parts:
                items.drop()
                return
        if not items.is_exhausted:
            self._look_again(items.arrival())
        elif self._count < len(parts):
            has = f"yielded {self._count} values"
            advice = f"yield {len(parts)} values"
            self._fail(_count_error(self._where, has, len(parts), advice))

    def _look_again(self, arrival: ObjectRef[None]) -> None:
        if asyncio._get_running_loop() is arrival.get_loop():  # noqa: SLF001  # None if there is none
            arrival.call_when_filled(self.look)
        else:
            self._items.watch(arrival, self.look)

    def _fail(self, error: BaseException) -> None:
        missing = self._parts[self._count :]
        if not missing and isinstance(error, TaskError):  # there is no ref to raise it
            from actorlib._wire.serialization import one_line  # noqa: PLC0415  # msgpack

            _log.warning(
                "%s failed after the %d values that its caller takes: %s",
                self._where,
                self._count,
                one_line(error if error.cause is None else error.cause),
            )
        for part in missing:
            if not part.done():
                _fail_part(part, error)


def _fail_part(part: ObjectRef[Any], error: BaseException) -> None:
    part.set_exception(error)
    if getattr(getattr(error, "exit", None), "cause", "") == "asked":
        part.exception()  # the program ended the call: no report if no caller awaits it


class ResultSplit(NamedTuple):
    """The number of parts of a result, and the name of its call for messages."""

    size: int
    where: str

    def part(self, value: Any, place: int) -> Any:
        """Returns one part of a result; ``place`` counts from 0."""
        error = _fault(value, self.size, self.where)
        if error is not None:
            raise error
        return value[place]


class PartsOwner:
    """The result owner of the parts of one result; see ResultOwner.

    The owner of the whole result is looked up each time: a call of another thread has a
    preliminary one until it has crossed to the loop.

    Attributes:
        whole: The whole result. The call number of a part is its index.
        split: The number of parts; None for the items of a generator.
        kept: The engine's entries for parts that were sent, by their indexes.
    """

    def __init__(
        self, find_owner: Callable[[], ResultOwner], whole: ObjectRef[Any]
    ) -> None:
        self._find_owner = find_owner
        self.whole = whole
        self.split: ResultSplit | None = None
        self.kept: dict[int, object] = {}

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Cancels the call of all parts; see ResultOwner."""
        del call
        self.whole.cancel(recursive=recursive)
        return not self.whole.done()

    @property
    def force_cancel(self) -> Callable[..., bool] | None:
        """Cancels a function's call and ends its process; None for other calls."""
        return self._stop_by("force_cancel", force=True)

    @property
    def interrupt(self) -> Callable[..., bool] | None:
        """Cancels the call, and interrupts a plain method; None if it cannot."""
        return self._stop_by("interrupt", interrupt=True)

    def _stop_by(self, operation: str, **how: bool) -> Callable[..., bool] | None:
        if getattr(self._find_owner(), operation, None) is None:
            return None

        def stop(call: int, *, recursive: bool) -> bool:
            del call
            self.whole.cancel(recursive=recursive, **how)
            return not self.whole.done()

        return stop

    def label_of(self, call: int) -> str:
        del call
        return self.whole.call_label

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Does nothing, as other parts may be in use; see ResultOwner."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        self._find_owner().watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        self._find_owner().wait(ref, timeout)

    def name(self) -> bytes:
        return self._find_owner().name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        return self._find_owner().travel(ref)


def _fill_parts(
    parts: Sequence[ObjectRef[Any]], where: str, ref: ObjectRef[Any]
) -> None:
    if ref.cancelled():
        for part in parts:
            if not part.done():
                part.set_cancelled()
        return
    error = ref.exception()
    if error is None:  # one of the user may be false
        error = _fault(ref.result(), len(parts), where)
    for place, part in enumerate(parts):
        if part.done():
            continue
        if error is not None:
            _fail_part(part, error)
        else:
            value = ref.result()[place]
            part.set_result(value, _kept_part(ref, place, value))


def _kept_part(ref: ObjectRef[Any], place: int, value: object) -> KeptValue | None:
    """Returns the encoded value of a part: the whole result, which is split again."""
    original = ref.kept_value
    if original is None or type(value) in IMMUTABLE:
        return None
    return partial(_load_part, original, place), None, original[2], False


def _load_part(original: KeptValue, place: int) -> Any:
    from actorlib._wire.errors import load_kept  # noqa: PLC0415  # it loads msgpack

    return load_kept(original)[place]


def _fault(value: object, count: int, where: str) -> TaskError | None:
    if isinstance(value, tuple | list):
        length = len(cast("Sequence[object]", value))
        if length == count:
            return None
        has = f"{length} values"
    else:
        has = f"a {type(value).__qualname__}"
    return _count_error(where, f"returned {has}", count, f"return a tuple of {count}")


def _count_error(where: str, has: str, count: int, advice: str) -> TaskError:
    """Makes the error of a call with another number of values than ``num_returns``."""
    # ``import actorlib`` loads neither of them.
    from actorlib._wire.errors import task_error  # noqa: PLC0415
    from actorlib._wire.serialization import one_line  # noqa: PLC0415

    cause = ValueError(
        f"{where} {has}, and was called with num_returns={count}: {advice}, or call it "
        "with another num_returns"
    )
    summary = one_line(cause)
    return task_error(cause, summary, summary, where)
