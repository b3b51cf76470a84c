"""Calls of actors on their way out."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._calling import deadline_of
from actorlib._ray import client
from actorlib._ray.asked import Asked
from actorlib._ray.sending import on_its_way, packed, said, unsendable
from actorlib._ray.stream import Stream
from actorlib._ray.tasks import Failed, Task, tasks_among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._calling import Deadline
    from actorlib._interface import Method
    from actorlib._ray.actors import Actor
    from actorlib._ray.crossing import Retried
    from actorlib._ray.home import Home
    from actorlib._ref import ObjectRef


class Going(NamedTuple):
    """A call that Ray has.

    Attributes:
        result: What Ray gave for it: a ref, or a generator.
        where: What was called, for messages.
        asked: What is known of it until it is answered.
        deadline: When its time is over.
    """

    result: Any
    where: str
    asked: Asked
    deadline: Deadline | None


class Calls:
    """The calls of actors that one process makes.

    Args:
        home: Where their refs are filled.
    """

    def __init__(self, home: Home) -> None:
        self._home = home

    def call(
        self,
        actor: Actor,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        label: str,
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine.

        Args:
            actor: The actor.
            method: What is called.
            args: The positional arguments.
            kwargs: The keyword arguments.
            label: The class of the actor whose code calls, if it is one's.
        """
        going = self._sent(actor, method, args, kwargs, label)
        if going is None:
            failed = Failed(cast("Exception", actor.why))
            return Task(self._home, None, actor.label, actor).filled(failed)
        task = Task(self._home, going.result, going.where, actor, None, going.asked)
        ref = task.ref()
        if going.deadline is not None:
            task.is_due(going.deadline)
        return ref

    def stream(
        self,
        actor: Actor,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        label: str,
    ) -> Stream:
        """Sends a call of a generator; see ``call``.

        Raises:
            UnsupportedOptionError: This process is a client.
        """
        if self._home.is_far:
            raise client.refuse_stream(f"{actor.label}.{method.name}")
        going = self._sent(actor, method, args, kwargs, label)
        if going is None:
            raise cast("Exception", actor.why)
        stream = Stream(
            self._home,
            going.result,
            going.where,
            actor,
            going.asked,
            is_detached=bool(method.options.detach),
        )
        if going.deadline is not None:
            stream.is_due(going.deadline)
        return stream

    def _sent(
        self,
        actor: Actor,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        label: str,
    ) -> Going | None:
        """None for an actor that was never made."""
        where = f"{actor.label}.{method.name}"
        told = said(method, label)
        listed = method.options.retry_exceptions
        retried = cast("Retried", actor.traits.retried if listed is None else listed)
        sent, given = packed(method.name, args, kwargs, told, retried)
        if actor.why is not None:
            return None
        call = actor.call_of(method)
        sent_at = None
        if method.keeps_order:
            sent_at = math.inf if given else time.monotonic()
        try:
            result = call.remote(on_its_way(sent, is_far=self._home.is_far), *given)
        except Exception as error:
            raise unsendable(where, sent, error) from error
        waits = tuple(tasks_among((*args, *kwargs.values()))) if given else ()
        ends_later = method.is_async and not method.is_stream
        asked = Asked(method.name, sent_at, waits, ends_later)
        return Going(result, where, asked, deadline_of(told))
