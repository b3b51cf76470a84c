"""Holds shares of devices back until the driver has taken apart what was on them.

A worker has ended, its callers know, and its lease is still in the ledger: it drains.
``gpu_watch`` asks NVML again and again, for all that drain together, until nothing of
the worker is listed any more. ``draining`` decides what that is, and how long it may
take.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, final

from actorlib._base.log import warn
from actorlib._base.notifier import Notifier
from actorlib._enforcement.draining import LIMIT, Holder, holders, in_words, pause
from actorlib._options.kinds import UNITS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._enforcement.gpu_processes import Occupant, Occupants
    from actorlib.accelerators.base import Lease

_log = logging.getLogger("actorlib")


@final
class Drain:
    """A share on its way back: its worker has ended, the driver is not done with that.

    Args:
        key: What the worker is known by.
        occupant: The worker.
        question: How many questions were asked before.
        loop: The owner's loop.

    Attributes:
        key: As given.
        occupant: As given.
        began: When the worker ended, in seconds of the loop's clock.
        question: How many questions had been asked by then: their answers do not count.
        left: What was still there at the last look.
        lease: What is held back, once its holder has given it back; else None.
        is_over: Whether the share may be given to others.
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
        self.left: tuple[Holder, ...] = ()
        self.is_over = False
        self.limit: asyncio.TimerHandle | None = None
        self._ended = Notifier(loop)
        self.lease: Lease | None = None
        self._release: Callable[[Lease], object] | None = None

    def __str__(self) -> str:
        """Says what drains: ``GPU 0: 0.5 drains: pid 812 still holds 3.1 GiB ...``."""
        shares = ", ".join(
            f"{share.device.kind} {share.device.id}: {share.units / UNITS:g}"
            for share in self.occupant.lease.shares
        )
        return f"{shares} drains: {self._still}"

    @property
    def holder(self) -> str:
        """What has the share in messages, while it is held back."""
        return f"{self.occupant.title}, whose share drains: {self._still}"

    @property
    def _still(self) -> str:
        return in_words(self.left) if self.left else "the driver is asked"

    def ended(self) -> asyncio.Future[None]:
        """Returns what is done when it is over; not to be called behind that."""
        return self._ended.wait()

    def hold(self, lease: Lease, release: Callable[[Lease], object]) -> None:
        """Holds a lease back that its holder gives back now.

        Args:
            lease: The lease.
            release: Takes it back when this is over, or now if it is.
        """
        if self.is_over:
            release(lease)
        else:
            self.lease, self._release = lease, release

    def finish(self) -> None:
        """Is over: the share may be given to others."""
        self.is_over = True
        if self.limit is not None:
            self.limit.cancel()
        lease, release = self.lease, self._release
        self.lease = self._release = None
        if lease is not None and release is not None:
            try:
                release(lease)
            except Exception:  # noqa: BLE001  # around a step of an end
                _log.exception("a share could not be given back: a bug in actorlib")
        self._ended.notify()


@final
class Drains:
    """Every share of a runtime that drains.

    Args:
        loop: The owner's loop.
        occupants: The table; workers whose share has drained leave it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, occupants: Occupants) -> None:
        self._loop = loop
        self._occupants = occupants
        self._draining: dict[Drain, None] = {}

    def __iter__(self) -> Iterator[Drain]:
        return iter(self._draining)

    def of(self, key: object) -> Drain | None:
        """Finds what holds back the share of a worker that has ended, if it drains."""
        return next((drain for drain in self._draining if drain.key is key), None)

    def devices(self) -> set[str]:
        """Lists the devices of these shares, by UUID."""
        return {device for drain in self for device in drain.occupant.devices}

    def begin(self, key: object, occupant: Occupant, question: int) -> None:
        """Begins to drain the share of a worker that has ended.

        Args:
            key: What it is known by.
            occupant: The worker.
            question: The number of the last question that NVML was asked.
        """
        occupant.has_ended = True
        drain = Drain(key, occupant, question, self._loop)
        self._draining[drain] = None
        drain.limit = self._loop.call_at(
            drain.began + LIMIT, partial(self._give_up, drain)
        )

    def read(self, question: int) -> None:
        """Reads the table: shares are over of which nothing is listed.

        Args:
            question: The number of the question whose answer is in the table.
        """
        for drain in list(self._draining):
            if question <= drain.question:
                continue
            drain.left = holders(drain.occupant, self._occupants, drain.began)
            if not drain.left:
                self._finish(drain)

    def pause(self, question: int) -> float | None:
        """Decides how many seconds there are until the next question; None: no need.

        Args:
            question: The number of the question that was answered last.
        """
        if not self._draining:
            return None
        if any(drain.question >= question for drain in self):
            return 0.0  # it ended when that question was on its way
        return pause(self._loop.time() - max(drain.began for drain in self))

    def close(self) -> None:
        """Waits for nothing any more, as the runtime ends, or NVML has failed."""
        for drain in list(self._draining):
            self._finish(drain)

    def _give_up(self, drain: Drain) -> None:
        with suppress(Exception):  # a handler of the user's may raise
            warn(
                "the share of %s is given to others %g s after its end, though: %s. "
                "Who gets it may run out of memory",
                drain.occupant.title,
                LIMIT,
                in_words(drain.left),
            )
        self._finish(drain)

    def _finish(self, drain: Drain) -> None:
        self._draining.pop(drain, None)
        self._occupants.leave(drain.key)
        drain.finish()
