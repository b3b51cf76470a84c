"""Holds a call that waits for its arguments, or behind one that does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._wire.messages import CALL_DEFERRED, Frame

if TYPE_CHECKING:
    from actorlib._options.callee import Callee
    from actorlib._wire.arguments import Arguments


@final
class Call:
    """Holds a call as it was when it was made, until it can be sent.

    It holds neither the ref of its answer, which may be abandoned meanwhile, nor the
    arguments as they were given. A plain call of the owner never is one: it goes out
    as it is made.

    Attributes:
        number: Its number where it is sent from.
        callee: The method or function that is called.
        arguments: Its arguments.
        headers: Its headers; see ``call_headers``.
        parent: The number of the call that makes it; 0 outside of calls.
    """

    __slots__ = ("arguments", "callee", "headers", "number", "parent")

    def __init__(
        self,
        number: int,
        callee: Callee,
        arguments: Arguments,
        headers: dict[str, Any] | None,
        parent: int = 0,
    ) -> None:
        self.number = number
        self.callee = callee
        self.arguments = arguments
        self.headers = headers
        self.parent = parent

    def deferred(self) -> Frame:
        """Makes the frame that announces a worker's call while that waits."""
        deadline = self.headers and self.headers.get("deadline")
        callee = self.callee
        return (
            CALL_DEFERRED,
            self.number,
            self.parent,
            callee.actor,
            deadline,
            callee.name,
        )
