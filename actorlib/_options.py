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

from actorlib._checks import flag, module_names, one_of, seconds, text
from actorlib._kinds import KINDS, UNITS
from actorlib._resources import CPU, MEMORY, Resources, request, totals
from actorlib._runtime_env import RuntimeEnv, checked_env

_Options = TypeVar("_Options", "ActorOptions", "RuntimeOptions")

ACCELERATORS = ("hide", "inherit")
PLACEMENTS = ("pack", "spread")
MASK_FORMS = ("index", "uuid")
START_METHODS = ("template", "spawn")
INFEASIBLE = ("fail", "wait")
LIFETIMES = ("detached", "non_detached")


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
    name: str | None
    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool
    runtime_env: RuntimeEnv | None


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
        name: What ``get_actor`` finds it by while it lives; one of a kind in its
            namespace.
        namespace: Where its name is looked for; the runtime's if not given.
        lifetime: ``"detached"`` lives without a handle, and without the actor that
            made it, until it is killed or the runtime ends. None is
            ``"non_detached"``.
        get_if_exists: Whether ``.remote()`` gives the handle of the actor that has
            the name, if there is one, instead of raising.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: variables of its
            process, set before any of the user's code is imported and passed on to
            the actors it makes, and the directory that it works in and imports from.
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
    name: str | None = None
    namespace: str | None = None
    lifetime: Literal["detached", "non_detached"] | None = None
    get_if_exists: bool = False
    runtime_env: RuntimeEnv | None = None
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
        _check_name(self)
        object.__setattr__(self, "runtime_env", checked_env(self.runtime_env))

    @property
    def is_detached(self) -> bool:
        """Whether it lives without a handle."""
        return self.lifetime == "detached"

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
    namespace: str


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
        namespace: Where names of actors are looked for that say nothing else.
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
    namespace: str = "default"
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
        text("namespace", self.namespace, "'training'")
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


def _check_name(options: ActorOptions) -> None:
    if options.name is not None:
        text("name", options.name, "'counter'")
    if options.namespace is not None:
        text("namespace", options.namespace, "'training'")
    if options.lifetime is not None:
        one_of("lifetime", options.lifetime, LIFETIMES)
    flag("get_if_exists", options.get_if_exists)
    if options.get_if_exists and options.name is None:
        raise ValueError(
            "get_if_exists=True looks for an actor by its name: give it one, for "
            "example name='counter'"
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
