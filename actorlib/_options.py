"""What may be said about an actor and about a runtime: checked once, then frozen.

Each set of options is written twice side by side: a ``TypedDict`` for the type
checker of whoever writes the keywords, a dataclass for whoever reads them. A test
keeps the two equal.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal, TypedDict, TypeVar, cast

from actorlib._resources import Resources, request, totals

_Options = TypeVar("_Options", "ActorOptions", "RuntimeOptions")

ACCELERATORS = ("hide", "inherit")
START_METHODS = ("template", "spawn")
INFEASIBLE = ("fail", "wait")


class ActorKeywords(TypedDict, total=False):
    """The keywords of ``@remote(...)`` and ``.options(...)``: see ActorOptions."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    accelerators: Literal["hide", "inherit"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """What one actor asks for.

    Attributes:
        num_cpus: CPUs it holds for life; 0 if not given.
        num_gpus: GPUs it holds for life, below 1 a share of one device; 0 if not
            given.
        memory: Bytes of memory it is counted with; 0 if not given.
        resources: Amounts of custom resources by name.
        accelerators: ``"hide"`` closes every accelerator that the actor did not ask
            for; ``"inherit"`` leaves them as the owner sees them. None follows
            ``ACTORLIB_HIDE_DEVICES`` (hide, unless it is 0).
        request: All amounts together, exact.
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    resources: Mapping[str, float] | None = None
    accelerators: Literal["hide", "inherit"] | None = None
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
            _one_of("accelerators", self.accelerators, ACCELERATORS)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What one runtime has and how it behaves.

    Attributes:
        num_cpus: CPUs to give out, or None for those this process may use.
        num_gpus: GPUs to give out, or None for those found. Resources are logical:
            more may be declared than there are.
        memory: Bytes to give out, or None for what this process may use.
        resources: Custom resources by name, whole numbers.
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
    capacity: Resources = field(init=False)

    def __post_init__(self) -> None:
        declared = totals(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
        )
        object.__setattr__(self, "capacity", declared)
        object.__setattr__(self, "preload", _module_names(self.preload))
        if self.start_method is not None:
            _one_of("start_method", self.start_method, START_METHODS)
        _one_of("infeasible", self.infeasible, INFEASIBLE)
        if self.preload and self.start_method == "spawn":
            raise ValueError(
                f"preload={list(self.preload)!r} and start_method='spawn' exclude each "
                "other: a fresh interpreter imports everything anew"
            )
        _seconds("grace", self.grace)
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


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(
            f"{name} takes one of {', '.join(map(repr, allowed))}, not {value!r} "
            f"({type(value).__name__})"
        )
    if value not in allowed:
        raise ValueError(
            f"{name} takes one of {', '.join(map(repr, allowed))}, not {value!r}"
        )


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} takes a number of seconds, not {value!r} ({type(value).__name__})"
        )
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} takes a finite number of seconds >= 0, not {value!r}")


def _module_names(preload: object) -> tuple[str, ...]:
    if isinstance(preload, str) or not isinstance(preload, Sequence):
        raise TypeError(
            f"preload takes a list of module names, for example ['torch'], not "
            f"{preload!r}"
        )
    modules = cast("Sequence[object]", preload)
    for module in modules:
        if not isinstance(module, str):
            raise TypeError(f"preload takes names of modules, not {module!r}")
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"preload={module!r} is no name of a module")
    return tuple(cast("Sequence[str]", modules))
