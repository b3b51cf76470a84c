"""What links need of the worker that they end in: who reads them, and its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.frames import Frame
    from actorlib._worker.loans import LoanBook
    from actorlib._worker.outbox import Outbox


class Source(Protocol):
    """A link that is read."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...

    def read(self) -> list[Frame]:
        """What has come, as frames of a pipe; does not wait."""
        ...


class Host(Protocol):
    """Whoever reads what comes to this worker."""

    def watch(self, source: Source) -> None:
        """Reads a link from now on."""
        ...

    def unwatch(self, source: Source) -> None:
        """Reads it no more."""
        ...

    def soon(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; False if there is no loop.

        What is sent until then may leave together.
        """
        ...


class Engine(Protocol):
    """That of a worker."""

    loans: LoanBook
    outbox: Outbox

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def return_loans_soon(self) -> None:
        """Gives back what can be given back."""
        ...
