"""Tiers: what makes a share of a device hold, and which of them a share gets.

Each tier has what the weaker ones have, and more:

* frameworks are told to take no more memory than the share;
* the memory of the actor's processes is watched, and more is told of;
* a daemon of the driver refuses more to each process;
* the driver itself does, to all processes of the actor.

A tier is a feature: a folder of ``_features`` with a class that inherits ``Tier``. The
list in ``_features/runtime.py`` attaches it. A tier that is not available is named with
the reason.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from actorlib._core.engine import override
from actorlib._options.kinds import UNITS
from actorlib._options.runtime_options import RuntimeOptions
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from actorlib._base.process_stat import HasPid
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._options.actor_options import ActorOptions
    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Device, Lease, Share
    from actorlib.accelerators.host import Host
    from actorlib.exceptions import ActorDiedError, Exit

CONTEXT_MARGIN = 512 * 2**20
"""Bytes of a share that are left to the context of a process and to libraries.

What a process takes of a card before it has a tensor on it is outside of every
framework's count. This is a guess, in the middle of what is told of recent cards (300
to 700 MiB): it has not been measured by us.
"""

AUTO = "auto"
OFF = "off"
NEVER_REFUSED = (AUTO, OFF)
"""What anybody can have: the others are tiers, asked for by their names."""
INLINE = "inline actors are threads of this process, which has one limit for all"

_BY_NAME = "to be had by name alone, as it changes how programs run"
"""Why a tier that is not automatic is not chosen for those who did not ask for it."""


class Site(NamedTuple):
    """Where the workers of a runtime run.

    Attributes:
        host: The machine.
        devices: Those of which a part may be held; none if workers live in this
            process.
        unlisted: Why NVML does not list our processes with their memory; else empty.
        path: Where workers import from.
        is_inline: Whether workers live in this process.
        options: What the runtime was asked for.
    """

    host: Host
    devices: tuple[Device, ...] = ()
    unlisted: str = ""
    path: Sequence[str] = ()
    is_inline: bool = False
    options: RuntimeOptions = RuntimeOptions()


class Verdict(NamedTuple):
    """The reason for which a tier ends a worker.

    Attributes:
        cause: The cause of its Exit, in a few words.
        reason: The reason in that, as a sentence.
        error: Makes the error of its callers: of a message, the exit, and the id of
            the actor.
    """

    cause: str
    reason: str
    error: Callable[[str, Exit, str], ActorDiedError]


class Supervised(Protocol):
    """A living worker, by the record of its actor, and the way to end it."""

    record: Any

    def end_for(self, verdict: Verdict) -> None: ...


class Enforced(NamedTuple):
    """What makes a share hold, and why nothing stronger does."""

    tier: Tier
    not_stronger_because: str


class Grant(NamedTuple):
    """What a worker holds, and what makes that hold.

    Attributes:
        lease: What it holds.
        options: What was asked.
        asked: Which enforcement was, of the actor or else of the runtime.
        enforced: What makes each share of the lease hold, in their order.
        tiers: What has a part in the worker, the weakest first.
    """

    lease: Lease
    options: ActorOptions
    asked: str
    enforced: tuple[Enforced, ...] = ()
    tiers: tuple[Tier, ...] = ()

    @property
    def parts(self) -> tuple[Share, ...]:
        """The shares that are less than a whole device."""
        return tuple(share for share in self.lease.shares if share.units < UNITS)


class Settings(NamedTuple):
    """What a worker sets before the user's code is imported.

    Attributes:
        variables: Variables of its environment.
        entry: What the worker's half of the tier gets (``_worker/features.py``); None
            if it has nothing to do.
    """

    variables: Mapping[str, str] = MappingProxyType({})
    entry: object = None


class Tier:
    """One way to make shares hold; this one does nothing, as ``"off"`` says.

    Made once for a runtime, in a thread: what it needs to know of the machine is found
    out here. All else is called on the owner's loop. What has a grant, which is what a
    worker holds, is called for workers that have asked for the tier by name, and for
    those to whom it or a stronger one was given automatically. A worker is numbered as
    its session is.

    Args:
        site: Where workers run.

    Attributes:
        word: What users call it.
        is_automatic: Whether ``"auto"`` gives it.
        watches_devices: Whether it wants to be told of the looks at a worker's devices.
        shows_share: Whether a process sees its share as the whole of the device.
        holds_memory: Whether an actor cannot have more of the host's memory than it
            asked for.
    """

    word: str = OFF
    is_automatic: ClassVar[bool] = False
    watches_devices: ClassVar[bool] = False
    shows_share: ClassVar[bool] = False
    holds_memory: ClassVar[bool] = False

    def __init__(self, site: Site) -> None:
        self.site = site

    # Whether it can be had.

    def fault(self, device: Device) -> str:
        """Says why no share of a device can have it; empty if one can."""
        return ""

    def require(self, why: str | None) -> None:
        """Makes ready to be what the actors of a runtime have by default.

        Args:
            why: Why no device here can have it; None if one can, and empty if there is
                no device of which a part may be held.

        Raises:
            EnforcementRefused: There is nothing that it could hold.
        """
        if why:
            raise EnforcementRefused(
                f"init(enforcement={self.word!r}): no device here can have that. {why}."
                " Leave it out for what can be had"
            )

    def refusal(
        self, label: str, asked: str, options: ActorOptions, amounts: Mapping[str, int]
    ) -> str:
        """Says why a request can never be fulfilled, devices aside; empty if it can.

        It is called for those who ask for another enforcement, too.
        """
        return ""

    def remarks(self, grant: Grant, environ: Mapping[str, str]) -> Iterable[str]:
        """Says what does not hold in a worker with that environment."""
        return ()

    def examine(self) -> Iterable[tuple[str, str]]:
        """Says what ``actorlib doctor`` shows: what there is, and advice if it is bad.

        Only the machine of the site is known.
        """
        return ()

    # From the launch of a worker to its end.

    def admit(self, label: str, grant: Grant) -> None:
        """Makes ready for a worker that is about to be launched.

        Raises:
            EnforcementRefused: It cannot hold the worker.
            OSError: There can be no process.
        """

    def adopt(self, process: WorkerProcess, label: str, grant: Grant) -> WorkerProcess:
        """Returns what stands for the process of a worker that was just launched."""
        return process

    def visible(self, grant: Grant) -> Mapping[str, str]:
        """Returns the variables that name devices instead of those of the family."""
        return {}

    def settings(
        self,
        number: int,
        grant: Grant,
        own: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> Settings:
        """Returns what a worker is to set; what the user has set counts.

        Args:
            number: The worker's.
            grant: What it holds.
            own: The variables that the actor was given.
            environ: All of its variables, those and what it inherits.
        """
        return Settings()

    def limit(
        self, number: int, process: WorkerProcess, grant: Grant
    ) -> Coroutine[Any, Any, None] | None:
        """Limits a worker from outside before it begins; None if there is no need.

        Returns:
            Raises EnforcementRefused if that cannot be: the worker must not begin.
        """

    def checkpoint_fault(self, grant: Grant) -> str:
        """Returns why a worker's process cannot be checkpointed; empty if it can."""
        return ""

    def ended(self, number: int) -> int:
        """Lets go of a worker that is gone.

        Returns:
            The bytes of the host's memory that it asked for, if it was killed for more;
            else 0.
        """
        return 0

    # The memory of workers, of devices and of the host.

    def attach(
        self, gpus: GpuWatch, find: Callable[[object], Supervised | None]
    ) -> None:
        """Begins to watch devices, where NVML can be asked; workers have processes."""

    def lower(self, reason: str) -> None:
        """Takes note that NVML says no more who has how much of devices, or not all."""

    def watch_memory(
        self, process: WorkerProcess, label: Callable[[], str], asked: int | None
    ) -> None:
        """Watches the host's memory that a worker has.

        Args:
            process: The worker.
            label: Says what it is called in messages.
            asked: Bytes that it asked for; None if it cannot have more.
        """

    def memory_used(self, process: HasPid) -> int | None:
        """Returns the bytes of the host's memory that a worker had at the last look."""

    # The end of the runtime.

    def abandon(self) -> Callable[[], None] | None:
        """Ends what runs beside the loop, where that is closed.

        Returns:
            Removes what is left when no worker is any more, and blocks; None if there
            is nothing.
        """

    async def aclose(self) -> None:
        """Leaves nothing running; called when no worker is any more."""


class AbsentTier(Tier):
    """Stands for a tier whose folder is not installed: whoever names it is refused.

    Args:
        word: What users call it.
        reason: Why it is not there.
    """

    def __init__(self, word: str, reason: str, site: Site) -> None:
        super().__init__(site)
        self.word = word
        self._reason = reason

    @override
    def fault(self, device: Device) -> str:
        return self._reason

    @override
    def require(self, why: str | None) -> None:
        super().require(self._reason)

    @override
    def refusal(
        self, label: str, asked: str, options: ActorOptions, amounts: Mapping[str, int]
    ) -> str:
        return refused(label, asked, self._reason) if asked == self.word else ""


def refused(label: str, asked: str, why: str) -> str:
    """Words the refusal of an enforcement.

    Args:
        label: Who has asked for it.
        asked: Its word.
        why: Why it cannot be had.
    """
    return (
        f"{label} asks enforcement={asked!r}, which cannot be had: {why}. "
        "enforcement='auto' takes what can be had"
    )


def nvidia_fault(device: Device, why: str, *, is_by_card: bool = False) -> str:
    """Says why NVIDIA's driver does not limit or list shares of a device.

    Args:
        device: The device.
        why: Why it does so of none; may be empty.
        is_by_card: Whether it has to be a whole card with a name. Default: False.
    """
    name = f"{device.kind} {device.id}"
    if device.family != "nvidia":
        return f"{name} is no NVIDIA device"
    if device.logical:
        return f"{name} was declared, not found"
    if device.memory is None:
        return f"the memory of {name} is unknown"
    if is_by_card and device.parent is not None:
        return f"{name} is a part of a card"
    if is_by_card and not (why or device.uuid):
        return f"the UUID of {name} is unknown"
    return why


def choose(
    asked: str, share: Share, why_not: Mapping[Tier, str], off: Tier
) -> Enforced:
    """Chooses what makes a share hold.

    Args:
        asked: ``"auto"``, which takes the strongest automatic tier that can be had with
            all weaker ones, ``"off"``, or the word of a tier.
        share: What is held of one device. A whole one needs nothing.
        why_not: Why each tier cannot be had of that device, or the empty string; the
            weakest first.
        off: The tier that does nothing.

    Raises:
        EnforcementRefused: A tier was named that cannot be had; with the reason.
    """
    if asked == OFF:
        return Enforced(off, "enforcement='off' was asked for")
    if share.units >= UNITS:
        return Enforced(off, "the whole device is held, and nobody else is on it")
    left = dict(why_not)
    if asked == AUTO:
        best = off
        for tier, why in why_not.items():
            if why or not tier.is_automatic:
                break
            best = tier
            del left[tier]
        return Enforced(best, _listed(left))
    tier = next(tier for tier in why_not if tier.word == asked)
    if why_not[tier]:
        raise EnforcementRefused(why_not[tier])
    is_strongest = tier is next(reversed(left))
    why = "" if is_strongest else f"enforcement={asked!r} was asked for"
    return Enforced(tier, why)


def _listed(why_not: Mapping[Tier, str]) -> str:
    """Names the tiers that were not chosen, those with one reason together."""
    words: dict[str, list[str]] = {}
    for tier, why in why_not.items():
        words.setdefault(why or _BY_NAME, []).append(tier.word)
    if len(words) == 1 and not words.get(_BY_NAME):
        return next(iter(words))  # whatever was asked
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in words.items())
