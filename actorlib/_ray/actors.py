"""The actors that one process can call."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._base.ids import ActorId
from actorlib._ray.client_mode import with_methods
from actorlib._ray.errors import without_restart
from actorlib._ray.host import ActorHost, AsyncActorHost
from actorlib._ray.messages import RetriedErrors, RetryableFailure
from actorlib._ray.options import call_options
from actorlib._ray.pickled import check_pickled_by_ray
from actorlib._ray.ray_api import id_of
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.interface import Method
    from actorlib._ray.process import EntryPoints


class ActorTraits(NamedTuple):
    """The options of an actor that its callers need.

    Attributes:
        label: The name of its class.
        is_async: Whether the class has ``async def`` methods.
        restarts: How often it is restarted.
        retried: The exceptions after which a call is sent again.
    """

    label: str
    is_async: bool
    restarts: int = 0
    retried: RetriedErrors = False


class Actor:
    """The state of one actor, as far as this process knows it.

    Attributes:
        handle: Ray's handle; None for one that was never created.
        key: Its id.
        traits: The options that callers need.
        creation_error: Why it was never created.
        readiness: Done when it is ready for calls; None before the first query.
        incarnation: Its process at the last query.
        died: How it ended, if known.
        is_own: Whether this process has created it, and it ends with this process.
        requested: The requested resources, if this process has created it.
    """

    def __init__(
        self,
        handle: Any,
        key: bytes,
        traits: ActorTraits,
        creation_error: Exception | None = None,
    ) -> None:
        self.handle = handle
        self.key = key
        self.traits = traits
        self.creation_error = creation_error
        self.readiness: ObjectRef[Any] | None = None
        self.incarnation = ""
        self.died: ActorDiedError | None = None
        self.is_own = False
        self.requested = ""
        self._calls: dict[str, tuple[Method, Any]] = {}

    @property
    def hex(self) -> str:
        return self.key.hex()

    @property
    def label(self) -> str:
        return self.traits.label

    @property
    def is_ready(self) -> bool:
        """Whether it is ready for calls, as far as known."""
        return self.readiness is None or self.readiness.done()

    def call_of(self, method: Method) -> Any:
        """Returns Ray's method with its options; cached, as few calls have their own.

        Raises:
            UnsupportedOptionError: Ray does not support an option of the call.
        """
        cached = self._calls.get(method.name)
        if cached is not None and cached[0] is method:
            return cached[1]
        options = call_options(self.label, method, is_async=self.traits.is_async)
        options["retry_exceptions"] = [RetryableFailure]
        host = self.handle.stream if method.is_stream else self.handle.call
        call = host.options(**options)
        self._calls[method.name] = method, call
        return call

    def note_end(self, error: BaseException, where: str) -> BaseException:
        """Records the end of the actor from the error of a call; returns the error."""
        if not self.traits.restarts:
            error = without_restart(error, where)
        if isinstance(error, ActorUnavailableError):
            self.readiness = None
        elif isinstance(error, ActorDiedError) and self.died is None:
            self.died = error
        return error


class ActorKey(bytes):
    """The id of an actor; it holds Ray's handle, so that Ray counts it."""

    actor: Actor
    entry_points: EntryPoints

    def __reduce__(self) -> tuple[object, ...]:
        if self.actor.creation_error is not None:
            raise self.actor.creation_error
        check_pickled_by_ray("a handle")
        return self.entry_points.actor, (self.actor.handle, self.actor.traits)


def key_of(actor: Actor, entry_points: EntryPoints) -> ActorId:
    key = ActorKey(actor.key)
    key.actor = actor
    key.entry_points = entry_points
    return ActorId(key)


class KnownActors:
    """Keeps one ``Actor`` for each actor with a handle in this process.

    The handles of a Ray client lack methods, which are added.
    """

    def __init__(self, *, is_client: bool = False) -> None:
        self._is_client = is_client
        self._actors: weakref.WeakValueDictionary[bytes, Actor] = (
            weakref.WeakValueDictionary()
        )

    def of(self, handle: Any, traits: ActorTraits) -> Actor:
        """Returns the actor of a Ray handle."""
        key = id_of(handle)
        actor = self._actors.get(key)
        if actor is None:
            if self._is_client:
                handle = with_methods(
                    handle, AsyncActorHost if traits.is_async else ActorHost
                )
            actor = self._actors[key] = Actor(handle, key, traits)
        return actor

    def __iter__(self) -> Iterator[Actor]:
        return iter(list(self._actors.values()))
