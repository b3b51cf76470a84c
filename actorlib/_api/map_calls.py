"""The calls of a map, until their results are taken."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._api.map_window import Window
from actorlib._api.results import Raised, outcome_of
from actorlib._api.waiting import Wakeup
from actorlib._futures.object_ref import ObjectRef, mark_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class _Known:
    """The result of an item that needs no call."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class MapCall:
    """The call of one item of a map, or of a chunk of items.

    A user's function may make several calls of one item, and different calls of the
    items of a chunk, so it consists of parts.

    Attributes:
        first: The number of its first item; None if it does not belong to a map.
        size: The number of items.
        number: Its number in the window.
        refs: The refs of all parts.
        seconds: The time to make it, and after its answer the time of its items.
        keep: Is called with the outcomes when they are first read, or None.
    """

    __slots__ = (
        "_outcomes",
        "_parts",
        "first",
        "keep",
        "number",
        "refs",
        "seconds",
        "size",
    )

    def __init__(self, first: int | None, size: int = 1) -> None:
        self.first = first
        self.size = size
        self.number = -1
        self.refs: list[ObjectRef[Any]] = []
        self.seconds = 0.0
        self.keep: Callable[[list[Any]], None] | None = None
        self._parts: list[object] = []
        self._outcomes: list[Any] | None = None

    def add_chunk(self, ref: ObjectRef[Any], size: int) -> None:
        """Adds the call of several items, which returns a list of their results."""
        self.refs.append(ref)
        self._parts.append((ref, size))

    def add_items(
        self,
        make: Callable[[tuple[object, ...]], ObjectRef[Any]],
        args: tuple[object, ...],
        width: int,
    ) -> None:
        """Makes one call of several items, or one of each if they cannot be sent.

        So the other items have results if one cannot be sent.
        """
        try:
            self.add_chunk(make(args), len(args) // width)
        except Exception as error:  # noqa: BLE001  # of the user's values
            if len(args) == width:
                self.add_error(error)
                return
            for start in range(0, len(args), width):
                self.add_items(make, args[start : start + width], width)

    def add_error(self, error: BaseException) -> None:
        self._parts.append(error)

    def add_value(self, value: object) -> None:
        """Adds the result of an item that needs no call."""
        self._parts.append(_Known(value))

    def add(self, result: object) -> None:
        """Adds the result of a function for an item: a ref, or a list of refs."""
        if isinstance(result, ObjectRef):
            self.refs.append(cast("ObjectRef[Any]", result))
            self._parts.append(cast("object", result))
            return
        several = (
            list(cast("Iterable[object]", result))
            if isinstance(result, list | tuple)
            else []
        )
        if not several or not all(isinstance(ref, ObjectRef) for ref in several):
            raise TypeError(
                "the function has to return the ref of a call, as in 'lambda actor, "
                f"value: actor.method.remote(value)', and returned {result!r} "
                f"({type(cast('object', result)).__name__})"
            )
        self.refs += cast("list[ObjectRef[Any]]", several)
        self._parts.append(several)

    @property
    def sent(self) -> int:
        """The number of items that needed a call."""
        return self.size - sum(type(part) is _Known for part in self._parts)

    def spans(self) -> Iterator[tuple[ObjectRef[Any], int, int]]:
        """Yields each ref, the place of its first item, and the size of its chunk.

        The size is 0 for the call of a single item, whose result is not in a list.
        """
        place = 0
        for part in self._parts:
            if isinstance(part, tuple):
                ref, size = cast("tuple[ObjectRef[Any], int]", part)
                yield ref, place, size
                place += size
                continue
            if isinstance(part, ObjectRef):
                yield cast("ObjectRef[Any]", part), place, 0
            place += 1

    @property
    def is_done(self) -> bool:
        for ref in self.refs:  # noqa: SIM110  # all() takes twice as long for one ref
            if not ref.done():
                return False
        return True

    @property
    def has_failed(self) -> bool:
        return any(isinstance(part, BaseException) for part in self._parts) or any(
            ref.done() and (ref.cancelled() or ref.exception() is not None)
            for ref in self.refs
        )

    def outcomes(self) -> list[Any]:
        """Returns the result of each item, with ``Raised`` for errors.

        Items after an error that ended their chunk have none.
        """
        if self._outcomes is None:
            self._outcomes = self._make_outcomes()
            if self.keep is not None:
                self.keep(self._outcomes)
        return self._outcomes

    def result(self) -> Any:
        """Returns the result of its item, or raises its error."""
        (outcome,) = self.outcomes()
        if type(outcome) is Raised:
            try:
                raise outcome.error
            finally:
                del self, outcome  # they would refer to this frame
        return outcome

    def error(self) -> BaseException | None:
        """Returns the first error of its items, if one has failed."""
        if not self.has_failed:
            return None
        errors = (each.error for each in self.outcomes() if type(each) is Raised)
        return next(errors, None)

    def _make_outcomes(self) -> list[Any]:
        outcomes: list[Any] = []
        for part in self._parts:
            if isinstance(part, tuple):
                ref, size = cast("tuple[ObjectRef[Any], int]", part)
                self._add_chunk_outcomes(outcomes, ref, size)
            elif isinstance(part, list):
                outcomes.append(_together(cast("list[ObjectRef[Any]]", part)))
            elif isinstance(part, BaseException):
                outcomes.append(Raised(part))
            elif isinstance(part, _Known):
                outcomes.append(part.value)
            else:
                outcomes.append(outcome_of(cast("ObjectRef[Any]", part)))
            if not isinstance(part, tuple) and type(outcomes[-1]) is Raised:
                self._add_note(outcomes[-1].error, len(outcomes) - 1)
        return outcomes

    def _add_note(self, error: BaseException, place: int, count: int = 1) -> None:
        """Adds a note to an error that names its items of the map."""
        if self.first is None or not self.size:  # of no map, or of the iterable
            return
        first = self.first + place
        places = (
            f"calls {first} to {first + count - 1}" if count > 1 else f"call {first}"
        )
        note = f"in {places} of a map, counted from 0"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def _add_chunk_outcomes(
        self, outcomes: list[Any], ref: ObjectRef[Any], size: int
    ) -> None:
        outcome, place = outcome_of(ref), len(outcomes)
        if type(outcome) is not Raised:
            seconds, values = outcome
            self.seconds += seconds
            outcomes += values
            return
        from actorlib._wire.errors import take_chunk  # noqa: PLC0415  # few fail

        chunk = take_chunk(outcome.error)
        if chunk is None:  # it failed as a whole, as its worker has died
            self._add_note(outcome.error, place, size)
            outcomes += [outcome] * size
            return
        self.seconds += chunk.seconds
        outcomes += chunk.values
        for failed, error in chunk.failures:
            self._add_note(error, place + failed)
            outcomes[place + failed : place + failed + 1] = [Raised(error)]


def _together(refs: Iterable[ObjectRef[Any]]) -> Any:
    """Returns the values of the calls of one item, or the first error."""
    values = [outcome_of(ref) for ref in refs]
    errors = [value for value in values if type(value) is Raised]
    return errors[0] if errors else values


class MapCalls:
    """The calls whose results were not taken, in order.

    Where a loop awaits them, each ref gets one done callback: waiting for all of them
    for each result would take quadratic time. Elsewhere they are polled.

    Attributes:
        wakeup: Wakes tasks that wait for results.
        is_watched: Whether the refs have callbacks.
        seconds: The time of the last call whose results were taken; 0 before.
    """

    def __init__(
        self, wakeup: Wakeup | None = None, *, is_watchable: bool = True
    ) -> None:
        self.wakeup = wakeup or Wakeup()
        self.is_watched = False
        self.seconds = 0.0
        self._is_watchable = is_watchable
        self._window = Window()
        self._calls: dict[int, MapCall] = {}

    def __len__(self) -> int:
        return len(self._window)

    def __contains__(self, call: MapCall) -> bool:
        return call.number in self._calls

    def add(self, call: MapCall) -> None:
        """Adds a call, which may be made later."""
        call.number = self._window.add()
        self._calls[call.number] = call

    def begin(self, call: MapCall) -> None:
        if call.is_done:
            self._window.finish(call.number)
        else:
            self._window.begin(call.number, len(call.refs))
            if self.is_watched:
                self._watch(call)
        self.wakeup.notify()  # its result may be the first one

    def watch(self) -> None:
        """Adds callbacks to all refs, if they belong to the running loop."""
        if self.is_watched or not self._is_watchable:
            return
        loop = asyncio.get_running_loop()
        if all(ref.get_loop() is loop for ref in self.refs()):
            self.is_watched = True
            for call in self._calls.values():
                if not self._window.is_done(call.number):
                    self._watch(call)

    def _watch(self, call: MapCall) -> None:
        loop = asyncio.get_running_loop()
        if any(ref.get_loop() is not loop for ref in call.refs):
            self.is_watched = False  # there were no refs when it was set
            return
        # The callback does not refer to the ref, so that a dropped one is cancelled.
        done = partial(_part_done, self._window, self.wakeup, call.number)
        for ref in call.refs:
            ref.add_done_callback(done)

    def _look(self, calls: Iterable[MapCall]) -> None:
        """Marks finished calls, if the refs have no callbacks."""
        if self.is_watched:
            return
        for call in calls:
            is_marked = self._window.is_done(call.number)
            if call.refs and not is_marked and call.is_done:
                self._window.finish(call.number)

    def take(self, *, is_ordered: bool) -> MapCall | None:
        """Removes and returns the call with the next results, if it is done."""
        number = self._window.next(is_ordered=is_ordered)
        if number is None and self._calls:
            first = self.first()
            self._look([first] if is_ordered and first else self._calls.values())
            number = self._window.next(is_ordered=is_ordered)
        if number is None:
            return None
        self._window.drop(number)
        return self._calls.pop(number)

    def early_error(self) -> BaseException | None:
        """Returns the error of a call that has failed since the last check."""
        self._look(self._calls.values())
        for number in self._window.newly_done():
            error = self._calls[number].error()
            if error is not None:
                return error
        return None

    def first(self) -> MapCall | None:
        number = self._window.first()
        return None if number is None else self._calls[number]

    def drop(self, call: MapCall) -> None:
        """Removes a call; it goes on."""
        self._window.drop(call.number)
        self._calls.pop(call.number, None)

    def refs(self) -> list[ObjectRef[Any]]:
        return [ref for call in self._calls.values() for ref in call.refs]

    def pending(self) -> list[ObjectRef[Any]]:
        return [ref for ref in self.refs() if not ref.done()]

    def counts(self) -> tuple[int, int]:
        """Returns how many calls were made, and how many of them are done."""
        running = sum(not call.is_done for call in self._calls.values())
        return self._window.count, self._window.count - running

    def ready(self) -> int:
        """Returns the number of items whose results are ready."""
        return sum(
            call.size
            for number, call in self._calls.items()
            if self._window.is_done(number) or (call.refs and call.is_done)
        )

    def cancel(self) -> None:
        for ref in self.refs():
            if ref.done():
                mark_seen(ref)
            else:
                ref.cancel()


def _part_done(window: Window, wakeup: Wakeup, number: int, _: object) -> None:
    window.finish_part(number)
    wakeup.notify()
