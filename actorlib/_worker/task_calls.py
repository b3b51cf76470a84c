"""Functions that the code of this worker calls: told once, and then by number."""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._core.current_call import running
from actorlib._core.object_ref import bind
from actorlib._core.runtime_env import merged_env, refuse_env
from actorlib._core.stream_reader import StreamOwner, StreamReader
from actorlib._wire.arguments import Arguments, SendingEngine
from actorlib._wire.call import Call
from actorlib._wire.call_headers import headers_of
from actorlib._wire.function_code import pickle_function
from actorlib._wire.messages import CANCEL, FORCE_CANCEL, REGISTER_FUNCTION, RUN, Frame
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._core.function_options import FunctionSpec
    from actorlib._core.object_ref import ObjectRef
    from actorlib._worker.pending import OrderedSender, PendingResults

_Face: TypeAlias = tuple[int, bytes]
"""The number of a function here, and what its calls have in common."""


class Link(SendingEngine, StreamOwner, Protocol):
    """The engine of the worker."""

    sender: OrderedSender

    def where(self, method: str) -> str:
        """Names a method of the actor that asks, for messages."""
        ...

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Cancels the call as soon as nobody holds the ref; see ResultOwner."""
        ...


class TaskCalls:
    """Calls of functions; the replier of their refs.

    Args:
        link: The engine of the worker.
        refs: What it has asked and has no answer to.
        loop: What refs take for their loop.
        check: Refuses where nothing can be called.
        is_inline: Whether it is no process of its own, and none is started.
    """

    def __init__(
        self,
        link: Link,
        refs: PendingResults,
        loop: asyncio.AbstractEventLoop,
        check: Callable[[], None],
        *,
        is_inline: bool,
    ) -> None:
        self._link = link
        self._refs = refs
        self._loop = loop
        self._check = check
        self._is_inline = is_inline
        self._numbers = itertools.count(1)
        self._taught: weakref.WeakKeyDictionary[object, int] = (
            weakref.WeakKeyDictionary()
        )
        self._faces: weakref.WeakKeyDictionary[FunctionSpec, _Face] = (
            weakref.WeakKeyDictionary()
        )
        # All but one of what a replier does is the engine's.
        self.cancel = link.cancel
        self.release_if_unused = link.release_if_unused
        self.watch = link.watch
        self.wait = link.wait
        self.name = link.name
        self.travel = link.travel

    def force_cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call, and ends the process that runs it."""
        self._link.post((FORCE_CANCEL, call, recursive))
        self._link.cancel(call, recursive=recursive)

    def call(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        face, arguments, headers = self._prepared(spec, args, kwargs)
        ref = self._refs.new()
        bind(ref, self, ref.call)
        ref.callee = spec.name  # not the function, which may capture handles
        self._send(Call(ref.call, spec, arguments, headers, _parent()), face)
        return ref

    def stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a function that yields; see Engine."""
        face, arguments, headers = self._prepared(spec, args, kwargs)
        reading = StreamReader.of(spec, self._loop, self._link)
        reading.allow_force(self.force_cancel)
        self._refs.add(reading)
        reading.callee = spec.name
        self._send(Call(reading.call, spec, arguments, headers, _parent()), face)
        return reading

    def _prepared(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> tuple[_Face, Arguments, dict[str, Any] | None]:
        """What is sent of a call, as it is when it is made.

        Raises:
            SerializationError: The function, or an argument, cannot be sent.
        """
        self._check()
        face = self._faces.get(spec) or self._registered(spec)
        headers = headers_of(spec, running.get(), self._link.where)
        return face, Arguments(self._link, spec.name, args, kwargs), headers

    def _send(self, call: Call, face: _Face) -> None:
        self._link.sender.send(call, partial(self._frame, face), Call.deferred)

    def _frame(self, face: _Face, call: Call) -> Frame | None:
        if call.number not in self._refs:  # cancelled while it waited
            return None
        encoded = self._refs.payload_of(call)
        if encoded is None:
            return (CANCEL, call.number, False)
        payload, loans = encoded
        return (RUN, call.number, call.parent, *face, call.headers, loans, payload)

    def _registered(self, spec: FunctionSpec) -> _Face:
        """Tells the owner what is about to be called.

        Raises:
            SerializationError: The function cannot be sent.
            UnsupportedOptionError: It asks for variables or a directory, and there
                are no processes.
        """
        if self._is_inline:
            refuse_env(spec.options.runtime_env)
        number = self._taught.get(spec.source)
        if number is None:
            source, loans = pickle_function(self._link, spec.name, spec.source)
            number = self._taught[spec.source] = next(self._numbers)
            self._link.post(
                (REGISTER_FUNCTION, number, spec.name, loans or None, source)
            )
        options = spec.options
        # Apart from the rest, as the owner may not have the modules they are of.
        listed = dump(options.retry_exceptions)
        env = merged_env(self._link.context.runtime_env, options.runtime_env)
        heir = options.updated({"retry_exceptions": False, "runtime_env": env})
        face = dump((spec.name, heir, listed, spec.is_stream))
        registered = self._faces[spec] = number, face
        return registered


def _parent() -> int:
    parent_call = running.get()
    return 0 if parent_call is None else parent_call[0]
