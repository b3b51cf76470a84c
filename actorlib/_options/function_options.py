"""The options of remote functions; see ``call_options``."""

from collections.abc import Mapping  # a type of options
from dataclasses import field, replace
from typing import ClassVar, NamedTuple, TypeVar

from actorlib._base.ids import NO_ACTOR, ActorId
from actorlib._base.public import public
from actorlib._base.validation import (
    advice_on_options,
    check_count,
    check_text,
    check_times,
    given_options,
    names_of,
    option,
    options_by_word,
)
from actorlib._base.value import dataclass
from actorlib._options.actor_options import ActorOptions, CommonKeywords, CommonOptions
from actorlib._options.call_options import (
    CallTermKeywords,
    CallTerms,
    with_shared_texts,
)
from actorlib._options.kinds import KINDS
from actorlib._options.resources import CPU, GPU_MEMORY
from actorlib.exceptions import UnknownOptionError

K = TypeVar("K", "ActorOptions", "FunctionOptions")

_OF_CODE = ("name", "torch", "retry_exceptions")
"""The common options that concern the function and not its process."""


@public("actorlib.types")
class CallingKeywords(CommonKeywords, CallTermKeywords, total=False):
    """The keywords of ``f.options(...)``: all but ``max_calls``."""

    max_retries: int


@public("actorlib.types")
class FunctionKeywords(CallingKeywords, total=False):
    """The keywords of ``@remote(...)`` on a function: see FunctionOptions."""

    max_calls: int | None


@public("actorlib.types")
@with_shared_texts
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions(CallTerms, CommonOptions):
    """The options of a remote function: what a call asks for, and how it is made.

    Attributes:
        max_calls: How many calls a process runs before it ends; 0 for any number.
            Default: None, which is 1 with a device, as the device's memory is only free
            when the process is gone, else 0.
        max_retries: How often a call is sent again if its process dies; -1 for always.
            Default: 3.
    """

    subject: ClassVar[str] = "a remote function"

    name: str | None = option(check_text, "'resize'", default=None)
    max_calls: int | None = option(check_count, 0, default=None)
    max_retries: int = option(check_times, default=3)

    def __post_init__(self) -> None:
        CommonOptions.__post_init__(self)
        devices = {*KINDS, GPU_MEMORY}
        if (
            self.num_cpus is None
            and not self.max_concurrency
            and devices.isdisjoint(self.request.amounts)
        ):
            object.__setattr__(self, "request", self.amounts(1))

    @property
    def needs_rank(self) -> bool:
        """Always False: ``group.map`` gives a rank to each actor that calls it."""
        return False

    @property
    def worker(self) -> ActorOptions:
        """The options of a process that runs it."""
        options = {
            name: getattr(self, name)
            for name in names_of(CommonOptions)
            if name not in _OF_CODE
        }
        if self.num_cpus is None and CPU in self.request.amounts:
            options["num_cpus"] = 1
        return ActorOptions(**options)

    @property
    def worker_key(self) -> tuple[object, ...]:
        """The properties of its workers: functions with equal keys share them."""
        env, group = self.runtime_env or {}, self.group
        action = self.device_memory_overuse
        return (
            tuple(sorted(self.request.amounts.items())),
            self.accelerator_type,
            self.placement,
            self.devices,
            self.priority,
            self.accelerators,
            self.enforcement,
            self.mps_thread_percentage,
            # A function may have no hash; it lives as long as the workers that have it.
            action if isinstance(action, str | None) else id(action),
            tuple(sorted(env.get("env_vars", {}).items())),
            env.get("working_dir"),
            group and (group.id, self.placement_group_bundle_index),
            self.placement_group_capture_child_tasks,
            self.max_concurrency,
        )

    @property
    def slotless_worker(self) -> ActorOptions:
        """The options of a worker that holds no resources."""
        return ActorOptions(
            placement_group=self.group,
            placement_group_capture_child_tasks=self.placement_group_capture_child_tasks,
            accelerators=self.accelerators,
            enforcement=self.enforcement,
            runtime_env=self.runtime_env,
            max_concurrency=self.max_concurrency,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class FunctionSpec:
    """The callee of all calls of a remote function with the same options.

    Attributes:
        source: The object that a worker unpickles to get the function: the decorated
            name if a module has it, else the function itself.
        may_change: Whether the source has to be checked before each call, as its global
            names may have other values by then.
        name: The name of its calls in messages.
        options: The options of its calls.
        is_stream: Whether it is a generator.
        added_headers: Headers that do not follow from the options.
        headers: The headers of each call, or None.
    """

    actor: ClassVar[ActorId] = NO_ACTOR
    keeps_order: ClassVar[bool] = False
    is_capped: ClassVar[bool] = False

    source: object
    name: str
    options: FunctionOptions
    may_change: bool = False
    is_stream: bool = False
    added_headers: Mapping[str, object] = field(default_factory=dict[str, object])
    headers: dict[str, object] | None = field(init=False)

    def __str__(self) -> str:
        return self.name

    def __post_init__(self) -> None:
        headers = self.options.headers(is_stream=self.is_stream)
        headers |= self.added_headers
        object.__setattr__(self, "headers", headers or None)

    def with_header(self, name: str, value: object) -> "FunctionSpec":
        """Returns the same with another header in each call."""
        return replace(self, added_headers={**self.added_headers, name: value})


class _Counterpart(NamedTuple):
    """The other kind of options, for the message where one of them is used."""

    kind: type[CommonOptions]
    mistake: str
    subjects: str
    words: Mapping[str, str]  # the options with the same meaning here


_COUNTERPARTS: Mapping[type[CommonOptions], _Counterpart] = {
    ActorOptions: _Counterpart(
        FunctionOptions,
        "not an option of an actor: it is one of remote functions",
        "actors",
        {"max_retries": "max_task_retries"},
    ),
    FunctionOptions: _Counterpart(
        ActorOptions,
        "an option of actors, and this is a function",
        "functions",
        {"max_restarts": "max_retries", "max_task_retries": "max_retries"},
    ),
}


def checked_as(kind: type[K], given: Mapping[str, object]) -> K:
    """Makes the options of actors, or of a remote function, from a user's keywords.

    An option that is for the other kind alone has a separate message.
    """
    own, other = options_by_word(kind), _COUNTERPARTS[kind]
    for name in given:
        if name not in own and name in options_by_word(other.kind):
            word = other.words.get(name)
            hint = (
                f"The word for {other.subjects} is {word}="
                if word
                else advice_on_options(kind, name)
            )
            raise UnknownOptionError(
                f"{name}={given[name]!r} is {other.mistake}. {hint}"
            )
    return kind.of(given)


def with_given(options: K, given: Mapping[str, object]) -> K:
    """Returns options with a user's changes; see ``checked_as``."""
    return checked_as(type(options), {**given_options(options), **given})
