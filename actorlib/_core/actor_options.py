"""The options of an actor: checked once, then frozen.

They are written down twice: as a ``TypedDict``, by which type checkers check the
keywords that users write, and as a dataclass, which the engines read. A test keeps the
two equal.
"""

from collections.abc import Mapping  # a type that is asked for
from typing import Literal, cast

from actorlib._core.common_options import (
    CommonKeywords,
    CommonOptions,
    with_common_texts,
)
from actorlib._core.public import public
from actorlib._core.validation import (
    check_bool,
    check_count,
    check_limit,
    check_one_of,
    check_seconds,
    check_text,
    check_times,
    checked_counts,
    checked_options,
    given_options,
    option,
)
from actorlib._core.value import dataclass

LOOPED_LIMIT = 1000
"""How many calls an actor with ``async def`` methods runs at once by default."""
LIFETIMES = ("detached", "non_detached")
RAYS_NAMES = {"_actor_generator_backpressure_num_objects": "max_unread_items"}
"""The options that have another name in Ray."""


@public("actorlib")
class ActorKeywords(CommonKeywords, total=False):
    """The keywords of ``@remote(...)`` and ``.options(...)``: see ActorOptions."""

    near: object
    apart_from: object
    max_concurrency: int | None
    concurrency_groups: Mapping[str, int] | None
    max_pending_calls: int | None
    max_unread_items: int | None
    allow_out_of_order_execution: bool | None
    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool
    max_restarts: int
    restart_window: float | None
    restart_backoff: float
    max_task_retries: int


def _checked_actors(name: str, value: object) -> tuple[bytes, ...]:
    """Returns the ids that ``_api`` has put in the place of handles."""
    ids = cast("tuple[object, ...]", value)
    if isinstance(value, tuple) and all(isinstance(actor, bytes) for actor in ids):
        return cast("tuple[bytes, ...]", ids)
    raise TypeError(
        f"{name} takes the handle of an actor, not {ids!r} ({type(ids).__name__})"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often an actor that died is restarted, and how soon.

    Attributes:
        max_restarts: How often; 0 never, -1 always.
        window: The seconds within which they are counted, or None for its whole life.
        backoff: Seconds before the second of several in a row; the first is at once,
            and each further one waits twice as long.
    """

    max_restarts: int = 0
    window: float | None = None
    backoff: float = 0.5


@public("actorlib")
@with_common_texts
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions(CommonOptions):
    """The options of an actor: what it asks for, and how it behaves.

    Attributes:
        near: The handle of another actor. This one is placed on a device of that actor,
            or on a device that is linked to one. Default: None, for anywhere.
        apart_from: The handle of another actor, or a list of handles. This one is
            placed on other devices than theirs. Default: None, for anywhere.
        max_concurrency: How many calls run at once, 1 or more. They start in the order
            in which they came. A class without ``async def`` methods runs them in as
            many threads. Default: None (or 0), which is 1000 if a method is an ``async
            def``, else 1.
        concurrency_groups: Groups of methods by name, each with how many of its calls
            run at once, 1 or more: ``{"io": 2}``. Methods without a group share
            ``max_concurrency``. A group of plain methods runs them in threads of its
            own; one that has an ``async def`` runs all of its methods on a loop of its
            own. Default: None, for no groups.
        max_pending_calls: How many calls of this actor one process may have that are
            not answered yet. One more raises PendingCallsLimitExceeded. Default: None
            (or 0, or -1), which is any number.
        max_unread_items: How many items of all streams of the actor together may wait
            for their readers, 1 or more; -1 for any number. Default: None, which is
            what each stream allows.
        allow_out_of_order_execution: If True, a call may run before an earlier one
            whose arguments are not ready. Default: None, which is True if the actor
            runs several calls at once.
        namespace: The namespace that the name is in. Default: None, which is the
            runtime's.
        lifetime: With ``"detached"`` the actor lives until it is killed or the runtime
            ends, also if nobody holds a handle of it and if the actor that made it is
            gone. Default: None, which is ``"non_detached"``.
        get_if_exists: If True and a living actor has the name, ``.remote()`` returns
            its handle instead of raising. Default: False.
        max_restarts: How often the actor is made anew, with the same arguments, after
            an end that nobody asked for; -1 for always. Default: 0.
        restart_window: Only restarts within the last so many seconds count for
            ``max_restarts``, 0 or more. Default: None: all restarts of its life count.
        restart_backoff: Seconds that an actor waits before it is restarted if it died
            soon after a restart, 0 or more. They double each time, up to 30. The first
            restart is at once. Default: 0.5.
        max_task_retries: How often a call is sent again that was on its way when the
            actor died; -1 for always. A method or a call may say otherwise. Default: 0.
    """

    name: str | None = option(check_text, "'counter'", default=None)
    near: object = option(_checked_actors, default=None)
    apart_from: object = option(_checked_actors, default=None)
    max_concurrency: int | None = option(check_count, 0, default=None)
    concurrency_groups: Mapping[str, int] | None = option(
        checked_counts, "{'io': 2}", default=None
    )
    max_pending_calls: int | None = option(check_count, -1, default=None)
    max_unread_items: int | None = option(check_limit, default=None)
    allow_out_of_order_execution: bool | None = option(check_bool, default=None)
    namespace: str | None = option(check_text, "'training'", default=None)
    lifetime: Literal["detached", "non_detached"] | None = option(
        check_one_of, LIFETIMES, default=None
    )
    get_if_exists: bool = option(check_bool, default=False)
    max_restarts: int = option(check_times, default=0)
    restart_window: float | None = option(check_seconds, default=None)
    restart_backoff: float = option(check_seconds, default=0.5)
    max_task_retries: int = option(check_times, default=0)

    def __post_init__(self) -> None:
        CommonOptions.__post_init__(self)
        if set(self.near_to) & set(self.apart):
            raise ValueError("near and apart_from name the same actor")
        if self.get_if_exists and self.name is None:
            raise ValueError(
                "get_if_exists=True looks for an actor by its name: give it one, for "
                "example name='counter'"
            )

    @property
    def is_detached(self) -> bool:
        """Whether it lives without a handle."""
        return self.lifetime == "detached"

    @property
    def restart_policy(self) -> RestartPolicy:
        """How often it is started anew after an end that nobody asked for."""
        return RestartPolicy(
            max_restarts=self.max_restarts,
            window=self.restart_window,
            backoff=self.restart_backoff,
        )

    @property
    def wishes(self) -> Mapping[str, tuple[object, ...]]:
        """The values of the options that are about devices, by name."""
        return {
            "device": self.devices,
            "near": self.near_to,
            "apart_from": self.apart,
        }

    @property
    def near_to(self) -> tuple[bytes, ...]:
        """The actor that it has to be near to, by id; empty for none."""
        return cast("tuple[bytes, ...]", self.near or ())

    @property
    def apart(self) -> tuple[bytes, ...]:
        """The actors that it has to be apart from, by id."""
        return cast("tuple[bytes, ...]", self.apart_from or ())

    def limits(self, *, is_async: bool) -> dict[str, int]:
        """How many calls run at once, by group; that of no name has all other methods.

        Args:
            is_async: Whether the class has ``async def`` methods.

        Returns:
            Empty if nothing is asked but the default.
        """
        default = LOOPED_LIMIT if is_async else 1
        limit = self.max_concurrency or default
        if not self.concurrency_groups and limit == default:
            return {}
        return {"": limit, **(self.concurrency_groups or {})}

    def updated(self, given: Mapping[str, object]) -> "ActorOptions":
        """These options with some of them replaced.

        Args:
            given: The new values, by name.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value is out of range.
        """
        return checked_options(
            ActorOptions, "an actor", {**given_options(self), **given}
        )
