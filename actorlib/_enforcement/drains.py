"""Holds shares of devices back until the driver has taken apart what was on them.

A worker has ended, its callers know, and its lease is still in the ledger: it drains.
NVML is asked again and again, all that drain together, until nothing of the worker is
listed any more. ``draining`` decides what that is, and how long it may take.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, final

from actorlib._core.kinds import UNITS
from actorlib._core.log import warn
from actorlib._core.notifier import Notifier
from actorlib._enforcement.draining import LIMIT, Holder, holders, in_words, pause

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._enforcement.gpu_processes import Occupant, Occupants
    from actorlib._enforcement.nvml_session import Look, NvmlSession
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
        session: Asks NVML.
        occupants: Who is on devices; told of every look.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: NvmlSession,
        occupants: Occupants,
    ) -> None:
        self._loop = loop
        self._session = session
        self._occupants = occupants
        self._draining: dict[Drain, None] = {}
        self._timer: asyncio.Handle | None = None
        self._question = 0
        self._is_closed = False

    def __iter__(self) -> Iterator[Drain]:
        return iter(self._draining)

    def of(self, key: object) -> Drain | None:
        """Finds what holds back the share of a worker that has ended, if it drains."""
        return next((drain for drain in self._draining if drain.key is key), None)

    def entered(self, key: object, occupant: Occupant) -> None:
        """Takes note of a worker that has a share of devices from now on.

        Args:
            key: What it is known by.
            occupant: The worker.
        """
        if self._is_closed or self._session.is_over or not occupant.devices:
            return
        self._occupants.enter(key, occupant)
        # What is there already cannot be its own, whatever can be seen of that later.
        self._session.look(list(occupant.devices), self._note)

    def left(self, key: object) -> Drain | None:
        """Begins to drain the share of a worker that has ended, unless it has begun.

        Returns:
            None if there is nothing to wait for: NVML cannot be asked about any of it.
        """
        occupant = self._occupants.find(key)
        if occupant is None or occupant.has_ended:
            return self.of(key)
        if self._is_closed or self._session.is_over:
            self._occupants.leave(key)
            return None
        occupant.has_ended = True
        drain = Drain(key, occupant, self._question, self._loop)
        self._draining[drain] = None
        drain.limit = self._loop.call_at(
            drain.began + LIMIT, partial(self._give_up, drain)
        )
        # An answer to an earlier question may be from before the end. All that end in
        # this turn of the loop are asked about together.
        self._look_after(0.0)
        return drain

    def close(self) -> None:
        """Waits for nothing any more, as the runtime ends, or NVML has failed."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for drain in list(self._draining):
            self._finish(drain)

    def _look_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        devices = {device for drain in self for device in drain.occupant.devices}
        if devices:
            self._question += 1
            self._session.look(sorted(devices), partial(self._seen, self._question))

    def _note(self, look: Look) -> None:
        self._occupants.note(look, self._loop.time())

    def _seen(self, question: int, look: Look) -> None:
        self._note(look)
        for drain in list(self._draining):
            occupant = drain.occupant
            if question <= drain.question:
                continue
            drain.left = holders(occupant, self._occupants, look, drain.began)
            if not drain.left:
                self._finish(drain)
        if self._draining and self._timer is None:
            latest = max(drain.began for drain in self)
            self._look_after(pause(self._loop.time() - latest))

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
