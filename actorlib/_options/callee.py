"""What a call goes to: a method of an actor, or a function.

A ``Callee`` is all of a call that is known before it is made: whom it is for, what is
called, and the headers that each call of it has. The arguments come beside it: a value
that held them too would have to be made for each call, which costs a short one 4 % of
its time in the owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from actorlib._base.labels import Label

if TYPE_CHECKING:
    from actorlib._base.ids import ActorId
    from actorlib._options.call_options import CallOptions
    from actorlib._options.function_options import FunctionSpec
    from actorlib._options.interface import Interface, Method

    Callee: TypeAlias = "BoundMethod | FunctionSpec"


@final
class BoundMethod:
    """A method of one actor.

    It is made for each method of each handle, which a frozen dataclass would take six
    times as long for. It does not hold the actor: a ref may outlive its handles.

    Args:
        actor: The actor's id.
        interface: The interface of its class.
        actor_name: Its name, or None.
        method: How the method may be called.

    Attributes:
        actor: The same.
        method: The same.
        name: The name of the method.
        headers: What is said of each call besides its arguments, or None.
        is_capped: Whether other streams of the actor wait for what is taken of one.
    """

    __slots__ = ("_of", "actor", "headers", "is_capped", "method", "name")

    def __init__(
        self,
        actor: ActorId,
        interface: Interface,
        actor_name: str | None,
        method: Method,
    ) -> None:
        self.actor = actor
        self.method = method
        self.name = method.name
        self.headers = method.headers
        self.is_capped = interface.max_unread > 0
        self._of = interface.class_name, actor_name

    @property
    def class_name(self) -> str:
        """The name of the actor's class."""
        return self._of[0]

    @property
    def actor_name(self) -> str | None:
        """The actor's name, or None."""
        return self._of[1]

    @property
    def options(self) -> CallOptions:
        """What the class says about calls of it, and then the caller."""
        return self.method.options

    @property
    def keeps_order(self) -> bool:
        """Whether a call behind one whose argument is not there waits."""
        return self.method.keeps_order

    def with_header(self, name: str, value: object) -> BoundMethod:
        """The same, with one header more in each call."""
        other = object.__new__(BoundMethod)
        other.actor, other.method, other.name = self.actor, self.method, self.name
        other.headers = {**(self.headers or {}), name: value}
        other.is_capped, other._of = self.is_capped, self._of
        return other

    def __str__(self) -> str:
        """What a call of it is called in messages."""
        return Label(*self._of).method(self.name)
