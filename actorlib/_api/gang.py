"""Calls a function once in each bundle of a placement group: ``group.map``.

Each rank is an actor that is made for this call, and not a worker of functions that may
have run other code before: the state of a process group, of a device and of an error
ends with the process, and a call inside a collective can only be stopped with its
process.
"""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.decorators import remote, use_engine
from actorlib._api.gang_calls import (
    explanation,
    first_cause,
    first_line,
    is_death,
    is_retried,
    rows_of,
)
from actorlib._api.remote_function import RemoteFunction, gang_call
from actorlib._api.results import Raised, Results, outcome_of
from actorlib._api.waiting import Steps, WaitRequest
from actorlib._base.log import warn
from actorlib._base.validation import given_options, wrong_type
from actorlib._options.group_spec import check_fit
from actorlib.exceptions import (
    ActorHandleNotFoundError,
    GetTimeoutError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._api.decorators import ActorClass
    from actorlib._api.progress import Progress
    from actorlib._core.engine import HandlePin
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.group_spec import GroupSpec

R = TypeVar("R")
T = TypeVar("T")

_ECHO = 1.0
"""Seconds to wait for the cause of the first error.

A rank whose neighbour has died may raise (its connection was closed) before the owner
knows of the death.
"""


@remote
class GangMember:
    """Runs one rank's call in a separate process."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __repr__(self) -> str:
        return self._label

    def run(self, function: RemoteFunction[..., Any], *args: Any) -> object:
        """Calls the function. As arguments of a call, refs arrive as values."""
        return function.__wrapped__(*args)


@final
class Gang(Generic[R]):
    """One call of a function on each rank, with retries."""

    def __init__(
        self,
        spec: GroupSpec,
        function: RemoteFunction[..., R],
        rows: Sequence[Sequence[Any]],
        *,
        returns_errors: bool = False,
    ) -> None:
        self._returns_errors = returns_errors
        method, options, self._engine = gang_call(function)
        self._label = options.name or method.name
        self._spec = spec
        self._function = function
        self._options = options
        self._rows = rows
        self._tries_left = options.max_retries
        self._members: list[ActorHandle[Any]] = []
        self._refs: list[ObjectRef[R]] = []
        for rank, row in enumerate(rows):
            method.check(len(row), {})
            check_fit(self._label, options.request, spec, rank)
        self._start()

    def _start(self) -> None:
        timeout = self._options.timeout
        # Other gangs may run on the same bundles at the same time.
        gang = os.urandom(8).hex() if self._options.torch else None
        try:
            for rank, row in enumerate(self._rows):
                member = self._member(rank, gang)
                self._members.append(member)
                run = member.run.options(timeout=timeout)
                self._refs.append(run.remote(self._function, *row))
        except BaseException:
            self.end()
            raise

    def _member(self, rank: int, gang: str | None) -> ActorHandle[Any]:
        options = given_options(self._options.worker)
        options |= {
            "placement_group": self._spec,
            "placement_group_bundle_index": rank,
            "torch": gang or False,
        }
        del options["near"], options["apart_from"]  # functions do not have them
        member_class = cast("ActorClass[..., Any]", GangMember).options(**options)
        use_engine(member_class, self._engine)
        return member_class.remote(f"{self._label}, rank {rank} of {len(self._rows)}")

    def count_done(self) -> int:
        return sum(ref.done() for ref in self._refs)  # no refs once it is over

    def end(self) -> None:
        """Kills all ranks, as a call inside a collective cannot be interrupted."""
        for rank in self._release():
            _kill(*rank)

    def _release(self) -> list[tuple[HandlePin, ObjectRef[R] | None]]:
        """Drops all ranks; returns the actor of each, and its call if it has one."""
        members, self._members = map(pin_of, self._members), []
        refs, self._refs = self._refs, []
        # The last one has no call if that could not be sent.
        return list(zip(members, [*refs, None], strict=False))

    def steps(self) -> Steps[list[Any]]:
        """Waits for all results, or for a failure that is final."""
        try:
            while failures := (yield from self._until_over()):
                first, size = first_cause(failures), len(self._rows)
                error = failures[first]
                if not self._tries_left or not is_retried(error, self._options):
                    error.add_note(explanation(self._spec.label, size, failures))
                    if self._returns_errors:
                        return self._outcomes(failures)
                    try:
                        raise error
                    finally:
                        # Or else it would refer to itself and to the arguments.
                        del error, failures
                        self._rows = ()
                self._tries_left -= 1
                warn(
                    "%s is called again on all %d ranks, as rank %d failed: %s",
                    self._label,
                    size,
                    first,
                    first_line(error),
                )
                self.end()
                self._start()
        except GeneratorExit:
            for pin, ref in self._release():  # the wait was dropped, on any thread
                pin.engine.later(partial(_kill, pin, ref))
            raise
        except BaseException:
            self.end()
            raise
        results = [ref.result() for ref in self._refs]
        self._release()  # they end without a signal, as their handles are gone
        return results

    def _outcomes(self, failures: Mapping[int, BaseException]) -> list[Any]:
        """Returns the result or the error of each rank, and ends running ones."""
        first = first_cause(failures)
        outcomes: list[Any] = []
        for rank, ref in enumerate(self._refs):
            if rank in failures:
                outcomes.append(failures[rank])
            elif ref.done():
                outcomes.append(ref.result())
            else:
                reason = f"rank {rank} was ended, as rank {first} failed"
                outcomes.append(TaskCancelledError(reason))
        self.end()
        return outcomes

    def _until_over(self) -> Steps[dict[int, BaseException]]:
        """Waits for all results, or until the first failure is known."""
        refs, failures = self._refs, dict[int, BaseException]()
        while pending := [ref for ref in refs if not ref.done()]:
            _note_failures(refs, failures)
            if any(map(is_death, failures.values())):
                break
            if failures:
                yield WaitRequest(pending, len(pending), _ECHO)
                break
            yield WaitRequest(pending)
        _note_failures(refs, failures)
        return failures


@final
class GangResults(Results[R]):
    """The results of a gang by rank, all together; see Results.

    A cancelled wait ends the gang, unlike other waits, which may be awaited again: the
    ranks are inside a collective and would hold their devices without a use.
    """

    def __init__(self, gang: Gang[R], progress: Progress | None) -> None:
        super().__init__(progress)
        if progress is not None:
            progress.ready = gang.count_done
        self._is_complete = False
        self._gang = gang
        self._steps = gang.steps()

    def cancel(self) -> None:
        self._steps.close()
        self._gang.end()

    async def aclose(self) -> None:
        self.cancel()

    def get(self, timeout: float | None = None) -> list[R]:
        try:
            return super().get(timeout)
        except GetTimeoutError:
            raise
        except BaseException:
            self._steps.close()
            raise

    def _leave(self) -> None:
        self._steps.close()

    def _fill(self) -> Steps[bool]:
        if not self._is_complete:
            if inspect.getgeneratorstate(self._steps) == inspect.GEN_CLOSED:
                raise TaskCancelledError("the gang was ended: its wait was cancelled")
            self._ready.extend((yield from _continuable(self._steps)))
            self._is_complete = True
        return bool(self._ready)


def _continuable(steps: Steps[T]) -> Steps[T]:
    """Runs a wait; if this generator is closed, another one may continue it."""
    while True:
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        yield request


def _kill(pin: HandlePin, ref: ObjectRef[Any] | None) -> None:
    if ref is not None:
        ref.cancel()  # or else asyncio would log its error
    with suppress(ActorHandleNotFoundError):  # the runtime has ended meanwhile
        pin.engine.kill(pin.actor_id)


def _note_failures(
    refs: Sequence[ObjectRef[Any]], failures: dict[int, BaseException]
) -> None:
    for rank, ref in enumerate(refs):
        if rank not in failures and ref.done():
            outcome = outcome_of(ref)
            if type(outcome) is Raised:
                failures[rank] = outcome.error


def start_gang(
    spec: GroupSpec,
    function: RemoteFunction[..., R],
    iterables: Sequence[Iterable[Any]],
    *,
    progress: bool | str,
    returns_errors: bool,
) -> Results[R]:
    """Calls a function once in each bundle of a group; see ``PlacementGroup.map``."""
    if not isinstance(function, RemoteFunction):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user wrote it
        raise wrong_type(
            "group.map takes a remote function, made by @actorlib.remote", function
        )
    label = str(getattr(function, "__name__", function))
    rows = rows_of(label, len(spec.amounts), iterables)
    display = None
    if progress is not False:
        from actorlib._api.progress import progress_of  # noqa: PLC0415  # few show it

        display = progress_of(progress, len(rows))
    gang = Gang(spec, function, rows, returns_errors=returns_errors)
    return GangResults(gang, display)
