"""What may be said about an actor and about a runtime: checked once, then frozen.

Each set of options is written twice side by side: a ``TypedDict`` for the type
checker of whoever writes the keywords, a dataclass for whoever reads them. A test
keeps the two equal.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict, TypeVar, cast

from actorlib._checks import (
    exception_classes,
    module_names,
    one_of,
    seconds,
    text,
    times,
)
from actorlib._kinds import KINDS, UNITS
from actorlib._resources import CPU, MEMORY, Resources, request, totals

_Options = TypeVar("_Options", "ActorOptions", "RuntimeOptions")

ACCELERATORS = ("hide", "inherit")
PLACEMENTS = ("pack", "spread")
MASK_FORMS = ("index", "uuid")
START_METHODS = ("template", "spawn")
INFEASIBLE = ("fail", "wait")


class ActorKeywords(TypedDict, total=False):
    """The keywords of ``@remote(...)`` and ``.options(...)``: see ActorOptions."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    placement: Literal["pack", "spread"] | None
    device: str | Sequence[str] | None
    near: object
    apart_from: object
    accelerators: Literal["hide", "inherit"] | None
    max_restarts: int
    restart_window: float | None
    restart_backoff: float
    max_task_retries: int
    retry_exceptions: bool | Sequence[type[Exception]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often an actor that died is started anew, and how soon.

    Attributes:
        max_restarts: How often; 0 never, -1 always.
        window: The seconds within which they are counted, or None for its whole life.
        backoff: Seconds before the second of several in a row; the first is at once,
            and each further one waits twice as long.
    """

    max_restarts: int = 0
    window: float | None = None
    backoff: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """What one actor asks for.

    Attributes:
        num_cpus: CPUs it holds for life; 0 if not given.
        num_gpus: GPUs it holds for life, below 1 a share of one device; 0 if not
            given.
        memory: Bytes of memory it is counted with; 0 if not given.
        resources: Amounts of other devices (``{"TPU": 4}``) and of custom resources by
            name.
        accelerator_type: The model of its devices, one of
            ``actorlib.accelerators.types`` or what ``actorlib devices`` calls them.
        placement: ``"pack"`` shares the fullest device that has room, ``"spread"``
            the emptiest. None is pack.
        device: The id or UUID of the device that it has to be on, or a list of as many
            as it asks for.
        near: The handle of an actor: its own device is on the same device as one of
            that actor's, or linked to one.
        apart_from: The handle of an actor, or several: its devices are others.
        accelerators: ``"hide"`` closes every accelerator that the actor did not ask
            for; ``"inherit"`` leaves them as the owner sees them. None follows
            ``ACTORLIB_HIDE_DEVICES`` (hide, unless it is 0).
        max_restarts: How often it is made anew, with the same arguments, after an end
            that nobody asked for; -1 always.
        restart_window: The seconds within which ``max_restarts`` counts; None is its
            whole life.
        restart_backoff: Seconds before it is restarted if it died soon after a restart;
            they double each time. The first restart is at once.
        max_task_retries: How often a call that was on its way when the actor died is
            sent again after the restart; -1 always.
        retry_exceptions: Which exceptions of a method are retried likewise: True for
            all, or a list of classes.
        request: All amounts together, exact.
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    resources: Mapping[str, float] | None = None
    accelerator_type: str | None = None
    placement: Literal["pack", "spread"] | None = None
    device: str | Sequence[str] | None = None
    near: object = None
    apart_from: object = None
    accelerators: Literal["hide", "inherit"] | None = None
    max_restarts: int = 0
    restart_window: float | None = None
    restart_backoff: float = 0.5
    max_task_retries: int = 0
    retry_exceptions: bool | Sequence[type[Exception]] = False
    request: Resources = field(init=False)

    def __post_init__(self) -> None:
        asked = request(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
        )
        object.__setattr__(self, "request", asked)
        if self.resources is not None:  # theirs may change
            object.__setattr__(self, "resources", dict(self.resources))
        if self.accelerators is not None:
            one_of("accelerators", self.accelerators, ACCELERATORS)
        if self.placement is not None:
            one_of("placement", self.placement, PLACEMENTS)
        if self.accelerator_type is not None:
            text("accelerator_type", self.accelerator_type, "'H100'")
        object.__setattr__(self, "device", _devices(self.device))
        object.__setattr__(self, "near", _actors("near", self.near))
        object.__setattr__(self, "apart_from", _actors("apart_from", self.apart_from))
        _check_wishes(self)
        times("max_restarts", self.max_restarts)
        times("max_task_retries", self.max_task_retries)
        if self.restart_window is not None:
            seconds("restart_window", self.restart_window)
        seconds("restart_backoff", self.restart_backoff)
        listed = exception_classes("retry_exceptions", self.retry_exceptions)
        object.__setattr__(self, "retry_exceptions", listed)

    @property
    def restart_policy(self) -> RestartPolicy:
        """How often it is started anew after an end that nobody asked for."""
        return RestartPolicy(
            max_restarts=self.max_restarts,
            window=self.restart_window,
            backoff=self.restart_backoff,
        )

    @property
    def retried(self) -> bool | tuple[type[Exception], ...]:
        """The exceptions of a method after which it is called again."""
        return cast("bool | tuple[type[Exception], ...]", self.retry_exceptions)

    @property
    def has_wishes(self) -> bool:
        """Whether it matters which of the devices with room it gets."""
        return (
            self.accelerator_type is not None
            or self.placement == "spread"
            or bool(self.device or self.near or self.apart_from)
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it has to be on, by id or UUID; empty for any."""
        return cast("tuple[str, ...]", self.device) or ()

    @property
    def near_to(self) -> tuple[bytes, ...]:
        """The actor that it has to be near to, by id; empty for none."""
        return cast("tuple[bytes, ...]", self.near)

    @property
    def apart(self) -> tuple[bytes, ...]:
        """The actors that it has to be apart from, by id."""
        return cast("tuple[bytes, ...]", self.apart_from)

    def updated(self, given: Mapping[str, object]) -> ActorOptions:
        """These options with some of them replaced.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value is out of range.
        """
        kept = {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if option.init
        }
        return checked(ActorOptions, "an actor", {**kept, **given})


class RuntimeKeywords(TypedDict, total=False):
    """The keywords of ``init(...)``: see RuntimeOptions."""

    num_cpus: int | None
    num_gpus: int | None
    memory: float | None
    resources: Mapping[str, int] | None
    preload: Sequence[str]
    start_method: Literal["template", "spawn"] | None
    log_to_driver: bool
    grace: float
    infeasible: Literal["fail", "wait"]
    mask_form: Literal["index", "uuid"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What one runtime has and how it behaves.

    Attributes:
        num_cpus: CPUs to give out, or None for those this process may use.
        num_gpus: GPUs to give out, or None for those found. Resources are logical:
            more may be declared than there are.
        memory: Bytes to give out, or None for what this process may use.
        resources: Devices of other kinds (``{"TPU": 4}``) and custom resources by
            name, whole numbers. Devices that are not named are those found.
        preload: Modules that workers find imported already. They are imported once,
            in the template, and must not initialise an accelerator there. Where workers
            are spawned by default, they start without them.
        start_method: ``"template"`` forks each worker from a small warm process;
            ``"spawn"`` starts an interpreter for each. None chooses the template on
            Linux, spawn elsewhere.
        log_to_driver: Whether what actors print appears here.
        grace: Seconds that a busy actor is given to end before it is killed.
        infeasible: What happens to an actor that asks for what this machine can
            never give: ``"fail"`` at once, or ``"wait"`` for ever as in Ray.
        mask_form: How devices are named in the visibility variables of actors:
            ``"index"`` or ``"uuid"``. None chooses: for NVIDIA indices, and UUIDs where
            the models differ or this process was given UUIDs itself.
        capacity: The declared amounts together, exact; what was not declared is left
            out.
    """

    num_cpus: int | None = None
    num_gpus: int | None = None
    memory: float | None = None
    resources: Mapping[str, int] | None = None
    preload: Sequence[str] = ()
    start_method: Literal["template", "spawn"] | None = None
    log_to_driver: bool = True
    grace: float = 1.0
    infeasible: Literal["fail", "wait"] = "fail"
    mask_form: Literal["index", "uuid"] | None = None
    capacity: Resources = field(init=False)

    def __post_init__(self) -> None:
        declared = totals(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
        )
        object.__setattr__(self, "capacity", declared)
        object.__setattr__(self, "preload", module_names(self.preload))
        if self.start_method is not None:
            one_of("start_method", self.start_method, START_METHODS)
        one_of("infeasible", self.infeasible, INFEASIBLE)
        if self.mask_form is not None:
            one_of("mask_form", self.mask_form, MASK_FORMS)
        if self.preload and self.start_method == "spawn":
            raise ValueError(
                f"preload={list(self.preload)!r} and start_method='spawn' exclude each "
                "other: a fresh interpreter imports everything anew"
            )
        seconds("grace", self.grace)
        if not isinstance(cast("object", self.log_to_driver), bool):
            raise TypeError(
                f"log_to_driver takes True or False, not {self.log_to_driver!r}"
            )


def checked(kind: type[_Options], whose: str, given: Mapping[str, object]) -> _Options:
    """Options of one kind from keywords a user wrote.

    Args:
        kind: The class of options.
        whose: What they are options of, for messages.
        given: The keywords.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An option is unknown or its value is out of range.
    """
    known = [option.name for option in fields(kind) if option.init]
    for name, value in given.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}=?" if close else ""
            raise ValueError(
                f"{name}={value!r} is no option of {whose}.{hint} "
                f"The options are {', '.join(known)}"
            )
    return kind(**cast("dict[str, Any]", given))  # the class checks each value


def _devices(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, Sequence):
        raise TypeError(
            "device takes the id or UUID of a device as text, or a list of them, not "
            f"{value!r} ({type(value).__name__})"
        )
    devices = tuple(cast("Sequence[str]", several))
    for device in devices:
        text("device", device, "'0' or 'GPU-8d2b...'")
    if len(set(devices)) < len(devices):
        raise ValueError(f"device names one device twice: {list(devices)!r}")
    return devices


def _actors(name: str, value: object) -> tuple[bytes, ...]:
    """Ids, which the faces have put in the place of handles."""
    if value is None:
        return ()
    ids = cast("tuple[object, ...]", value)
    if isinstance(value, tuple) and all(isinstance(actor, bytes) for actor in ids):
        return cast("tuple[bytes, ...]", ids)
    raise TypeError(
        f"{name} takes the handle of an actor, not {ids!r} ({type(ids).__name__})"
    )


def _check_wishes(options: ActorOptions) -> None:
    """Whether what is wished of the devices goes with how many are asked for."""
    wishes = {
        "device": options.devices,
        "near": options.near_to,
        "apart_from": options.apart,
    }
    given = [name for name, value in wishes.items() if value]
    counts = {
        name: -(-amount // UNITS)
        for name, amount in options.request.amounts.items()
        if name not in (CPU, MEMORY)
    }
    if given and not counts:
        raise ValueError(
            f"{given[0]} is about devices, and none are asked for: add num_gpus, or "
            "resources for another kind"
        )
    known = [count for name, count in counts.items() if name in KINDS]
    named = len(options.devices)
    if named and len(known) == len(counts) and named != sum(known):
        raise ValueError(
            f"device names {named} {'device' if named == 1 else 'devices'}, and "
            f"{options.request} is on {sum(known)}: name as many"
        )
    if set(options.near_to) & set(options.apart):
        raise ValueError("near and apart_from name the same actor")
