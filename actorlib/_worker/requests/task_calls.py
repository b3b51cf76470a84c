"""Sends the calls of functions that a worker makes, and each function once before."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from actorlib._core.current_call import running
from actorlib._futures.stream_reader import StreamReader
from actorlib._options.runtime_env import merged_env, refuse_env
from actorlib._wire.arguments import Arguments, Call
from actorlib._wire.call_headers import headers_of
from actorlib._wire.function_code import pickle_function
from actorlib._wire.messages import FORCE_CANCEL, REGISTER_FUNCTION, RUN, Frame
from actorlib._wire.serialization import dump
from actorlib._worker.requests.pending import RefOwner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import CountedId
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.function_options import FunctionSpec
    from actorlib._shm.memory import Payload
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib._worker.requests.pending import PendingResults

N = TypeVar("N", "ObjectRef[Any]", StreamReader)
_Registered: TypeAlias = tuple[int, bytes]
"""The number of a function in this worker, and its description for the owner."""


class TaskCalls(RefOwner):
    """Sends calls of functions; owns their refs."""

    def __init__(
        self, engine: WorkerEngine, results: PendingResults, *, is_inline: bool
    ) -> None:
        super().__init__(engine, engine.cancel)
        self._engine = engine
        self._results = results
        self._is_inline = is_inline
        self._next_number = itertools.count(1)
        self._numbers: weakref.WeakKeyDictionary[object, int] = (
            weakref.WeakKeyDictionary()
        )
        self._registered: weakref.WeakKeyDictionary[FunctionSpec, _Registered] = (
            weakref.WeakKeyDictionary()
        )

    def force_cancel(self, call: int, *, recursive: bool = True) -> None:
        """Cancels a call, and ends the process that runs it."""
        self._engine.post((FORCE_CANCEL, call, recursive))
        self._engine.cancel(call, recursive=recursive)

    def call(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        return self._send(spec, args, kwargs, lambda: self._results.new(self))

    def stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        def new_result() -> StreamReader:
            reader = StreamReader.of(spec, self._results.loop, self._engine)
            reader.allow_force(self.force_cancel)
            self._results.add(reader)
            return reader

        return self._send(spec, args, kwargs, new_result)

    def _send(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        new_result: Callable[[], N],
    ) -> N:
        """Calls a function; ``new_result`` creates the ref or the stream."""
        parent_call = running.get()
        parent = 0 if parent_call is None else parent_call[0]
        registered: _Registered = self._registered.get(spec) or self._register(spec)
        headers = headers_of(spec, parent_call, self._engine.where)
        arguments = Arguments(self._engine, spec.name, args, kwargs)

        def frame(
            call: Call, payload: Payload, borrowed: list[CountedId] | None
        ) -> Frame:
            return (RUN, call.number, parent, *registered, headers, borrowed, payload)

        result = new_result()
        result.callee = spec.name  # not the function, which may capture handles
        call = Call(result.call, spec, arguments, headers, parent)
        self._engine.sender.send(call, frame)
        return result

    def _register(self, spec: FunctionSpec) -> _Registered:
        """Registers a function with the owner, and describes its calls.

        Raises UnsupportedOptionError if it requests what this process cannot provide.
        """
        if self._is_inline:
            refuse_env(spec.options.runtime_env)
        number = self._numbers.get(spec.source)
        if number is None:
            source, borrowed = pickle_function(self._engine, spec.name, spec.source)
            number = next(self._next_number)
            self._engine.post(
                (REGISTER_FUNCTION, number, spec.name, borrowed or None, source)
            )
            # Set afterwards, or another thread's call could overtake the registration.
            self._numbers[spec.source] = number
        options = spec.options
        options.refuse_callbacks()
        # Pickled separately: the owner may not have the modules of these classes.
        listed = dump(options.retry_exceptions)
        env = merged_env(self._engine.context.runtime_env, options.runtime_env)
        options = options.updated({"retry_exceptions": False, "runtime_env": env})
        description = dump((spec.name, options, listed, spec.is_stream))
        registered = self._registered[spec] = number, description
        return registered
