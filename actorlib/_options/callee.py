"""The callee of a call: a method of an actor, or a function.

A ``Callee`` is the part of a call that does not change from call to call: the actor,
the method or function, and the headers. The arguments are passed beside it: an object
that contained them would have to be made for each call, which costs a short call 4 % of
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

    One is made for each method of each handle; a frozen dataclass would take six times
    as long. It does not keep the actor alive: a ref may outlive the handles.

    Attributes:
        actor: The actor's id.
        method: The signature and the options of the method.
        name: The name of the method.
        headers: The headers of each call, or None.
        is_capped: Whether the actor limits the unread items of all its streams
            together.
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
        return self._of[0]

    @property
    def actor_name(self) -> str | None:
        return self._of[1]

    @property
    def options(self) -> CallOptions:
        """The options of its calls: those of the class, replaced by the caller's."""
        return self.method.options

    @property
    def keeps_order(self) -> bool:
        """Whether a call waits behind an earlier one that waits for an argument."""
        return self.method.keeps_order

    def with_header(self, name: str, value: object) -> BoundMethod:
        """Returns the same with another header in each call."""
        other = object.__new__(BoundMethod)
        other.actor, other.method, other.name = self.actor, self.method, self.name
        other.headers = {**(self.headers or {}), name: value}
        other.is_capped, other._of = self.is_capped, self._of
        return other

    def __str__(self) -> str:
        return Label(*self._of).method(self.name)
