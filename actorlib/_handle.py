"""Handles: names become calls.

A handle knows the interface of its class, so a misspelt method or a missing argument
fails here, in the line that wrote it. It also keeps its actor alive: when the last
handle is gone, in whatever process, and what the actor was sent is done, it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._actor_method import method_of
from actorlib._engine import Hold, current_engine, travels
from actorlib._ids import ActorId
from actorlib._interface import BUILT_IN
from actorlib._spelling import closest

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from actorlib._actor_method import ActorMethod
    from actorlib._interface import Interface

T = TypeVar("T")


class ActorHandle(Generic[T]):
    """A handle of an actor: call its methods with ``handle.method.remote(...)``.

    ``await handle`` waits until the actor is ready and gives the handle back;
    ``async with A.remote() as handle:`` ends the actor at the end of the block. Handles
    may be passed to other actors and returned by them. They are equal if they are of
    the same actor.
    """

    __slots__ = ("__dict__", "__hold", "__weakref__")

    __hold: Hold

    def __init__(self, hold: Hold) -> None:
        object.__setattr__(self, "_ActorHandle__hold", hold)

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __setattr__(self, name: str, value: object) -> None:
            """Refuses: what is set here would never get to the actor."""
            raise _no_attribute(self, name)

        def __delattr__(self, name: str) -> None:
            """Refuses likewise."""
            raise _no_attribute(self, name)

    def __getattr__(self, name: str) -> ActorMethod[..., Any]:
        hold = self.__hold
        method = BUILT_IN.get(name) or hold.interface.methods.get(name)
        if method is None:
            raise _no_such_method(hold.interface, name)
        # The method refers to the hold, not to the handle, so keeping it here makes
        # no cycle, and the next look-up does not come this way.
        made = method_of(hold, method)
        self.__dict__[name] = made
        return made

    def __await__(self) -> Generator[Any, None, ActorHandle[T]]:
        """Waits until the actor is ready for calls.

        Raises:
            ActorDiedError: Its constructor raised (that is the ``__cause__``), or its
                process ended before it was ready.
            ActorUnschedulableError: It asks for what this machine can never give.
        """
        hold = self.__hold
        yield from hold.engine.ready(hold.actor_id).__await__()
        return self

    async def __aenter__(self) -> ActorHandle[T]:
        """Waits until the actor is ready; on the way out it is ended."""
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the actor behind what it was sent, or at once after an exception."""
        hold = self.__hold
        if kind is None:
            await hold.engine.end(hold.actor_id)
        else:
            await hold.engine.kill(hold.actor_id)

    def __dir__(self) -> list[str]:
        return sorted({*BUILT_IN, *self.__hold.interface.methods})

    def __repr__(self) -> str:
        hold = self.__hold
        return f"Actor({hold.label}, {hold.actor_id.hex()})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        return hold_of(self) is hold_of(cast("ActorHandle[Any]", other)) or (
            hold_of(self).actor_id == hold_of(cast("ActorHandle[Any]", other)).actor_id
        )

    def __hash__(self) -> int:
        return hash(self.__hold.actor_id)

    def __reduce__(self) -> tuple[object, ...]:
        hold = self.__hold
        travels(hold.engine, hold.actor_id)
        if hold.name is None:
            return _loaded_handle, (hold.actor_id, hold.interface)
        return _loaded_handle, (hold.actor_id, hold.interface, hold.name)

    def __copy__(self) -> ActorHandle[T]:
        return self

    def __deepcopy__(self, _: object) -> ActorHandle[T]:
        return self


def hold_of(handle: ActorHandle[Any]) -> Hold:
    """The hold inside a handle, out of reach of the actor's own method names."""
    return cast("Hold", object.__getattribute__(handle, "_ActorHandle__hold"))


def own_handle() -> ActorHandle[Any]:
    """A handle of the actor whose code this is."""
    engine = current_engine()
    actor_id = ActorId(bytes.fromhex(engine.context.actor_id or ""))
    name = engine.context.actor_name
    return ActorHandle(Hold(engine, actor_id, engine.interface(), name))


def _loaded_handle(
    actor_id: ActorId, interface: Interface, name: str | None = None
) -> ActorHandle[Any]:
    return ActorHandle(Hold(current_engine(), actor_id, interface, name))


def _no_attribute(handle: ActorHandle[Any], name: str) -> AttributeError:
    label = hold_of(handle).interface.class_name
    message = (
        f"{name!r} cannot be set on a handle: the attributes of {label} are in the "
        f"actor's process. Give {label} a method that sets it, and call that with "
        ".remote()"
    )
    return AttributeError(message, name=name)


def _no_such_method(interface: Interface, name: str) -> AttributeError:
    close = closest(name, interface.methods)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    message = f"actor class {interface.class_name} has no method {name!r}{hint}"
    return AttributeError(message, name=name)
