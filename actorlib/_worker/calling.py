"""Functions that the code of this worker calls: told once, and then by number."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._arguments import Arguments
from actorlib._calling import running
from actorlib._code import pickled
from actorlib._engine import ActorId
from actorlib._runtime_env import inherited
from actorlib._values import Sharing
from actorlib._wire.frames import CANCEL, FORCE, HELD, RUN, TEACH, Frame
from actorlib._wire.payload import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._engine import LoanId
    from actorlib._function_options import FunctionSpec
    from actorlib._ref import ObjectRef
    from actorlib._worker.outbox import Outbox
    from actorlib._worker.refs import Refs

_NOBODY = ActorId(b"")
"""Whom a call of a function is about, where others name an actor."""


class Link(Sharing, Protocol):
    """The engine of the worker."""

    outbox: Outbox

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call; see Replier."""
        ...

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref; see Replier."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""
        ...

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until the ref is done; see Replier."""
        ...

    def name(self) -> bytes:
        """An id for what a ref stands for; see Replier."""
        ...

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled; see Replier."""
        ...


class Calling:
    """Calls of functions; the replier of their refs.

    Args:
        link: The engine of the worker.
        refs: What it has asked and has no answer to.
        is_inline: Whether it is no process of its own, and none is started.
    """

    def __init__(self, link: Link, refs: Refs, *, is_inline: bool) -> None:
        self._link = link
        self._refs = refs
        self._is_inline = is_inline
        self._numbers = itertools.count(1)
        self._taught: weakref.WeakKeyDictionary[object, int] = (
            weakref.WeakKeyDictionary()
        )
        self._faces: weakref.WeakKeyDictionary[FunctionSpec, tuple[int, bytes]] = (
            weakref.WeakKeyDictionary()
        )
        # All but one of what a replier does is the engine's.
        self.cancel = link.cancel
        self.loosen = link.loosen
        self.watch = link.watch
        self.wait = link.wait
        self.name = link.name
        self.travel = link.travel

    def force(self, call: int) -> None:
        """Stops a call, and ends the process that runs it."""
        self._link.post((FORCE, call))
        self._link.cancel(call)

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        if self._is_inline:
            spec.refuse_inline()
        link, refs = self._link, self._refs
        number, face = self._faces.get(spec) or self._told(spec)
        arguments = Arguments(link, spec.label, args, kwargs)
        ref = refs.new()
        call = ref.call
        ref.bind(self, call)
        asking = running.get()
        asker = 0 if asking is None else asking[0]

        def frame() -> Frame | None:
            if call not in refs:  # cancelled while it waited
                return None
            loans: list[LoanId] | None
            try:
                payload, loans = arguments.payload()
            except Exception as error:  # noqa: BLE001  # it is the answer
                refs.fail(call, error)
                return (CANCEL, call, False)
            return (RUN, call, asker, number, face, loans, payload)

        def held() -> Frame:
            return (HELD, call, asker, _NOBODY, None, spec.label)

        link.outbox.post(_NOBODY, frame, arguments, passes=True, held=held)
        return ref

    def _told(self, spec: FunctionSpec) -> tuple[int, bytes]:
        """Tells the owner what is about to be called.

        Raises:
            SerializationError: The function cannot be sent.
        """
        number = self._taught.get(spec.source)
        if number is None:
            source, loans = pickled(self._link, spec.label, spec.source)
            number = self._taught[spec.source] = next(self._numbers)
            self._link.post((TEACH, number, spec.label, loans or None, source))
        options = spec.options
        # Apart from the rest, as the owner may not have the modules they are of.
        listed = dump(options.retry_exceptions)
        env = inherited(self._link.context.runtime_env, options.runtime_env)
        heir = options.updated({"retry_exceptions": False, "runtime_env": env})
        told = self._faces[spec] = number, dump((spec.label, heir, listed))
        return told
