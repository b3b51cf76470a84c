"""Holds shares of devices back until the driver has freed their memory.

The kernel reports the end of a process before the driver has freed its memory. An actor
that got the share at that moment would run out of memory on an empty card. So when a
worker has ended and its callers know, its lease is still in the ledger: it drains.
``gpu_watch`` polls NVML for all drains together until it lists no process of the worker
any longer (``Occupants.holders``). After a time limit the share is given to others
anyway, and a warning names the processes that remain.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, final

from actorlib._base.log import tell
from actorlib._base.notifier import Notifier
from actorlib._options.kinds import UNITS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from actorlib._enforcement.gpu_processes import Holder, Occupant, Occupants
    from actorlib.accelerators.base import Lease

_log = logging.getLogger("actorlib")
LIMIT = 10.0
"""Seconds after which a share is released although processes remain."""
_FIRST_PAUSE, _LAST_PAUSE = 0.01, 0.25


@final
class Drain:
    """A share of an ended worker, held back until the driver has freed its memory.

    Attributes:
        began: When the worker ended, in seconds of the loop's clock.
        question: The number of questions before the drain: their answers do not count.
        remaining: The processes that remained at the last look.
        lease: The lease that is held back, once its holder has released it; else None.
        is_over: Whether others may get the share.
    """

    def __init__(
        self,
        key: object,
        occupant: Occupant,
        question: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.key = key
        self.question = question
        self.occupant = occupant
        self.began = loop.time()
        self.remaining: tuple[Holder, ...] = ()
        self.is_over = False
        self.limit: asyncio.TimerHandle | None = None
        self._ended = Notifier(loop)
        self.lease: Lease | None = None
        self._release: Callable[[Lease], object] | None = None

    def __str__(self) -> str:
        """Describes it: ``GPU 0: 0.5 drains: pid 812 still holds 3.1 GiB ...``."""
        shares = ", ".join(
            f"{share.device.kind} {share.device.id}: {share.units / UNITS:g}"
            for share in self.occupant.lease.shares
        )
        return f"{shares} drains: {self._still}"

    @property
    def holder(self) -> str:
        """The holder of the share in messages, while it is held back."""
        return f"{self.occupant.title}, whose share drains: {self._still}"

    @property
    def _still(self) -> str:
        return describe(self.remaining) if self.remaining else "the driver is asked"

    def ended(self) -> asyncio.Future[None]:
        """Returns a future of the end; not to be called after it."""
        return self._ended.wait()

    def hold(self, lease: Lease, release: Callable[[Lease], object]) -> None:
        """Holds back a lease that its holder releases now.

        ``release`` releases the lease: when this drain is over, or now if it is.
        """
        if self.is_over:
            release(lease)
        else:
            self.lease, self._release = lease, release

    def finish(self) -> None:
        """Releases the lease: others may get the share."""
        self.is_over = True
        if self.limit is not None:
            self.limit.cancel()
        lease, release = self.lease, self._release
        self.lease = self._release = None
        if lease is not None and release is not None:
            try:
                release(lease)
            except Exception:  # noqa: BLE001  # around a step of an end
                _log.exception("a share could not be released: a bug in actorlib")
        self._ended.notify()


@final
class Drains:
    """All drains of a runtime.

    Workers whose share has drained are removed from ``occupants``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, occupants: Occupants) -> None:
        self._loop = loop
        self._occupants = occupants
        self._draining: dict[Drain, None] = {}

    def __iter__(self) -> Iterator[Drain]:
        return iter(self._draining)

    def of(self, key: object) -> Drain | None:
        """Returns the drain of an ended worker, or None."""
        return next((drain for drain in self._draining if drain.key is key), None)

    def devices(self) -> set[str]:
        return {device for drain in self for device in drain.occupant.devices}

    def begin(self, key: object, occupant: Occupant, question: int) -> None:
        """Begins to drain the share of a worker that has ended.

        ``question`` is the number of the last question to NVML.
        """
        occupant.has_ended = True
        drain = Drain(key, occupant, question, self._loop)
        self._draining[drain] = None
        drain.limit = self._loop.call_at(
            drain.began + LIMIT, partial(self._give_up, drain)
        )

    def read(self, question: int) -> None:
        """Reads the table, and ends the drains without remaining processes.

        ``question`` is the number of the question whose answer is in the table.
        """
        for drain in list(self._draining):
            if question <= drain.question:
                continue
            drain.remaining = self._occupants.holders(drain.occupant, drain.began)
            if not drain.remaining:
                self._finish(drain)

    def pause(self, question: int) -> float | None:
        """Returns the seconds until the next question; None if there is no drain.

        ``question`` is the number of the last question with an answer.
        """
        if not self._draining:
            return None
        if any(drain.question >= question for drain in self):
            return 0.0  # its worker ended after that question was sent
        return pause(self._loop.time() - max(drain.began for drain in self))

    def close(self) -> None:
        """Ends all drains at once: the runtime ends, or NVML has failed."""
        for drain in list(self._draining):
            self._finish(drain)

    def _give_up(self, drain: Drain) -> None:
        tell(
            logging.WARNING,
            "the share of %s is given to others %g s after its end, although %s. "
            "The next actor on it may run out of memory",
            drain.occupant.title,
            LIMIT,
            describe(drain.remaining),
        )
        self._finish(drain)

    def _finish(self, drain: Drain) -> None:
        self._draining.pop(drain, None)
        self._occupants.leave(drain.key)
        drain.finish()


def pause(elapsed: float) -> float:
    """Returns the seconds until the next look."""
    return min(max(elapsed / 2, _FIRST_PAUSE), _LAST_PAUSE)


def describe(remaining: Sequence[Holder]) -> str:
    return ", ".join(map(str, remaining)) or "NVML has not listed what remains"
