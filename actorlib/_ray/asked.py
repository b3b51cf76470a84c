"""What is known of something that was asked, until it is answered."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Hearer(Protocol):
    """Who is told what calls came to."""

    @property
    def hex(self) -> str:
        """Its id in hex."""
        ...

    @property
    def label(self) -> str:
        """The name of its class."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it is known to be ready for calls."""
        ...

    def heard_of(self, error: BaseException) -> BaseException:
        """Takes note of what an error says of it, and gives the error back."""
        ...


class Asked(NamedTuple):
    """What is known of a call of an actor that has no answer.

    Attributes:
        method: What was called.
        sent_at: When it was sent, if later calls of its actor wait for it; never, if
            that depends on its arguments.
        waits: What its arguments come from, as far as that is known here.
        ends_later: Whether one that is cancelled while it runs may clean up first.
    """

    method: str
    sent_at: float | None
    waits: tuple[object, ...]
    ends_later: bool = False

    @property
    def keeps_order(self) -> bool:
        """Whether later calls of its actor wait for it."""
        return self.sent_at is not None
