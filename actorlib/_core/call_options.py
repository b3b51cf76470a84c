"""What may be said about a call: checked once, then frozen.

Written twice side by side: a ``TypedDict`` for the type checker of whoever writes the
keywords, a dataclass for whoever reads them. A test keeps the two equal.
"""

import warnings
from collections.abc import Mapping, Sequence  # types that are asked for
from typing import Literal, TypedDict

from actorlib._core.public import public
from actorlib._core.validation import (
    check_bool,
    check_count,
    check_fields,
    check_limit,
    check_one_of,
    check_text,
    check_times,
    checked_duration,
    checked_exceptions,
    checked_options,
    given_options,
    option,
)
from actorlib._core.value import dataclass

RAYS_NAMES = {"_generator_backpressure_num_objects": "backpressure"}
"""What Ray calls some of them."""


@public("actorlib")
class MethodKeywords(TypedDict, total=False):
    """The keywords of ``@method(...)``."""

    backpressure: int | None
    concurrency_group: str | None
    detach: bool | None
    max_task_retries: int | None
    num_returns: int | Literal["streaming", "dynamic"] | None
    retry_exceptions: bool | Sequence[type[Exception]] | None
    timeout: float | None


@public("actorlib")
class CallKeywords(MethodKeywords, total=False):
    """The keywords of ``handle.ping.options(...)``."""

    name: str | None


def _checked_count_of_refs(name: str, value: object) -> object:
    """Returns a whole number or ``"streaming"``."""
    if not isinstance(value, str):
        check_count(name, value, 0)
        return value
    check_one_of(name, value, ("streaming", "dynamic"))
    if value == "dynamic":
        warnings.warn(
            f'{name}="dynamic" is deprecated: a generator streams its items '
            'without it, as with "streaming"',
            DeprecationWarning,
            stacklevel=8,
        )
    return "streaming"


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of a method, or of single calls of it.

    Attributes:
        backpressure: For generators: how many items it may be ahead of its reader, 1 or
            more; -1 for any number. Default: None, which is 256 items or 8 MiB,
            whichever comes first.
        concurrency_group: The concurrency group that the call counts in. If the actor
            has none of that name, ValueError is raised. Default: None, for the methods
            that name no group.
        detach: For generators: if True, it runs to its end also if nobody reads it any
            more, and its items are thrown away. Default: None, which is False: it is
            cancelled.
        max_task_retries: How often a call is sent again if the actor dies; -1 for
            always. Default: None, which is what the actor's options say.
        name: What ``get_task_name`` says where the call runs. Default: None, which is
            the class and the method.
        num_returns: How many refs a call gives. 2 is for a method that returns a tuple
            of two or yields two values, 0 is for none, ``"streaming"`` is for
            generators. Default: None, which is streaming for generators, else 1.
        retry_exceptions: Which exceptions of the method make its call be sent again:
            True for all, or a list of classes. Default: None, which is what the actor's
            options say.
        timeout: How many seconds the call may take, above 0. Then it fails with
            DeadlineExceededError and is cancelled, with everything that it called. Time
            counts while the call waits for its arguments, waits for the actor, waits in
            the queue, and runs. Default: None, for any time.
    """

    backpressure: int | None = option(check_limit, default=None)
    concurrency_group: str | None = option(check_text, "'io'", default=None)
    detach: bool | None = option(check_bool, default=None)
    max_task_retries: int | None = option(check_times, default=None)
    name: str | None = option(check_text, "'nightly'", default=None)
    num_returns: int | Literal["streaming", "dynamic"] | None = option(
        _checked_count_of_refs, default=None
    )
    retry_exceptions: bool | Sequence[type[Exception]] | None = option(
        checked_exceptions, default=None
    )
    timeout: float | None = option(checked_duration, default=None)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_counted(self) -> bool:
        """Whether it was said how many refs a call gives."""
        return isinstance(self.num_returns, int)

    @property
    def parts(self) -> int:
        """How many refs a call gives."""
        return self.num_returns if isinstance(self.num_returns, int) else 1

    @property
    def headers(self) -> dict[str, object]:
        """What is said of each call besides its arguments; its group is not in it."""
        headers: dict[str, object] = {}
        if self.timeout is not None:
            headers["timeout"] = self.timeout
        if self.name is not None:
            headers["name"] = self.name
        if self.max_task_retries is not None or self.retry_exceptions is not None:
            headers["retries"] = (self.max_task_retries, self.retry_exceptions)
        return headers

    @property
    def of_stream(self) -> dict[str, object]:
        """What is said besides of each call of a generator."""
        headers: dict[str, object] = {"stream": self.backpressure or 0}
        if self.detach:
            headers["detach"] = True
        return headers

    def check(self, method: str, *, is_stream: bool) -> None:
        """Refuses what a method cannot be, generator or not.

        Args:
            method: Its name, for messages.
            is_stream: Whether it is a generator.

        Raises:
            ValueError: An option is of the other kind of method.
        """
        if is_stream:
            return
        if self.num_returns == "streaming":
            raise ValueError(
                f'{method} is no generator: num_returns="streaming" is for what yields'
            )
        for name in ("backpressure", "detach"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"{method} is no generator: {name}={value} is for what yields"
                )

    def updated(self, given: Mapping[str, object]) -> "CallOptions":
        """These options with some of them replaced; None leaves one as it is.

        Args:
            given: The new values, by name.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: A value is out of range.
        """
        new = {
            RAYS_NAMES.get(name, name): value
            for name, value in given.items()
            if value is not None
        }
        return checked_options(
            CallOptions, "a method", {**given_options(self), **new}, unknown=TypeError
        )
