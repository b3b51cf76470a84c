"""The options of calls, of methods and of functions: checked once, then frozen.

Each option is declared twice: in a ``TypedDict``, by which type checkers check the
keywords of users, and in a dataclass, which the engines read. A test keeps the two
equal.
"""

from collections.abc import Mapping, Sequence  # types of options
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypedDict, TypeVar

from actorlib._base.public import public
from actorlib._base.stack_frames import warn_old_name
from actorlib._base.validation import (
    Options,
    check_bool,
    check_count,
    check_fields,
    check_key,
    check_limit,
    check_one_of,
    check_text,
    check_times,
    checked_duration,
    checked_exceptions,
    given_options,
    option,
)
from actorlib._base.value import dataclass

T = TypeVar("T")


class CallTermKeywords(TypedDict, total=False):
    """The keywords that calls of methods and of functions share."""

    backpressure: int | None
    detach: bool | None
    num_returns: int | Literal["streaming", "dynamic"] | None
    timeout: float | None


@public("actorlib.types")
class MethodKeywords(CallTermKeywords, total=False):
    """The keywords of ``@method(...)``."""

    concurrency_group: str | None
    max_task_retries: int | None
    retry_exceptions: bool | Sequence[type[Exception]] | None


@public("actorlib.types")
class CallKeywords(MethodKeywords, total=False):
    """The keywords of ``handle.ping.options(...)``."""

    key: str | bytes | int | None
    name: str | None


def _checked_count_of_refs(name: str, value: object) -> object:
    """Returns a whole number or ``"streaming"``."""
    if not isinstance(value, str):
        check_count(name, value, 0)
        return value
    if check_one_of(name, value, ("streaming", "dynamic")) == "dynamic":
        warn_old_name(f'{name}="dynamic"', f'{name}="streaming"')
    return "streaming"


def with_shared_texts(kind: type[T]) -> type[T]:
    """Adds the descriptions of inherited options to the docstring of a class."""
    title = "Attributes:\n"
    head, _, own = (kind.__doc__ or "").partition(title)
    inherited = [
        (base.__doc__ or "").partition(title)[2].rstrip()
        for base in reversed(kind.__bases__)
    ]
    if own:  # python -OO has none
        kind.__doc__ = "\n".join([f"{head}{title}{inherited[0]}", *inherited[1:], own])
    return kind


@dataclass(frozen=True, kw_only=True)
class CallTerms(Options):
    """The options that calls of methods and of functions share.

    It has no slots, as a class derives from it and from another one with slots.

    Attributes:
        num_returns: The number of refs that a call returns. 2 is for code that returns
            a tuple of two or yields two values, 0 is for none, ``"streaming"`` is for
            generators. Default: None, which is streaming for generators, else 1.
        backpressure: For generators: how many items it may be ahead of its reader, 1 or
            more; -1 for any number. Default: None, which is 256 items or 8 MiB,
            whichever comes first.
        detach: For generators: if True, it runs to its end even if its reader is gone,
            and its items are dropped. Default: None, which is False: it is cancelled.
        timeout: The seconds that the call may take, above 0. Then it fails with
            DeadlineExceededError and is cancelled, with all calls that it made. The
            time includes waiting for its arguments, for the actor and in the queue.
            Default: None, for any time.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        name: str | None  # each derived class has its own description

    num_returns: int | Literal["streaming", "dynamic"] | None = option(
        _checked_count_of_refs, default=None
    )
    backpressure: int | None = option(
        check_limit, default=None, rays_name="_generator_backpressure_num_objects"
    )
    detach: bool | None = option(check_bool, default=None)
    timeout: float | None = option(checked_duration, default=None)

    @property
    def is_counted(self) -> bool:
        """Whether ``num_returns`` is a number."""
        return isinstance(self.num_returns, int)

    @property
    def parts(self) -> int:
        """The number of refs that a call returns."""
        return self.num_returns if isinstance(self.num_returns, int) else 1

    @property
    def retries(self) -> tuple[object, object] | None:
        """The number of retries of a call, and the exceptions that use them.

        None for those of its callee; each of the two may be None too.
        """
        return None

    def headers(self, *, is_stream: bool) -> dict[str, object]:
        """Returns the headers of each call, without its concurrency group."""
        headers: dict[str, object] = {
            "timeout": self.timeout,
            "name": self.name,
            "retries": self.retries,
        }
        if is_stream:  # the worker needs the limit of unread items
            headers |= {"stream": self.backpressure or 0, "detach": self.detach or None}
        return {name: value for name, value in headers.items() if value is not None}

    def check(self, method: str, *, is_stream: bool) -> None:
        """Refuses the options of generators for other methods."""
        if is_stream:
            return
        if self.num_returns == "streaming":
            raise ValueError(
                f'{method} is not a generator: num_returns="streaming" is for '
                "generators"
            )
        for name in ("backpressure", "detach"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"{method} is not a generator: {name}={value} is for generators"
                )


@public("actorlib.types")
@with_shared_texts
@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(CallTerms):
    """The options of a method, or of single calls of it.

    Attributes:
        concurrency_group: The concurrency group of the call. If the actor has none of
            that name, ValueError is raised. Default: None, for the methods without a
            group.
        key: For the methods of ``Replicas``: all calls with one key go to one replica.
            Default: None, for the replica with the fewest calls.
        max_task_retries: How often a call is sent again if the actor dies while it
            runs; -1 for always. Default: None, for that of the actor.
        name: The result of ``get_task_name`` where the call runs. Default: None, which
            is the class and the method.
        retry_exceptions: The exceptions of the method after which its call is sent
            again: True for all, or a list of classes. Default: None, for those of the
            actor.
    """

    subject: ClassVar[str] = "a method"

    concurrency_group: str | None = option(check_text, "'io'", default=None)
    key: str | bytes | int | None = option(check_key, default=None)
    max_task_retries: int | None = option(check_times, default=None)
    name: str | None = option(check_text, "'nightly'", default=None)
    retry_exceptions: bool | Sequence[type[Exception]] | None = option(
        checked_exceptions, default=None
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def retries(self) -> tuple[object, object] | None:
        """See CallTerms; None for those of the actor."""
        retries = self.max_task_retries, self.retry_exceptions
        return None if retries == (None, None) else retries

    def updated(self, given: Mapping[str, object]) -> Self:
        """Returns these options with some of them replaced; None changes nothing."""
        new = {name: value for name, value in given.items() if value is not None}
        return self.of({**given_options(self), **new})
