"""Tiers: the ways to enforce a share of a device, and which of them a share gets.

Each tier includes the weaker ones:

* frameworks are configured to take no more memory than the share;
* the memory of the actor's processes is watched, and an excess is reported;
* a daemon of the driver refuses more memory to each process;
* the driver refuses more memory to all processes of the actor together.

A tier is a feature: a folder of ``_features`` with a class that inherits ``Tier``. The
list in ``_features/runtime.py`` attaches it. Messages name an unavailable tier with the
reason.
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

No framework counts the memory that a process takes of a card before its first tensor.
This is a guess, in the middle of reports about recent cards (300 to 700 MiB). We have
not measured it.
"""

AUTO = "auto"
OFF = "off"
NEVER_REFUSED = (AUTO, OFF)
"""The values of ``enforcement=`` that are always available: the others name tiers."""
INLINE = "inline actors are threads of this process, which has one limit for all"

_BY_NAME = "to be had by name alone, as it changes how programs run"
"""Why ``"auto"`` does not choose a tier that is not automatic."""


class Site(NamedTuple):
    """Where the workers of a runtime run.

    Attributes:
        devices: The divisible devices; none if workers live in this process.
        unlisted: Why NVML does not list our processes with their memory; else empty.
        path: The import path of workers.
        is_inline: Whether workers live in this process.
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
        reason: The reason of its Exit, as a sentence.
        error: Makes the error of its callers from a message, the exit, and the id of
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
    """The tier that enforces a share, and why it is not a stronger one."""

    tier: Tier
    not_stronger_because: str


class Grant(NamedTuple):
    """The lease of a worker, and the tiers that enforce it.

    Attributes:
        enforcement: The value of ``enforcement=`` of the actor or else of the runtime.
        enforced: The tier of each share of the lease, in their order.
        tiers: The tiers that take part, the weakest first.
    """

    lease: Lease
    options: ActorOptions
    enforcement: str
    enforced: tuple[Enforced, ...] = ()
    tiers: tuple[Tier, ...] = ()

    @property
    def parts(self) -> tuple[Share, ...]:
        """The shares that are less than a whole device."""
        return tuple(share for share in self.lease.shares if share.units < UNITS)


class Settings(NamedTuple):
    """The settings that a worker makes before the user's code is imported.

    Attributes:
        variables: Variables of its environment.
        entry: The argument of the tier's function in the worker
            (``_worker/features.py``); None if it has nothing to do.
    """

    variables: Mapping[str, str] = MappingProxyType({})
    entry: object = None


class Tier:
    """One way to enforce shares; this one does nothing, like ``"off"``.

    Each runtime makes its tiers once, in a thread: the constructor examines the
    machine. All methods are called on the owner's loop. The methods with a grant are
    called for workers that name the tier, and for workers to which ``"auto"`` gives it
    or a stronger one. The number of a worker is that of its session.

    Attributes:
        word: Its value of ``enforcement=``.
        is_automatic: Whether ``"auto"`` chooses it.
        watches_devices: Whether it needs the looks at a worker's devices.
        shows_share: Whether a process sees its share as the whole of the device.
        holds_memory: Whether an actor cannot have more of the host's memory than it
            requested.
    """

    word: str = OFF
    is_automatic: ClassVar[bool] = False
    watches_devices: ClassVar[bool] = False
    shows_share: ClassVar[bool] = False
    holds_memory: ClassVar[bool] = False

    def __init__(self, site: Site) -> None:
        self.site = site

    # Availability.

    def fault(self, device: Device) -> str:
        """Returns why no share of a device can have it; empty if one can."""
        return ""

    def require(self, why: str | None) -> None:
        """Prepares to be the default of a runtime.

        Args:
            why: Why no device here can have it; None if one can, and empty if there is
                no divisible device.

        Raises:
            EnforcementRefused: It has nothing to limit.
        """
        if why:
            raise EnforcementRefused(
                f"init(enforcement={self.word!r}): no device here can have that. {why}."
                " Leave it out for what can be had"
            )

    def refusal(
        self, label: str, asked: str, options: ActorOptions, amounts: Mapping[str, int]
    ) -> str:
        """Returns why a request can never be fulfilled, apart from devices; else empty.

        It is called even if the request names another enforcement.
        """
        return ""

    def remarks(self, grant: Grant, environ: Mapping[str, str]) -> Iterable[str]:
        """Describes what it does not limit in a worker with that environment."""
        return ()

    def examine(self) -> Iterable[tuple[str, str]]:
        """Yields lines for ``actorlib doctor``: a fact, and advice if it is bad.

        Of the site only the machine is known.
        """
        return ()

    # From the launch of a worker to its end.

    def admit(self, label: str, grant: Grant) -> None:
        """Prepares for a worker that is about to be launched.

        Raises:
            EnforcementRefused: It cannot limit the worker.
            OSError: No process can be started.
        """

    def adopt(self, process: WorkerProcess, label: str, grant: Grant) -> WorkerProcess:
        """Returns the process to use instead of a worker that was just launched."""
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
        """Returns the settings of a worker; the user's own variables take precedence.

        Args:
            number: The number of the worker.
            grant: Its grant.
            own: The variables in the actor's options.
            environ: All of its variables, those and the inherited ones.
        """
        return Settings()

    def limit(
        self, number: int, process: WorkerProcess, grant: Grant
    ) -> Coroutine[Any, Any, None] | None:
        """Limits a worker from outside before it begins; None if that is not needed.

        Returns:
            Raises EnforcementRefused if the limit fails: the worker must not begin.
        """

    def checkpoint_fault(self, grant: Grant) -> str:
        """Returns why a worker's process cannot be checkpointed; empty if it can."""
        return ""

    def ended(self, number: int) -> int:
        """Forgets a worker that has ended.

        Returns:
            The bytes of the host's memory that it requested, if the kernel has killed
            it for exceeding them; else 0.
        """
        return 0

    # The memory of workers on devices and on the host.

    def attach(
        self, gpus: GpuWatch, find: Callable[[object], Supervised | None]
    ) -> None:
        """Begins to watch devices; called if NVML works and workers have processes."""

    def lower(self, reason: str) -> None:
        """Handles that NVML no longer reports the memory of processes, or of some."""

    def watch_memory(
        self, process: WorkerProcess, label: Callable[[], str], asked: int | None
    ) -> None:
        """Watches the host's memory of a worker.

        Args:
            process: The worker.
            label: Returns the name of its actor in messages.
            asked: Bytes that it requested; None if it cannot have more.
        """

    def memory_used(self, process: HasPid) -> int | None:
        """Returns the bytes of the host's memory that a worker had at the last look."""

    # The end of the runtime.

    def abandon(self) -> Callable[[], None] | None:
        """Ends everything that runs beside the loop, because the loop is closed.

        Returns:
            Removes what remains after the end of all workers, and blocks; None if there
            is nothing to remove.
        """

    async def aclose(self) -> None:
        """Releases everything; called after the end of all workers."""


class AbsentTier(Tier):
    """Replaces a tier that is not installed, and refuses requests that name it."""

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
    """Returns the message for a refused enforcement."""
    return (
        f"{label} requests enforcement={asked!r}, which cannot be had: {why}. "
        "enforcement='auto' takes what can be had"
    )


def nvidia_fault(device: Device, why: str, *, is_by_card: bool = False) -> str:
    """Returns why NVIDIA's driver does not limit or list shares of a device.

    Args:
        device: The device.
        why: The reason for all devices; may be empty.
        is_by_card: Whether it must be a whole card with a UUID. Default: False.
    """
    name = f"{device.kind} {device.id}"
    if device.family != "nvidia":
        return f"{name} is not an NVIDIA device"
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
    """Chooses the tier that enforces a share.

    Args:
        asked: ``"auto"`` for the strongest automatic tier that is available with all
            weaker ones, ``"off"``, or the word of a tier.
        share: The share. A whole device needs no enforcement.
        why_not: Why each tier is unavailable for that device, or the empty string; the
            weakest first.
        off: The tier that does nothing.

    Raises:
        EnforcementRefused: The named tier is unavailable; with the reason.
    """
    if asked == OFF:
        return Enforced(off, "enforcement='off' was asked for")
    if share.units >= UNITS:
        return Enforced(off, "the whole device is held by one actor")
    stronger = dict(why_not)
    if asked == AUTO:
        best = off
        for tier, why in why_not.items():
            if why or not tier.is_automatic:
                break
            best = tier
            del stronger[tier]
        return Enforced(best, _listed(stronger))
    tier = next(tier for tier in why_not if tier.word == asked)
    if why_not[tier]:
        raise EnforcementRefused(why_not[tier])
    is_strongest = tier is [*why_not][-1]
    why = "" if is_strongest else f"enforcement={asked!r} was asked for"
    return Enforced(tier, why)


def _listed(why_not: Mapping[Tier, str]) -> str:
    """Lists the tiers that were not chosen, grouped by their reason."""
    words: dict[str, list[str]] = {}
    for tier, why in why_not.items():
        words.setdefault(why or _BY_NAME, []).append(tier.word)
    if len(words) == 1 and not words.get(_BY_NAME):
        return next(iter(words))  # the reason alone: it holds for all tiers
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in words.items())
