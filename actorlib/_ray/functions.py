"""Remote functions, as Ray's tasks."""

from __future__ import annotations

import itertools
import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from actorlib._calling import deadline_of, running
from actorlib._ray import client
from actorlib._ray.crossing import (
    Again,
    House,
    Sent,
    answered,
    enter,
    raised,
    received,
)
from actorlib._ray.library import inside, ray
from actorlib._ray.options import function_options
from actorlib._ray.sealed import Sealed, Sources, opened
from actorlib._ray.sending import on_its_way, packed, said, unsendable
from actorlib._ray.stream import Stream
from actorlib._ray.tasks import Failed, Force, Task
from actorlib.exceptions import TaskUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from actorlib._calling import Deadline
    from actorlib._function_options import FunctionSpec
    from actorlib._ray.home import Home
    from actorlib._ray.nodes import Nodes
    from actorlib._ref import ObjectRef

_numbers = itertools.count(1)


class Functions:
    """The functions that this process calls.

    Args:
        home: Where its refs are filled.
        house: Gives what holds for the whole runtime.
        nodes: What the machines have.
    """

    def __init__(self, home: Home, house: Callable[[], House], nodes: Nodes) -> None:
        self._home = home
        self._house = house
        self._nodes = nodes
        self._sources = Sources()
        self._runs: weakref.WeakKeyDictionary[FunctionSpec, Any] = (
            weakref.WeakKeyDictionary()
        )

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        error = self._unschedulable(spec)
        if error is not None:
            return Task(self._home, None, spec.label).filled(Failed(error))
        called, deadline = self._called(spec, args, kwargs)
        task = Force(self._home, called, spec.label)
        ref = task.ref()
        if deadline is not None:
            task.is_due(deadline)
        return ref

    def run_stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Stream:
        """Calls a function that yields; see Engine.

        Raises:
            TaskUnschedulableError: It can run nowhere.
            UnsupportedOptionError: This process is a client.
        """
        error = self._unschedulable(spec)
        if error is not None:
            raise error
        if self._home.is_far:
            raise client.refuse_stream(spec.label)
        generator, deadline = self._called(spec, args, kwargs)
        is_detached = bool(spec.options.detach)
        stream = Stream(
            self._home, generator, spec.label, None, is_detached=is_detached
        )
        if deadline is not None:
            stream.is_due(deadline)
        return stream

    def _unschedulable(self, spec: FunctionSpec) -> TaskUnschedulableError | None:
        """Why a function can run nowhere, if that is so."""
        if self._house().waits:
            return None
        why = self._nodes.fault(spec.label, spec.options.worker)
        return None if why is None else TaskUnschedulableError(str(why))

    def _called(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> tuple[Any, Deadline | None]:
        """What Ray gives for a call, and when its time is over."""
        label = spec.label
        told = said(spec, label)
        sent, given = packed(label, args, kwargs, told, spec.options.retried)
        call = self._runs.get(spec)
        if call is None:
            call = self._runs[spec] = _made(spec, label)
        source = self._sources.sealed(f"the function {label}", spec.source)
        try:
            begin = self._home.arrivals.function
            going = on_its_way(sent, is_far=self._home.is_far)
            called = call.remote(begin, self._house(), source, going, *given)
        except Exception as error:
            raise unsendable(label, sent, error) from error
        return called, deadline_of(told)


def _made(spec: FunctionSpec, label: str) -> Any:
    """What Ray calls for a function."""
    options = spec.options
    decorate: Any = ray.remote
    if options.max_calls is not None:
        decorate = ray.remote(max_calls=options.max_calls)
    keywords = function_options(label, options, is_stream=spec.is_stream)
    worker = options.worker
    if worker.group is not None:
        keywords["scheduling_strategy"] = inside(
            worker.group.id,
            worker.placement_group_bundle_index,
            captures=bool(worker.placement_group_capture_child_tasks),
        )
    made = decorate(yield_function if spec.is_stream else run_function)
    return made.options(name=label, retry_exceptions=[Again], **keywords)


def run_function(
    begin: Callable[[House], None],
    house: House,
    source: Sealed,
    sent: Sent | Sealed,
    *values: Any,
) -> Any:
    """Calls the user's function in a worker of Ray's.

    Args:
        begin: Makes the process one of the runtime's.
        house: What holds for the whole runtime.
        source: The function.
        sent: Its arguments.
        *values: The values of the refs among them.
    """
    begin(house)
    asked, args, kwargs = received(sent, values)
    with _entered(source, asked) as function:
        return answered(asked, function(*args, **kwargs))


def yield_function(
    begin: Callable[[House], None],
    house: House,
    source: Sealed,
    sent: Sent,
    *values: Any,
) -> Iterator[Any]:
    """The same for a function that yields; see ``run_function``."""
    begin(house)
    asked, args, kwargs = received(sent, values)
    with _entered(source, asked) as function:
        yield from function(*args, **kwargs)


@contextmanager
def _entered(source: Sealed, sent: Sent) -> Generator[Callable[..., Any]]:
    """The user's function, where it is being called."""
    before = running.get()
    try:
        enter(next(_numbers), sent, sent.name)
        found = opened(source)
        yield getattr(found, "__wrapped__", found)
    except Exception as error:  # noqa: BLE001  # the user's code
        where = f"{sent.name} (pid {os.getpid()})"
        raise raised(error, where, sent.retried) from None
    finally:
        running.set(before)
