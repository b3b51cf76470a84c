"""Suspends one actor, and resumes it: its process lives on, its share is returned.

    active --> emptying --> saving --> suspended --> waiting --> restoring --> active

Running calls end first, while new ones are held back. Then the driver copies the GPU
memory of the process to the host's memory, and the share is returned. To be resumed,
the actor gets in line again for the same devices, and the driver copies everything
back.

A failure leaves the actor in the phase before, and its caller gets the error. If the
driver leaves the process in an unknown state, the process is ended, and restarts follow
by the usual rules.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from functools import partial
from typing import TYPE_CHECKING, final

from actorlib._base.notifier import Notifier
from actorlib._enforcement.checkpoints import CheckpointError
from actorlib._owner.actors.actor_record import ActorState
from actorlib.exceptions import ActorUnschedulableError, SuspendError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from actorlib._enforcement.checkpoints import Checkpoints
    from actorlib._owner.actors.placement import ActorPlacement
    from actorlib._owner.calls.router import CallRouter
    from actorlib.accelerators.base import Lease


_log = logging.getLogger("actorlib")


class Phase(enum.Enum):
    """The phases of a suspension."""

    ACTIVE = "active"
    """It has its share, and takes calls."""
    EMPTYING = "emptying"
    """Its running calls end, and new ones are held back."""
    SAVING = "saving"
    """The driver copies its GPU memory."""
    SUSPENDED = "suspended"
    """It holds nothing, and was not asked to resume."""
    WAITING = "waiting"
    """It waits in line for its share."""
    RESTORING = "restoring"
    """It has its share, and the driver copies its memory back."""


_MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.ACTIVE: frozenset({Phase.EMPTYING}),
    Phase.EMPTYING: frozenset({Phase.SAVING, Phase.ACTIVE}),
    Phase.SAVING: frozenset({Phase.SUSPENDED, Phase.ACTIVE}),
    Phase.SUSPENDED: frozenset({Phase.WAITING, Phase.ACTIVE}),
    Phase.WAITING: frozenset({Phase.RESTORING, Phase.SUSPENDED, Phase.ACTIVE}),
    Phase.RESTORING: frozenset({Phase.SUSPENDED, Phase.ACTIVE}),
}


@final
class Suspension:
    """Suspends and resumes one actor, as often as requested.

    Args:
        router: Routes the calls of the actor.
        placement: Its share of the machine.
        driver: Saves and restores processes.
        on_share: Called when it has its share again, before its process uses it.
        on_move: Called when it is suspended, or takes calls again.
        on_lost: Called with the reason when the state of its process is unknown.

    Attributes:
        phase: The current phase.
    """

    def __init__(
        self,
        router: CallRouter,
        placement: ActorPlacement,
        driver: Checkpoints,
        *,
        on_share: Callable[[], object],
        on_move: Callable[[], object],
        on_lost: Callable[[str], object],
    ) -> None:
        self.phase = Phase.ACTIVE
        self._loop = asyncio.get_running_loop()
        self._record = placement.record
        self._router = router
        self._placement = placement
        self._driver = driver
        self._on_share = on_share
        self._on_move = on_move
        self._on_lost = on_lost
        self._task: asyncio.Task[None] | None = None
        self._is_quiet = Notifier(self._loop)
        self._suspended = Notifier(self._loop)
        self._resumed = Notifier(self._loop)

    def __repr__(self) -> str:
        return f"<Suspension {self.phase.value}>"

    @property
    def may_go_on(self) -> bool:
        """Whether it takes calls, or will without another request."""
        return self.phase is not Phase.SUSPENDED

    def suspend(self, patience: float | None) -> asyncio.Future[None]:
        """Suspends the actor, or joins a suspension that has begun.

        Args:
            patience: Seconds that its running calls may take; None for any.

        Returns:
            Done when its share is returned, or is about to be, as soon as the driver
            reports that its memory is free. Fails with SuspendError, and the actor goes
            on.

        Raises:
            SuspendError: It is being resumed.
        """
        if self.phase is Phase.RESTORING:
            raise self._error(
                f"{self._record.title} is being resumed: await that, and suspend it "
                "then"
            )
        done = self._suspended.wait()
        if self.phase is Phase.ACTIVE:
            self._router.hold()  # new calls wait
            self._begin(Phase.EMPTYING, partial(self._suspend, patience))
        elif self.phase is Phase.WAITING:
            self._leave_line("it was suspended again before its turn")
        if self.phase is Phase.SUSPENDED:
            self._suspended.notify()
        return done

    def _error(self, message: str) -> SuspendError:
        return SuspendError(message, actor_id=self._record.id.hex())

    def resume(self) -> asyncio.Future[None]:
        """Resumes the actor, or joins a resumption that has begun.

        Returns:
            Done when it takes calls again. Fails with SuspendError or
            ActorUnschedulableError, and the actor stays suspended.

        Raises:
            SuspendError: It is being suspended.
        """
        if self.phase is Phase.SAVING:
            raise self._error(
                f"{self._record.title} is being suspended: await that, and resume it "
                "then"
            )
        done = self._resumed.wait()
        if self.phase is Phase.EMPTYING:
            self.give_up("it was resumed before its calls had ended")
        elif self.phase is Phase.SUSPENDED:
            # Now, and not when the task begins: the order of requests is kept.
            pending = self._placement.granted_again()
            self._begin(Phase.WAITING, partial(self._resume, pending))
        if self.phase is Phase.ACTIVE:
            self._resumed.notify()
        return done

    def in_words(self) -> str:
        """Describes the phase, to follow the actor's state; may be empty."""
        match self.phase:
            case Phase.EMPTYING:
                return f", and is to be suspended when {self._under_way} ended"
            case Phase.SAVING:
                return ", and is being suspended: the driver copies what it has there"
            case Phase.SUSPENDED:
                return (
                    f", and holds nothing: what it had on {self._devices} is in the "
                    "host's memory. await handle.resume() puts it back"
                )
            case Phase.WAITING:
                return ", and waits to be resumed"
            case Phase.RESTORING:
                return (
                    ", and is being resumed: the driver puts back what it had on "
                    f"{self._devices}"
                )
            case _:
                return ""

    def note_idle(self) -> None:
        """Continues a suspension that waited for the last running call."""
        if self.phase is Phase.EMPTYING and not self._router.sent:
            self._is_quiet.notify()

    def give_up(self, why: str) -> None:
        """Cancels a suspension whose calls have not ended yet.

        Args:
            why: The reason for the callers that wait for it.
        """
        if self.phase is Phase.EMPTYING:
            self._cancel()
            self._go_on(f"{self._record.title} is not suspended: {why}")

    def over(self, error: Callable[[], BaseException]) -> None:
        """Resets everything after the end of the process.

        Args:
            error: Makes the error of callers that wait.
        """
        self._cancel()
        if self.phase is Phase.WAITING:
            self._placement.give_back()
        if self.phase is not Phase.ACTIVE:
            self._move(Phase.ACTIVE)
        self._placement.returns_to = None
        self._suspended.notify(error)
        self._resumed.notify(error)

    # Suspending.

    async def _suspend(self, patience: float | None) -> None:
        record, router = self._record, self._router
        began = self._loop.time()
        try:
            async with asyncio.timeout(patience):
                if router.sent:
                    await self._is_quiet.wait()
        except TimeoutError:
            self._go_on(
                f"{record.title} is not suspended: {self._under_way} not ended within "
                f"{patience:g} s. It goes on"
            )
            return
        remaining = None
        if patience is not None:
            remaining = max(0.0, patience - (self._loop.time() - began))
        self._move(Phase.SAVING)
        try:
            await self._driver.save(record.pid, remaining)
        except CheckpointError as error:
            if error.is_broken:
                self._on_lost(f"the driver lost it while it was suspended: {error}")
            else:
                self._go_on(f"{record.title} is not suspended: {error}. It goes on")
            return
        self._move(Phase.SUSPENDED)
        if record.state is not ActorState.ALIVE:
            return  # it was asked to end meanwhile, and is killed if it does not
        record.move(ActorState.SUSPENDED)
        self._placement.set_aside()
        self._suspended.notify()
        self._on_move()

    def _go_on(self, why: str) -> None:
        self._move(Phase.ACTIVE)
        self._router.let_go()
        self._suspended.notify(partial(self._error, why))
        self._resumed.notify()

    # Resuming.

    async def _resume(self, pending: asyncio.Future[Lease]) -> None:
        record, placement = self._record, self._placement
        try:
            lease = await pending
        except ActorUnschedulableError as error:
            placement.give_back()
            self._move(Phase.SUSPENDED)
            self._resumed.notify(partial(ActorUnschedulableError, str(error)))
            return
        placement.take(lease)
        self._on_share()
        self._move(Phase.RESTORING)
        try:
            await self._driver.restore(record.pid)
        except CheckpointError as error:
            if error.is_broken:
                self._on_lost(f"the driver lost it while it was resumed: {error}")
                return
            self._move(Phase.SUSPENDED)
            placement.set_aside()
            why = f"{record.title} is not resumed: {error}. It stays suspended"
            self._resumed.notify(partial(self._error, why))
            return
        self._move(Phase.ACTIVE)
        placement.returns_to = None
        if record.state is not ActorState.SUSPENDED:
            return
        record.move(ActorState.ALIVE)
        self._router.let_go()
        self._resumed.notify()
        self._on_move()

    def _leave_line(self, why: str) -> None:
        self._cancel()
        self._placement.give_back()
        self._move(Phase.SUSPENDED)
        message = f"{self._record.title} is not resumed: {why}"
        self._resumed.notify(partial(self._error, message))

    def _begin(
        self, phase: Phase, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._move(phase)
        self._task = self._loop.create_task(self._guarded(work))

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()  # created here: a cancelled task may never begin
        except Exception:  # noqa: BLE001  # around a task that is not awaited
            _log.exception("%r of %r failed: a bug in actorlib", self, self._record)
            self._on_lost("actorlib failed; its log says where")

    def _cancel(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def _move(self, phase: Phase) -> None:
        if phase not in _MOVES[self.phase]:
            raise RuntimeError(f"{self!r} cannot become {phase.value}: a bug")
        self.phase = phase

    @property
    def _under_way(self) -> str:
        number = self._router.sent
        return "1 call has" if number == 1 else f"{number} calls have"

    @property
    def _devices(self) -> str:
        return self._placement.devices_in_words()
